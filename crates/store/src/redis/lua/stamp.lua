-- The stamp of a partition. KEYS[1]: the stamp; ARGV[1]: the one that it gets where it has none, with the time.
local found = redis.call('GET', KEYS[1])
if found then return found end
-- There is no such key; a removing write comes first, so that the rest runs when Redis has reached its maxmemory.
redis.call('HDEL', KEYS[1], '')
local time = redis.call('TIME')
local made = string.format('%s %d%03d', ARGV[1], time[1], math.floor(time[2] / 1000))
redis.call('SET', KEYS[1], made)
return made
