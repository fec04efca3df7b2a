-- Pushes jobs of 100 bytes due in a minute, BATCH in a request (1 by default): the rows of bench/RESULTS.md with wrk as the load.
local batch = tonumber(os.getenv("BATCH") or "1")
local job = '{"payload":"' .. string.rep("p", 100) .. '","delay":"1m"}'
wrk.method = "POST"
wrk.path = "/v1/queues/bench/jobs"
wrk.headers["content-type"] = "application/json"
if os.getenv("TOKEN") then
  wrk.headers["authorization"] = "Bearer " .. os.getenv("TOKEN")
end
if batch == 1 then
  wrk.body = job
else
  local jobs = {}
  for i = 1, batch do
    jobs[i] = job
  end
  wrk.body = "[" .. table.concat(jobs, ",") .. "]"
end

function done(summary, latency, requests)
  local errors = summary.errors
  local failed = errors.status + errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format("%d jobs/s, p50 %.2f ms, p99 %.2f ms, max %.1f ms, %d failed\n",
    summary.requests * batch * 1e6 / summary.duration, latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    latency.max / 1000, failed))
end
