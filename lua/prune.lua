--!df flags=allow-undeclared-keys
--[[
Takes checkpoints out of a thread: some go, some stay for those who lean on them but are no longer listed. With them go the
channel values that nothing names any more, and with the last of them all that is left. Does nothing where the thread is not
as the caller knows it: what was saved since may rely on them.

KEYS[1]  index     sorted set of the thread's checkpoints
KEYS[2]  channels  hash of the thread's channel values
KEYS[3]  retained  sorted set of pruned ancestors that are still needed
KEYS[4]  absent    never there, so that Redis refuses the call while keys that it finds here move to another node
ARGV[1]  base      what the key of each checkpoint hash begins with
ARGV[2]  listed    how many checkpoints the caller knows in the index
ARGV[3]  unlisted  how many it knows in the retained set
ARGV[4]  pending   number of arguments that are a listed member that has not arrived, as the caller knows it
ARGV[5]  kept      number of arguments that are a member to keep for others, out of the listing
ARGV[6]  orphaned  number of arguments that are a member whose parent goes
ARGV[7]  deleted   number of arguments that are a member to delete
ARGV[8..]          those four, then the fields of the channels hash to delete
Replies: {'pruned'}; {'changed'} where one of the sets holds another number of checkpoints, or a pending one has
         arrived.
]]
--@include checkpoint_key
--@include in_chunks
--@include deadline
local index, channels, retained, absent = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local base, listed, unlisted, pending = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local kept, orphaned, deleted = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local kept_at = 8 + pending
local orphaned_at = kept_at + kept
local deleted_at = orphaned_at + orphaned
local freed_at = deleted_at + deleted

if redis.call('ZCARD', index) ~= listed or redis.call('ZCARD', retained) ~= unlisted then
  return { 'changed' }
end
for at = 8, kept_at - 1 do
  if redis.call('HEXISTS', checkpoint_key(base, ARGV[at]), 'channels') == 1 then
    return { 'changed' }
  end
end
for at = kept_at, orphaned_at - 1 do
  redis.call('ZADD', retained, 0, ARGV[at])
  redis.call('ZREM', index, ARGV[at])
end
hold_data(retained, deadline_of(redis.call('PTTL', index), 0))
-- A checkpoint whose parent is gone becomes a root: a walk ends there, and only a parent that is missing is an error.
for at = orphaned_at, deleted_at - 1 do
  redis.call('HDEL', checkpoint_key(base, ARGV[at]), 'parent')
end
for at = deleted_at, freed_at - 1 do
  redis.call('UNLINK', checkpoint_key(base, ARGV[at]))
  redis.call('ZREM', index, ARGV[at])
  redis.call('ZREM', retained, ARGV[at])
end
in_chunks(function(...) redis.call('HDEL', channels, ...) end, ARGV, freed_at, #ARGV)
if redis.call('EXISTS', index) == 0 then
  redis.call('UNLINK', channels, retained)
end
return { 'pruned' }
