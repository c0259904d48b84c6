--[[
Names what the channels hash of a thread holds: all at once where that is not too much, else a page at a time.

KEYS[1]  channels  hash of the thread's channel values
ARGV[1]  cursor    HSCAN cursor, 0 to begin
ARGV[2]  all       fields to name at once, at most
ARGV[3]  count     fields in a page, about
ARGV[4]  bytes     a page is full with the values that take it past this size
Reply: {cursor, fields}: the cursor for the next call, '0' at the end. A field may come twice.
]]
--@include weight
local channels = KEYS[1]
local cursor, all, count, bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

if redis.call('HLEN', channels) <= all then
  return { '0', redis.call('HKEYS', channels) }
end
-- HSCAN hands over the values too (NOVALUES came with Redis 7.4 and Valkey 8), and they may be large: a bucket at a time.
local fields = {}
repeat
  local found = redis.call('HSCAN', channels, cursor, 'COUNT', 1)
  cursor = found[1]
  for at = 1, #found[2], 2 do
    fields[#fields + 1] = found[2][at]
    bytes = bytes - weight(#found[2][at + 1])
  end
until cursor == '0' or #fields >= count or bytes < 0
return { cursor, fields }
