-- Takes jobs out of KEYS[2], which is called ARGV[3], and whose keys begin with ARGV[2]: of up to ARGV[5] ids after the first ARGV[4].
local base, place, first = ARGV[2], ARGV[3], tonumber(ARGV[4])
local is_list = place == 'wait' or place == 'paused'
-- Redis finds what it removes from a list by going through it from one end, past about 60,000 ids in a millisecond. So a script goes past
-- SCAN_MAX ids at most, or past more for a single one. What stands behind DEPTH_MAX ids from both ends stays.
local SCAN_MAX, DEPTH_MAX = 100000, 250000
local length, scanned, behind = is_list and redis.call('LLEN', KEYS[2]) or 0, 0, first
local meta = redis.call('HMGET', base .. 'meta', 'version', 'opts.maxLenEvents')
local dialect = (meta[1] or meta[2]) and 'bullmq' or 'bull'
for _, id in ipairs(page(KEYS[2], is_list, first, tonumber(ARGV[5]))) do
  local job, scan, score = base .. id, 0, ''
  if is_list then scan = math.min(behind, length - behind) else score = redis.call('ZSCORE', KEYS[2], id) end
  if is_full() or scanned > 0 and scanned + scan > SCAN_MAX then break end
  local from = scan == behind and -1 or 1
  behind = behind + 1
  if scan <= DEPTH_MAX and not why_left(id, job) then
    local texts = texts_of(base, dialect, place, score, now_ms, id)
    -- Bull counts the jobs that its limiter has put off.
    local limited = redis.call('HGET', base .. 'limiter:index', id)
    claim(unpack(texts))
    if is_list then
      remove('LREM', KEYS[2], from, id)
      length, behind, scanned = length - 1, behind - 1, scanned + scan
    else
      remove('ZREM', KEYS[2], id)
    end
    redis.call('DEL', job, job .. ':logs')
    if texts[5] ~= '' then redis.call('ZREM', base .. 'priority', id) end
    if limited then
      redis.call('HDEL', base .. 'limiter:index', id)
      redis.call('SREM', limited, id)
    end
  end
end
