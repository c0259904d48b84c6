--!df flags=allow-undeclared-keys
--[[
Reads the named checkpoints of a thread whole, as far as a page goes.

KEYS[1]  index     sorted set of the thread's checkpoints
KEYS[2]  channels  hash of the thread's channel values
KEYS[3]  absent    never there, so that Redis refuses the call while keys that it finds here move to another node
ARGV[1]  base      what the key of each checkpoint hash begins with
ARGV[2]  bytes     the page is full with the checkpoint that takes it past this size
ARGV[3..]          members to read
Reply: {left, read, checkpoints, values}: `left` is the PTTL of the index, `read` how many members were looked at, at least
       one; the rest as in list.lua. A member that the index no longer names is passed over.
]]
--@include checkpoint_key
--@include in_chunks
--@include read_checkpoint
--@include weight
--@include page
local index, channels, absent = KEYS[1], KEYS[2], KEYS[3]
local base, bytes = ARGV[1], tonumber(ARGV[2])

local page, read = new_page(base, channels), 0
for at = 3, #ARGV do
  read = read + 1
  if redis.call('ZSCORE', index, ARGV[at]) then
    take_checkpoint(page, ARGV[at], false)
  end
  if page.bytes > bytes then
    break
  end
end
return { redis.call('PTTL', index), read, page.checkpoints, page.values }
