--[[
Names a thread's checkpoints, a page at a time, namespace by namespace.

KEYS[1]  index   sorted set of the thread's checkpoints
ARGV[1]  cursor  the member to go on after, empty to begin
ARGV[2]  count   members in the page at most
Reply: {left, cursor, members}: `left` is the PTTL of the index; the cursor for the next call, empty at the end.
]]
local index = KEYS[1]
local cursor, count = ARGV[1], tonumber(ARGV[2])

local page = redis.call('ZRANGEBYLEX', index, cursor == '' and '-' or '(' .. cursor, '+', 'LIMIT', 0, count)
return { redis.call('PTTL', index), #page == count and page[count] or '', page }
