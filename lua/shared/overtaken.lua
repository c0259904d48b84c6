-- The latest checkpoint of the namespace of `member`, if there is one that is none of the members ARGV[first..last]; else nil.
-- (It is not looked for behind a thousand newer ones that have only writes, nor behind one that was evicted.)
local function overtaken(index, checkpoint, member, first, last)
  if last < first then
    return nil
  end
  local base = string.sub(checkpoint, 1, #checkpoint - #member)
  local ns = string.sub(member, 1, string.find(member, '\0', 1, true) - 1)
  local newest = latest(index, base, ns, ns .. '\1', 1000)
  for allowed = first, last do
    if ARGV[allowed] == newest then
      return nil
    end
  end
  return newest
end
