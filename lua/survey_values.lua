--[[
Names what the channels hash of a thread holds, a page at a time.

KEYS[1]  channels  hash of the thread's channel values
ARGV[1]  cursor    HSCAN cursor, 0 to begin
ARGV[2]  count     fields in the page, about
Reply: {cursor, fields}: the cursor for the next call, 0 at the end. A field may come twice.
]]
local channels = KEYS[1]
local cursor, count = ARGV[1], ARGV[2]

local scanned = redis.call('HSCAN', channels, cursor, 'COUNT', count)
local fields = {}
for at = 1, #scanned[2], 2 do
  fields[#fields + 1] = scanned[2][at]
end
return { scanned[1], fields }
