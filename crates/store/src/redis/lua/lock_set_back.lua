-- The clock was set back: grants that were made before, by a later clock, last at most their time to live from now. ARGV[3]: the
-- cursor, '0' at first. Returns the next one; '0' if these were the last grants.
local AT_ONCE = 50
runs_when_full()
local next, scores = unpack(redis.call('ZSCAN', ENDS, ARGV[3], 'COUNT', AT_ONCE))
for i = 1, #scores, 2 do
  local fence, ends, ttl = grant_of(scores[i])
  if fence and ends > now + ttl then grant(scores[i], fence, now + ttl, ttl) end
end
return { micros, next }
