-- Returns the incarnation of a partition's memory: format, number of partitions, side, name, server, generation (0: it has
-- not begun). KEYS[1]: the incarnation. ARGV[1]: the beginning of a new one, '' to only read. An incarnation made on another
-- server, which has failed over or was restarted since, is invalid; a server's replication id never recurs.
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or '-'
local found = redis.call('GET', KEYS[1])
if found and (string.match(found, '^%d+ %d+ %S+ %S+ (%S+) %d+$') or server) == server then return found end
if ARGV[1] == '' then return false end
-- The first write is a removal, so that the rest runs when Redis has reached its maxmemory. It removes nothing.
redis.pcall('HDEL', KEYS[1], '')
-- The time makes the name unique, even if the call is repeated after a lost reply.
local time = redis.call('TIME')
local made = ARGV[1] .. '.' .. time[1] .. '.' .. time[2] .. ' ' .. server .. ' 0'
redis.call('SET', KEYS[1], made)
return made
