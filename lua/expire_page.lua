--!df flags=allow-undeclared-keys
--[[
Moves the deadline of a page of a long thread's checkpoint hashes, and with the last of them that of its other data keys.

KEYS[1]  members   sorted set to go through: the thread's index, or its retained ancestors
KEYS[2]  channels  hash of the thread's channel values
KEYS[3]  retained  sorted set of pruned ancestors that are still needed
KEYS[4]  index     sorted set of the thread's checkpoints
KEYS[5]  absent    never there, so that Redis refuses the call while keys that it finds here move to another node
ARGV[1]  base      what the key of each checkpoint hash begins with
ARGV[2]  deadline  ms since the epoch, empty for none; '=' for that of the index
ARGV[3]  cursor    the member to go on after, empty to begin
ARGV[4]  count     checkpoints in the page at most
Reply: the cursor for the next call, empty at the end.
]]
--@include checkpoint_key
--@include deadline
local members, channels, retained, index, absent = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local base, deadline, cursor, count = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

-- Two may move a deadline at once. The one that moved the index last wins everywhere, and no data may expire before it.
local left = redis.call('PTTL', index)
if deadline ~= '=' and left == -1 then
  deadline = after(MEANWHILE)
elseif deadline == '=' or (left >= 0 and deadline ~= '' and tonumber(after(left)) > tonumber(deadline)) then
  deadline = deadline_of(left, 0)
end
deadline = deadline ~= '' and deadline or nil

local page = redis.call('ZRANGEBYLEX', members, cursor == '' and '-' or '(' .. cursor, '+', 'LIMIT', 0, count)
for _, member in ipairs(page) do
  hold_data(checkpoint_key(base, member), deadline)
end
if #page == count then
  return page[count]
end
hold_data(channels, deadline)
hold_data(retained, deadline)
return ''
