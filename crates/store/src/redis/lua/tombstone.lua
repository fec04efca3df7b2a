-- Leaves tombstones for edited jobs that are unknown here: no reading of them is put until the ledger has answered. ARGV
-- from [5]: ids. Returns the jobs that are here by now. They get no tombstone, and the caller edits them.
runs_when_full()
local known = {}
for i = 5, #ARGV do
  local id = ARGV[i]
  local version, epoch, stage, unseen = tombstone_of(id)
  if redis.call('HGET', BODY, id) then
    known[#known + 1] = id
  else
    set_tombstone(id, version or 0, epoch or 0, stage or 0, (unseen or 0) + 1, now + UNSEEN_MS)
  end
end
return { micros, known }
