-- The ledger has recorded jobs in these versions. ARGV[5]: the watermark; [6]: the number of queues; then for each job its
-- id, version, and the number of its queue (0 if not requested). Returns how many of the jobs it got to, since metas and bodies
-- may be large, and the ids of those that are here in an older version; they are dropped if the number of their queue is given.
runs_when_full()
-- Without a watermark, no job is too far ahead.
local own_watermark = redis.call('HGET', COUNTERS, WATERMARK)
local watermark = own_watermark and math.max(tonumber(ARGV[5]), tonumber(own_watermark)) or math.huge

drop_lapsed(#ARGV - 6 + 10)

local function add_tombstone(id, version, epoch, stage)
  local _, old_epoch, old_stage, ends = tombstone_of(id)
  if old_epoch and stage == 0 then epoch, stage = old_epoch, old_stage end
  set_tombstone(id, version, epoch, stage, math.max(now + TOMBSTONE_MS, ends or 0))
end

-- From now on no lower version of an unknown job is put.
local function raise(id, version)
  local old = tombstone_of(id)
  if not old or old < version then add_tombstone(id, version, 0, 0) end
end

local function let_go(n, id, h, version)
  local body = redis.call('HGET', BODY, id)
  if h.lease_until > 0 then
    redis.call('ZREM', RUNNING, id)
    count(h.queue, 'r', -1)
  elseif not leave(n, id, h.due, priority_of(body)) then
    count(h.queue, 'l', -1)
  end
  redis.call('ZREM', EXPIRING, id)
  if has(h.flags, HOLDS_KEY) then free_key(id, h.queue, h.key) end
  if has(h.flags, TAGGED) then untag(id, body) end
  erase({ id }, {})
  add_tombstone(id, version, 0, 0)
end

-- Most jobs have just ended and need nothing else; they are removed together in a few calls.
local gone, ids = {}, {}
for i = 7, #ARGV, 3 do ids[#ids + 1] = ARGV[i] end
local count = #ids
if not OWN then
  local metas
  metas, count = fetch_some(META, ids)
  local tombstones = fetch(TOMBSTONES, ids)
  local ends, list, rows, times = now + TOMBSTONE_MS, {}, {}, {}
  for k = 1, count do
    local id, meta = ids[k], metas[k]
    if meta and not tombstones[k] then
      local flags, stage = struct.unpack('>I2B', meta, HEAD_FLAGS)
      if stage ~= PENDING and not has(flags, bit.bor(TAGGED, HAS_RESULT, REMOVED)) then
        local version, epoch = struct.unpack('>I6I6', meta)
        if version <= tonumber(ARGV[5 + 3 * k]) then
          gone[id] = true
          list[#list + 1] = id
          rows[#rows + 1], rows[#rows + 2] = id, struct.pack(TOMBSTONE, version, epoch, stage, ends)
          times[#times + 1], times[#times + 2] = ends, id
        end
      end
    end
  end
  if #list > 0 then
    many('ZREM', OUTBOX, list)
    many('HDEL', SUCCESSORS, list)
    erase(list, {})
    many('HSET', TOMBSTONES, rows)
    many('ZADD', TOMBSTONE_TIMES, times)
  end
end

local outdated, read = {}, 0
for k = 1, count do
  local id, version, n = ids[k], tonumber(ARGV[5 + 3 * k]), tonumber(ARGV[6 + 3 * k])
  if OWN then
    redis.call('HDEL', SUCCESSORS, id)
    redis.call('ZREM', OUTBOX, id)
  elseif not gone[id] then
    read = read + redis.call('HSTRLEN', BODY, id)
    if k > 1 and read > READ_BYTES_MAX then
      count = k - 1
      break
    end
    -- Most bodies are not needed.
    local meta = redis.call('HGET', META, id)
    local body = not meta and redis.call('HGET', BODY, id)
    local h = (body or meta) and head(body, meta)
    if h and h.version <= version then
      local was_noted = redis.call('ZREM', OUTBOX, id) == 1
      if was_noted then redis.call('HDEL', SUCCESSORS, id) end
      if h.stage ~= PENDING or has(h.flags, REMOVED) then
        erase({ id }, { meta })
        add_tombstone(id, h.version, h.epoch, h.stage)
      elseif h.version < version then
        if n > 0 then let_go(n, id, h, version) end
        outdated[#outdated + 1] = id
      elseif h.version == version and h.lease_until == 0 and h.due >= watermark and n > 0 then
        let_go(n, id, h, version)
      elseif has(h.flags, REWRITTEN) then
        h.flags = without(h.flags, REWRITTEN)
        redis.call('HSET', META, id, packed(h))
      end
    elseif not h then
      raise(id, version)
    end
  end
end
return { micros, redis.call('ZCARD', OUTBOX), count, outdated }
