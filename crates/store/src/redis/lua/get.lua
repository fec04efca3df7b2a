-- Returns jobs. ARGV[5]: whether with payloads and results; from [6]: ids. If they are large, only the first ones are
-- returned.
local SLICE, BYTES_MAX = 50, 8388608
local found, count, bytes = {}, 0, 0
local is_whole = ARGV[5] == '1'
for first = 6, #ARGV, SLICE do
  local ids = {}
  for i = first, math.min(first + SLICE - 1, #ARGV) do ids[#ids + 1] = ARGV[i] end
  local bodies, metas, results = fetch(BODY, ids), fetch(META, ids), is_whole and fetch(RESULT, ids) or {}
  for i, id in ipairs(ids) do
    local body = bodies[i] or ''
    if not is_whole and body ~= '' then body = without_payload(body) end
    found[count + 1], found[count + 2], found[count + 3] = id, body, metas[i] or ''
    found[count + 4] = results[i] and '=' .. results[i] or ''
    bytes = bytes + #found[count + 2] + #found[count + 4]
    count = count + 4
  end
  if bytes > BYTES_MAX then break end
end
return { micros, found }
