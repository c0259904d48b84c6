--!df flags=allow-undeclared-keys
--[[
Reads a page of a thread's checkpoints, newest first.

KEYS[1]  members   sorted set to list: the thread's index, or its retained ancestors
KEYS[2]  channels  hash of the thread's channel values
KEYS[3]  absent    never there, so that Redis refuses the call while keys that it finds here move to another node
ARGV[1]  base      what the key of each checkpoint hash begins with
ARGV[2]  scope     'namespace', 'thread', or 'members': in the reverse order of the set, namespace by namespace
ARGV[3]  ns        the namespace of that scope
ARGV[4]  below_id  only what comes after this id and, where the id is the same,
ARGV[5]  below_ns  this namespace; an empty id is no bound
ARGV[6]  count     checkpoints in the page at most
ARGV[7]  bytes     the page is full with the checkpoint that takes it past this size
ARGV[8]  most      namespaces to look into at most, in the scope of the thread
ARGV[9]  pending   '1' to include hashes that hold only writes
Replies: {left, cursor, checkpoints, values}: `left` is the PTTL of the set, `cursor` the last member that was looked at, empty
       where nothing is left to list. A checkpoint is {member, hash, places}, `places` telling for each stored value of the
       hash's listing where it is in `values`, counted from 0; or {member} where the set names a hash that is not there.
       {left} where the thread has more namespaces than that.
]]
--@include checkpoint_key
--@include in_chunks
--@include read_checkpoint
--@include namespaces
--@include newest_first
--@include reversed
--@include weight
--@include page
local members, channels, absent = KEYS[1], KEYS[2], KEYS[3]
local base, scope, ns, below_id, below_ns = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local count, bytes, most, pending = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9] == '1'

local spaces = spaces_of(members, scope, ns, most)
if not spaces then
  return { redis.call('PTTL', members) }
end
local step = scope == 'members' and reversed(members, below_id, below_ns, count + 1)
  or newest_first(members, spaces, below_id, below_ns, count + 1)
local page, cursor = new_page(base, channels), ''
for _ = 1, math.max(count, 1000) do
  cursor = step() or ''
  if cursor == '' then
    break
  end
  take_checkpoint(page, cursor, pending)
  if #page.checkpoints >= count or page.bytes > bytes then
    break
  end
end
return { redis.call('PTTL', members), cursor, page.checkpoints, page.values }
