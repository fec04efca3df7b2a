-- Jobs of queues by due time. ARGV[5]: how many bounds; then the bounds, which ascend; then the names of the queues. Answers of
-- each queue how many run, how many are due beyond the bounds, and how many up to each bound, without zeros at the end.
local bounds = tonumber(ARGV[5])
local answers = {}
for n = 1, #ARGV - 5 - bounds do
  local due, pdue = queue_keys(n)
  local running = redis.call('HGET', COUNTERS, ARGV[5 + bounds + n] .. ':r')
  local rest = redis.call('ZCARD', due) + redis.call('ZCARD', pdue)
  local answer = { tonumber(running or 0), 0 }
  local from = '-inf'
  for b = 6, 5 + bounds do
    if rest == 0 then break end
    local jobs = redis.call('ZCOUNT', due, from, ARGV[b]) + redis.call('ZCOUNT', pdue, from, ARGV[b])
    table.insert(answer, jobs)
    rest, from = rest - jobs, '(' .. ARGV[b]
  end
  answer[2] = rest
  table.insert(answers, answer)
end
return { micros, answers }
