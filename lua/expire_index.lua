--[[
Moves the deadline of a long thread's index: with it the thread lives and dies.

KEYS[1]  index     sorted set of the thread's checkpoints
ARGV[1]  deadline  ms since the epoch, empty for none
ARGV[2]  due       only where the thread has less than so many ms left; 0 for whatever it has
Reply: 1 where the thread is there, else 0.
]]
--@include deadline
local index = KEYS[1]
local deadline, due = ARGV[1], tonumber(ARGV[2])

local left = redis.call('PTTL', index)
if due == 0 or (left >= 0 and left < due) then
  hold(index, deadline ~= '' and deadline)
end
return redis.call('EXISTS', index)
