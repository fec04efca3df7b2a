-- Removes the first grants and tickets that have ended. ARGV[3]: how many of each at most. Returns whether there may be
-- more.
local limit = tonumber(ARGV[3])

runs_when_full()

local claims = redis.call('ZRANGEBYSCORE', ENDS, '-inf', now, 'LIMIT', 0, limit)
for _, claim in ipairs(claims) do
  local owner, name = split(claim)
  local fence, ends = grant_of(claim)
  if redis.call('HGET', HOLDERS, name) == owner and not (fence and ends > now) then vacate(name) end
  if not fence or ends + LOST_KEPT_MS <= now then
    forget(claim)
  else
    redis.call('ZADD', ENDS, ends > now and ends or ends + LOST_KEPT_MS, claim)
  end
end

local tickets = redis.call('ZRANGEBYSCORE', LAPSES, '-inf', now, 'LIMIT', 0, limit)
for _, ticket in ipairs(tickets) do
  local name, owner = split(ticket)
  local order = redis.call('HGET', TICKETS, ticket)
  if order then
    local _, was_first = front(name)
    drop(sized(name) .. order .. owner, ticket)
    tell(name, was_first)
  else
    redis.call('ZREM', LAPSES, ticket)
  end
end
return { micros, (#claims == limit or #tickets == limit) and 1 or 0 }
