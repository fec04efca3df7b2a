-- KEYS: the claim log, the delayed jobs, the list, the reserved jobs. ARGV: 2 the most jobs, 3 the safety distance in milliseconds,
-- 4 whether the listener is stopped, 5 whether it is a drain.
local delayed, list, reserved = KEYS[2], KEYS[3], KEYS[4]
local safety_ms, is_stopped, is_drain = ARGV[3], ARGV[4] == '1', ARGV[5] == '1'
local function seconds(ms) return string.format('%.3f', ms / 1000) end
local function room() return ARGV[2] - #claimed / 2 end
local function take_between(key, min, max)
  take(key, min, max, room(), function(member, score) claim(key, member, score, safety_ms) end)
end
take_list(list, 'left', room(), function(member) claim(list, member, '', safety_ms) end)
if is_stopped then
  take_between(delayed, '-inf', is_drain and '+inf' or seconds(now_ms))
  -- Their workers have had their time.
  take_between(reserved, '-inf', seconds(now_ms))
  wait_for(delayed, 1000)
else
  take_between(delayed, '(' .. seconds(now_ms + safety_ms), '+inf')
end
