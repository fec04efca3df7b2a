-- Sets the watermark: from now on, jobs due before this instant are not dropped. ARGV[5]: the instant.
runs_when_full()
local known = redis.call('HGET', COUNTERS, WATERMARK)
if not known or tonumber(known) < tonumber(ARGV[5]) then redis.call('HSET', COUNTERS, WATERMARK, ARGV[5]) end
return { micros }
