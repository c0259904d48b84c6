--!df flags=allow-undeclared-keys
--[[
Walks up the parents of a checkpoint and gathers, for each wanted channel, the writes that made its value: back to the
nearest ancestor that stores a value of it (its seed), or to the root.

KEYS[1]  index     sorted set of the thread's checkpoints
KEYS[2]  channels  hash of the thread's channel values
KEYS[3]  absent    never there, so that Redis refuses the call while keys that it finds here move to another node
ARGV[1]  base      what the key of each checkpoint hash begins with
ARGV[2]  ns        namespace
ARGV[3]  member    the checkpoint to start from, empty for the latest
ARGV[4]  bound     the latest lies below this member
ARGV[5]  parent    id of the ancestor to go on from, empty in the first call
ARGV[6]  mark      id of an ancestor passed in an earlier call, or empty: parents that lead back to it go round in a circle
ARGV[7]  count     ancestors in the page at most
ARGV[8]  bytes     the page is full with the ancestor that takes it past this size
ARGV[9..]          wanted channels
Replies: {left, 'found', parent, steps, seeds}: `left` is the PTTL of the index, `parent` where to go on, empty at the end;
         `steps` holds for each ancestor that has wanted writes, nearest first, the number of strings that follow, and field,
         value of each; a seed is {channel, kind, value}, kind '=' for a small value out of a listing, '+' for a stored one,
         whose value is nil where it is not there. {left, 'broken', parent, steps, seeds} where the ancestor `parent` is not
         there; {left, 'circle', parent, steps, seeds} where it was passed before.
         {left, 'absent'}, {left, 'evicted', member} and {left, 'more', bound} as in get.lua.
]]
--@include checkpoint_key
--@include latest
--@include seeds
--@include weight
--@include add_writes
local index, channels, absent = KEYS[1], KEYS[2], KEYS[3]
local base, ns, member, bound, parent, mark = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local count, bytes = tonumber(ARGV[7]), tonumber(ARGV[8])

-- So many channels are found more quickly by a search for each.
local FEW = 64

local left = redis.call('PTTL', index)
local wanted, open = {}, #ARGV - 8
for at = 9, #ARGV do
  wanted[ARGV[at]] = true
end
local steps, seeds, size = {}, {}, 0

if parent == '' then
  if member == '' then
    local status, from
    member, status, from = latest(index, base, ns, bound, 500)
    if not member then
      return { left, status, from }
    end
  end
  -- (One that was read a moment ago and has been pruned since, or whose thread is just expiring, is walked from too.)
  local stored = redis.call('HMGET', checkpoint_key(base, member), 'channels', 'parent')
  if not stored[1] then
    local lost = redis.call('EXISTS', checkpoint_key(base, member)) == 0 and redis.call('ZSCORE', index, member)
    return { left, lost and 'evicted' or 'absent', member }
  end
  parent = stored[2] or ''
end
while parent ~= '' and open > 0 and count > 0 and size <= bytes do
  local key = checkpoint_key(base, ns .. '\0' .. parent)
  local listing, above = unpack(redis.call('HMGET', key, 'channels', 'parent'))
  if not listing then
    return { left, 'broken', parent, steps, seeds }
  end
  size = size + weight(#listing) + add_writes(steps, key, wanted)
  local entries = open > FEW and entries_of(listing)
  for channel in pairs(wanted) do
    local seed = seed_of(channels, ns, entries and (entries[channel] or '') or listing, channel)
    if seed then
      seeds[#seeds + 1] = seed
      size = size + weight(#(seed[3] or ''))
      wanted[channel] = nil
      open = open - 1
    end
  end
  parent, count = above or '', count - 1
  if parent ~= '' and parent == mark and open > 0 then
    return { left, 'circle', parent, steps, seeds }
  end
end
return { left, 'found', open > 0 and parent or '', steps, seeds }
