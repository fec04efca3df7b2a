-- KEYS: the claim log, the delayed jobs, the list, the reserved jobs. ARGV: 2 the most jobs, 3 the safety distance in milliseconds,
-- 4 whether the listener is stopped, 5 whether it is a drain.
-- What can fail comes first: once a member is removed, its claim is stored.
redis.call('HLEN', KEYS[1])
local delayed, list, reserved = KEYS[2], KEYS[3], KEYS[4]
local left, safety_ms, is_stopped, is_drain = tonumber(ARGV[2]), ARGV[3], ARGV[4] == '1', ARGV[5] == '1'
local function seconds(ms) return string.format('%.3f', ms / 1000) end
local function take_between(key, min, max)
  local found = redis.call('ZRANGEBYSCORE', key, min, max, 'WITHSCORES', 'LIMIT', 0, left)
  for n = 1, #found, 2 do
    redis.call('ZREM', key, found[n])
    claim(key, found[n], found[n + 1], safety_ms)
  end
  left = left - #found / 2
end
while left > 0 do
  local member = redis.call('LPOP', list)
  if not member then break end
  claim(list, member, '', safety_ms)
  left = left - 1
end
if is_stopped then
  take_between(delayed, '-inf', is_drain and '+inf' or seconds(now_ms))
  -- Their workers have had their time.
  take_between(reserved, '-inf', seconds(now_ms))
  local head = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
  if head[2] then wait_ms = math.max(0, math.min(wait_ms, math.ceil(head[2] * 1000) - now_ms)) end
else
  take_between(delayed, '(' .. seconds(now_ms + safety_ms), '+inf')
end
