-- Some of the ids in a list or a sorted set, after so many others: what runs first before the others.
local function page(key, is_list, first, count)
  if not is_list then return redis.call('ZRANGE', key, first, first + count - 1) end
  -- The right end runs first.
  local found, ids = redis.call('LRANGE', key, -first - count, -first - 1), {}
  for n = #found, 1, -1 do ids[#ids + 1] = found[n] end
  return ids
end
-- Why a job stays where it is; nil: it may be taken.
local function why_left(id, job)
  if redis.call('TYPE', job).ok ~= 'hash' then return 'without data' end
  local found = redis.call('HMGET', job, 'name', 'rjk', 'repeatJobKey', 'parentKey', 'parent', 'defa', 'deid')
  local function has(place) return found[place] and found[place] ~= '' end
  if not found[1] or redis.call('HEXISTS', job, 'data') == 0 or redis.call('HLEN', job) > 100 then return 'without data' end
  if has(2) or has(3) or string.sub(id, 1, 7) == 'repeat:' then return 'of a scheduler' end
  local children = redis.call('EXISTS', job .. ':dependencies', job .. ':processed', job .. ':failed', job .. ':unsuccessful')
  if has(4) or has(5) or has(6) or children > 0 then return 'with a parent or children' end
  if has(7) then return 'with a de-duplication id' end
  if redis.call('EXISTS', job .. ':lock') == 1 then return 'locked by a worker' end
end
-- The texts of a claim, which job.rs reads. Their fields follow.
local function texts_of(base, dialect, place, score, at_ms, id)
  local job = base .. id
  -- Where it stands among the jobs of Bull that have priorities.
  local rank = redis.call('ZSCORE', base .. 'priority', id) or ''
  local logs = cmsgpack.pack(redis.call('LRANGE', job .. ':logs', 0, -1))
  return {base, dialect, place, score, rank, string.format('%.0f', at_ms), id, logs, unpack(redis.call('HGETALL', job))}
end
