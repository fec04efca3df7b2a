-- Lists held locks. ARGV[3], [4]: the first and the last name; [5]: how many at most. Returns the name to continue after, ''
-- for none; then for each its name, owner, fence, end, and the number of waiters.
local limit = tonumber(ARGV[5])
local names = redis.call('ZRANGEBYLEX', NAMES, ARGV[3], ARGV[4], 'LIMIT', 0, limit)
local answer = { micros, #names == limit and names[limit] or '' }
for _, name in ipairs(names) do
  local owner, fence, ends = held(name)
  if owner then
    local waiting = redis.call('ZLEXCOUNT', LINE, starting(sized(name)))
    for _, value in ipairs({ name, owner, fence, ends, waiting }) do table.insert(answer, value) end
  end
end
return answer
