-- The shared part of all job scripts, after the constants shared with Rust (scripts.rs). KEYS: the keys of the partition,
-- always in this order; from KEYS[19] on four for each queue. ARGV: the incarnation; the clock ('' for that of Redis);
-- whether the broker is its own ledger ('1' or '0'), and the bound of the reply; the channel for wakes.
local INCARNATION, BODY, META, RESULT, HOLDERS, TAGS, RUNNING, EXPIRING, ENDED, DEAD, OUTBOX, SUCCESSORS, TOMBSTONES, TOMBSTONE_TIMES, COUNTERS,
  QUEUES, PAUSED, REQUEST = unpack(KEYS, 1, 18)
local OWN, CHANNEL = string.byte(ARGV[3]) == 49, ARGV[4]

if redis.call('GET', INCARNATION) ~= ARGV[1] then return redis.error_reply('INCARNATION the partition was emptied or replaced') end
-- The server on which this memory began, and its generation, 0 while it has not begun.
local SERVER, GENERATION = string.match(ARGV[1], '(%S+) (%d+)$')
GENERATION = tonumber(GENERATION)

local micros = 0
if ARGV[2] == '' then
  local time = redis.call('TIME')
  micros = time[1] * 1000000 + time[2]
else
  micros = tonumber(ARGV[2]) * 1000
end
local now = math.floor(micros / 1000)

-- At its maxmemory Redis judges a script by its first write. If that only removes, all later writes are allowed.
local function runs_when_full() redis.call('ZREM', RUNNING, '') end
-- This write changes nothing. Without room it is refused, and the script fails here; otherwise all later writes are allowed.
local function needs_room() redis.call('ZADD', RUNNING, 'XX', 0, '') end

-- The beginning of a meta: version, epoch, lease_until, started_at, updated_at, finished_at, due_at, attempt, lease_ms,
-- flags, stage; then queue and key. The rest is opaque here, except for its end: if the flags say so, the progress and its
-- length.
local HEAD, HEAD_FLAGS, HEAD_NEXT = '>I6I6I6I6I6I6I6I4I4I2B', 51, 54
-- The beginning of a body: creation time, first due_at, flags, queue; then, if the flags say so, the first version (else 1),
-- the job's own lease_ms, its priority, its key, its origin, what was sent with it (24 bytes), its tags.
local BODY_HEAD, BODY_FLAGS = '>I6I6I2Bc0', 13
local CANCEL_ASKED, HOLDS_KEY, HAS_PROGRESS, REWRITTEN, REMOVED, TAGGED, HAS_RESULT, EXPIRES, TAKEN, UNTIL_STARTED, FOLLOWED =
  1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024
-- Flags of bodies only, and the flags of a body that its meta has, too.
local HAS_ORIGIN, HAS_SENT, HAS_LEASE, HAS_PRIORITY, HAS_KEY, HAS_VERSION, FIRST_DUE_DIFFERS, HAS_OPTIONS =
  1, 4, 8, 2048, 4096, 8192, 16384, 32768
local META_FLAGS = HOLDS_KEY + TAGGED + EXPIRES + UNTIL_STARTED + FOLLOWED
-- One of the counters; all other fields have a queue's name before the colon.
local WATERMARK = ':watermark'
-- An instant as packed bytes, and as a score: Lua's own number formatting is slow.
local function six(number) return struct.pack('>I6', number) end
local function text(number) return string.format('%.0f', number) end
local NOW6, ZERO6, NOW_TEXT = six(now), six(0), text(now)
-- Finished jobs without an end time are kept until they are deleted: this score is later than any instant.
local KEPT = 281474976710656

local has = function(flags, flag) return bit.band(flags, flag) ~= 0 end
local without = function(flags, flag) return bit.band(flags, bit.bnot(flag)) end
-- The next version. The epoch of a lease is the version at its start. Beside a ledger, versions begin at the floor of the
-- generation and are even: a ledger assigns odd ones. Without a ledger, the clock is the floor.
local FLOOR = OWN and now or GENERATION * GENERATION_SIZE
local after = function(last) return math.max(OWN and last + 1 or last + 2 - last % 2, FLOOR) end

-- The number of a request within its process; nil for a request named by the caller. Requests of a process share slots.
local function number_of(name) return tonumber(string.match(name, '^%x+%.(%d+)$')) end

-- What is remembered of this request if it repeats an earlier one; else nothing, and whether it is a late attempt: its caller
-- already has its answer, and the slot has served a newer request.
local function remembered(request)
  local got = redis.call('GET', REQUEST)
  got = got and cmsgpack.unpack(got)
  if not got then return nil, false end
  if got[1] == request and got[2] > now then return got, false end
  return nil, (number_of(got[1]) or 0) > (number_of(request) or math.huge)
end

-- Remembers a request: its name, until when, and what a repeat needs.
local function remember(got) redis.call('SET', REQUEST, cmsgpack.pack(got), 'PX', REQUEST_MS) end

-- Splits variadic calls: Lua unpacks at most a few thousand values at once.
local function many(command, key, values)
  for i = 1, #values, 4000 do
    redis.call(command, key, unpack(values, i, math.min(i + 3999, #values)))
  end
end

local function fetch(key, ids)
  if #ids == 0 then return {} end
  return redis.call('HMGET', key, unpack(ids))
end

-- Values read at a time: before the next ones, the script checks how much it has read.
local SLICE = 50

local function slice_of(ids, first)
  local slice = {}
  for i = first, math.min(first + SLICE - 1, #ids) do slice[#slice + 1] = ids[i] end
  return slice
end

-- The same for the first of these ids, until READ_BYTES_MAX bytes were read. Returns also how many ids that were; the caller
-- asks again for the others.
local function fetch_some(key, ids)
  if #ids <= SLICE then return fetch(key, ids), #ids end
  local values, n, bytes = {}, 0, 0
  while n < #ids and bytes < READ_BYTES_MAX do
    for i, value in ipairs(fetch(key, slice_of(ids, n + 1))) do
      values[n + i] = value
      bytes = bytes + (value and #value or 0)
    end
    n = math.min(n + SLICE, #ids)
  end
  return values, n
end

-- A reply ends at its bound, and the caller asks for the rest. A single job that is larger is sent only if the caller expects
-- that ('y'), because it delays the replies to others.
local reply_room, any_job, replied, read_room = tonumber(string.sub(ARGV[3], 3)), string.byte(ARGV[3], 2) == 121, 0,
  READ_BYTES_MAX
local function too_large() return redis.error_reply('LARGE the next job is larger than the bound of this reply') end

-- Makes room in the reply for a job of this size; returns whether there is.
local function has_room(bytes)
  if bytes > reply_room and (replied > 0 or not any_job) then return false end
  reply_room, replied = reply_room - bytes, replied + 1
  return true
end
-- Of a job in a reply, beyond its data.
local OVERHEAD = 64

-- The size of what is read of a job. A body without a meta is known to be small.
local function bytes_of(id, meta, keys)
  local bytes = (meta and #meta or 0) + redis.call('HSTRLEN', BODY, id)
  for _, key in ipairs(keys) do
    local may_have = key ~= RESULT or meta and has(struct.unpack('>I2', meta, HEAD_FLAGS), HAS_RESULT)
    if may_have then bytes = bytes + redis.call('HSTRLEN', key, id) end
  end
  return bytes
end

-- The rest of a body's beginning: own lease_ms (0: none), priority, key, position of the tags, first version, and origin.
local function body_rest(body)
  local _, _, flags, _, at = struct.unpack(BODY_HEAD, body)
  local lease_ms, priority, key, version, origin = 0, DEFAULT_PRIORITY, '', 1, ''
  if has(flags, HAS_VERSION) then version, at = struct.unpack('>I6', body, at) end
  if has(flags, HAS_LEASE) then lease_ms, at = struct.unpack('>I4', body, at) end
  if has(flags, HAS_PRIORITY) then priority, at = struct.unpack('>I4', body, at) end
  if has(flags, HAS_KEY) then key, at = struct.unpack('Bc0', body, at) end
  if has(flags, HAS_ORIGIN) then origin, at = struct.unpack('Bc0', body, at) end
  if has(flags, HAS_SENT) then at = at + 24 end
  return lease_ms, priority, key, at, version, origin
end

local function priority_of(body)
  local _, priority = body_rest(body)
  return priority
end

-- A job's head from its meta or, before its first change, from its body.
local function head(body, meta)
  local h = {}
  if meta then
    h.version, h.epoch, h.lease_until, h.started, h.updated, h.finished, h.due, h.attempt, h.lease_ms, h.flags, h.stage,
      h.queue, h.key = struct.unpack(HEAD .. 'Bc0Bc0', meta)
    h.tail = string.sub(meta, HEAD_NEXT)
  else
    local flags, _
    h.updated, h.due, flags, h.queue = struct.unpack(BODY_HEAD, body)
    _, _, h.key, _, h.version = body_rest(body)
    h.epoch, h.lease_until, h.started, h.finished, h.attempt, h.lease_ms = 0, 0, 0, 0, 0, 0
    h.flags, h.stage = bit.band(flags, META_FLAGS), PENDING
    h.tail = struct.pack('Bc0Bc0', #h.queue, h.queue, #h.key, h.key)
  end
  return h
end

local function packed(h)
  return struct.pack(HEAD, h.version, h.epoch, h.lease_until, h.started, h.updated, h.finished, h.due, h.attempt, h.lease_ms,
    h.flags, h.stage) .. h.tail
end

-- Sets the progress of a job; '' removes it.
local function set_progress(h, progress)
  if has(h.flags, HAS_PROGRESS) then
    local length = struct.unpack('>I2', h.tail, #h.tail - 1)
    h.tail, h.flags = string.sub(h.tail, 1, #h.tail - 2 - length), without(h.flags, HAS_PROGRESS)
  end
  if progress ~= '' then
    h.tail, h.flags = h.tail .. progress .. struct.pack('>I2', #progress), bit.bor(h.flags, HAS_PROGRESS)
  end
end

-- The prefix, within the set of paused queues, of queues with other limits: no queue name begins with it.
local LIMITED = ':'

local function count(queue, what, by)
  if by == 0 then return end
  local counted = redis.call('HINCRBY', COUNTERS, queue .. ':' .. what, by)
  -- If the maximum was running, there is room again.
  if what == 'r' and by < 0 and redis.call('SISMEMBER', PAUSED, LIMITED .. queue) == 1 then
    local max_running = tonumber(redis.call('HGET', COUNTERS, queue .. ':m') or 0)
    if max_running > 0 and counted - by >= max_running then redis.call('PUBLISH', CHANNEL, queue) end
  end
end

local STAGE_COUNTER = { [SUCCEEDED] = 's', [FAILED] = 'f', [CANCELLED] = 'c' }
-- Counters of all-time totals; 'P' counts pushed jobs. They only grow.
local TOTAL_COUNTER = { [SUCCEEDED] = 'S', [FAILED] = 'F', [CANCELLED] = 'C' }

local function free_key(id, queue, key)
  local field = queue .. '\0' .. key
  if redis.call('HGET', HOLDERS, field) == id then redis.call('HDEL', HOLDERS, field) end
end

-- The position of the kind, with its length before it: after the tags.
local function kind_at(body)
  local _, _, _, at = body_rest(body)
  if has(struct.unpack('>I2', body, BODY_FLAGS), TAGGED) then
    local n
    n, at = struct.unpack('B', body, at)
    for _ = 1, n do at = at + 1 + string.byte(body, at) end
  end
  return at
end

local function kind_of(body)
  local at = kind_at(body)
  return string.sub(body, at, at + string.byte(body, at))
end

-- The part of a body before the payload.
local function without_payload(body)
  local flags, at = struct.unpack('>I2', body, BODY_FLAGS), kind_at(body)
  at = at + 1 + string.byte(body, at)
  if has(flags, FIRST_DUE_DIFFERS) then at = at + 6 end
  if has(flags, EXPIRES) then at = at + 6 end
  if has(flags, HAS_OPTIONS) then at = at + 4 + struct.unpack('>I4', body, at) end
  return string.sub(body, 1, at - 1)
end

-- How many of the first of these jobs have at most this many bytes together; at least one if the reply has none yet.
local function count_within(ids, metas, keys, most)
  local bytes = 0
  for i, id in ipairs(ids) do
    local size = FRESH_BYTES_MAX
    if metas[i] or bytes + size > most then size = bytes_of(id, metas[i], keys) end
    bytes = bytes + size
    if bytes > most and (i > 1 or replied > 0) then return i - 1 end
  end
  return #ids
end

-- Reads the first of these jobs: as many as fit in the reply, and within what a script may read. Calls `add` with the id, body,
-- meta, and values in other keys of each; body and meta are '' if there is none, a value is false. Without payloads unless they
-- are whole; 'rewritten': only with those that the ledger may lack. Returns how many.
local function read_jobs(ids, is_whole, keys, add)
  local n = 0
  while n < #ids do
    local slice = slice_of(ids, n + 1)
    local metas = fetch(META, slice)
    local count = count_within(slice, metas, keys, is_whole == true and math.min(read_room, reply_room) or read_room)
    if count == 0 then return n end
    while #slice > count do slice[#slice] = nil end
    local bodies, values = fetch(BODY, slice), {}
    for k, key in ipairs(keys) do values[k] = fetch(key, slice) end
    for i, id in ipairs(slice) do
      local body, meta, value, other = bodies[i] or '', metas[i] or '', values[1] and values[1][i], values[2] and values[2][i]
      read_room = read_room - #body - #meta
      local is_wanted = is_whole == true
        or is_whole and meta ~= '' and has(struct.unpack('>I2', meta, HEAD_FLAGS), REWRITTEN)
      if not is_wanted and body ~= '' then body = without_payload(body) end
      local size = OVERHEAD + #body + #meta + (value and #value or 0) + (other and #other or 0)
      if not has_room(size) then return n end
      add(id, body, meta, value, other)
      n = n + 1
    end
  end
  return n
end

-- Adds a job to a list of a reply.
local function add_job(found, id, body, meta, result)
  local n = #found
  found[n + 1], found[n + 2], found[n + 3], found[n + 4] = id, body, meta, result and '=' .. result or ''
end

local function tags_of(body)
  local tags = {}
  if not has(struct.unpack('>I2', body, BODY_FLAGS), TAGGED) then return tags end
  local _, _, _, start = body_rest(body)
  local n, at = struct.unpack('B', body, start)
  for i = 1, n do
    tags[i], at = struct.unpack('Bc0', body, at)
  end
  return tags
end

local function tag_member(tag, id) return string.char(#tag) .. tag .. id end

-- The member for an origin, stored among the tags, since no tag is empty. Only if this is its own ledger; otherwise the
-- ledger indexes origins.
local function prefix_of(queue, origin)
  if not OWN or origin == '' then return nil end
  return '\0' .. queue .. '\0' .. string.char(#origin) .. origin
end

local function origin_prefix(body)
  local _, _, _, _, _, origin = body_rest(body)
  local _, _, _, queue = struct.unpack(BODY_HEAD, body)
  return prefix_of(queue, origin)
end

-- The member for a key that is given up at the start: the job is found by it afterwards, too. No queue has an empty name.
local function key_prefix(body)
  local _, _, flags, queue = struct.unpack(BODY_HEAD, body)
  if not OWN or not has(flags, UNTIL_STARTED) or not has(flags, HAS_KEY) then return nil end
  local _, _, key = body_rest(body)
  return '\0\0' .. queue .. '\0' .. string.char(#key) .. key
end

-- The job with an origin of this prefix, if there is one.
local function by_prefix(prefix)
  local member = prefix and redis.call('ZRANGEBYLEX', TAGS, '[' .. prefix, '+', 'LIMIT', 0, 1)[1]
  return member and string.sub(member, 1, #prefix) == prefix and string.sub(member, #prefix + 1)
end

-- The job of this queue with this origin.
local function known_origin(body) return by_prefix(origin_prefix(body)) end

local function tag(id, body)
  for _, name in ipairs(tags_of(body)) do redis.call('ZADD', TAGS, 0, tag_member(name, id)) end
  local of_origin, of_key = origin_prefix(body), key_prefix(body)
  if of_origin then redis.call('ZADD', TAGS, 0, of_origin .. id) end
  if of_key then redis.call('ZADD', TAGS, 0, of_key .. id) end
end

local function untag(id, body)
  for _, name in ipairs(tags_of(body)) do redis.call('ZREM', TAGS, tag_member(name, id)) end
  local of_origin, of_key = origin_prefix(body), key_prefix(body)
  if of_origin then redis.call('ZREM', TAGS, of_origin .. id) end
  if of_key then redis.call('ZREM', TAGS, of_key .. id) end
end

-- Removes all data of jobs that are in no queue, including tags and results if their metas have them.
local function erase(ids, metas)
  local with_result = {}
  for i, id in ipairs(ids) do
    local flags = metas[i] and struct.unpack('>I2', metas[i], HEAD_FLAGS) or 0
    if flags ~= 0 and has(flags, TAGGED) then
      local body = redis.call('HGET', BODY, id)
      if body then untag(id, body) end
    end
    if flags ~= 0 and has(flags, HAS_RESULT) then table.insert(with_result, id) end
  end
  if #ids > 0 then
    many('HDEL', BODY, ids)
    many('HDEL', META, ids)
  end
  if #with_result > 0 then many('HDEL', RESULT, with_result) end
end

-- Erases the first of these finished jobs of an index: as many as may be read. Returns how many.
local function prune(index, ids)
  if #ids == 0 then return 0 end
  local metas, n = fetch_some(META, ids)
  local count, bytes = 0, 0
  while count < n and bytes < READ_BYTES_MAX do
    count = count + 1
    local meta = metas[count]
    -- For its tags a body is read.
    if meta and has(struct.unpack('>I2', meta, HEAD_FLAGS), TAGGED) then bytes = bytes + redis.call('HSTRLEN', BODY, ids[count]) end
  end
  while #ids > count do ids[#ids] = nil end
  many('ZREM', index, ids)
  local counts = {}
  for i = 1, #ids do
    if metas[i] then
      local stage, queue = struct.unpack('BBc0', metas[i], HEAD_NEXT - 1)
      local what = queue .. ':' .. STAGE_COUNTER[stage]
      counts[what] = (counts[what] or 0) + 1
    end
  end
  for what, n in pairs(counts) do redis.call('HINCRBY', COUNTERS, what, -n) end
  erase(ids, metas)
  return #ids
end

-- Minimum time that finished jobs are kept: longer than a call is repeated, because a repeat must find what its first
-- attempt did.
local SPARED_MS = 20000

-- A tombstone: version, epoch and stage of the job's end, and when it lapses.
local TOMBSTONE = '>I6I6BI6'
-- Returns nothing if there is no valid tombstone.
local function tombstone_of(id)
  local tombstone = redis.call('HGET', TOMBSTONES, id)
  if not tombstone then return end
  local version, epoch, stage, ends = struct.unpack(TOMBSTONE, tombstone)
  if ends > now then return version, epoch, stage, ends end
end

local function set_tombstone(id, version, epoch, stage, ends)
  redis.call('HSET', TOMBSTONES, id, struct.pack(TOMBSTONE, version, epoch, stage, ends))
  redis.call('ZADD', TOMBSTONE_TIMES, ends, id)
end

-- Whether a job that is not here must not be put in this version.
local function has_tombstone(id, version)
  local known = tombstone_of(id)
  return known and known > version
end

-- Drops at most this many lapsed tombstones.
local function drop_lapsed(most)
  local lapsed = redis.call('ZRANGEBYSCORE', TOMBSTONE_TIMES, '-inf', now, 'LIMIT', 0, most)
  if #lapsed > 0 then
    many('ZREM', TOMBSTONE_TIMES, lapsed)
    many('HDEL', TOMBSTONES, lapsed)
  end
end

-- Keeps a finished index within its limit, but spares the newest entries.
local function trim(index, bound, least)
  local excess = redis.call('ZCOUNT', index, '-inf', text(KEPT)) - bound
  if excess <= 0 then return end
  local most = math.min(excess, least * 2 + 10, STEP)
  prune(index, redis.call('ZRANGEBYSCORE', index, '-inf', now - SPARED_MS, 'LIMIT', 0, most))
end

-- The four sorted sets of the n-th queue: default priority by due time; other priorities by due time; those of them not yet
-- ready; and the ready ones.
local function queue_keys(n)
  local first = 19 + (n - 1) * 4
  return KEYS[first], KEYS[first + 1], KEYS[first + 2], KEYS[first + 3]
end

local function low(key)
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return first[2] and tonumber(first[2])
end

-- When the first job of a queue is due.
local function head_due(n)
  local due, pdue = queue_keys(n)
  local a, b = low(due), low(pdue)
  if a and b then return math.min(a, b) end
  return a or b
end

local function pack_priority(priority) return struct.pack('>I4', priority) end

-- Adds a waiting job to its queue.
local function enter(n, id, due_at, priority)
  local due, pdue, pwait, pready = queue_keys(n)
  if priority == DEFAULT_PRIORITY then
    redis.call('ZADD', due, due_at, id)
    return
  end
  local member = id .. pack_priority(priority)
  redis.call('ZADD', pdue, due_at, member)
  if due_at <= now then
    redis.call('ZADD', pready, priority, struct.pack('>I8', due_at) .. id)
  else
    redis.call('ZADD', pwait, due_at, member)
  end
end

-- Removes a waiting job from its queue; returns whether it was there.
local function leave(n, id, due_at, priority)
  local due, pdue, pwait, pready = queue_keys(n)
  if priority == DEFAULT_PRIORITY then return redis.call('ZREM', due, id) == 1 end
  local member = id .. pack_priority(priority)
  redis.call('ZREM', pwait, member)
  redis.call('ZREM', pready, struct.pack('>I8', due_at) .. id)
  return redis.call('ZREM', pdue, member) == 1
end

-- Notifies all nodes if the first job of a queue is due sooner than before.
local function wake_if_sooner(queue, before, first)
  if first and (not before or first < before) then redis.call('PUBLISH', CHANNEL, queue) end
end
