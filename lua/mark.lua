--[[
Leaves a trace in what replicas and disks are sent, and none in the data. WAIT and WAITAOF wait for what their connection wrote
last, and a repeated call may find nothing left to write: without this one, it would wait for nothing.

KEYS[1]  index  sorted set of the thread's checkpoints
Reply: 'marked'.
]]
--@include deadline
local index = KEYS[1]

local left = redis.call('PTTL', index)
if left == -2 then
  redis.call('ZADD', index, 0, '')
  redis.call('ZREM', index, '')
elseif left == -1 then
  hold(index, after(MEANWHILE))
  hold(index)
else
  hold(index, after(left))
end
return 'marked'
