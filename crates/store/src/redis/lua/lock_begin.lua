-- Fences begin, where nobody has had them begin since they were looked at, on this very server. ARGV[3]: what was seen, and the
-- server; [4]: whose they are; [5]: the floor of the generation, '' for the clock. The last fence stands before whose they are,
-- and the server on which they began.
runs_when_full()
local found = redis.call('GET', FENCE)
if found and found .. ' ' .. server() == ARGV[3] then
  local last = tonumber(string.match(found, '^%d+') or 0)
  last = math.max(last, ARGV[5] == '' and now or tonumber(ARGV[5]))
  redis.call('SET', FENCE, string.format('%.0f', last) .. ' ' .. ARGV[4] .. ' ' .. server())
end
return { micros }
