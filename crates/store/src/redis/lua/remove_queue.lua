-- Removes the limits of a queue, and if it has no job here, its name and its counts. ARGV[5]: the queue; [6]: the version of
-- the settings that it had, 0 if it had none. Later limits of settings up to this version change nothing, so the next version is
-- kept. Returns whether the queue was there and is gone.
runs_when_full()
local queue, version = ARGV[5], tonumber(ARGV[6])
redis.call('SREM', PAUSED, queue, LIMITED .. queue)
redis.call('HDEL', COUNTERS, queue .. ':m', queue .. ':p', queue .. ':b', queue .. ':t')
if version > 0 and tonumber(redis.call('HGET', COUNTERS, queue .. ':v') or 0) <= version then
  redis.call('HSET', COUNTERS, queue .. ':v', text(version + 1))
end
local due, pdue = queue_keys(1)
local jobs = redis.call('ZCARD', due) + redis.call('ZCARD', pdue)
local counted = OWN and { 'r', 'l', 's', 'f', 'c' } or { 'r', 'l' }
for _, what in ipairs(counted) do jobs = jobs + tonumber(redis.call('HGET', COUNTERS, queue .. ':' .. what) or 0) end
if jobs > 0 then
  redis.call('PUBLISH', CHANNEL, queue)
  return { micros, 0 }
end
for _, what in ipairs({ 'r', 'l', 's', 'f', 'c', 'P', 'S', 'F', 'C' }) do redis.call('HDEL', COUNTERS, queue .. ':' .. what) end
return { micros, redis.call('ZREM', QUEUES, queue) }
