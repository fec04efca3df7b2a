local key, member, score = unpack(parts)
if score == '' then redis.call('LPUSH', key, member) else redis.call('ZADD', key, 'NX', score, member) end
