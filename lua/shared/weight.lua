-- What a field of that many bytes takes of a page: as much more as is copied in the time that a server needs to handle it.
local function weight(size)
  return size + 256
end
