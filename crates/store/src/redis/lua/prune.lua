-- Drops finished jobs past their retention. ARGV[5]: when succeeded ones must have ended; [6]: failed ones; [7]: how many at
-- most.
runs_when_full()
drop_lapsed(tonumber(ARGV[7]))
local limit, pruned = tonumber(ARGV[7]), 0
for index, before in pairs({ [ENDED] = ARGV[5], [DEAD] = ARGV[6] }) do
  local ended_by = math.min(tonumber(before), now - SPARED_MS)
  local ids = redis.call('ZRANGEBYSCORE', index, '-inf', ended_by, 'LIMIT', 0, limit - pruned)
  prune(index, ids)
  pruned = pruned + #ids
end
return { micros, pruned }
