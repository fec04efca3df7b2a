-- Jobs that were edited and are not known here: no reading of them is put until the ledger has answered. ARGV from [5]: ids.
-- Returns the jobs that are here by now. They get no tombstone, and the caller edits them.
runs_when_full()
local known = {}
for i = 5, #ARGV do
  local id, version, epoch, stage, unseen = ARGV[i], 0, 0, 0, 0
  local tombstone = redis.call('HGET', TOMBSTONES, id)
  if tombstone then
    local old_version, old_epoch, old_stage, old_unseen, ends = struct.unpack(TOMBSTONE, tombstone)
    if ends > now then version, epoch, stage, unseen = old_version, old_epoch, old_stage, old_unseen end
  end
  if redis.call('HGET', BODY, id) then
    known[#known + 1] = id
  else
    redis.call('HSET', TOMBSTONES, id, struct.pack(TOMBSTONE, version, epoch, stage, unseen + 1, now + UNSEEN_MS))
    redis.call('ZADD', TOMBSTONE_TIMES, now + UNSEEN_MS, id)
  end
end
return { micros, known }
