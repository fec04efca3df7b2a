-- Begins a memory that has not begun, so that it hands out jobs, by one call or several. ARGV[5]: its new incarnation with the
-- last of them, '' before; [6]: who makes several, '' for one; [7]: how many calls came before; then for each queue with settings
-- its name, whether it is paused, how many jobs may run at once (0: no limit), the microseconds between two jobs ('' none), the
-- burst, and the version of the settings. The burst of a rate limit counts as used up. Returns 1, or 0 if somebody else is about
-- to begin it, or this call came late.
local OWNED_MS = 5000
if GENERATION ~= 0 then return { micros, 1 } end
runs_when_full()
local by, before = ARGV[6], tonumber(ARGV[7])
if by ~= '' then
  local last = redis.call('GET', REQUEST)
  local is_next = last and (last == by .. ' ' .. before or last == by .. ' ' .. (before - 1))
  if not is_next and (last or before > 0) then return { micros, 0 } end
  redis.call('SET', REQUEST, by .. ' ' .. before, 'PX', OWNED_MS)
end
if before == 0 then many('SREM', PAUSED, redis.call('SMEMBERS', PAUSED)) end
local marked, fields = {}, {}
local function set(field, value) fields[#fields + 1], fields[#fields + 2] = field, value end
for i = 8, #ARGV, 6 do
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
if ARGV[5] ~= '' then redis.call('SET', INCARNATION, ARGV[5]) end
return { micros, 1 }
