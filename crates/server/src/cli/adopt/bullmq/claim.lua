-- Takes jobs out of KEYS[2], which is called ARGV[3], whose keys begin with ARGV[2], and whose ids follow.
local base, place = ARGV[2], ARGV[3]
local is_list = place == 'wait' or place == 'paused'
local meta = redis.call('HMGET', base .. 'meta', 'version', 'opts.maxLenEvents')
local dialect = (meta[1] or meta[2]) and 'bullmq' or 'bull'
for n = 4, #ARGV do
  local id = ARGV[n]
  local job = base .. id
  local score = is_list and '' or redis.call('ZSCORE', KEYS[2], id)
  if score and not is_full() and not why_left(id, job) then
    local fields = redis.call('HGETALL', job)
    local logs = cmsgpack.pack(redis.call('LRANGE', job .. ':logs', 0, -1))
    -- Where it stands among the jobs of Bull that have priorities.
    local rank = redis.call('ZSCORE', base .. 'priority', id) or ''
    -- Bull counts the jobs that its limiter has put off.
    local limited = redis.call('HGET', base .. 'limiter:index', id)
    claim(base, dialect, place, score, rank, string.format('%.0f', now_ms), id, logs, unpack(fields))
    local is_taken
    if is_list then
      is_taken = remove('LREM', KEYS[2], -1, id)
    else
      is_taken = remove('ZREM', KEYS[2], id)
    end
    if is_taken then
      redis.call('DEL', job, job .. ':logs')
      if rank ~= '' then redis.call('ZREM', base .. 'priority', id) end
      if limited then
        redis.call('HDEL', base .. 'limiter:index', id)
        redis.call('SREM', limited, id)
      end
    end
  end
end
