-- Counts the jobs of queues. ARGV from [5]: their names.
local fields = {}
for n = 1, #ARGV - 4 do
  for _, what in ipairs({ 'r', 'l', 's', 'f', 'c', 'P', 'S', 'F', 'C' }) do
    table.insert(fields, ARGV[4 + n] .. ':' .. what)
  end
end
local counters = redis.call('HMGET', COUNTERS, unpack(fields))
local any_paused = redis.call('EXISTS', PAUSED) == 1

-- The size of a sorted set, how many of its jobs are due, and when the first is due.
local function count(set)
  local all = redis.call('ZCARD', set)
  local first = all > 0 and low(set) or math.huge
  return all, first <= now and redis.call('ZCOUNT', set, '-inf', now) or 0, first
end

local answers = {}
for n = 1, #ARGV - 4 do
  local queue = ARGV[4 + n]
  local due, pdue = queue_keys(n)
  local all, ready, first = count(due)
  local pall, pready, pfirst = count(pdue)
  ready, first = ready + pready, math.min(first, pfirst)
  local of = {}
  for i = 1, 9 do of[i] = tonumber(counters[(n - 1) * 9 + i] or 0) end
  table.insert(answers, { all + pall - ready, ready + of[2], of[1], first <= now and string.format('%.0f', first) or '',
    any_paused and redis.call('SISMEMBER', PAUSED, queue) or 0, of[3], of[4], of[5], of[6], of[7], of[8], of[9] })
end
return { micros, answers }
