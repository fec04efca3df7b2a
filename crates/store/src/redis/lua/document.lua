-- Stores a document where the stored one has this version. KEYS[1]: those of its kind; ARGV[1]: its name; [2]: the version; [3]: the
-- body. Answers the version that is stored now, and whether it was stored here: a repeat finds its own.
-- A removing write comes first: settings are changed when Redis has reached its maxmemory, too.
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
