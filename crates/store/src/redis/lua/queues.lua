-- The names of queues.
return { micros, redis.call('SMEMBERS', QUEUES) }
