-- Drops finished jobs past their retention. ARGV[5]: when succeeded ones must have ended; [6]: failed ones; [7]: how many at
-- most; [8]: if not 0, how many bytes are needed: then it drops the oldest ones before their time, failed ones last. Returns
-- how many it dropped, whether there are more, and about how many bytes were freed.
runs_when_full()
drop_lapsed(tonumber(ARGV[7]))
local limit, needed = tonumber(ARGV[7]), tonumber(ARGV[8])

-- The oldest jobs of an index that have this many bytes, and how many those are. Jobs that are kept until they are deleted
-- are left out. Those that have just ended leave tombstones, because calls may be repeated; a repeated take needs the jobs.
local JOB_BYTES = 230
local function oldest(index, most)
  local rows = redis.call('ZRANGEBYSCORE', index, '-inf', '(' .. text(KEPT), 'WITHSCORES', 'LIMIT', 0, most)
  local ids, bytes = {}, 0
  for i = 1, #rows, 2 do
    if bytes >= needed then break end
    local id = rows[i]
    local meta = redis.call('HGET', META, id)
    local h = meta and tonumber(rows[i + 1]) > now - SPARED_MS and head(nil, meta)
    if not (h and has(h.flags, TAKEN)) then
      if h then set_tombstone(id, h.version, h.epoch, h.stage, now + SPARED_MS) end
      ids[#ids + 1] = id
      bytes = bytes + JOB_BYTES + bytes_of(id, meta, { RESULT })
    end
  end
  return ids, bytes
end

if needed > 0 then
  local ids, bytes = oldest(ENDED, limit)
  local dropped = prune(ENDED, ids)
  if dropped == 0 then
    ids, bytes = oldest(DEAD, limit)
    dropped = prune(DEAD, ids)
  end
  return { micros, dropped, 1, bytes }
end

local pruned, more = 0, 0
for index, before in pairs({ [ENDED] = ARGV[5], [DEAD] = ARGV[6] }) do
  local ended_by = math.min(tonumber(before), now - SPARED_MS)
  local ids = redis.call('ZRANGEBYSCORE', index, '-inf', ended_by, 'LIMIT', 0, limit - pruned)
  local found, count = #ids, prune(index, ids)
  pruned = pruned + count
  if count < found then more = 1 end
end
return { micros, pruned, more, 0 }
