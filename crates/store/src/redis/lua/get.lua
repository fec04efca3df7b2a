-- Jobs. ARGV from [5]: ids.
local ids = {}
for i = 5, #ARGV do table.insert(ids, ARGV[i]) end
local bodies, metas, results, found = fetch(BODY, ids), fetch(META, ids), fetch(RESULT, ids), {}
for i, id in ipairs(ids) do
  table.insert(found, id)
  table.insert(found, bodies[i] or '')
  table.insert(found, metas[i] or '')
  table.insert(found, results[i] and '=' .. results[i] or '')
end
return { micros, found }
