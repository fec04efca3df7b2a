-- Stops or starts handing out. ARGV[5]: the queue; [6]: whether it is to stop.
redis.call(ARGV[6] == '1' and 'SADD' or 'SREM', PAUSED, ARGV[5])
redis.call('SADD', QUEUES, ARGV[5])
redis.call('PUBLISH', CHANNEL, ARGV[5])
return { micros }
