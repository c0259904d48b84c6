--!df flags=allow-undeclared-keys
--[[
Stores a page of checkpoints that was read from another thread.

KEYS[1]  index     sorted set of the thread's checkpoints
KEYS[2]  members   sorted set that the page belongs to: the index, or the retained ancestors
KEYS[3]  channels  hash of the thread's channel values
KEYS[4]  absent    never there, so that Redis refuses the call while keys that it finds here move to another node
ARGV[1]  base      what the key of each checkpoint hash begins with
ARGV[2]  lifetime  ms that a new thread lives, 0 for ever
ARGV[3]  least     ms that an expiring thread must have left
ARGV[4]  begins    '1' for the first page of all
ARGV[5]  values    number of arguments that are field, value of the channels hash
ARGV[6..]          those, then for each checkpoint: member, number of arguments that follow, field, value...
Replies: {'stored'}; {'expiring'} where less than `least` is left, {'gone'} where what earlier pages stored is not there any
         more, and nothing is stored.
]]
--@include checkpoint_key
--@include in_chunks
--@include deadline
local index, members, channels, absent = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local base, lifetime, least = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local begins, values = ARGV[4], tonumber(ARGV[5])

local left = redis.call('PTTL', index)
if left >= 0 and left < least then
  return { 'expiring' }
end
if left == -2 and begins ~= '1' then
  return { 'gone' }
end
local deadline = deadline_of(left, lifetime)
in_chunks(function(...) redis.call('HSET', channels, ...) end, ARGV, 6, 5 + values)
hold_data(channels, deadline)
local at = 6 + values
while at < #ARGV do
  local member, size = ARGV[at], tonumber(ARGV[at + 1])
  local key = checkpoint_key(base, member)
  in_chunks(function(...) redis.call('HSET', key, ...) end, ARGV, at + 2, at + 1 + size)
  hold_data(key, deadline)
  redis.call('ZADD', members, 0, member)
  at = at + 2 + size
end
if members ~= index then
  hold_data(members, deadline)
end
if left == -2 then
  hold(index, deadline)
end
return { 'stored' }
