-- Drops finished jobs past their retention. ARGV[5]: when succeeded ones must have ended; [6]: failed ones; [7]: how many at
-- most. Returns how many it dropped, and whether there are more.
runs_when_full()
drop_lapsed(tonumber(ARGV[7]))
local limit, pruned, more = tonumber(ARGV[7]), 0, 0
for index, before in pairs({ [ENDED] = ARGV[5], [DEAD] = ARGV[6] }) do
  local ended_by = math.min(tonumber(before), now - SPARED_MS)
  local ids = redis.call('ZRANGEBYSCORE', index, '-inf', ended_by, 'LIMIT', 0, limit - pruned)
  local found, count = #ids, prune(index, ids)
  pruned = pruned + count
  if count < found then more = 1 end
end
return { micros, pruned, more }
