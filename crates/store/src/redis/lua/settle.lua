-- Completes jobs. ARGV[5]: how many finished jobs are kept; then for each its id, the epoch of the lease and the result,
-- '' for none. Answers for each the stage that it has ended in, 0 where the lease is over; and those that are to be noted.
redis.call('ZREM', RUNNING, '')

local kept, ids = tonumber(ARGV[5]), {}
for i = 6, #ARGV, 3 do table.insert(ids, ARGV[i]) end
local metas = fetch(META, ids)
local answers, noted, done, new_metas, gone, ended, by_queue = {}, {}, {}, {}, {}, {}, {}

for i = 6, #ARGV, 3 do
  local id, epoch, result = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]
  local h = metas[(i - 3) / 3] and head(nil, metas[(i - 3) / 3])
  local answer = 0
  if done[id] == epoch then
    answer = SUCCEEDED
  elseif h and h.epoch == epoch and h.stage ~= PENDING then
    answer = h.stage
    if not OWN then table.insert(noted, id) end
  elseif h and h.epoch == epoch and h.lease_until > 0 then
    if has(h.flags, HOLDS_KEY) then
      free_key(id, h.queue, h.key)
      h.flags = without(h.flags, HOLDS_KEY)
    end
    if result ~= '' then
      redis.call('HSET', RESULT, id, string.sub(result, 2))
      h.flags = bit.bor(h.flags, HAS_RESULT)
    end
    h.version, h.updated, h.finished, h.lease_until, h.stage = after(h.version), now, now, 0, SUCCEEDED
    table.insert(new_metas, id)
    table.insert(new_metas, packed(h))
    table.insert(gone, id)
    table.insert(ended, now)
    table.insert(ended, id)
    by_queue[h.queue] = (by_queue[h.queue] or 0) + 1
    done[id] = epoch
    answer = SUCCEEDED
    if not OWN then table.insert(noted, id) end
  elseif not OWN and not h then
    local tomb = redis.call('HGET', TOMBS, id)
    if tomb then
      local _, tomb_epoch, tomb_stage, _, tomb_until = struct.unpack('>I6I6BI4I6', tomb)
      if tomb_until > now and tomb_epoch == epoch then answer = tomb_stage end
    end
  end
  table.insert(answers, answer)
end

if #gone > 0 then
  many('ZREM', RUNNING, gone)
  many('HSET', META, new_metas)
  many('ZADD', OWN and ENDED or OUTBOX, ended)
  for queue, n in pairs(by_queue) do
    count(queue, 'r', -n)
    if OWN then count(queue, 's', n) end
  end
  if OWN then trim(ENDED, kept, 10000, #gone) end
end

local notes = {}
local bodies, note_metas, results = fetch(BODY, noted), fetch(META, noted), fetch(RESULT, noted)
for i, id in ipairs(noted) do
  if bodies[i] then
    table.insert(notes, id)
    table.insert(notes, bodies[i])
    table.insert(notes, note_metas[i] or '')
    table.insert(notes, results[i] and '=' .. results[i] or '')
  end
end
return { micros, answers, notes, OWN and 0 or redis.call('ZCARD', OUTBOX) }
