--!df flags=allow-undeclared-keys
--[[
Reads the metadata of the named checkpoints of a thread, as far as a page goes, for the saver to filter.

KEYS[1]  index   sorted set of the thread's checkpoints
KEYS[2]  absent  never there, so that Redis refuses the call while keys that it finds here move to another node
ARGV[1]  base    what the key of each checkpoint hash begins with
ARGV[2]  bytes   the page is full with the metadata that takes it past this size
ARGV[3..]        members to read
Reply: {left, read, entries}: `left` is the PTTL of the index, `read` how many members were looked at, at least one; the rest
       as in list_metadata.lua. A member that the index no longer names is passed over.
]]
--@include checkpoint_key
--@include metadata_of
--@include weight
local index, absent = KEYS[1], KEYS[2]
local base, bytes = ARGV[1], tonumber(ARGV[2])

local entries, read = {}, 0
for at = 3, #ARGV do
  read = read + 1
  local entry = redis.call('ZSCORE', index, ARGV[at]) and metadata_of(base, ARGV[at])
  if entry then
    entries[#entries + 1] = entry
    bytes = bytes - weight(#entry[1] + #(entry[2] or ''))
  end
  if bytes < 0 then
    break
  end
end
return { redis.call('PTTL', index), read, entries }
