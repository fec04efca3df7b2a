-- Some of the ids in a list or a sorted set, after so many others: what runs first before the others.
local function page(key, is_list, first, count)
  if not is_list then return redis.call('ZRANGE', key, first, first + count - 1) end
  -- The right end runs first.
  local found, ids = redis.call('LRANGE', key, -first - count, -first - 1), {}
  for n = #found, 1, -1 do ids[#ids + 1] = found[n] end
  return ids
end
-- How long Redis goes through a list to remove such a page, in nanoseconds, and whether it begins at the right end. It passes an id in up to
-- 16 ns, and 8 of its bytes in one more. A few ids on the way show how long the others are.
local PASS_NS_MAX = 4000000
local function pass_ns(key, first, count)
  local length = redis.call('LLEN', key)
  -- Workers may have run jobs since.
  local from_right, from_left = math.min(first + count, length), math.max(0, length - first)
  local is_right = from_right <= from_left
  local ids, seen, bytes = is_right and from_right or from_left, 0, 0
  for part = 0, 3 do
    local at = math.floor(ids * part / 4)
    for _, id in ipairs(redis.call('LRANGE', key, is_right and -at - 8 or at, is_right and -at - 1 or at + 7)) do
      seen, bytes = seen + 1, bytes + #id
    end
  end
  return seen > 0 and ids * (16 + bytes / seen / 8) or 0, is_right
end
-- More of a job's log would block Redis. Its bytes are an estimate, and not every user may ask for them.
local LOG_LINES_MAX, LOG_BYTES_MAX = 10000, 1048576
local function is_large(logs)
  local lines = redis.call('LLEN', logs)
  if lines == 0 or lines > LOG_LINES_MAX then return lines > 0 end
  local bytes = redis.pcall('MEMORY', 'USAGE', logs)
  return type(bytes) == 'number' and bytes > LOG_BYTES_MAX
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
  if is_large(job .. ':logs') then return 'with a long log' end
end
-- With --hand-back: a job that is due stays, so that one that went back is not taken again.
local function is_due(key, id, at_ms) return only_later and tonumber(redis.call('ZSCORE', key, id)) < (at_ms + 1) * 4096 end
-- The texts of a claim, which job.rs reads. Their fields follow.
local function texts_of(base, dialect, place, score, at_ms, id, logs)
  -- Where it stands among the jobs of Bull that have priorities.
  local rank = redis.call('ZSCORE', base .. 'priority', id) or ''
  local fields = redis.call('HGETALL', base .. id)
  return {base, dialect, place, score, rank, string.format('%.0f', at_ms), id, cmsgpack.pack(logs), unpack(fields)}
end
