-- Gives up a ticket. ARGV[3]: the lock; [4]: the owner.
runs_when_full()
local name, owner = ARGV[3], ARGV[4]
local _, was_first = front(name)
leave(name, owner)
tell(name, was_first, owner)
return { micros }
