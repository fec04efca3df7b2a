-- Counts the jobs of queues. ARGV from [5]: their names.
local fields = {}
for n = 1, #ARGV - 4 do
  for _, what in ipairs({ 'r', 'l', 's', 'f', 'c', 'P', 'S', 'F', 'C' }) do
    table.insert(fields, ARGV[4 + n] .. ':' .. what)
  end
end
local counters = redis.call('HMGET', COUNTERS, unpack(fields))
local any_paused = redis.call('EXISTS', PAUSED) == 1

-- Since when the due job of a set that waits longest is ready: its due time, or when it was made if that is later. Only the
-- first ones are examined, and no large ones.
local function since(set)
  local rows, least = redis.call('ZRANGE', set, 0, OLDEST_HEADS - 1, 'WITHSCORES'), math.huge
  for i = 1, #rows, 2 do
    local id, due_at, made_at = string.sub(rows[i], 1, 8), tonumber(rows[i + 1]), 0
    if due_at > now or due_at >= least then break end
    local bytes = redis.call('HSTRLEN', BODY, id)
    if bytes > 0 and bytes <= FRESH_BYTES_MAX then made_at = struct.unpack('>I6', redis.call('HGET', BODY, id)) end
    least = math.min(least, math.max(due_at, made_at))
    if made_at <= due_at + OLDEST_LATE_MS then break end
  end
  return least
end

-- The size of a sorted set, how many of its jobs are due, and since when the one that waits longest is ready.
local function count(set)
  local all = redis.call('ZCARD', set)
  local due = all > 0 and redis.call('ZCOUNT', set, '-inf', now) or 0
  return all, due, due > 0 and since(set) or math.huge
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
  table.insert(answers, { all + pall - ready, ready + of[2], of[1], first < math.huge and string.format('%.0f', first) or '',
    any_paused and redis.call('SISMEMBER', PAUSED, queue) or 0, of[3], of[4], of[5], of[6], of[7], of[8], of[9] })
end
return { micros, answers }
