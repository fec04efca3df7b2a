-- Adds members to KEYS[1], unless there is a lock, KEYS[2]. ARGV: scores and members by turns. Answers for each 1 if it is new,
-- 2 if it was there with this score, 0 if with another one; nothing if there is the lock.
if KEYS[2] and redis.call('EXISTS', KEYS[2]) == 1 then return {} end
local added = {}
for at = 1, #ARGV, 2 do
  local score, member = ARGV[at], ARGV[at + 1]
  if redis.call('ZADD', KEYS[1], 'NX', score, member) == 1 then
    added[#added + 1] = 1
  else
    added[#added + 1] = tonumber(redis.call('ZSCORE', KEYS[1], member)) == tonumber(score) and 2 or 0
  end
end
return added
