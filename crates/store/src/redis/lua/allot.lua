-- Allots a block of sequences. Constants shared with Rust come first (scripts.rs). KEYS[1]: the end of the last block;
-- ARGV[1]: the size; [2]: the clock, '' for that of Redis; [3]: an instant that the block must begin after.
local now = tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local function at(instant)
  return math.max(1, math.ceil((instant - FIRST_MS) * SEQUENCES_PER_MS))
end
-- If Redis was emptied, blocks allotted just before may reach beyond now.
local last = redis.call('GET', KEYS[1])
local start = last and math.max(tonumber(last), at(now)) or at(now + AHEAD_MS)
start = math.max(start, at(tonumber(ARGV[3])))
redis.call('SET', KEYS[1], string.format('%.0f', start + tonumber(ARGV[1])))
return string.format('%.0f', start)
