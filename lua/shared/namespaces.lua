-- Each namespace of a sorted set of members; nil where there are more than `most`.
local function namespaces(set, most)
  local found, from = {}, '-'
  while true do
    local member = redis.call('ZRANGEBYLEX', set, from, '+', 'LIMIT', 0, 1)[1]
    if not member then
      return found
    end
    if #found == most then
      return nil
    end
    local ns = string.sub(member, 1, string.find(member, '\0', 1, true) - 1)
    found[#found + 1] = ns
    from = '(' .. ns .. '\1'
  end
end

-- The namespaces that a listing of `set` looks into: one, or in the scope of the thread all; nil if more than `most`.
local function spaces_of(set, scope, ns, most)
  if scope == 'thread' then
    return namespaces(set, most)
  end
  return { ns }
end
