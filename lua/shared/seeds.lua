-- A listing cut into its entries, by channel. To search the whole for each of ten thousand wanted channels took half a second.
local function entries_of(listing)
  local found = {}
  for entry, channel in string.gmatch(listing, '(\2([^%z]*)%z[^%z]*%z[^\2]*)') do
    found[channel] = entry
  end
  return found
end

-- {channel, kind, value}: what a listing, or an entry of it, holds for a channel; nil where its version has no value.
local function seed_of(channels, ns, listing, channel)
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
