-- Completes jobs. ARGV[5]: how many finished jobs are kept; [6]: whether kinds are requested; then for each job its id, the
-- epoch of the lease and the result, '' for none, '?' to only ask. Returns for each the stage in which it ended, negative if
-- only a tombstone says so, and thus the ledger has it, 0 if the lease is over, PENDING if others begin with its success, which
-- this script cannot make; for each that ended now when its run began, its
-- due time and attempts, its queue and, if requested, its kind, '' for others; and the jobs to note in the outbox that fit in
-- the reply. If they are large, only the first jobs are completed.
runs_when_full()

local kept, ids = tonumber(ARGV[5]), {}
for i = 7, #ARGV, 3 do ids[#ids + 1] = ARGV[i] end
local metas, n = fetch_some(META, ids)
local bodies_of_all
if ARGV[6] == '1' then
  local bytes, most = 0, 0
  for i = 1, n do
    bytes = bytes + redis.call('HSTRLEN', BODY, ids[i])
    if i > 1 and bytes > READ_BYTES_MAX then break end
    most = i
  end
  n = most
  while #ids > n do ids[#ids] = nil end
  bodies_of_all = fetch(BODY, ids)
end
local answers, noted, done, new_metas, gone, ended, by_queue = {}, {}, {}, {}, {}, {}, {}

local count_of_done = 0
local runs = {}
local function finish(id, epoch, queue, new_meta)
  local at = count_of_done * 2
  new_metas[at + 1], new_metas[at + 2] = id, new_meta
  ended[at + 1], ended[at + 2] = NOW_TEXT, id
  count_of_done = count_of_done + 1
  gone[count_of_done] = id
  by_queue[queue] = (by_queue[queue] or 0) + 1
  done[id] = epoch
  local run = string.sub(new_meta, 19, 24) .. string.sub(new_meta, 37, 46) .. string.char(#queue) .. queue
  local body = bodies_of_all and bodies_of_all[#answers + 1]
  runs[#answers + 1] = body and run .. kind_of(body) or run
  if not OWN then table.insert(noted, id) end
end

-- A job with default state: no flags except possibly TAGGED, pending and leased under this epoch.
local PLAIN, PLAIN_TAGGED = struct.pack('>I2B', 0, PENDING), struct.pack('>I2B', TAGGED, PENDING)
local function finish_plain(id, epoch, meta)
  local state = string.sub(meta, HEAD_FLAGS, HEAD_FLAGS + 2)
  if string.sub(meta, 7, 12) ~= epoch or (state ~= PLAIN and state ~= PLAIN_TAGGED) then return false end
  if string.sub(meta, 13, 18) == ZERO6 then return false end
  local queue = struct.unpack('Bc0', meta, HEAD_NEXT)
  finish(id, epoch, queue, six(after(struct.unpack('>I6', meta))) .. epoch .. ZERO6 .. string.sub(meta, 19, 24) .. NOW6 .. NOW6 .. string.sub(meta, 37, 52)
    .. string.char(SUCCEEDED) .. string.sub(meta, HEAD_NEXT))
  return true
end

for i = 7, 3 * n + 4, 3 do
  local id, epoch, result = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local meta = metas[(i - 4) / 3]
  local is_done = done[id] == epoch or (result == '' and meta and not done[id] and finish_plain(id, epoch, meta))
  local h = not is_done and meta and head(nil, meta)
  local is_this = h and six(h.epoch) == epoch
  local answer = 0
  if is_done then
    answer = SUCCEEDED
  elseif is_this and h.stage ~= PENDING then
    answer = h.stage
    -- What begins with an end is a part of its entry, which is read as a whole: an end that is recorded without it loses it.
    if not OWN and not has(h.flags, FOLLOWED) then table.insert(noted, id) end
  elseif is_this and h.lease_until > 0 and has(h.flags, FOLLOWED) then
    answer = PENDING
  elseif is_this and h.lease_until > 0 and not done[id] and result ~= '?' then
    if has(h.flags, HOLDS_KEY) then
      free_key(id, h.queue, h.key)
      h.flags = without(h.flags, HOLDS_KEY)
    end
    if result ~= '' then
      redis.call('HSET', RESULT, id, string.sub(result, 2))
      h.flags = bit.bor(h.flags, HAS_RESULT)
    end
    h.version, h.updated, h.finished, h.lease_until, h.stage = after(h.version), now, now, 0, SUCCEEDED
    finish(id, epoch, h.queue, packed(h))
    answer = SUCCEEDED
  elseif not h then
    local _, tombstone_epoch, tombstone_stage = tombstone_of(id)
    if tombstone_epoch and six(tombstone_epoch) == epoch then answer = -tombstone_stage end
  end
  answers[#answers + 1] = answer
  runs[#answers] = runs[#answers] or ''
end

if #gone > 0 then
  many('ZREM', RUNNING, gone)
  many('HSET', META, new_metas)
  many('ZADD', OWN and ENDED or OUTBOX, ended)
  for queue, n in pairs(by_queue) do
    count(queue, 'r', -n)
    if OWN then
      count(queue, 's', n)
      count(queue, 'S', n)
    end
  end
  if OWN then trim(ENDED, kept, #gone) end
end

local entries = {}
read_jobs(noted, 'rewritten', { RESULT }, function(id, body, meta, result)
  if body ~= '' then add_job(entries, id, body, meta, result) end
end)
return { micros, answers, runs, entries, OWN and 0 or redis.call('ZCARD', OUTBOX) }
