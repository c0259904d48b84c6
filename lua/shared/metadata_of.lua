-- The entry of a checkpoint in a page of metadata: {member, metadata}; {member} where its hash is not there; nil where it
-- has not arrived.
local function metadata_of(base, member)
  local key = checkpoint_key(base, member)
  local metadata = redis.call('HGET', key, 'metadata')
  if metadata then
    return { member, metadata }
  end
  return redis.call('EXISTS', key) == 0 and { member } or nil
end
