-- Leases due jobs: the most urgent ones of some queues, or named ones.
--
-- Why it is one script: picking, the limits of queues, and leasing must be one step, or two servers would lease a job twice or
-- pass a limit together. Redis does nothing else meanwhile, so the work is bounded: by the number of jobs, by the bytes of the
-- reply (`has_room`), and by steps of STEP members. Whatever is left makes the caller ask again (`is_to_repeat`).
--
-- Why jobs of the default priority are in a set of their own: their order is that of their due times, so nothing has to move
-- when a job becomes due, and nearly all jobs are of this kind. Others are sorted in here, by `sort_ready`, before any job is
-- picked, so that an urgent job is first although nobody looked since it became due. A reserve goes through more urgent ones,
-- the default, and less urgent ones.
--
-- Why there are two ways to lease: a job that was never touched has no meta, and `lease_plain` writes one from a template,
-- without unpacking. That is the case that decides the speed. `lease` does all the rest: keys, expiry, own leases, attempts.
--
-- Why the answer is remembered under the request: a reply may be lost, and the jobs are leased all the same. The repeat gets the
-- leases that are still held, so it leases nothing twice, and no job waits for its lease to expire.
--
-- Nothing is early: `to` is never after `now`, the clock of Redis, except for a job that is named and asked for early.
--
-- ARGV[5]: how many at most; [6], [7]: the earliest and latest due time; [8]: the name of this call if jobs
-- are taken, '' if they are to run; [9]: the lease in ms, 0 for each job's own; [10]: the request, '' for none; [11]: how
-- many finished jobs are kept; [12]: the default lease; [13]: which jobs are picked: 'order', of the queues in their order;
-- 'urgent', the most urgent of all queues first; 'named', those that are named; 'early', the one that is named, due or not;
-- [14]: how many of the leases that are remembered for the request the caller has; [15]: the number of queues, then for each
-- its name and lease in ms; then the named jobs, if any: id, version, and the queue's number. The last values of the answer are
-- whether it repeats a request, and the next [14] if not all remembered leases fit in it.
local limit, from, to, takes, lease_ms = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8] ~= '',
  tonumber(ARGV[9])
-- Beside a ledger, taken jobs are leased until they are recorded there; and so are those that others follow, until these are
-- made.
local finishes = takes and OWN
local request, default_ms, merges, early, had, queues = ARGV[10], tonumber(ARGV[12]), ARGV[13] == 'urgent',
  ARGV[13] == 'early', tonumber(ARGV[14]), tonumber(ARGV[15])
local named_at = 16 + 2 * queues
local ROUNDS = 10
local WHOLE_BYTES_MAX = 1048576
local bytes = 0
if not early then to = math.min(to, now) end

runs_when_full()

local leases, noted = {}, {}

if request ~= '' then
  local got, is_late = remembered(request)
  if is_late then return { micros, leases, noted, '', 0, OWN and 0 or redis.call('ZCARD', OUTBOX), {}, 0, 0 } end
  if got then
    if got[3] then
      local next = 0
      for i = 3 * had + 1, #got[3], 3 do
        if not has_room(OVERHEAD + #got[3][i + 1] + #got[3][i + 2]) then
          if replied == 0 then return too_large() end
          next = (i - 1) / 3
          break
        end
        for k = i, i + 2 do table.insert(leases, got[3][k]) end
      end
      return { micros, leases, noted, '', 0, 0, {}, 1, next }
    end
    if takes and not OWN and got[5] ~= ARGV[8] then
      -- Another call of the same request: the ledger knows the outcome of these jobs.
      return { micros, leases, noted, '', 0, redis.call('ZCARD', OUTBOX), got[4], 1, 0 }
    end
    local ids = {}
    for i = 2 * had + 1, #got[4], 2 do table.insert(ids, got[4][i]) end
    local at = had
    local n = read_jobs(ids, true, {}, function(id, body, meta)
      at = at + 1
      local h = meta ~= '' and head(nil, meta)
      local runs = h and h.stage == PENDING and h.lease_until > 0 and has(h.flags, TAKEN) == takes
      if h and (finishes or runs) and six(h.epoch) == got[4][2 * at] then
        if takes and not OWN and redis.call('ZSCORE', OUTBOX, id) then table.insert(noted, id) end
        table.insert(leases, id)
        table.insert(leases, body)
        table.insert(leases, meta)
      end
    end)
    if n == 0 and #ids > 0 then return too_large() end
    return { micros, leases, noted, '', 0, redis.call('ZCARD', OUTBOX), {}, 1, n < #ids and had + n or 0 }
  end
end

local new_metas, running, receipts, ended, leased, taken = {}, {}, {}, {}, {}, {}
-- Jobs to be removed from the sorted set of the current queue.
local gone = {}

local function leave_all(n)
  if #gone > 0 then many('ZREM', queue_keys(n), gone) end
  gone = {}
end

local lease_count, meta_count, running_count = 0, 0, 0

-- The new metas differ in a few fields only, so they are assembled from parts that are packed once.
local templates = {}
local function template(n)
  if not templates[n] then
    local queue, length = ARGV[14 + 2 * n], lease_ms
    if length == 0 then length = tonumber(ARGV[15 + 2 * n]) end
    if length == 0 then length = default_ms end
    local lease_until = now + length
    templates[n] = {
      queue = queue,
      lease_until = text(lease_until),
      first = six(FLOOR) .. six(FLOOR) .. six(lease_until) .. NOW6 .. NOW6 .. ZERO6,
      last = struct.pack('>I4I4I2B', 1, length, 0, PENDING) .. struct.pack('Bc0B', #queue, queue, 0),
    }
  end
  return templates[n]
end

local function add_lease(id, body, new_meta, epoch)
  new_metas[meta_count + 1], new_metas[meta_count + 2] = id, new_meta
  receipts[meta_count + 1], receipts[meta_count + 2] = id, epoch
  meta_count = meta_count + 2
  leases[lease_count + 1], leases[lease_count + 2], leases[lease_count + 3] = id, body, new_meta
  lease_count = lease_count + 3
  bytes = bytes + #body
end

-- A job that was never touched and has no special options.
local function lease_plain(n, id, body)
  if without(struct.unpack('>I2', body, BODY_FLAGS), HAS_ORIGIN + HAS_SENT) ~= 0 then return false end
  local new = template(n)
  gone[#gone + 1] = id
  running[running_count + 1], running[running_count + 2] = new.lease_until, id
  running_count = running_count + 2
  leased[new.queue] = (leased[new.queue] or 0) + 1
  add_lease(id, body, new.first .. string.sub(body, 7, 12) .. new.last, six(FLOOR))
  return true
end

local function lease(n, id, body, meta)
  if not meta and not takes and lease_plain(n, id, body) then return end
  local h = head(body, meta)
  local own_ms, priority = body_rest(body)
  local length = lease_ms
  if length == 0 then length = own_ms end
  if length == 0 then length = tonumber(ARGV[15 + 2 * n]) end
  if length == 0 then length = default_ms end
  if priority == DEFAULT_PRIORITY then gone[#gone + 1] = id else leave(n, id, h.due, priority) end
  if has(h.flags, EXPIRES) then redis.call('ZREM', EXPIRING, id) end
  local ends = finishes and not has(h.flags, FOLLOWED)
  if has(h.flags, HOLDS_KEY) and (ends or has(h.flags, UNTIL_STARTED)) then
    free_key(id, h.queue, h.key)
    h.flags = without(h.flags, HOLDS_KEY)
  end
  set_progress(h, '')
  h.version, h.started, h.updated = after(h.version), now, now
  h.epoch = h.version
  h.attempt = math.min(h.attempt + 1, 4294967295)
  h.lease_ms = length
  if ends then
    h.version = after(h.version)
    h.stage, h.finished, h.lease_until, h.flags = SUCCEEDED, now, 0, bit.bor(h.flags, TAKEN)
    table.insert(ended, NOW_TEXT)
    table.insert(ended, id)
    taken[h.queue] = (taken[h.queue] or 0) + 1
  else
    if takes then h.flags = bit.bor(h.flags, TAKEN) end
    h.lease_until = now + length
    running[running_count + 1], running[running_count + 2] = text(h.lease_until), id
    running_count = running_count + 2
    leased[h.queue] = (leased[h.queue] or 0) + 1
  end
  add_lease(id, body, packed(h), six(h.epoch))
end

-- A job past its deadline to start only waits for its end.
local function put_off_late(n, id, body)
  local flags = struct.unpack('>I2', body, BODY_FLAGS)
  if flags == 0 or not has(flags, EXPIRES) then return false end
  local start_by = redis.call('ZSCORE', EXPIRING, id)
  if not start_by or tonumber(start_by) > now then return false end
  local h = head(body, redis.call('HGET', META, id))
  leave(n, id, h.due, priority_of(body))
  count(h.queue, 'l', 1)
  return true
end

-- How many jobs may still be handed out from the current queue.
local room = limit
-- Whether the next job does not fit in the reply.
local is_over = false
local function is_full() return is_over or lease_count >= room * 3 end

-- Whether a job fits in the reply. One that was never leased gets a short meta.
local function fits(body, meta)
  is_over = is_over or not has_room(OVERHEAD + #body + (meta and #meta or OVERHEAD))
  return not is_over
end

local function lease_some(n, ids)
  local done = 0
  while done < #ids do
    local slice = slice_of(ids, done + 1)
    local metas = fetch(META, slice)
    local count = count_within(slice, metas, {}, reply_room)
    if count == 0 then
      is_over = true
      return
    end
    while #slice > count do slice[#slice] = nil end
    local bodies = fetch(BODY, slice)
    for i, id in ipairs(slice) do
      if is_full() then return end
      if not bodies[i] then
        -- This cannot happen, but such a job must not block others forever.
        gone[#gone + 1] = id
      elseif not put_off_late(n, id, bodies[i]) and fits(bodies[i], metas[i]) then
        lease(n, id, bodies[i], metas[i])
      end
    end
    done = done + count
  end
end

-- Leases ready jobs of other priorities within a range of priorities.
local function lease_ranked(n, least, most)
  local _, _, _, pready = queue_keys(n)
  local offset = 0
  for _ = 1, ROUNDS do
    local members = redis.call('ZRANGEBYSCORE', pready, least, most, 'LIMIT', offset, STEP)
    local ids = {}
    for _, member in ipairs(members) do
      local due_at = struct.unpack('>I8', member)
      if due_at >= from and due_at <= to then
        table.insert(ids, string.sub(member, 9))
        if #ids >= room - lease_count / 3 then break end
      end
    end
    local before = redis.call('ZCARD', pready)
    lease_some(n, ids)
    if is_full() or #members < STEP then return end
    offset = offset + #members - (before - redis.call('ZCARD', pready))
  end
end

local function lease_default(n)
  local due = queue_keys(n)
  for _ = 1, ROUNDS do
    local wanted = room - lease_count / 3
    local ids = redis.call('ZRANGEBYSCORE', due, from, to, 'LIMIT', 0, wanted)
    lease_some(n, ids)
    leave_all(n)
    if is_full() or #ids < wanted then return end
  end
end

-- Sorts jobs that have become ready by priority; returns whether these were all.
local function sort_ready(n)
  local _, _, pwait, pready = queue_keys(n)
  local members = redis.call('ZRANGEBYSCORE', pwait, '-inf', now, 'WITHSCORES', 'LIMIT', 0, STEP)
  for i = 1, #members, 2 do
    local id, priority = string.sub(members[i], 1, 8), struct.unpack('>I4', members[i], 9)
    redis.call('ZADD', pready, priority, struct.pack('>I8', tonumber(members[i + 1])) .. id)
    redis.call('ZREM', pwait, members[i])
  end
  return #members < 2 * STEP
end

-- The limits of a queue: how many jobs may be handed out now (room) and, if its rate allows none, when the next one is
-- allowed (free_at). Rates use the generic cell rate algorithm: ':t' is the time at which all jobs handed out so far would
-- have been handed out at an even rate. It is at most a whole burst ahead of the clock. It is further ahead if the clock was
-- set back, or if the rate was a slower one. Then it begins again here, with the burst used up. Each look must remember that:
-- nothing is handed out until some time has gone by since.
local any_limits = redis.call('EXISTS', PAUSED) == 1

-- Sums of fractions are a little too high or too low: by less than this part of a period.
local ROUNDING = 0.001

local function measure(limits)
  limits.room, limits.free_at = limits.runs, nil
  if limits.period and limits.runs > 0 then
    local flows = math.floor(limits.burst - limits.ahead / limits.period + ROUNDING)
    limits.room = math.min(limits.runs, flows)
    if flows == 0 then
      limits.free_at = math.ceil((micros + limits.ahead + limits.period * (1 - limits.burst)) / 1000)
    end
  end
  return limits
end

local function keep_ahead(queue, ahead) redis.call('HSET', COUNTERS, queue .. ':t', string.format('%.3f', micros + ahead)) end

local function limits_of(queue)
  if redis.call('SISMEMBER', PAUSED, queue) == 1 then return { paused = true, runs = 0, room = 0 } end
  if redis.call('SISMEMBER', PAUSED, LIMITED .. queue) == 0 then return nil end
  local kept = redis.call('HMGET', COUNTERS, queue .. ':m', queue .. ':p', queue .. ':b', queue .. ':t', queue .. ':r')
  local limits, max_running = { runs = math.huge, period = tonumber(kept[2] or '') }, tonumber(kept[1] or 0)
  if max_running > 0 and not takes then
    limits.runs = math.max(max_running - tonumber(kept[5] or 0) - (leased[queue] or 0), 0)
  end
  if limits.period then
    limits.burst = tonumber(kept[3])
    local ahead, whole = math.max(tonumber(kept[4] or 0) - micros, 0), limits.period * limits.burst
    if ahead > whole + 2 * ROUNDING * limits.period then keep_ahead(queue, whole) end
    limits.ahead = math.min(ahead, whole)
  end
  return measure(limits)
end

local function pass(queue, limits, jobs)
  limits.runs = limits.runs - jobs
  if limits.period and jobs > 0 then
    limits.ahead = limits.ahead + limits.period * jobs
    keep_ahead(queue, limits.ahead)
  end
  measure(limits)
end

local next_at, is_to_repeat = nil, 0

local function reserve_queue(n)
  local _, pdue = queue_keys(n)
  local ranked = redis.call('EXISTS', pdue) == 1
  if ranked then
    if not sort_ready(n) then return false end
    lease_ranked(n, '-inf', '(' .. DEFAULT_PRIORITY)
  end
  if not is_full() then lease_default(n) end
  if ranked and not is_full() then lease_ranked(n, '(' .. DEFAULT_PRIORITY, '+inf') end
  return true
end

-- The rank of a queue's most urgent due job, and whether all due jobs were sorted.
local function first_of(n)
  local due, pdue, _, pready = queue_keys(n)
  local rank
  if redis.call('EXISTS', pdue) == 1 then
    if not sort_ready(n) then return nil, false end
    local first = redis.call('ZRANGE', pready, 0, 0, 'WITHSCORES')
    if first[1] and struct.unpack('>I8', first[1]) <= to then rank = pack_priority(tonumber(first[2])) .. first[1] end
  end
  local plain = redis.call('ZRANGEBYSCORE', due, '-inf', to, 'WITHSCORES', 'LIMIT', 0, 1)
  if plain[1] then
    local other = pack_priority(DEFAULT_PRIORITY) .. struct.pack('>I8', tonumber(plain[2])) .. plain[1]
    if not rank or other < rank then rank = other end
  end
  return rank, true
end

-- Leases the most urgent jobs of all queues, one after the other. Returns whether their order is known.
local function reserve_merged()
  for _ = 1, limit do
    local best, best_rank
    for n = 1, queues do
      local due = head_due(n)
      local limits = due and due <= now and any_limits and limits_of(ARGV[14 + 2 * n])
      if due and due <= now and not (limits and limits.room <= 0) then
        local rank, is_sorted = first_of(n)
        if not is_sorted then return lease_count > 0 end
        if rank and (not best or rank < best_rank) then best, best_rank = n, rank end
      end
    end
    if not best then return true end
    local before, queue = lease_count, ARGV[14 + 2 * best]
    local limits = any_limits and limits_of(queue)
    room = lease_count / 3 + 1
    local is_sorted = reserve_queue(best)
    leave_all(best)
    if limits then pass(queue, limits, (lease_count - before) / 3) end
    if not is_sorted then return lease_count > before end
    if is_over then return true end
  end
  return true
end

if named_at <= #ARGV then
  for i = named_at, #ARGV, 3 do
    local id, version, n = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
    local body, meta = redis.call('HGET', BODY, id), redis.call('HGET', META, id)
    local h = body and head(body, meta)
    if h and h.stage == PENDING and h.lease_until == 0 and h.version == version and h.due >= from and h.due <= to
      and not has(h.flags, REMOVED) and not put_off_late(n, id, body) then
      local limits = any_limits and limits_of(h.queue)
      if (not limits or limits.room > 0) and fits(body, meta) then
        lease(n, id, body, meta)
        leave_all(n)
        if limits then pass(h.queue, limits, 1) end
      end
    end
  end
else
  if merges then is_to_repeat = reserve_merged() and 0 or 1 end
  if is_to_repeat == 1 then next_at = now end
  -- Merged queues are visited again only to find out whether there are more jobs.
  if merges then limit = lease_count / 3 end
  for n = 1, is_to_repeat == 1 and 0 or queues do
    -- For most queues nothing else has to be read.
    local due = head_due(n)
    local queue, before = ARGV[14 + 2 * n], lease_count
    local limits = due and any_limits and limits_of(queue)
    if due and not (limits and limits.paused) then
      room = limits and math.min(limit, lease_count / 3 + limits.room) or limit
      if due <= now and not is_full() then
        local is_sorted = reserve_queue(n)
        if limits then pass(queue, limits, (lease_count - before) / 3) end
        if not is_sorted then
          -- The most urgent job is not known until all are sorted.
          next_at, is_to_repeat = now, 1
          break
        end
        due = head_due(n)
      end
      -- If no more jobs are allowed, wait until free_at, or for a notification that there is room again.
      if due and limits and limits.room <= 0 then due = limits.free_at and math.max(due, limits.free_at) end
      if due and (not next_at or due < next_at) then next_at = due end
    end
  end
end

if is_over and lease_count == 0 then return too_large() end
if lease_count > 0 then
  many('HSET', META, new_metas)
  if #ended > 0 then
    many('ZADD', ENDED, ended)
    for queue, n in pairs(taken) do
      count(queue, 's', n)
      count(queue, 'S', n)
    end
    trim(ENDED, tonumber(ARGV[11]), #ended / 2)
  end
  if running_count > 0 then
    many('ZADD', RUNNING, running)
    for queue, n in pairs(leased) do count(queue, 'r', n) end
    if not OWN and redis.call('EXISTS', OUTBOX) == 1 then
      for i = 1, #receipts, 2 do
        if redis.call('ZSCORE', OUTBOX, receipts[i]) then
          redis.call('ZADD', OUTBOX, now, receipts[i])
          table.insert(noted, receipts[i])
        end
      end
    end
  end
end
-- An empty take is remembered, too: a repeat that is carried out late would take jobs for nobody.
if request ~= '' and (lease_count > 0 or finishes and queues > 0 and is_to_repeat == 0) then
  -- Small taken jobs are remembered in full: their records may be removed before the request is forgotten.
  local whole = finishes and bytes <= WHOLE_BYTES_MAX and leases
  remember({ request, now + REQUEST_MS, whole, receipts, ARGV[8] })
end
return { micros, leases, noted, next_at and string.format('%.0f', next_at) or '', is_to_repeat, OWN and 0 or redis.call('ZCARD', OUTBOX), {}, 0, 0 }
