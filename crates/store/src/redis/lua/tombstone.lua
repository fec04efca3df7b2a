-- The ledger is about to edit jobs: leaves tombstones, so that no reading of them in these or earlier versions is put. ARGV
-- from [5]: ids and versions. Returns the jobs that are here by now. They get no tombstone, and the caller edits them.
runs_when_full()
local known = {}
for i = 5, #ARGV, 2 do
  local id = ARGV[i]
  local version, epoch, stage, ends = tombstone_of(id)
  if redis.call('HSTRLEN', BODY, id) > 0 then
    known[#known + 1] = id
  else
    local least = math.max(version or 0, tonumber(ARGV[i + 1]) + 1)
    set_tombstone(id, least, epoch or 0, stage or 0, math.max(now + BARRED_MS, ends or 0))
  end
end
return { micros, known }
