--!df flags=allow-undeclared-keys
--[[
Reads one checkpoint with its writes and channel values: the one with an id, or the latest of a namespace.

KEYS[1]  index     sorted set of the thread's checkpoints
KEYS[2]  channels  hash of the thread's channel values
KEYS[3]  absent    never there, so that Redis refuses the call while keys that it finds here move to another node
ARGV[1]  base      what the key of each checkpoint hash begins with
ARGV[2]  ns        namespace
ARGV[3]  member    the checkpoint in the index, empty for the latest
ARGV[4]  bound     the latest lies below this member
Replies: {left, 'found', member, hash, values} where `left` is the PTTL of the index and `values` are in the order of the
         hash's listing; {left, 'absent'}; {left, 'evicted', member} where the index names a hash that is not there;
         {left, 'more', bound} where the search for the latest is to go on from `bound`.
]]
--@include checkpoint_key
--@include in_chunks
--@include latest
--@include read_checkpoint
local index, channels, absent = KEYS[1], KEYS[2], KEYS[3]
local base, ns, member, bound = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local left = redis.call('PTTL', index)
if member == '' then
  local status, from
  member, status, from = latest(index, base, ns, bound, 500)
  if not member then
    return { left, status, from }
  end
elseif not redis.call('ZSCORE', index, member) then
  return { left, 'absent' }
end
local hash, listing = read_checkpoint(checkpoint_key(base, member))
if not listing then
  return { left, #hash == 0 and 'evicted' or 'absent', member }
end
local values = {}
local fields = stored_fields(ns, listing)
in_chunks(function(...)
  for _, value in ipairs(redis.call('HMGET', channels, ...)) do
    values[#values + 1] = value
  end
end, fields, 1, #fields)
return { left, 'found', member, hash, values }
