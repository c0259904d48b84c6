--!df flags=allow-undeclared-keys
--[[
Stores one checkpoint with the channel values that are new, or nothing.

KEYS[1]  index       sorted set of the thread's checkpoints
KEYS[2]  checkpoint  hash of this checkpoint
KEYS[3]  parent      hash of the parent checkpoint (the checkpoint's own where it has none)
KEYS[4]  channels    hash of the thread's channel values
KEYS[5]  retained    sorted set of pruned ancestors that are still needed
ARGV[1]  member      this checkpoint in the index
ARGV[2]  lifetime    ms that a new thread lives, 0 for ever
ARGV[3]  least       ms that an expiring thread must have left
ARGV[4]  listing     channels of this checkpoint, but the carried
ARGV[5]  fields      number of arguments that are field, value of the checkpoint hash
ARGV[6]  values      number of arguments that are field, value of the channels hash
ARGV[7]  relied      number of arguments that are a field of the channels hash relied on
ARGV[8]  cleared     number of arguments that are a field of the channels hash whose channel has no value
ARGV[9]  allowed     number of arguments that are a member that may be the latest of the namespace, or empty; 0: any may
ARGV[10..]           those five, then channel, NUL, version of each carried channel: without a value, but not new
Replies: {'stored'}; {'missing', position...} of the relied fields that are not there (none is, in a new thread), from 1;
         {'expiring'} where less than `least` is left; {'overtaken', latest} where the latest is another than those.
         Nothing is stored but in the first case.
]]
--@include checkpoint_key
--@include in_chunks
--@include deadline
--@include latest
--@include overtaken
local index, checkpoint, parent, channels, retained = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local member, lifetime, least, listing = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local fields, values, relied, cleared = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local allowed = tonumber(ARGV[9])
local values_at = 10 + fields
local relied_at = values_at + values
local cleared_at = relied_at + relied
local allowed_at = cleared_at + cleared
local carried_at = allowed_at + allowed

local left = redis.call('PTTL', index)
local is_new = left == -2

local function missing()
  local reply = { 'missing' }
  for at = relied_at, cleared_at - 1 do
    if is_new or redis.call('HEXISTS', channels, ARGV[at]) == 0 then
      reply[#reply + 1] = at - relied_at + 1
    end
  end
  return #reply > 1 and reply
end

-- A small value lives in the listing of each checkpoint, so a carried channel takes it over from the parent's.
local function carry()
  local above = carried_at <= #ARGV and redis.call('HGET', parent, 'channels') or ''
  local held, entries = {}, { listing }
  for entry, holding in string.gmatch(above, '\2([^%z]*%z[^%z]*)%z(=[^\2]*)') do
    held[entry] = holding
  end
  for at = carried_at, #ARGV do
    entries[#entries + 1] = '\2' .. ARGV[at] .. '\0' .. (held[ARGV[at]] or '')
  end
  return table.concat(entries)
end

local other = overtaken(index, checkpoint, member, allowed_at, carried_at - 1)
if other then
  return { 'overtaken', other }
end
local incomplete = missing()
if incomplete then
  return incomplete
end
if left >= 0 and left < least then
  return { 'expiring' }
end
redis.call('ZADD', index, 0, member)
if is_new then
  -- What is left of a thread that expired less than a second ago does not come back to life.
  redis.call('UNLINK', channels, retained)
  redis.call('UNLINK', checkpoint)
end
redis.call('HSET', checkpoint, 'channels', carry(), unpack(ARGV, 10, values_at - 1))
in_chunks(function(...) redis.call('HSET', channels, ...) end, ARGV, values_at, relied_at - 1)
in_chunks(function(...) redis.call('HDEL', channels, ...) end, ARGV, cleared_at, allowed_at - 1)
redis.call('ZREM', retained, member)
local deadline = deadline_of(left, lifetime)
hold_data(checkpoint, deadline)
hold_data(channels, deadline)
if is_new then
  hold(index, deadline)
end
return { 'stored' }
