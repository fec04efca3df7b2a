-- What is in queues. ARGV from [5]: their names.
local answers = {}
for n = 1, #ARGV - 4 do
  local queue = ARGV[4 + n]
  local due, pdue = queue_keys(n)
  local counters = redis.call('HMGET', COUNTERS, queue .. ':r', queue .. ':l', queue .. ':s', queue .. ':f', queue .. ':c',
    queue .. ':P', queue .. ':S', queue .. ':F', queue .. ':C')
  for i = 1, 9 do counters[i] = tonumber(counters[i] or 0) end
  local ready = redis.call('ZCOUNT', due, '-inf', now) + redis.call('ZCOUNT', pdue, '-inf', now)
  local all = redis.call('ZCARD', due) + redis.call('ZCARD', pdue)
  local first = head_due(n)
  table.insert(answers, { all - ready, ready + counters[2], counters[1], first and first <= now and
    string.format('%.0f', first) or '', redis.call('SISMEMBER', PAUSED, queue), counters[3], counters[4], counters[5],
    counters[6], counters[7], counters[8], counters[9] })
end
return { micros, answers }
