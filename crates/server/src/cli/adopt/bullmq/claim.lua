-- Takes jobs out of KEYS[2], which is called ARGV[3], and whose keys begin with ARGV[2]: of up to ARGV[5] ids after the first ARGV[4].
local base, place, first, count = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local is_list = place == 'wait' or place == 'paused'
-- Jobs that one script takes: fewer where Redis goes through a long part of a list.
local ns, is_right, most = 0, false, 200
if is_list then ns, is_right = pass_ns(KEYS[2], first, count) end
if ns > 1000000 then most = 50 end
-- What stands too deep stays.
local ids = ns <= PASS_NS_MAX and page(KEYS[2], is_list, first, count) or {}
-- A line of a log takes as long as so many bytes.
local LINE_BYTES = 32
local meta = redis.call('HMGET', base .. 'meta', 'version', 'opts.maxLenEvents')
local dialect = (meta[1] or meta[2]) and 'bullmq' or 'bull'
-- Without the right to remove a job's keys, nothing is claimed. No key has this name.
redis.call('DEL', base)
local taken, is_taken, limited = {}, {}, {}
for n, id in ipairs(ids) do
  if is_full() or #taken == most then break end
  -- An id that stands there twice is one job.
  if not is_taken[id] and not why_left(id, base .. id) and not is_due(KEYS[2], id, now_ms) then
    local score, logs = '', redis.call('LRANGE', base .. id .. ':logs', 0, -1)
    if not is_list then score = redis.call('ZSCORE', KEYS[2], id) end
    -- Bull counts the jobs that its limiter has put off.
    limited[id] = redis.call('HGET', base .. 'limiter:index', id) or nil
    local texts = texts_of(base, dialect, place, score, now_ms, id, logs)
    claim(unpack(texts))
    bytes = bytes + LINE_BYTES * #logs
    taken[#taken + 1], is_taken[id] = {id, -first - n, texts[5]}, true
  end
end
local function set_all(to_id)
  for _, one in ipairs(taken) do redis.call('LSET', KEYS[2], one[2], to_id and one[1] or '') end
end
if #taken > 0 and is_list then
  -- One pass removes all of them: no job has an empty id.
  set_all(false)
  local is_done, why = pcall(remove, 'LREM', KEYS[2], is_right and -#taken or #taken, '')
  if not is_done then
    set_all(true)
    error(why, 0)
  end
elseif #taken > 0 then
  local members = {}
  for n, one in ipairs(taken) do members[n] = one[1] end
  remove('ZREM', KEYS[2], unpack(members))
end
for _, one in ipairs(taken) do
  local id = one[1]
  redis.call('DEL', base .. id, base .. id .. ':logs')
  -- What is left of these does no harm.
  if one[3] ~= '' then redis.pcall('ZREM', base .. 'priority', id) end
  if limited[id] then
    redis.pcall('HDEL', base .. 'limiter:index', id)
    redis.pcall('SREM', limited[id], id)
  end
end
