-- Puts jobs. ARGV[5]: when they were read; [6]: how many bytes are free for jobs due now, soon, and later, and how many all
-- queues may hold in any case ('' no limit); [7]: the number of queues, then their names, then the bytes of an average job
-- of each; then for each job nine values.
needs_room()
local read_at, queues = tonumber(ARGV[5]), tonumber(ARGV[7])
local at = 8 + 2 * queues
local answers = {}
-- A client's estimate of our clock may be ahead by up to a round trip.
local is_stale = not OWN and (now - read_at > READ_AGE_MS_MAX or read_at - now > 1000)
local before, first = {}, {}
for n = 1, queues do before[n] = head_due(n) end

local ids = {}
for i = at, #ARGV, 9 do ids[#ids + 1] = ARGV[i + 1] end
local bodies, metas = {}, {}
do
  local known = {}
  for i, body in ipairs(fetch(BODY, ids)) do
    if body then
      bodies[ids[i]] = body
      known[#known + 1] = ids[i]
    end
  end
  for i, meta in ipairs(fetch(META, known)) do metas[known[i]] = meta end
end

local new_bodies, due_adds, held = {}, {}, {}
local body_count, due_counts, new_counts = 0, {}, {}
for n = 1, queues do due_adds[n], due_counts[n], new_counts[n] = {}, 0, 0 end

-- Whether a queue with jobs has no room for another one due at this time.
local is_full = function() return false end
if ARGV[6] ~= '' then
  local now_free, soon_free, later_free, least = string.match(ARGV[6], '^(%d+),(%d+),(%d+),(%d+)$')
  now_free, soon_free, later_free = tonumber(now_free), tonumber(soon_free), tonumber(later_free)
  least = tonumber(least) / math.max(1, redis.call('ZCARD', QUEUES))
  local waiting = {}
  for n = 1, queues do
    local due, pdue = queue_keys(n)
    waiting[n] = redis.call('ZCARD', due) + redis.call('ZCARD', pdue)
  end
  is_full = function(n, due_at)
    local held, ahead = waiting[n] + new_counts[n], due_at - now
    local free = ahead <= 0 and now_free or ahead <= SOON_MS and soon_free or later_free
    return held > 0 and held * tonumber(ARGV[7 + queues + n]) >= math.max(free, least)
  end
end

local PLAIN = { flags = 0 }

local function put(i)
  local n, id, version, due_at, priority = tonumber(ARGV[i]), ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]),
    tonumber(ARGV[i + 4])
  local lease_until, start_by, body, meta = tonumber(ARGV[i + 5]), tonumber(ARGV[i + 6]), ARGV[i + 7], ARGV[i + 8]
  if is_stale then return 2 end
  local old_body = bodies[id]
  local old = old_body and head(old_body, metas[id])
  if old then
    if OWN then return 0 end
    if old.stage == PENDING and not has(old.flags, REMOVED) then
      -- One that runs is left alone, or two workers would run it. Its end has a later version than any row.
      if old.version >= version or old.lease_until > 0 then return 0 end
    elseif old.version > version then
      return 1
    end
  elseif has_tombstone(id, version) then
    return 1
  end
  if not old and lease_until == 0 and is_full(n, due_at) then return 4 end
  local is_plain = meta == '' and not old and without(struct.unpack('>I2', body, BODY_FLAGS), HAS_ORIGIN + HAS_SENT) == 0
  local fresh = is_plain and PLAIN or head(body, meta ~= '' and meta)
  if has(fresh.flags, TAGGED) then
    local first = known_origin(body)
    if first and first ~= id then return '=' .. first end
  end
  if has(fresh.flags, HOLDS_KEY) then
    local field = fresh.queue .. '\0' .. fresh.key
    local holder = redis.call('HGET', HOLDERS, field)
    if holder and holder ~= id then return holder end
    redis.call('HSET', HOLDERS, field, id)
  end
  if old then
    -- A newer reading of a waiting job, or of a finished job that was retried.
    if old.stage == PENDING and not has(old.flags, REMOVED) then
      if not leave(n, id, old.due, priority_of(old_body)) then count(old.queue, 'l', -1) end
    end
    if has(old.flags, HOLDS_KEY) and not has(fresh.flags, HOLDS_KEY) then free_key(id, old.queue, old.key) end
    if has(old.flags, TAGGED) then untag(id, old_body) end
    redis.call('ZREM', EXPIRING, id)
    redis.call('HDEL', META, id)
    redis.call('HDEL', RESULT, id)
  end
  if has(fresh.flags, TAGGED) then tag(id, body) end
  if start_by > 0 then redis.call('ZADD', EXPIRING, start_by, id) end
  new_bodies[body_count + 1], new_bodies[body_count + 2] = id, body
  body_count = body_count + 2
  if meta ~= '' then redis.call('HSET', META, id, meta) end
  bodies[id], metas[id] = body, meta ~= '' and meta or false
  if lease_until > 0 then
    redis.call('ZADD', RUNNING, lease_until, id)
    count(fresh.queue, 'r', 1)
  else
    if priority == DEFAULT_PRIORITY and not held[id] then
      local adds, n_adds = due_adds[n], due_counts[n]
      adds[n_adds + 1], adds[n_adds + 2] = ARGV[i + 3], id
      due_counts[n] = n_adds + 2
    else
      enter(n, id, due_at, priority)
    end
    if not first[n] or due_at < first[n] then first[n] = due_at end
  end
  return 3
end

for i = at, #ARGV, 9 do
  local id = ARGV[i + 1]
  if held[id] then
    -- A job may occur twice in a batch: the first must be stored before the second.
    if body_count > 0 then many('HSET', BODY, new_bodies) end
    new_bodies, body_count = {}, 0
    for n = 1, queues do
      if #due_adds[n] > 0 then many('ZADD', queue_keys(n), due_adds[n]) end
      due_adds[n], due_counts[n] = {}, 0
    end
  end
  local answer = put(i)
  if answer == 3 then
    held[id] = true
    local n = tonumber(ARGV[i])
    new_counts[n] = new_counts[n] + 1
  end
  answers[#answers + 1] = answer
end
if #new_bodies > 0 then many('HSET', BODY, new_bodies) end
for n = 1, queues do
  if #due_adds[n] > 0 then many('ZADD', queue_keys(n), due_adds[n]) end
  if first[n] then
    local queue = ARGV[7 + n]
    redis.call('ZADD', QUEUES, 0, queue)
    if OWN then count(queue, 'P', new_counts[n]) end
    wake_if_sooner(queue, before[n], first[n])
  end
end
return { micros, answers }
