-- Settles claims whose rows were read once more: those of jobs stay claimed, and the others go back. One that is settled already stays as it is.
-- KEYS: the claim log, the set. ARGV: of each claim its id, its member, its score, and whether its row is a job.
-- Answers of each whether it is still claimed: another command may have settled it.
local held = {}
for place = 1, #ARGV, 4 do
  local id, packed = ARGV[place], redis.call('HGET', KEYS[1], ARGV[place])
  local is_held = packed and 1 or 0
  if packed and string.sub(packed, -3) == '1:?' then
    if ARGV[place + 3] == '1' then
      redis.call('HSET', KEYS[1], id, string.sub(packed, 1, -4))
    else
      redis.call('ZADD', KEYS[2], 'NX', ARGV[place + 2], ARGV[place + 1])
      redis.call('HDEL', KEYS[1], id)
      is_held = 0
    end
  end
  held[#held + 1] = is_held
end
return held
