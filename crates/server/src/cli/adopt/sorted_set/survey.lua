-- Counts the members of a sorted set by what their scores can be, and shows some of each kind. Changes nothing.
-- KEYS[1]: the set. ARGV[1]: below which number of seconds a score is no instant. ARGV[2]: how far ahead is taken, in milliseconds.
-- ARGV[3]: how many are shown. Then of each unit how many of it are a second.
-- Answers the clock, the type of the key, counts, and members with their scores. The counts: no instant; then of each unit what is due,
-- what is due later, and what is too far ahead.
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'zset' then return {now_ms, kind, {}, {}} end
local ranges = {{'-inf', '(' .. ARGV[1]}}
for place = 4, #ARGV do
  local per_second, next_unit = tonumber(ARGV[place]), ARGV[place + 1]
  local now, ahead = now_ms * per_second / 1000, (now_ms + ARGV[2]) * per_second / 1000
  local function above(score) return string.format('(%.17g', score) end
  ranges[#ranges + 1] = {ARGV[1] * per_second, now}
  ranges[#ranges + 1] = {above(now), ahead}
  ranges[#ranges + 1] = {above(ahead), next_unit and above(ARGV[1] * next_unit) or '+inf'}
end
local counts, kinds, shown = {}, 0, {}
for place, range in ipairs(ranges) do
  counts[place] = redis.call('ZCOUNT', KEYS[1], range[1], range[2])
  if counts[place] > 0 then kinds = kinds + 1 end
end
for place, range in ipairs(ranges) do
  if counts[place] > 0 then
    local limit = math.ceil(ARGV[3] / kinds)
    local found = redis.call('ZRANGEBYSCORE', KEYS[1], range[1], range[2], 'WITHSCORES', 'LIMIT', 0, limit)
    for _, text in ipairs(found) do shown[#shown + 1] = text end
  end
end
return {now_ms, kind, counts, shown}
