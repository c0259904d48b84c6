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
ARGV[6]  count     ancestors in the page at most
ARGV[7]  bytes     the page is full with the ancestor that takes it past this size
ARGV[8..]          wanted channels
Replies: {left, 'found', parent, steps, seeds}: `left` is the PTTL of the index, `parent` where to go on, empty at the end;
         a step is {field, value...}, the wanted writes of an ancestor, nearest first; a seed is {channel, kind, value}, kind
         '=' for a small value out of a listing, '+' for a stored one, whose value is nil where it is not there.
         {left, 'broken', parent, steps, seeds} where the ancestor `parent` is not there;
         {left, 'absent'}, {left, 'evicted', member} and {left, 'more', bound} as in get.lua.
]]
--@include checkpoint_key
--@include latest
--@include read_checkpoint
local index, channels, absent = KEYS[1], KEYS[2], KEYS[3]
local base, ns, member, bound, parent = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local count, bytes = tonumber(ARGV[6]), tonumber(ARGV[7])

-- So many channels are found more quickly by a search for each.
local FEW = 64

local left = redis.call('PTTL', index)
local wanted, open = {}, #ARGV - 7
for at = 8, #ARGV do
  wanted[ARGV[at]] = true
end
local steps, seeds, size = {}, {}, 0

-- A listing cut into its entries, by channel. To search the whole for each of ten thousand wanted channels took half a second.
local function entries_of(listing)
  local found = {}
  for entry, channel in string.gmatch(listing, '(\2([^%z]*)%z[^%z]*%z[^\2]*)') do
    found[channel] = entry
  end
  return found
end

-- {channel, kind, value}: what a checkpoint holds for a channel; nil where its version has no value.
local function seed_of(listing, channel)
  local _, ends = string.find(listing, '\2' .. channel .. '\0', 1, true)
  if not ends then
    return nil
  end
  local version, holding = string.match(listing, '^([^%z]*)%z([^\2]*)', ends + 1)
  if string.sub(holding, 1, 1) == '=' then
    return { channel, '=', string.sub(holding, 2) }
  end
  local value = redis.call('HGET', channels, ns .. '\0' .. channel .. '\0' .. version)
  return (value or holding == '+') and { channel, '+', value }
end

-- (A checkpoint that was read a moment ago and has been pruned since, or whose thread is just expiring, is walked from too.)
-- The wanted writes of an ancestor, and its parent and listing.
local function gather(hash)
  local step, above, listing = {}, '', nil
  for at = 1, #hash, 2 do
    local field, value = hash[at], hash[at + 1]
    size = size + #value
    if string.sub(field, 1, 6) == 'write:' then
      local path_ends = string.find(value, '\0', 1, true)
      local channel_ends = string.find(value, '\0', path_ends + 1, true)
      if wanted[string.sub(value, path_ends + 1, channel_ends - 1)] then
        step[#step + 1] = field
        step[#step + 1] = value
      end
    elseif field == 'parent' then
      above = value
    elseif field == 'channels' then
      listing = value
    end
  end
  return step, above, listing
end

if parent == '' then
  if member == '' then
    local status, from
    member, status, from = latest(index, base, ns, bound, 500)
    if not member then
      return { left, status, from }
    end
  end
  local stored = redis.call('HMGET', checkpoint_key(base, member), 'channels', 'parent')
  if not stored[1] then
    local lost = redis.call('EXISTS', checkpoint_key(base, member)) == 0 and redis.call('ZSCORE', index, member)
    return { left, lost and 'evicted' or 'absent', member }
  end
  parent = stored[2] or ''
end
while parent ~= '' and open > 0 and count > 0 and size <= bytes do
  local step, above, listing = gather(redis.call('HGETALL', checkpoint_key(base, ns .. '\0' .. parent)))
  if not listing then
    return { left, 'broken', parent, steps, seeds }
  end
  if #step > 0 then
    steps[#steps + 1] = step
  end
  local entries = open > FEW and entries_of(listing)
  for channel in pairs(wanted) do
    local seed = seed_of(entries and (entries[channel] or '') or listing, channel)
    if seed then
      seeds[#seeds + 1] = seed
      wanted[channel] = nil
      open = open - 1
    end
  end
  parent, count = above, count - 1
end
return { left, 'found', open > 0 and parent or '', steps, seeds }
