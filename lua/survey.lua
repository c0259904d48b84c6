--!df flags=allow-undeclared-keys
--[[
Reads what ties a thread's checkpoints together, a page at a time, oldest first within a namespace.

KEYS[1]  members  sorted set to go through: the thread's index, or its retained ancestors
KEYS[2]  absent   never there, so that Redis refuses the call while keys that it finds here move to another node
ARGV[1]  base     what the key of each checkpoint hash begins with
ARGV[2]  cursor   the member to go on after, empty to begin
ARGV[3]  count    checkpoints in the page at most
ARGV[4]  bytes    the page is full with the listing that takes it past this size
Reply: {cursor, entries}: the cursor for the next call, empty at the end. An entry is {member, listing, parent, run, delta}
       as the hash's fields hold them; the listing is nil where the checkpoint has not arrived or is not there.
]]
--@include checkpoint_key
--@include weight
local members, absent = KEYS[1], KEYS[2]
local base, cursor, count, bytes = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

local page = redis.call('ZRANGEBYLEX', members, cursor == '' and '-' or '(' .. cursor, '+', 'LIMIT', 0, count)
local entries = {}
for at, member in ipairs(page) do
  entries[at] = { member, unpack(redis.call('HMGET', checkpoint_key(base, member), 'channels', 'parent', 'run', 'delta')) }
  bytes = bytes - weight(#member + #(entries[at][2] or ''))
  if bytes < 0 then
    break
  end
end
return { (#page == count or #entries < #page) and page[#entries] or '', entries }
