-- Returns for each job the one that has its origin, after '=', or else the one that holds its key; '' if there is neither. ARGV from [5]:
-- queue, origin ('' none), key ('' none).
local found = {}
for i = 5, #ARGV, 3 do
  local queue, key = ARGV[i], ARGV[i + 2]
  local first = by_prefix(prefix_of(queue, ARGV[i + 1]))
  local holder = key ~= '' and redis.call('HGET', HOLDERS, queue .. '\0' .. key)
  found[#found + 1] = first and '=' .. first or holder or ''
end
return { micros, found }
