-- Claims those of some members that are in a sorted set and due up to a bound, as member, score, unit and `?`, until settle.lua removes that.
-- KEYS[2]: the set. ARGV[2] to ARGV[5]: as of take.lua. Then the members.
local unit, per_second, ahead_ms = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[5])
local low, max = ARGV[4] * per_second, (now_ms + ahead_ms) * per_second / 1000
local members = {}
for place = 6, #ARGV do
  local score = redis.call('ZSCORE', KEYS[2], ARGV[place])
  local number = score and tonumber(score)
  if number and (number < tonumber(ARGV[4]) or number >= low and number <= max) then
    members[#members + 1] = ARGV[place]
    claim(ARGV[place], score, unit, '?')
  end
end
if #members > 0 then remove('ZREM', KEYS[2], unpack(members)) end
