-- Returns a page of ids of a sorted set, in order, with scores. ARGV[5]: which (due, running, ended, dead, tags; latest_ended
-- and latest_dead in reverse order); [6]: the lowest score, or tag; [7]: the highest; [8]: the id to start after, which has
-- the score of [6], '' for none; [9]: how many. A marker is inserted temporarily.
runs_when_full()
local which, least, greatest, after_id, limit = ARGV[5], ARGV[6], ARGV[7], ARGV[8], tonumber(ARGV[9])

-- A page of one sorted set. Members of equal score are ordered by their bytes, which begin with the id. The start of the
-- page among them is the rank of a marker that is inserted temporarily.
local function page(key, filler)
  if after_id == '' then
    return redis.call('ZRANGEBYSCORE', key, least, greatest, 'WITHSCORES', 'LIMIT', 0, limit)
  end
  local mark = after_id .. filler
  local was = redis.call('ZSCORE', key, mark)
  redis.call('ZADD', key, least, mark)
  local rank = redis.call('ZRANK', key, mark)
  local rows = redis.call('ZRANGE', key, rank + 1, rank + limit, 'WITHSCORES')
  if was then redis.call('ZADD', key, was, mark) else redis.call('ZREM', key, mark) end
  local found = {}
  for i = 1, #rows, 2 do
    if tonumber(rows[i + 1]) > tonumber(greatest) then break end
    table.insert(found, rows[i])
    table.insert(found, rows[i + 1])
  end
  return found
end

-- The same in reverse order.
local function page_back(key)
  if after_id == '' then return redis.call('ZRANGE', key, 0, limit - 1, 'REV', 'WITHSCORES') end
  local was = redis.call('ZSCORE', key, after_id)
  redis.call('ZADD', key, least, after_id)
  -- Its place from the end, and one further.
  local start = redis.call('ZCARD', key) - redis.call('ZRANK', key, after_id)
  local rows = redis.call('ZRANGE', key, start, start + limit - 1, 'REV', 'WITHSCORES')
  if was then redis.call('ZADD', key, was, after_id) else redis.call('ZREM', key, after_id) end
  return rows
end

if which == 'due' then
  local due, pdue = queue_keys(1)
  local rows, ranked = page(due, ''), {}
  if redis.call('EXISTS', pdue) == 1 then ranked = page(pdue, '\255\255\255\255\255') end
  for i = 1, #ranked, 2 do
    table.insert(rows, string.sub(ranked[i], 1, 8))
    table.insert(rows, ranked[i + 1])
  end
  return { micros, rows }
end
if which == 'latest_ended' then return { micros, page_back(ENDED) } end
if which == 'latest_dead' then return { micros, page_back(DEAD) } end
if which == 'tags' then
  local start = after_id == '' and '[' .. least or '(' .. least .. after_id
  local rows = {}
  for _, member in ipairs(redis.call('ZRANGEBYLEX', TAGS, start, '[' .. least .. string.rep('\255', 9), 'LIMIT', 0, limit)) do
    table.insert(rows, string.sub(member, #least + 1))
    table.insert(rows, '0')
  end
  return { micros, rows }
end
return { micros, page(({ running = RUNNING, ended = ENDED, dead = DEAD })[which], '') }
