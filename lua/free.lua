--[[
Frees channel values that no checkpoint names any more.

KEYS[1]  channels  hash of the thread's channel values
ARGV[1..]          fields to delete
Reply: how many were there.
]]
local channels = KEYS[1]

return redis.call('HDEL', channels, unpack(ARGV))
