-- Beside a listener. A member that it may have counted as due comes a little later.
if redis.replicate_commands then redis.replicate_commands() end
local key, member, score, safety_ms = unpack(parts)
if score == '' then
  redis.call('LPUSH', key, member)
else
  local safe = tonumber(redis.call('TIME')[1]) + 1 + math.ceil(safety_ms / 1000)
  redis.call('ZADD', key, 'NX', tonumber(score) < safe and safe or score, member)
end
