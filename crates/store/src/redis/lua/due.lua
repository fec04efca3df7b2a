-- Counts the jobs of queues by due time. ARGV[5]: the number of bounds; then the bounds, ascending; then the names of the
-- queues. Returns for each queue how many jobs run, how many are due beyond the bounds, and how many up to each bound,
-- without trailing zeros.
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
