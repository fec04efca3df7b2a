-- The stamp of a partition. KEYS[1]: the stamp; ARGV[1]: the one that it gets where it has none.
local found = redis.call('GET', KEYS[1])
if found then return found end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]
