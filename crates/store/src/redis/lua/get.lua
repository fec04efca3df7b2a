-- Jobs. ARGV from [5]: ids. Where they are large it answers only the first of them.
local SLICE, BYTES_MAX = 50, 8388608
local found, count, bytes = {}, 0, 0
for first = 5, #ARGV, SLICE do
  local ids = {}
  for i = first, math.min(first + SLICE - 1, #ARGV) do ids[#ids + 1] = ARGV[i] end
  local bodies, metas, results = fetch(BODY, ids), fetch(META, ids), fetch(RESULT, ids)
  for i, id in ipairs(ids) do
    found[count + 1], found[count + 2], found[count + 3] = id, bodies[i] or '', metas[i] or ''
    found[count + 4] = results[i] and '=' .. results[i] or ''
    bytes = bytes + #found[count + 2] + #found[count + 4]
    count = count + 4
  end
  if bytes > BYTES_MAX then break end
end
return { micros, found }
