-- The key of the checkpoint hash that an index member names. A namespace holds no NUL, an id in a member no colon.
local function checkpoint_key(base, member)
  local ends = string.find(member, '\0', 1, true)
  return base .. string.sub(member, 1, ends - 1) .. ':' .. string.sub(member, ends + 1)
end
