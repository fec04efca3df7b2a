-- Returns expired leases and jobs past their deadline to start, without payloads, and drops lapsed tombstones. ARGV[5]: how
-- many at most. An expired lease is not returned again for half a second, so that the caller can settle it. The last value is
-- whether Redis has no room for new jobs.
local AGAIN_MS = 500
local probed = redis.pcall('ZADD', RUNNING, 'XX', 0, '')
local is_full = type(probed) == 'table' and string.find(probed.err, 'OOM', 1, true)
runs_when_full()
local limit = tonumber(ARGV[5])
-- Every process asks at least every second, also when nothing is recorded any more.
drop_lapsed(STEP)
local crashed = redis.call('ZRANGEBYSCORE', RUNNING, '-inf', now, 'LIMIT', 0, limit)
local unstarted = redis.call('ZRANGEBYSCORE', EXPIRING, '-inf', now, 'LIMIT', 0, limit)

-- The jobs with these ids from this index, and whether these are all. Missing jobs are removed from the index.
local function jobs(index, ids)
  local found = {}
  local n = read_jobs(ids, false, {}, function(id, body, meta)
    if body == '' then redis.call('ZREM', index, id) else add_job(found, id, body, meta) end
  end)
  return found, n == #ids and #ids < limit
end

local crashed_jobs, is_all_crashed = jobs(RUNNING, crashed)
local unstarted_jobs, is_all_unstarted = jobs(EXPIRING, unstarted)
if replied == 0 and #crashed + #unstarted > 0 then return too_large() end
local is_all, put_off = is_all_crashed and is_all_unstarted, {}
for i = 1, #crashed_jobs, 4 do
  table.insert(put_off, now + AGAIN_MS)
  table.insert(put_off, crashed_jobs[i])
end
if #put_off > 0 then many('ZADD', RUNNING, put_off) end
local next_at = low(RUNNING)
local start_by = redis.call('ZRANGEBYSCORE', EXPIRING, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
if start_by and (not next_at or tonumber(start_by) < next_at) then next_at = tonumber(start_by) end
local next_ms = is_all and (next_at and math.max(next_at - now, 0) or -1) or 0
return { micros, crashed_jobs, unstarted_jobs, next_ms, redis.call('ZCARD', OUTBOX), is_full and 1 or 0 }
