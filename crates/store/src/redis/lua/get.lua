-- Returns jobs. ARGV[5]: whether with payloads and results; from [6]: ids. If they are large, only the first ones are
-- returned.
local ids, found, is_whole = {}, {}, ARGV[5] == '1'
for i = 6, #ARGV do ids[#ids + 1] = ARGV[i] end
local n = read_jobs(ids, is_whole, is_whole and { RESULT } or {}, function(id, body, meta, result)
  add_job(found, id, body, meta, result)
end)
if n == 0 and #ids > 0 then return too_large() end
return { micros, found }
