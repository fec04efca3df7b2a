-- The clock was set back: leases that were given before, by a later clock, last at most their given length from now. ARGV[5]:
-- the cursor, '0' at first. Returns the next one; '0' if these were the last leases.
runs_when_full()
local next, scores = unpack(redis.call('ZSCAN', RUNNING, ARGV[5], 'COUNT', SLICE))
local ids = {}
for i = 1, #scores, 2 do
  if tonumber(scores[i + 1]) > now then table.insert(ids, scores[i]) end
end
for i, meta in ipairs(fetch(META, ids)) do
  local h = meta and head(nil, meta)
  if h and h.lease_until > h.updated and h.updated > now then
    h.lease_until, h.updated = now + h.lease_until - h.updated, now
    redis.call('HSET', META, ids[i], packed(h))
    redis.call('ZADD', RUNNING, h.lease_until, ids[i])
  end
end
return { micros, next }
