-- The shared part of all lock scripts, after the limits. KEYS: the keys of the locks of a namespace, always in this order,
-- and of a remembered request. ARGV: the clock ('' for that of Redis), the channel that notifies waiters.
--
-- HOLDERS: the holder of each lock by name, also if its time to live is over. NAMES: the same names, sorted. GRANTS: by
-- claim (owner and name) the fence, end and time to live of unreleased grants. OWNED: the claims, sorted. ENDS: the claims
-- by the time of their cleanup. LINE: places, sorted by name and order. TICKETS: the order by name and owner. LAPSES: when
-- each ticket lapses.
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

-- At its maxmemory Redis judges a script by its first write. If that only removes, all later writes are allowed.
local function runs_when_full() redis.call('ZREM', LINE, '') end
-- This write changes nothing. Without room it is refused, and the script fails here; otherwise all later writes are allowed.
local function needs_room() redis.call('ZADD', LINE, 'XX', 0, '') end

-- A promoted replica has what its master had, except for the last writes.
local function server() return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or '-' end

-- Names and owners have at most 255 bytes, and none begins with byte 255.
local function sized(text) return string.char(#text) .. text end
local function split(pair)
  local length = string.byte(pair)
  return string.sub(pair, 2, length + 1), string.sub(pair, length + 2)
end
local function starting(prefix) return '[' .. prefix, '(' .. prefix .. '\255' end

-- A repeated request is not carried out twice, nor is one so late that its slot has been reused for another request. Returns
-- what is remembered of the request.
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

-- Owner, fence, end and time to live of a held lock. If the clock was set back, the end is at most one time to live ahead.
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

-- The first place in the line of a name, and its owner. Its ticket may have lapsed.
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

-- The owner first in line, after lapsed tickets are removed.
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

-- Notifies the owner first in line, unless it was first before or is the caller.
local function tell(name, before, asks)
  local owner = first(name)
  if owner and owner ~= before and owner ~= asks then redis.call('PUBLISH', CHANNEL, sized(name) .. owner) end
end
