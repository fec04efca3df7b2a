-- What the scripts of locks share, after the bounds. KEYS: those of the locks of a namespace, always in this order, and
-- what is remembered of a request. ARGV: the clock ('' for that of Redis), the channel on which waiters are told.
--
-- HOLDERS: by name who holds a lock, or held it until its time was over. NAMES: the same names, sorted.
-- GRANTS: by claim (owner and name) fence, end and time to live of what was granted and not released. OWNED: the claims,
-- sorted. ENDS: the claims by when there is something to let go of.
-- LINE: places, sorted by name and order. TICKETS: by name and owner the order. LAPSES: when the ticket lapses.
local FENCE, HOLDERS, NAMES, GRANTS, OWNED, ENDS, LINE, TICKETS, LAPSES, REQUEST = unpack(KEYS)
local CHANNEL = ARGV[2]
local GRANT, ORDER, ORDER_BYTES = '>I8I8I4', '>I8', 8

local micros
if ARGV[1] == '' then
  local time = redis.call('TIME')
  micros = time[1] * 1000000 + time[2]
else
  micros = tonumber(ARGV[1]) * 1000
end
local now = math.floor(micros / 1000)

-- Redis at its maxmemory judges a script by the first command that writes: after one that only removes, all others run.
local function runs_when_full() redis.call('ZREM', LINE, '') end
-- After this one, which changes nothing, a script has room for whatever it writes; without room it is refused here.
local function needs_room() redis.call('ZADD', LINE, 'XX', 0, '') end

-- A replica that took over has what its master had, but for the last of it.
local function server() return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or '-' end

-- Names and owners have at most 255 bytes, and none begins with the last byte of all.
local function sized(text) return string.char(#text) .. text end
local function split(pair)
  local length = string.byte(pair)
  return string.sub(pair, 2, length + 1), string.sub(pair, length + 2)
end
local function starting(prefix) return '[' .. prefix, '(' .. prefix .. '\255' end

-- A request that is sent again is not carried out twice; nor is one that comes so late that its place has been used
-- for another since. Answers what is remembered of it.
local function remembered(request)
  local got = redis.call('GET', REQUEST)
  got = got and cmsgpack.unpack(got)
  if got and got[1] == request then return got end
  return got and got[1] > request and {}
end

local function remember(...) redis.call('SET', REQUEST, cmsgpack.pack({ ... }), 'PX', REQUEST_MS) end

local function grant_of(claim)
  local grant = redis.call('HGET', GRANTS, claim)
  if grant then return struct.unpack(GRANT, grant) end
end

-- Owner, fence, end and time to live of a lock that is held. Where the clock was set back, the end is not later than it
-- was to be.
local function held(name)
  local owner = redis.call('HGET', HOLDERS, name)
  if not owner then return end
  local fence, ends, ttl = grant_of(sized(owner) .. name)
  if fence and ends > now then return owner, fence, math.min(ends, now + ttl), ttl end
end

local function grant(claim, fence, ends, ttl)
  redis.call('HSET', GRANTS, claim, struct.pack(GRANT, fence, ends, ttl))
  redis.call('ZADD', ENDS, ends, claim)
end

local function forget(claim)
  redis.call('HDEL', GRANTS, claim)
  redis.call('ZREM', OWNED, claim)
  redis.call('ZREM', ENDS, claim)
end

local function vacate(name)
  redis.call('HDEL', HOLDERS, name)
  redis.call('ZREM', NAMES, name)
end

-- The first place in the line of a name, and whose it is. Its ticket may have lapsed.
local function front(name)
  local prefix = sized(name)
  local least, most = starting(prefix)
  local place = redis.call('ZRANGEBYLEX', LINE, least, most, 'LIMIT', 0, 1)[1]
  if place then return place, string.sub(place, #prefix + ORDER_BYTES + 1) end
end

local function drop(place, ticket)
  redis.call('ZREM', LINE, place)
  redis.call('HDEL', TICKETS, ticket)
  redis.call('ZREM', LAPSES, ticket)
end

-- Who is the first in line, once those whose tickets have lapsed are gone.
local function first(name)
  while true do
    local place, owner = front(name)
    if not place then return end
    local ticket = sized(name) .. owner
    local lapses = tonumber(redis.call('ZSCORE', LAPSES, ticket) or 0)
    if lapses > now then
      if lapses > now + TICKET_MS then redis.call('ZADD', LAPSES, now + TICKET_MS, ticket) end
      return owner
    end
    drop(place, ticket)
  end
end

-- The order of a ticket that has not lapsed.
local function order_of(name, owner)
  local ticket = sized(name) .. owner
  local order = redis.call('HGET', TICKETS, ticket)
  if not order then return end
  if tonumber(redis.call('ZSCORE', LAPSES, ticket) or 0) > now then return order end
  drop(sized(name) .. order .. owner, ticket)
end

local function leave(name, owner)
  local order = order_of(name, owner)
  if order then drop(sized(name) .. order .. owner, sized(name) .. owner) end
end

-- Tells who is the first in line now, where that was another one before, and is not the one who asks.
local function tell(name, before, asks)
  local owner = first(name)
  if owner and owner ~= before and owner ~= asks then redis.call('PUBLISH', CHANNEL, sized(name) .. owner) end
end
