-- The stamp of a partition. KEYS[1]: the stamp; ARGV[1]: the one that it gets where it has none.
redis.call('SET', KEYS[1], ARGV[1], 'NX')
return redis.call('GET', KEYS[1])
