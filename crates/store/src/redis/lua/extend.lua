-- Extends leases. ARGV[5]: the name of this call; from [6]: id, epoch, the length in ms (0 for the original one), and the
-- progress ('' unchanged). Returns for each its end, the new version and whether its worker should stop, or 0 if the lease is
-- over; if they have long histories, only for the first ones.
-- A repeat that comes late must not shorten what was extended since: it gets the answers of its first attempt, or none.
local first, is_late = remembered(ARGV[5])
if first or is_late then return { micros, first and first[3] or {} } end
runs_when_full()
local ids, answers = {}, {}
for i = 6, #ARGV, 4 do table.insert(ids, ARGV[i]) end
local metas, n = fetch_some(META, ids)
for i = 6, 4 * n + 2, 4 do
  local id, epoch, length, progress = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), ARGV[i + 3]
  local meta = metas[(i - 2) / 4]
  local h = meta and head(nil, meta)
  if h and h.stage == PENDING and h.lease_until > 0 and h.epoch == epoch then
    h.lease_until = now + (length > 0 and length or h.lease_ms)
    h.version, h.updated = after(h.version), now
    if progress ~= '' then set_progress(h, progress) end
    redis.call('HSET', META, id, packed(h))
    redis.call('ZADD', RUNNING, h.lease_until, id)
    if not OWN then redis.call('ZADD', OUTBOX, 'XX', now, id) end
    table.insert(answers, { string.format('%.0f', h.lease_until), string.format('%.0f', h.version),
      has(h.flags, CANCEL_ASKED) and 1 or 0 })
  else
    table.insert(answers, 0)
  end
end
remember({ ARGV[5], now + REQUEST_MS, answers })
return { micros, answers }
