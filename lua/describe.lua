--[[
Tells how much of a thread is stored, and how long it lives.

KEYS[1]  index  sorted set of the thread's checkpoints
Reply: {checkpoints, left}: 0 checkpoints where there is no such thread; `left` is the PTTL of the index.
]]
local index = KEYS[1]

return { redis.call('ZCARD', index), redis.call('PTTL', index) }
