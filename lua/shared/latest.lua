-- The newest stored checkpoint of a namespace below `bound`: its member, or a status: 'absent', 'evicted' (with the
-- member) or 'more' (with the member to go on from, after `tries` hashes that hold only writes).
local function latest(index, base, ns, bound, tries)
  local member
  for _ = 1, tries do
    member = redis.call('ZREVRANGEBYLEX', index, '(' .. bound, '[' .. ns .. '\0', 'LIMIT', 0, 1)[1]
    if not member then
      return nil, 'absent'
    end
    local key = checkpoint_key(base, member)
    if redis.call('HEXISTS', key, 'channels') == 1 then
      return member
    end
    if redis.call('EXISTS', key) == 0 then
      return nil, 'evicted', member
    end
    bound = member
  end
  return nil, 'more', member
end
