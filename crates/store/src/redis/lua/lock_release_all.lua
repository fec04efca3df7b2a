-- Releases the first locks of an owner. ARGV[3]: the owner; [4]: how many at most; [5]: the request's number. Returns how
-- many it held, how many it had lost, and whether there are more.
local owner, limit, request = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])

runs_when_full()

local before = remembered(request)
if before then return { micros, before[2] or 0, before[3] or 0, before[4] or 0 } end
local released, lost = 0, 0
local least, most = starting(sized(owner))
local claims = redis.call('ZRANGEBYLEX', OWNED, least, most, 'LIMIT', 0, limit)
for _, claim in ipairs(claims) do
  local _, name = split(claim)
  local fence, ends = grant_of(claim)
  local is_holder = redis.call('HGET', HOLDERS, name) == owner
  if is_holder then vacate(name) end
  forget(claim)
  if fence and is_holder and ends > now then
    released = released + 1
    tell(name)
  elseif fence and ends + LOST_KEPT_MS > now then
    lost = lost + 1
  end
end
local more = #claims == limit and 1 or 0
remember(request, released, lost, more)
return { micros, released, lost, more }
