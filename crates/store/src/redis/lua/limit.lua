-- Limits the handing out of a queue. ARGV[5]: the queue; [6]: whether nothing is handed out; [7]: how many may run at once, 0
-- for any number; [8]: the microseconds from one job to the next, '' for none; [9]: how many may come at once; [10]: the version
-- of the settings that say so. Those of a lower version than the last come too late.
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
