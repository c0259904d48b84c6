-- Whether index entry `a` comes before `b` in a listing: by id, bytewise, then by namespace. (Lua's own `<` on strings
-- follows the locale of the server.)
local function larger(a, b)
  for at = 1, math.min(#a, #b) do
    local x, y = string.byte(a, at), string.byte(b, at)
    if x ~= y then
      return x > y
    end
  end
  return #a > #b
end

local function newer(a, b)
  if a.id == b.id then
    return larger(a.ns, b.ns)
  end
  return larger(a.id, b.id)
end

-- Restores a heap, the newest entry on top, whose entry at `at` may be too old for its place.
local function sift(heap, at)
  while true do
    local top, child = at, 2 * at
    for c = child, math.min(child + 1, #heap) do
      if newer(heap[c], heap[top]) then
        top = c
      end
    end
    if top == at then
      return
    end
    heap[at], heap[top] = heap[top], heap[at]
    at = top
  end
end

-- A function that returns, call by call, the members of `set` in these namespaces below (id, ns), newest first.
local function newest_first(set, spaces, below_id, below_ns, ahead)
  local heap = {}
  ahead = #spaces > 1 and math.min(8, ahead) or ahead
  local function refill(entry, bound)
    entry.ahead = redis.call('ZREVRANGEBYLEX', set, bound, '[' .. entry.ns .. '\0', 'LIMIT', 0, ahead)
    entry.at = 0
  end
  local function advance(entry)
    if entry.at == #entry.ahead and entry.at == ahead then
      refill(entry, '(' .. entry.member)
    end
    entry.at = entry.at + 1
    entry.member = entry.ahead[entry.at]
    entry.id = entry.member and string.sub(entry.member, #entry.ns + 2)
    return entry.member
  end
  for _, ns in ipairs(spaces) do
    local entry = { ns = ns }
    local bound = '(' .. ns .. '\1'
    if below_id ~= '' then
      bound = (larger(below_ns, ns) and '[' or '(') .. ns .. '\0' .. below_id
    end
    refill(entry, bound)
    heap[#heap + 1] = advance(entry) and entry or nil
  end
  for at = math.floor(#heap / 2), 1, -1 do
    sift(heap, at)
  end
  return function()
    local top = heap[1]
    local member = top and top.member
    if member then
      if not advance(top) then
        heap[1] = heap[#heap]
        heap[#heap] = nil
      end
      sift(heap, 1)
    end
    return member
  end
end
