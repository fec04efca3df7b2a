-- Renews a lock for its time to live from now on. ARGV[3]: the lock; [4]: its owner; [5]: the fence; [6]: the time to live.
-- Returns its end, or 0 if it is not held by this owner with this fence.
local name, owner, ttl = ARGV[3], ARGV[4], tonumber(ARGV[6])

runs_when_full()

local holder, fence, ends = held(name)
if holder ~= owner or fence ~= tonumber(ARGV[5]) then return { micros, 0 } end
grant(sized(owner) .. name, fence, now + ttl, ttl)
-- The owner first in line relies on the end that it was given.
if now + ttl < ends then tell(name, nil, owner) end
return { micros, now + ttl }
