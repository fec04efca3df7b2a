-- Releases a lock. ARGV[3]: the lock; [4]: its owner; [5]: the fence; [6]: the request's number. Returns whether it was held
-- by this owner with this fence.
local name, owner, request = ARGV[3], ARGV[4], tonumber(ARGV[6])

runs_when_full()

local before = remembered(request)
if before then return { micros, before[2] or 0 } end
local holder, fence = held(name)
if holder ~= owner or fence ~= tonumber(ARGV[5]) then return { micros, 0 } end
vacate(name)
forget(sized(owner) .. name)
tell(name)
remember(request, 1)
return { micros, 1 }
