-- Stores a document if the stored one has this version. KEYS[1]: documents of its kind; [2]: the highest versions of removed
-- documents, by kind; ARGV[1]: its name; [2]: the version; [3]: the body; if it is empty, the document is removed instead, in
-- any version if [2] is empty; [4]: the name of this call; [5]: its kind. Returns the version stored now, and whether this
-- call did it. The name is stored with the document, so that a repeat recognizes its own: another call may have stored the
-- same body. The first write is a removal, because settings must be changeable when Redis has reached its maxmemory.
redis.call('HDEL', KEYS[1], '')
local stored = redis.call('HGET', KEYS[1], ARGV[1])
local removed = tonumber(redis.call('HGET', KEYS[2], ARGV[5]) or '0')
local version, call = 0, nil
if stored then
  version, call = string.match(stored, '^(%d+) (%S+) ')
  version = tonumber(version)
end
local asked = tonumber(ARGV[2])
if ARGV[3] == '' then
  if not stored or (asked and asked ~= version) then return { version, 0 } end
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('HSET', KEYS[2], ARGV[5], string.format('%.0f', math.max(removed, version)))
  return { version, 1 }
end
if version == asked then
  local new = (stored and version or removed) + 1
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', new) .. ' ' .. ARGV[4] .. ' ' .. ARGV[3])
  return { new, 1 }
end
return { version, call == ARGV[4] and 1 or 0 }
