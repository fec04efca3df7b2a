-- Begins a memory that has not begun, so that it hands out jobs. ARGV[5]: its new incarnation; then for each queue with
-- settings its name, whether it is paused, how many jobs may run at once (0: no limit), the microseconds between two jobs
-- ('' none), the burst, and the version of the settings. The burst of a rate limit counts as used up.
if GENERATION ~= 0 then return { micros } end
runs_when_full()
many('SREM', PAUSED, redis.call('SMEMBERS', PAUSED))
local marked, fields = {}, {}
local function set(field, value) fields[#fields + 1], fields[#fields + 2] = field, value end
for i = 6, #ARGV, 6 do
  local queue, max_running, period, burst = ARGV[i], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  set(queue .. ':v', ARGV[i + 5])
  if ARGV[i + 1] == '1' then marked[#marked + 1] = queue end
  if max_running ~= '0' or period ~= '' then
    marked[#marked + 1] = LIMITED .. queue
    set(queue .. ':m', max_running)
    set(queue .. ':p', period)
    set(queue .. ':b', burst)
    if period ~= '' then set(queue .. ':t', string.format('%.3f', micros + period * burst)) end
  end
end
if #marked > 0 then many('SADD', PAUSED, marked) end
if #fields > 0 then many('HSET', COUNTERS, fields) end
redis.call('SET', INCARNATION, ARGV[5])
return { micros }
