-- Allots a block of sequences. Constants shared with Rust come first (scripts.rs). KEYS[1]: the end of the last block, and the
-- replication id of its server. ARGV[1]: the size; [2]: the clock, '' for that of Redis; [3]: an instant that the block must
-- begin after.
local now = tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local function at(instant)
  return math.max(1, math.ceil((instant - FIRST_MS) * SEQUENCES_PER_MS))
end
-- If Redis was emptied, or fell back to an earlier state (then its replication id is another), blocks that were allotted just
-- before may reach beyond now.
local server = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or '-'
local last, of = string.match(redis.call('GET', KEYS[1]) or '', '^(%d+) (%S+)$')
local start = math.max(tonumber(last) or 1, of == server and at(now) or at(now + AHEAD_MS), at(tonumber(ARGV[3])))
redis.call('SET', KEYS[1], string.format('%.0f', start + tonumber(ARGV[1])) .. ' ' .. server)
return string.format('%.0f', start)
