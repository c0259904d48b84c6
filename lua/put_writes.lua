--!df flags=allow-undeclared-keys
--[[
Stores pending writes against a checkpoint, which may not have arrived yet.

KEYS[1]  index       sorted set of the thread's checkpoints
KEYS[2]  checkpoint  hash of the checkpoint
KEYS[3]  retained    sorted set of pruned ancestors that are still needed
ARGV[1]  member      the checkpoint in the index
ARGV[2]  lifetime    ms that a new thread lives, 0 for ever
ARGV[3]  least       ms that an expiring thread must have left
ARGV[4]  regular     number of arguments that are field, value of a regular write: kept where the slot is taken
ARGV[5]  allowed     number of arguments that are a member that may be the latest of the namespace, or empty; 0: any may
ARGV[6..]            those two, then field, value of each special write: replaces what is there
Replies: {'stored'}; {'expiring'} where less than `least` is left; {'overtaken', latest} where the latest is another than
         those. Nothing is stored but in the first case.
]]
--@include checkpoint_key
--@include deadline
--@include latest
--@include overtaken
local index, checkpoint, retained = KEYS[1], KEYS[2], KEYS[3]
local member, lifetime, least, regular = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local allowed = tonumber(ARGV[5])
local allowed_at = 6 + regular
local special_at = allowed_at + allowed

local other = overtaken(index, checkpoint, member, allowed_at, special_at - 1)
if other then
  return { 'overtaken', other }
end
local left = redis.call('PTTL', index)
if left >= 0 and left < least then
  return { 'expiring' }
end
local is_retained = left ~= -2 and redis.call('ZSCORE', retained, member)
if not is_retained then
  redis.call('ZADD', index, 0, member)
end
if left == -2 then
  -- What is left of a thread that expired less than a second ago does not come back to life.
  redis.call('UNLINK', checkpoint)
end
for at = 6, allowed_at - 1, 2 do
  redis.call('HSETNX', checkpoint, ARGV[at], ARGV[at + 1])
end
for at = special_at, #ARGV, 2 do
  redis.call('HSET', checkpoint, ARGV[at], ARGV[at + 1])
end
local deadline = deadline_of(left, lifetime)
hold_data(checkpoint, deadline)
if left == -2 then
  hold(index, deadline)
end
return { 'stored' }
