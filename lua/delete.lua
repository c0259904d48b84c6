--!df flags=allow-undeclared-keys
--[[
Deletes a page of a thread's checkpoints, oldest first, and with the last of them all that is left.

KEYS[1]  index     sorted set of the thread's checkpoints
KEYS[2]  channels  hash of the thread's channel values
KEYS[3]  retained  sorted set of pruned ancestors that are still needed
KEYS[4]  absent    never there, so that Redis refuses the call while keys that it finds here move to another node
ARGV[1]  base      what the key of each checkpoint hash begins with
ARGV[2]  count     checkpoints in the page at most
Reply: how many checkpoints are left.
]]
--@include checkpoint_key
local index, channels, retained, absent = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local base, count = ARGV[1], tonumber(ARGV[2])

-- The latest checkpoints go last: until then the thread reads as it did, never as an older state.
local function delete_from(set)
  local members = redis.call('ZRANGE', set, 0, count - 1)
  for _, member in ipairs(members) do
    redis.call('UNLINK', checkpoint_key(base, member))
  end
  if redis.call('ZCARD', set) == #members then
    redis.call('UNLINK', set)
  else
    redis.call('ZREMRANGEBYRANK', set, 0, #members - 1)
  end
  count = count - #members
end

if redis.call('ZCARD', index) + redis.call('ZCARD', retained) <= count then
  redis.call('UNLINK', channels)
end
delete_from(retained)
if count > 0 then
  delete_from(index)
end
return redis.call('ZCARD', index) + redis.call('ZCARD', retained)
