-- Sets the limits of a queue. ARGV[5]: the queue; [6]: whether it is paused; [7]: how many jobs may run at once, 0 for no
-- limit; [8]: the microseconds between two jobs, '' for none; [9]: the burst; [10]: the version of the settings. Settings
-- with a lower version than the last are ignored.
runs_when_full()
local queue, max_running = ARGV[5], tonumber(ARGV[7])
if tonumber(redis.call('HGET', COUNTERS, queue .. ':v') or 0) > tonumber(ARGV[10]) then return { micros } end
local is_limited = max_running > 0 or ARGV[8] ~= ''
redis.call(ARGV[6] == '1' and 'SADD' or 'SREM', PAUSED, queue)
redis.call(is_limited and 'SADD' or 'SREM', PAUSED, LIMITED .. queue)
if is_limited then
  redis.call('HSET', COUNTERS, queue .. ':m', ARGV[7], queue .. ':p', ARGV[8], queue .. ':b', ARGV[9])
else
  redis.call('HDEL', COUNTERS, queue .. ':m', queue .. ':p', queue .. ':b', queue .. ':t')
end
redis.call('HSET', COUNTERS, queue .. ':v', ARGV[10])
redis.call('ZADD', QUEUES, 0, queue)
redis.call('PUBLISH', CHANNEL, queue)
return { micros }
