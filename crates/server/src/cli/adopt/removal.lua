-- Removes what was claimed since the claims were `#claimed == before`, by a command. If it is refused, nothing is claimed.
local function remove_claimed(before, ...)
  local removed = redis.pcall(...)
  local is_refused = type(removed) == 'table' and removed.err
  if is_refused or removed == 0 then
    while #claimed > before do
      redis.call('HDEL', KEYS[1], claimed[#claimed - 1])
      claimed[#claimed] = nil
      claimed[#claimed] = nil
    end
  end
  if is_refused then error(is_refused) end
  return removed ~= 0
end
