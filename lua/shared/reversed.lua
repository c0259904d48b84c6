-- A function that returns, call by call, the next `most` members of `set` below (id, ns), the last first.
local function reversed(set, below_id, below_ns, most)
  local bound = below_id == '' and '+' or '(' .. below_ns .. '\0' .. below_id
  local members, at = redis.call('ZREVRANGEBYLEX', set, bound, '-', 'LIMIT', 0, most), 0
  return function()
    at = at + 1
    return members[at]
  end
end
