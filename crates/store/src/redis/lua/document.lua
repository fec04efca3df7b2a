-- Stores a document if the stored one has this version. KEYS[1]: documents of its kind; ARGV[1]: its name; [2]: the version;
-- [3]: the body; if it is empty, the document is removed instead; [4]: the name of this call. Returns the version stored now,
-- and whether this call did it. The name is stored with the document, so that a repeat recognizes its own: another call may
-- have stored the same body. The first write is a removal, because settings must be changeable when Redis has reached its
-- maxmemory.
redis.call('HDEL', KEYS[1], '')
local stored = redis.call('HGET', KEYS[1], ARGV[1])
local version, call = 0, nil
if stored then
  version, call = string.match(stored, '^(%d+) (%S+) ')
  version = tonumber(version)
end
local asked = tonumber(ARGV[2])
if ARGV[3] == '' then
  local is_removed = version == asked and redis.call('HDEL', KEYS[1], ARGV[1]) == 1
  return { version, is_removed and 1 or 0 }
end
if version == asked then
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', asked + 1) .. ' ' .. ARGV[4] .. ' ' .. ARGV[3])
  return { asked + 1, 1 }
end
return { version, (version == asked + 1 and call == ARGV[4]) and 1 or 0 }
