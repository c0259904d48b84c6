--!df flags=allow-undeclared-keys
--[[
Moves the deadline of a thread: of all its keys at once where they fit a page, else of none.

KEYS[1]  index     sorted set of the thread's checkpoints
KEYS[2]  channels  hash of the thread's channel values
KEYS[3]  retained  sorted set of pruned ancestors that are still needed
KEYS[4]  absent    never there, so that Redis refuses the call while keys that it finds here move to another node
ARGV[1]  base      what the key of each checkpoint hash begins with
ARGV[2]  lifetime  ms from now, 0 for no deadline
ARGV[3]  count     checkpoints in the page at most
ARGV[4]  due       only where the thread has less than so many ms left; 0 for whatever it has
Replies: {'absent'} where there is no such thread; {'moved'}, also where it was not due; {'long', deadline, first}: the thread
         has more checkpoints than that; page by page its data is to be given `first` (nothing to do where that is empty),
         then its index `deadline` (empty for none), then the data what the index has.
]]
--@include checkpoint_key
--@include deadline
local index, channels, retained, absent = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local base, lifetime, count, due = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local left = redis.call('PTTL', index)
if left == -2 then
  return { 'absent' }
end
if due > 0 and (left == -1 or left >= due) then
  return { 'moved' }
end
local deadline = lifetime > 0 and after(lifetime) or nil
if redis.call('ZCARD', index) + redis.call('ZCARD', retained) > count then
  local first = lifetime > left and deadline or ''
  if left == -1 or lifetime == 0 then
    first = after(math.max(left, lifetime) + MEANWHILE)
  end
  return { 'long', deadline or '', first }
end
for _, set in ipairs({ index, retained }) do
  for _, member in ipairs(redis.call('ZRANGE', set, 0, -1)) do
    hold_data(checkpoint_key(base, member), deadline)
  end
end
hold_data(channels, deadline)
hold_data(retained, deadline)
hold(index, deadline)
return { 'moved' }
