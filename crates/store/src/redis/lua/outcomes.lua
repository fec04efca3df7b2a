-- Returns outbox entries that were not forgotten; if they are large, only the first ones. ARGV[5]: how many at most; [6]:
-- their age in ms; [7]: how many of the oldest are left out; from [8] on the jobs, none for the oldest. Then the number of all
-- entries, and how many jobs were looked at.
local ids, found = {}, {}
if ARGV[8] then
  for i = 8, #ARGV do ids[#ids + 1] = ARGV[i] end
else
  ids = redis.call('ZRANGEBYSCORE', OUTBOX, '-inf', now - tonumber(ARGV[6]), 'LIMIT', tonumber(ARGV[7]), tonumber(ARGV[5]))
end
local n = read_jobs(ids, 'rewritten', { RESULT, SUCCESSORS }, function(id, body, meta, result, successors)
  if ARGV[8] and not redis.call('ZSCORE', OUTBOX, id) then return end
  add_job(found, id, body, meta, result)
  found[#found + 1] = successors or ''
end)
if n == 0 and #ids > 0 then return too_large() end
return { micros, found, redis.call('ZCARD', OUTBOX), n }
