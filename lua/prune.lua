--!df flags=allow-undeclared-keys
--[[
Takes checkpoints out of a thread: some go, some stay for those who lean on them but are no longer listed.

KEYS[1]  index      sorted set of the thread's checkpoints
KEYS[2]  retained   sorted set of pruned ancestors that are still needed
ARGV[1]  base       what the key of each checkpoint hash begins with
ARGV[2]  kept       number of arguments that are a member to keep for others, out of the listing
ARGV[3]  orphaned   number of arguments that are a member whose parent goes, or has gone
ARGV[4..]           those two, then the members to delete
Reply: {'pruned'}
]]
--@include checkpoint_key
--@include deadline
local index, retained = KEYS[1], KEYS[2]
local base, kept, orphaned = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local orphaned_at = 4 + kept
local deleted_at = orphaned_at + orphaned

for at = 4, orphaned_at - 1 do
  redis.call('ZADD', retained, 0, ARGV[at])
  redis.call('ZREM', index, ARGV[at])
end
hold_data(retained, deadline_of(redis.call('PTTL', index), 0))
-- A checkpoint whose parent is gone becomes a root: a walk ends there, and only a parent that is missing is an error.
for at = orphaned_at, deleted_at - 1 do
  redis.call('HDEL', checkpoint_key(base, ARGV[at]), 'parent')
end
for at = deleted_at, #ARGV do
  redis.call('UNLINK', checkpoint_key(base, ARGV[at]))
  redis.call('ZREM', index, ARGV[at])
  redis.call('ZREM', retained, ARGV[at])
end
return { 'pruned' }
