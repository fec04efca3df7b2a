-- Stores a document if the stored one has this version. KEYS[1]: documents of its kind; ARGV[1]: its name; [2]: the version;
-- [3]: the body. Returns the version stored now, and whether this call stored it; a repeat recognizes its own. The first
-- write is a removal, because settings must be changeable when Redis has reached its maxmemory.
redis.call('HDEL', KEYS[1], '')
local stored = redis.call('HGET', KEYS[1], ARGV[1])
local version, body = 0, nil
if stored then
  local space = string.find(stored, ' ', 1, true)
  version, body = tonumber(string.sub(stored, 1, space - 1)), string.sub(stored, space + 1)
end
local asked = tonumber(ARGV[2])
if version == asked then
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', asked + 1) .. ' ' .. ARGV[3])
  return { asked + 1, 1 }
end
return { version, (version == asked + 1 and body == ARGV[3]) and 1 or 0 }
