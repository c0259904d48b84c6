--[[
Moves the deadline of a long thread's index: with it the thread lives and dies.

KEYS[1]  index     sorted set of the thread's checkpoints
ARGV[1]  deadline  ms since the epoch, empty for none
Reply: 1 where the thread is there, else 0.
]]
--@include deadline
local index = KEYS[1]
local deadline = ARGV[1] ~= '' and ARGV[1] or nil

hold(index, deadline)
return redis.call('EXISTS', index)
