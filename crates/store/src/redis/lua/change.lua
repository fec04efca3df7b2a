-- Changes jobs if they still have the version that was read. ARGV[5]: how many finished jobs are kept; [6]: how many failed
-- ones; [7]: the name of this call; then for each job 13 values:
-- id, number of its queue, version, new meta, new body ('' unchanged), its new state (waits, runs, ended, gone), the new due
-- time, the deadline to start (0: none), whether to note it in the outbox, result ('' none), the copy that it leaves in
-- another queue ('' none), the old and the new priority.
-- Returns for each 1, 0 if it has another version, or the holder of its key.
-- The state of a job does not show whether this call has changed it: another one may have made the same change, or one with
-- the same meta and another body. So a repeat gets the answers of its first attempt.
local first, is_late = remembered(ARGV[7])
if first then return { micros, first[3], redis.call('ZCARD', OUTBOX) } end
if is_late then return { micros, {}, 0 } end
local rewrites = false
for i = 8, #ARGV, 13 do rewrites = rewrites or ARGV[i + 4] ~= '' end
-- A changed body may be larger than before; all other changes are allowed when Redis is full.
if rewrites then needs_room() else runs_when_full() end

local kept, kept_dead = tonumber(ARGV[5]), tonumber(ARGV[6])
local answers, ended, dead = {}, 0, 0

local function unlist(n, id, h, priority)
  if h.stage ~= PENDING then
    if redis.call('ZREM', h.stage == FAILED and DEAD or ENDED, id) == 1 then count(h.queue, STAGE_COUNTER[h.stage], -1) end
  elseif h.lease_until > 0 then
    redis.call('ZREM', RUNNING, id)
    count(h.queue, 'r', -1)
  else
    if not leave(n, id, h.due, priority) then count(h.queue, 'l', -1) end
    redis.call('ZREM', EXPIRING, id)
  end
end

local function change(i)
  local id, n, version, meta, new_body, fate = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), ARGV[i + 3],
    ARGV[i + 4], ARGV[i + 5]
  local due_at, start_by, is_noted, result, successors = tonumber(ARGV[i + 6]), tonumber(ARGV[i + 7]), ARGV[i + 8] == '1',
    ARGV[i + 9], ARGV[i + 10]
  local priority_was, priority = tonumber(ARGV[i + 11]), tonumber(ARGV[i + 12])
  local old_meta = redis.call('HGET', META, id)
  -- A body may be large, and is seldom needed.
  local body = (not old_meta or new_body ~= '') and redis.call('HGET', BODY, id)
  if not body and redis.call('HSTRLEN', BODY, id) == 0 then return 0 end
  local old, new = head(body, old_meta), head(nil, meta)
  if old.version ~= version or has(old.flags, REMOVED) then return 0 end
  -- The change was based on a reading that lacks what the ledger does not know yet.
  if has(old.flags, REWRITTEN) and not has(new.flags, REWRITTEN) then return 0 end
  -- The change was decided in an earlier memory.
  if not OWN and new.version < FLOOR then return 0 end
  if has(new.flags, HOLDS_KEY) and not has(old.flags, HOLDS_KEY) then
    local field = new.queue .. '\0' .. new.key
    local holder = redis.call('HGET', HOLDERS, field)
    if holder and holder ~= id then return holder end
    redis.call('HSET', HOLDERS, field, id)
  elseif has(old.flags, HOLDS_KEY) and not has(new.flags, HOLDS_KEY) then
    free_key(id, old.queue, old.key)
  end
  local before = head_due(n)
  if fate ~= 'runs' or old.lease_until == 0 then unlist(n, id, old, priority_was) end
  if new_body ~= '' then
    if has(old.flags, TAGGED) then untag(id, body) end
    if has(new.flags, TAGGED) then tag(id, new_body) end
    redis.call('HSET', BODY, id, new_body)
  end
  if has(old.flags, HAS_RESULT) then redis.call('HDEL', RESULT, id) end
  if result ~= '' then redis.call('HSET', RESULT, id, string.sub(result, 2)) end
  if OWN and new.stage ~= PENDING and new.stage ~= old.stage then count(new.queue, TOTAL_COUNTER[new.stage], 1) end
  if fate == 'gone' and OWN then
    erase({ id }, { meta })
    -- Its end must be known as long as a call is repeated.
    drop_lapsed(10)
    set_tombstone(id, new.version, new.epoch, new.stage, now + SPARED_MS)
  else
    redis.call('HSET', META, id, meta)
  end
  if fate == 'waits' then
    enter(n, id, due_at, priority)
    if start_by > 0 then redis.call('ZADD', EXPIRING, start_by, id) end
    wake_if_sooner(new.queue, before, due_at)
  elseif fate == 'ended' and OWN then
    redis.call('ZADD', new.stage == FAILED and DEAD or ENDED, new.finished > 0 and NOW_TEXT or text(KEPT + now), id)
    count(new.queue, STAGE_COUNTER[new.stage], 1)
    if new.stage == FAILED then dead = dead + 1 else ended = ended + 1 end
  end
  if successors ~= '' then redis.call('HSET', SUCCESSORS, id, successors) end
  if is_noted or successors ~= '' then redis.call('ZADD', OUTBOX, now, id) end
  return 1
end

for i = 8, #ARGV, 13 do answers[#answers + 1] = change(i) end
if ended > 0 then trim(ENDED, kept, ended) end
if dead > 0 then trim(DEAD, kept_dead, dead) end
remember({ ARGV[7], now + REQUEST_MS, answers })
return { micros, answers, redis.call('ZCARD', OUTBOX) }
