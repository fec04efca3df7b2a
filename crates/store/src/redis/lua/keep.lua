-- Records finished jobs. ARGV[5]: how many finished jobs are kept; [6]: how many failed ones; then for each its id, when it
-- ended, body, meta, result ('' none). Returns for each 1, 0 if the id exists, or the job with its origin.
needs_room()
local kept, kept_dead = tonumber(ARGV[5]), tonumber(ARGV[6])
local answers, ids, seen, ended, dead = {}, {}, {}, 0, 0
for i = 7, #ARGV, 5 do ids[#ids + 1] = ARGV[i] end
local bodies = fetch(BODY, ids)

for n, id in ipairs(ids) do
  local i = 2 + n * 5
  local at, body, meta, result = ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local h = head(body, meta)
  local first = has(h.flags, TAGGED) and known_origin(body)
  if bodies[n] or seen[id] or has_tombstone(id, h.version) then
    answers[n] = 0
  elseif first then
    answers[n] = first
  else
    seen[id] = true
    redis.call('HSET', BODY, id, body)
    redis.call('HSET', META, id, meta)
    if result ~= '' then redis.call('HSET', RESULT, id, string.sub(result, 2)) end
    if has(h.flags, TAGGED) then tag(id, body) end
    redis.call('ZADD', h.stage == FAILED and DEAD or ENDED, h.finished > 0 and at or text(KEPT + now), id)
    redis.call('ZADD', QUEUES, 0, h.queue)
    count(h.queue, STAGE_COUNTER[h.stage], 1)
    count(h.queue, 'P', 1)
    count(h.queue, TOTAL_COUNTER[h.stage], 1)
    if h.stage == FAILED then dead = dead + 1 else ended = ended + 1 end
    answers[n] = 1
  end
end
if ended > 0 then trim(ENDED, kept, ended) end
if dead > 0 then trim(DEAD, kept_dead, dead) end
return { micros, answers }
