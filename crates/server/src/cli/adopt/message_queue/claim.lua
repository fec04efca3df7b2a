-- KEYS: the claim log, the delayed jobs, the list, the reserved jobs. ARGV: 2 the most jobs, 3 the safety distance in milliseconds,
-- 4 whether the listener is stopped, 5 whether it is a drain.
local delayed, list, reserved = KEYS[2], KEYS[3], KEYS[4]
local left, safety_ms, is_stopped, is_drain = tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1', ARGV[5] == '1'
local function seconds(ms) return string.format('%.3f', ms / 1000) end
local function take_between(key, min, max)
  local found = redis.call('ZRANGEBYSCORE', key, min, max, 'WITHSCORES', 'LIMIT', 0, left)
  local members = {}
  for n = 1, #found, 2 do
    members[#members + 1] = found[n]
    claim(key, found[n], found[n + 1], safety_ms)
  end
  if #members > 0 then remove('ZREM', key, unpack(members)) end
  left = left - #members
end
local found = redis.call('LRANGE', list, 0, left - 1)
for _, member in ipairs(found) do claim(list, member, '', safety_ms) end
if #found > 0 then remove('LTRIM', list, #found, -1) end
left = left - #found
if is_stopped then
  take_between(delayed, '-inf', is_drain and '+inf' or seconds(now_ms))
  -- Their workers have had their time.
  take_between(reserved, '-inf', seconds(now_ms))
  local head = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
  if head[2] then wait_ms = math.max(0, math.min(wait_ms, math.ceil(head[2] * 1000) - now_ms)) end
else
  take_between(delayed, '(' .. seconds(now_ms + safety_ms), '+inf')
end
