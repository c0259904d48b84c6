-- What an ancestor's hash holds; of a small one, just the writes: the other fields are large, and of no use here. (HSCAN may
-- bring a field twice, but not in one call.)
local function scan(key)
  local found = redis.call('HSCAN', key, '0', 'MATCH', 'write:*', 'COUNT', 100)
  return found[1] == '0' and found[2] or redis.call('HGETALL', key)
end

-- Adds the wanted writes of an ancestor to `steps`: how many strings follow, then field, value of each. Returns what all
-- that was looked at weighs.
local function add_writes(steps, key, wanted)
  local at, hash, size = #steps + 1, scan(key), 0
  steps[at] = 0
  for n = 1, #hash, 2 do
    local field, value = hash[n], hash[n + 1]
    size = size + weight(#field + #value)
    if string.sub(field, 1, 6) == 'write:' then
      local path_ends = string.find(value, '\0', 1, true)
      local channel_ends = string.find(value, '\0', path_ends + 1, true)
      if wanted[string.sub(value, path_ends + 1, channel_ends - 1)] then
        steps[#steps + 1] = field
        steps[#steps + 1] = value
      end
    end
  end
  steps[at] = #steps - at
  if steps[at] == 0 then
    steps[at] = nil
  end
  return size
end
