-- Grants a lock, or puts its owner in line. ARGV[3]: the lock; [4]: its owner; [5]: the time to live; [6]: whether it waits;
-- [7]: the request's number; [8]: the largest fence that the caller was given; [9]: the side of the fences; [10]: whether
-- fences follow the clock. Returns fence, end and whether the grant is new; or 0, when the lock may become free, and when to
-- ask again, both in ms from now. If fences have not begun on this server, both are 0 and the last value is what was found
-- instead of a fence.
local name, owner, ttl, waits, request = ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6] == '1', tonumber(ARGV[7])
local claim = sized(owner) .. name
local found = redis.call('GET', FENCE)
if not found then
  -- The time makes this text unique, so that a late lock_begin for an earlier memory does not match it.
  found = '0 ' .. ARGV[9] .. ' ' .. micros
  runs_when_full()
  redis.call('SET', FENCE, found)
end
local last, begun = string.match(found, '^(%d+) (.*)$')
if begun ~= ARGV[9] .. ' ' .. server() then return { micros, 0, 0, 0, found .. ' ' .. server() } end
local holder, fence, ends, given = held(name)
-- A holder keeps its lock when Redis is full, and engines get theirs; otherwise nobody could make room.
if holder == owner or string.sub(name, 1, #OF_ENGINE) == OF_ENGINE then runs_when_full() else needs_room() end

local before = remembered(request)
if before and (holder ~= owner or fence ~= before[2]) then return { micros, 0, 1, 1 } end

if holder == owner then
  local is_new = before and before[3] or 0
  grant(claim, fence, now + ttl, ttl)
  if now + ttl < ends then tell(name, nil, owner) end
  remember(request, fence, is_new)
  return { micros, fence, now + ttl, is_new }
end

local _, was_first = front(name)
local is_first = first(name)
if not holder and (not is_first or is_first == owner) then
  fence = math.max(tonumber(last) + 1, tonumber(ARGV[8]) + 1, ARGV[10] == '1' and now or 0)
  redis.call('SET', FENCE, string.format('%.0f', fence) .. ' ' .. begun)
  redis.call('HSET', HOLDERS, name, owner)
  redis.call('ZADD', NAMES, 0, name)
  redis.call('ZADD', OWNED, 0, claim)
  grant(claim, fence, now + ttl, ttl)
  leave(name, owner)
  tell(name, was_first, owner)
  remember(request, fence, 1)
  return { micros, fence, now + ttl, 1 }
end

-- If the clock was set back, the shortened end becomes the stored one.
if holder and ends == now + given then grant(sized(holder) .. name, fence, ends, given) end

local prefix = sized(name)
local least, most = starting(prefix)
local order = order_of(name, owner)
local ahead = order and '(' .. prefix .. order or most
if order and not waits then
  leave(name, owner)
elseif order then
  redis.call('ZADD', LAPSES, now + TICKET_MS, prefix .. owner)
elseif waits then
  local count = redis.call('ZLEXCOUNT', LINE, least, most)
  if count < TICKETS_MAX then
    local last = redis.call('ZREVRANGEBYLEX', LINE, most, least, 'LIMIT', 0, 1)[1]
    order = struct.pack(ORDER, last and struct.unpack(ORDER, last, #prefix + 1) + 1 or 1)
    ahead = '(' .. prefix .. order
    redis.call('ZADD', LINE, 0, prefix .. order .. owner)
    redis.call('HSET', TICKETS, prefix .. owner, order)
    redis.call('ZADD', LAPSES, now + TICKET_MS, prefix .. owner)
  end
end
tell(name, was_first, owner)
remember(request, 0, 0)

-- How long the last owner ahead keeps its ticket. This matters only if the lock is soon free.
local held_ms, ahead_ms = holder and ends - now or 0, 0
if held_ms < REFRESH_MS then
  local tickets = redis.call('ZRANGEBYLEX', LINE, least, ahead)
  for i, place in ipairs(tickets) do tickets[i] = prefix .. string.sub(place, #prefix + ORDER_BYTES + 1) end
  local lapses = #tickets > 0 and redis.call('ZMSCORE', LAPSES, unpack(tickets)) or {}
  for _, at in ipairs(lapses) do ahead_ms = math.max(ahead_ms, math.min(tonumber(at or 0) - now, TICKET_MS)) end
end
local expires_ms = holder and held_ms or math.max(ahead_ms, 1)
return { micros, 0, expires_ms, math.max(1, math.min(math.max(held_ms, ahead_ms), REFRESH_MS)) }
