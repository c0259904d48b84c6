--!df flags=allow-undeclared-keys
--[[
Reads the metadata of a page of a thread's checkpoints, newest first, for the saver to filter.

KEYS[1]  members   sorted set to list: the thread's index
KEYS[2]  absent    never there, so that Redis refuses the call while keys that it finds here move to another node
ARGV[1]  base      what the key of each checkpoint hash begins with
ARGV[2]  scope     'namespace' or 'thread'
ARGV[3]  ns        the namespace of that scope
ARGV[4]  below_id  only what comes after this id and, where the id is the same,
ARGV[5]  below_ns  this namespace; an empty id is no bound
ARGV[6]  count     checkpoints in the page at most
ARGV[7]  bytes     the page is full with the metadata that takes it past this size
ARGV[8]  most      namespaces to look into at most, in the scope of the thread
Replies: {left, cursor, entries}: `left` is the PTTL of the set, `cursor` the last member that was looked at, empty where
       nothing is left to list. An entry is {member, metadata}, or {member} where the set names a hash that is not there.
       {left} where the thread has more namespaces than that.
]]
--@include checkpoint_key
--@include metadata_of
--@include namespaces
--@include newest_first
--@include weight
local members, absent = KEYS[1], KEYS[2]
local base, scope, ns, below_id, below_ns = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local count, bytes, most = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])

local spaces = spaces_of(members, scope, ns, most)
if not spaces then
  return { redis.call('PTTL', members) }
end
local step = newest_first(members, spaces, below_id, below_ns, count + 1)
local entries, cursor = {}, ''
for _ = 1, count do
  cursor = step() or ''
  if cursor == '' then
    break
  end
  local entry = metadata_of(base, cursor)
  if entry then
    entries[#entries + 1] = entry
    bytes = bytes - weight(#entry[1] + #(entry[2] or ''))
  end
  if bytes < 0 then
    break
  end
end
return { redis.call('PTTL', members), cursor, entries }
