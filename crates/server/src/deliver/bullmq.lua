local base, _, place, score, rank, _, id, logs = unpack(parts, 1, 8)
local job, lines = base .. id, cmsgpack.unpack(logs)
if type(lines) ~= 'table' then error('the log of the job is not a list', 0) end
-- Without the right to take back what is written, nothing is.
if score ~= '' then redis.call('ZREM', base .. place, '') end
-- A job with this id was added since. BullMQ lets the one that is there count.
local kind = redis.call('TYPE', job).ok
if kind ~= 'none' and (kind ~= 'hash' or redis.call('HEXISTS', job, 'name') == 1) then return end
local is_paused = redis.call('HEXISTS', base .. 'meta', 'paused') == 1 or redis.call('EXISTS', base .. 'meta-paused') == 1
-- Resuming or pausing a queue renames the other list to this one, which would overwrite what stands in it.
local list = base .. (is_paused and 'paused' or 'wait')
-- The right end runs first.
local is_new = score == '' and redis.call('RPUSH', list, id) or redis.call('ZADD', base .. place, 'NX', score, id) == 1
for n = 9, #parts, 2 do
  local set = redis.pcall('HSETNX', job, parts[n], parts[n + 1])
  -- Without its fields it is no job: the claim stays.
  if type(set) == 'table' then
    if score == '' then redis.call('LREM', list, -1, id) elseif is_new then redis.call('ZREM', base .. place, id) end
    error(set.err)
  end
end
-- The rest does no harm if it is missing.
if redis.call('EXISTS', job .. ':logs') == 0 then
  for at = 1, #lines, 1000 do redis.pcall('RPUSH', job .. ':logs', unpack(lines, at, math.min(at + 999, #lines))) end
end
if score == '' and rank ~= '' then redis.pcall('ZADD', base .. 'priority', 'NX', rank, id) end
-- It wakes a worker of BullMQ 5 or later; older ones have no such key.
if not is_paused and redis.call('HEXISTS', base .. 'meta', 'version') == 1 then
  redis.pcall('ZADD', base .. 'marker', 0, '0')
end
