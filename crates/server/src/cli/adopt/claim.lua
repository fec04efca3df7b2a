-- What a claiming script begins with.
--
-- - now_ms: the clock of Redis, in milliseconds.
-- - wait_ms: when it is worth asking again; a script may lower it.
-- - claim(…) takes texts as the next claim, after the `to` of the command. write() writes what was claimed to the log: before remove(…) removes
--   it, and at the end.
-- - is_full(): what was claimed is so large that it must be enough for one script.
-- - remove(…) is a command that removes what was claimed since the last one. If it is refused, for want of a right, or removes nothing, that is not
--   claimed. It answers whether it is.
-- - take(key, min, max, limit, note) takes up to limit members of a sorted set between two scores. note(member, score) must claim each.
-- - take_list(key, end_, limit, note) takes members from the 'left' or the 'right' end of a list. note(member) must claim each.
-- - go_on: where the next script is to begin, of one that looks at a part of what there is.
-- - wait_for(key, unit_ms): wait_ms falls to when the head of a sorted set is due; unit_ms is what a score counts.
--
-- Members are read by pages: 250 large ones would fill the memory of Redis, and block it.
--
-- Redis before 5 replicates a script as it is, unless it is asked for its writes.
-- A text, such as a field of a hash, takes as long as so many bytes, beside its own.
local BYTES_MAX, TEXT_BYTES, PAGE = 524288, 40, 8
if redis.replicate_commands then redis.replicate_commands() end
local time = redis.call('TIME')
local id_start = 'adopt-' .. time[1] .. string.format('%06d', time[2]) .. '-' .. string.sub(ARGV[1], 1, 32) .. '-'
local to = string.sub(ARGV[1], 33)
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local wait_ms = 1000
local go_on = '0'
local claimed, written, gone, bytes = {}, 0, 0, 0
-- To make a text of a number is slow in Lua.
local lengths = setmetatable({}, {__index = function(known, length)
  known[length] = length .. ':'
  return known[length]
end})
local head = lengths[#to] .. to
local function claim(...)
  local texts, packed = {...}, {head}
  for place, text in ipairs(texts) do
    packed[2 * place] = lengths[#text]
    packed[2 * place + 1] = text
  end
  local text = table.concat(packed)
  claimed[#claimed + 1] = id_start .. string.format('%03d', #claimed / 2 + 1)
  claimed[#claimed + 1] = text
  bytes = bytes + #text + TEXT_BYTES * (#texts + 1)
end
local function is_full() return bytes >= BYTES_MAX end
-- Writes claims to the log, with one command for many.
local function write()
  if #claimed == written then return end
  -- Without the right to remove a claim again, nothing is claimed.
  if written == 0 then redis.call('HDEL', KEYS[1], '') end
  redis.call('HSET', KEYS[1], unpack(claimed, written + 1))
  written = #claimed
end
-- What was not removed is not claimed.
local function unclaim()
  while #claimed > gone do
    if #claimed <= written then redis.call('HDEL', KEYS[1], claimed[#claimed - 1]) end
    claimed[#claimed] = nil
    claimed[#claimed] = nil
  end
  written = math.min(written, gone)
end
local function remove(...)
  write()
  local removed = redis.pcall(...)
  local refused = type(removed) == 'table' and removed.err
  if refused or removed == 0 then unclaim() end
  if refused then error(refused) end
  gone = #claimed
  return removed ~= 0
end
-- An error names the key: a key of another type is for the operator to find.
local function read(command, key, ...)
  local found = redis.pcall(command, key, ...)
  if found.err then error(found.err .. ': ' .. key) end
  return found
end
local function take(key, min, max, limit, note)
  while limit > 0 and not is_full() do
    local count = math.min(PAGE, limit)
    local found = read('ZRANGEBYSCORE', key, min, max, 'WITHSCORES', 'LIMIT', 0, count)
    local members = {}
    for place = 1, #found, 2 do
      if is_full() then break end
      members[#members + 1] = found[place]
      note(found[place], found[place + 1])
    end
    if #members > 0 then remove('ZREM', key, unpack(members)) end
    if #found < 2 * count then break end
    limit = limit - #members
  end
end
local function take_list(key, end_, limit, note)
  local is_left = end_ == 'left'
  while limit > 0 and not is_full() do
    local count, taken = math.min(PAGE, limit), 0
    local found = read('LRANGE', key, is_left and 0 or -count, is_left and count - 1 or -1)
    for place = 1, #found do
      if is_full() then break end
      note(found[is_left and place or #found + 1 - place])
      taken = taken + 1
    end
    if taken > 0 then remove('LTRIM', key, is_left and taken or 0, is_left and -1 or -taken - 1) end
    if #found < count then break end
    limit = limit - taken
  end
end
local function wait_for(key, unit_ms)
  local head = read('ZRANGE', key, 0, 0, 'WITHSCORES')
  if head[2] then wait_ms = math.max(0, math.min(wait_ms, math.ceil(head[2] * unit_ms) - now_ms)) end
end
