-- Why a job stays where it is; nil: it may be taken.
local function why_left(id, job)
  if redis.call('TYPE', job).ok ~= 'hash' then return 'without data' end
  local found = redis.call('HMGET', job, 'name', 'rjk', 'repeatJobKey', 'parentKey', 'parent', 'defa', 'deid')
  local function has(place) return found[place] and found[place] ~= '' end
  if not found[1] or redis.call('HEXISTS', job, 'data') == 0 or redis.call('HLEN', job) > 100 then return 'without data' end
  if has(2) or has(3) or string.sub(id, 1, 7) == 'repeat:' then return 'of a scheduler' end
  local children = redis.call('EXISTS', job .. ':dependencies', job .. ':processed', job .. ':failed', job .. ':unsuccessful')
  if has(4) or has(5) or has(6) or children > 0 then return 'with a parent or children' end
  if has(7) then return 'with a de-duplication id' end
  if redis.call('EXISTS', job .. ':lock') == 1 then return 'locked by a worker' end
end
