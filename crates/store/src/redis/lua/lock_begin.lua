-- Begins the fences, if FENCE and the server are still those that lock_acquire returned (ARGV[3]). [4]: the side; [5]: the floor
-- of the generation, '' for the clock. FENCE holds the last fence, the side, and the server on which the fences began.
runs_when_full()
local found = redis.call('GET', FENCE)
if found and found .. ' ' .. server() == ARGV[3] then
  local last = tonumber(string.match(found, '^%d+') or 0)
  last = math.max(last, ARGV[5] == '' and now or tonumber(ARGV[5]))
  redis.call('SET', FENCE, string.format('%.0f', last) .. ' ' .. ARGV[4] .. ' ' .. server())
end
return { micros }
