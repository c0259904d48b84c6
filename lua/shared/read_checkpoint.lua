-- A checkpoint hash, flat as HGETALL gives it, and its listing of channels (nil where the checkpoint has not arrived).
local function read_checkpoint(key)
  local hash = redis.call('HGETALL', key)
  for at = 1, #hash, 2 do
    if hash[at] == 'channels' then
      return hash, hash[at + 1]
    end
  end
  return hash
end

-- The fields of the channels hash that a listing names. Entries that hold their small value themselves ('=') name none.
local function stored_fields(ns, listing)
  local fields = {}
  for entry, holding in string.gmatch(listing, '\2([^%z]*%z[^%z]*)%z([^\2]*)') do
    if string.sub(holding, 1, 1) ~= '=' then
      fields[#fields + 1] = ns .. '\0' .. entry
    end
  end
  return fields
end
