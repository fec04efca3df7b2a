-- Two pages of a sorted set by rank, of what is due up to a bound. Changes nothing.
-- KEYS[1]: the set. ARGV[1]: how many units are a second; [2]: how far ahead is taken, in milliseconds; [3]: from which rank the first page
-- is; [4]: the second, which ends before the first; [5]: members of a page.
-- Answers the clock, for how long nothing more is due, the rank of the first page, and both pages.
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local per_second, count = tonumber(ARGV[1]), tonumber(ARGV[5])
local due = redis.call('ZCOUNT', KEYS[1], '-inf', (now_ms + ARGV[2]) * per_second / 1000)
-- What is no id may be large.
local BYTES_MAX, PAGE = 524288, 8
local function page(from, to)
  local members, bytes = {}, 0
  to = math.min(from + count, to)
  while from < to and bytes < BYTES_MAX do
    for _, member in ipairs(redis.call('ZRANGE', KEYS[1], from, math.min(from + PAGE, to) - 1)) do
      members[#members + 1] = member
      bytes = bytes + #member
    end
    from = from + PAGE
  end
  return members
end
local first = math.min(tonumber(ARGV[3]), due)
local wait_ms, head = 1000, redis.call('ZRANGE', KEYS[1], due, due, 'WITHSCORES')
if head[2] then wait_ms = math.max(0, math.min(wait_ms, math.ceil(head[2] * 1000 / per_second) - now_ms)) end
return {now_ms, wait_ms, first, page(first, due), page(tonumber(ARGV[4]), first)}
