-- A page of whole checkpoints under construction. A channel value that several of them name is in it once.
local function new_page(base, channels)
  return { base = base, channels = channels, checkpoints = {}, values = {}, slots = {}, bytes = 0 }
end

-- The places in page.values, counted from 0, of the values that a listing names, fetching those that are not there yet.
local function take_values(page, ns, listing)
  local fields, places, wanted = stored_fields(ns, listing), {}, {}
  for at, field in ipairs(fields) do
    if not page.slots[field] then
      wanted[#wanted + 1] = field
      page.slots[field] = #page.values + #wanted - 1
    end
    places[at] = page.slots[field]
  end
  in_chunks(function(...)
    for _, value in ipairs(redis.call('HMGET', page.channels, ...)) do
      page.values[#page.values + 1] = value
      page.bytes = page.bytes + weight(value and #value or 0)
    end
  end, wanted, 1, #wanted)
  return places
end

-- Adds a checkpoint: {member, hash, places}; {member} where its hash is not there. One that has not arrived is passed over
-- unless `pending` hashes are wanted too.
local function take_checkpoint(page, member, pending)
  local hash, listing = read_checkpoint(checkpoint_key(page.base, member))
  for at = 1, #hash, 2 do
    page.bytes = page.bytes + weight(#hash[at] + #hash[at + 1])
  end
  if #hash == 0 then
    page.checkpoints[#page.checkpoints + 1] = { member }
  elseif listing or pending then
    local ns = string.sub(member, 1, string.find(member, '\0', 1, true) - 1)
    page.checkpoints[#page.checkpoints + 1] = { member, hash, take_values(page, ns, listing or '') }
  end
end
