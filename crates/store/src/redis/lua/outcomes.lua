-- Returns outbox entries that were not forgotten. ARGV[5]: how many at most; [6]: their age in ms; [7]: the job, '' for the
-- oldest.
local ids
if ARGV[7] ~= '' then
  ids = redis.call('ZSCORE', OUTBOX, ARGV[7]) and { ARGV[7] } or {}
else
  ids = redis.call('ZRANGEBYSCORE', OUTBOX, '-inf', now - tonumber(ARGV[6]), 'LIMIT', 0, tonumber(ARGV[5]))
end
local bodies, metas, results, moved, found = fetch(BODY, ids), fetch(META, ids), fetch(RESULT, ids), fetch(MOVED, ids), {}
for i, id in ipairs(ids) do
  table.insert(found, id)
  table.insert(found, bodies[i] or '')
  table.insert(found, metas[i] or '')
  table.insert(found, results[i] and '=' .. results[i] or '')
  table.insert(found, moved[i] or '')
end
return { micros, found, redis.call('ZCARD', OUTBOX) }
