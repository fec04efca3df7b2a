-- Claims members of a sorted set as member, score and unit: those whose scores are no instants, and those due up to a bound.
-- KEYS[2]: the set. ARGV[2]: the unit; [3]: how many of it are a second; [4]: below which number of seconds a score is no instant;
-- [5]: how far ahead is taken, in milliseconds; [6]: at most how many. KEYS[3]: the lock, if there is one; [7]: the wait while it exists.
if KEYS[3] and redis.call('EXISTS', KEYS[3]) == 1 then wait_ms = tonumber(ARGV[7]) return end
local unit, per_second, ahead_ms, limit = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[5]), tonumber(ARGV[6])
local low = ARGV[4] * per_second
local function note(member, score) claim(member, score, unit) end
take(KEYS[2], '-inf', '(' .. ARGV[4], limit, note)
take(KEYS[2], low, (now_ms + ahead_ms) * per_second / 1000, limit - #claimed / 2, note)
local head = redis.call('ZRANGEBYSCORE', KEYS[2], low, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
if head[2] then wait_ms = math.max(0, math.min(wait_ms, math.ceil(head[2] * 1000 / per_second) - now_ms)) end
