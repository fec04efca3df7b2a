local base, _, place, score, rank, _, id, logs = unpack(parts, 1, 8)
local job = base .. id
-- A job with this id was added since. BullMQ lets the one that is there count.
local kind = redis.call('TYPE', job).ok
if kind ~= 'none' and (kind ~= 'hash' or redis.call('HEXISTS', job, 'name') == 1) then return end
for n = 9, #parts, 2 do redis.call('HSETNX', job, parts[n], parts[n + 1]) end
if redis.call('EXISTS', job .. ':logs') == 0 then
  for _, line in ipairs(cmsgpack.unpack(logs)) do redis.call('RPUSH', job .. ':logs', line) end
end
local is_paused = redis.call('HEXISTS', base .. 'meta', 'paused') == 1 or redis.call('EXISTS', base .. 'meta-paused') == 1
if score ~= '' then
  redis.call('ZADD', base .. place, 'NX', score, id)
else
  -- Resuming or pausing a queue renames the other list to this one, which would overwrite what stands in it.
  -- The right end runs first.
  redis.call('RPUSH', base .. (is_paused and 'paused' or 'wait'), id)
  if rank ~= '' then redis.call('ZADD', base .. 'priority', 'NX', rank, id) end
end
-- It wakes a worker of BullMQ 5 or later; older ones have no such key.
if not is_paused and redis.call('HEXISTS', base .. 'meta', 'version') == 1 then
  redis.call('ZADD', base .. 'marker', 0, '0')
end
