// Measures the Node client and worker of Duetime on a `duetime serve` of its own, beside which nothing uses the Redis, and
// prints one JSON object with the keys of bullmq.mjs that concern the client:
//
//   node duetime-node.mjs redis://127.0.0.1:PORT/0 [--jobs 200000] [--in-flight 4] [--store redis|file|memory]
//
//   push_jobs_per_s         bulks of 1,000 jobs with 100 bytes of JSON each, this many bulks in flight
//   process_jobs_per_s      the same jobs through one worker that does nothing, at a concurrency of 100
//   late_ms_p50, _p99, _max start of the handler minus due time, of 2,000 delayed jobs at 400 a second
//
// Needs DUETIME_BIN (or `duetime` on the PATH), and in DUETIME_NODE the folder that clients/node/build.sh has made.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";

const { Client, Worker } = createRequire(import.meta.url)(process.env.DUETIME_NODE ?? "duetime");

const BULK = 1_000;
const CONCURRENCY = 100;
const LATE_JOBS = 2_000;
const LATE_PER_S = 400;
const LEAD_MS = 3_000;

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    jobs: { type: "string", default: "200000" },
    waiting: { type: "string", default: "0" },
    "in-flight": { type: "string", default: "4" },
    store: { type: "string", default: "redis" },
  },
});
const jobs = Number(options.jobs);
const data = { body: "x".repeat(100 - JSON.stringify({ body: "" }).length) };
const folder = mkdtempSync(join(tmpdir(), "duetime-node-"));
const stores = { redis: ["--broker", positionals[0]], file: ["--store", join(folder, "jobs.db")], memory: ["--store", "memory"] };

const server = spawn(process.env.DUETIME_BIN ?? "duetime", ["serve", ...stores[options.store], "--listen", "127.0.0.1:0", "--log-level", "error"], {
  stdio: ["ignore", "pipe", "inherit"],
});
const url = await new Promise((resolve, reject) => {
  server.on("exit", () => reject(new Error("the server has ended")));
  createInterface(server.stdout).on("line", (line) => {
    const found = /http:\/\/[0-9.:]+/.exec(line);
    if (found) resolve(found[0]);
  });
});
const client = new Client(url, { pushDeadline: "60s" });

async function push(count, delay) {
  let next = 0;
  const lane = async () => {
    while (next < count) {
      const first = next;
      next = Math.min(count, first + BULK);
      const bulk = Array.from({ length: next - first }, (_, i) => ({ queue: "bench", payload: data, delay: delay?.(first + i) }));
      for (const pushed of await client.pushMany(bulk)) if (pushed instanceof Error) throw pushed;
    }
  };
  await Promise.all(Array.from({ length: Number(options["in-flight"]) }, lane));
}

async function work(count, handler, begin) {
  let left = count;
  const worker = new Worker(client, { queues: "bench", concurrency: CONCURRENCY });
  let seconds;
  const start = performance.now();
  worker.handle("*", async (job) => {
    handler(job);
    left -= 1;
    if (left > 0) return;
    seconds = (performance.now() - start) / 1_000;
    void worker.stop();
  });
  begin?.();
  await worker.run({ signals: false });
  return seconds;
}

const start = performance.now();
await push(jobs);
const pushSeconds = (performance.now() - start) / 1_000;
const processSeconds = await work(jobs, () => {});
const { succeeded } = await client.queues.get("bench");
if (options.store !== "redis" && succeeded !== jobs) throw new Error(`expected ${jobs} jobs to have succeeded, got ${succeeded}`);
const late = [];
const begin = Date.now() + LEAD_MS;
await work(LATE_JOBS, (job) => late.push(performance.timeOrigin + performance.now() - job.dueAt.getTime()), () =>
  push(LATE_JOBS, (n) => Math.max(0, Math.round(begin + (n * 1_000) / LATE_PER_S - Date.now()))));
late.sort((a, b) => a - b);
const rounded = (number, digits = 2) => Number(number.toFixed(digits));
const at = (share) => rounded(late[Math.min(late.length - 1, Math.floor(late.length * share))]);
console.log(
  JSON.stringify({
    name: `Duetime (Node, ${options.store})`,
    jobs,
    push_jobs_per_s: rounded(jobs / pushSeconds, 0),
    process_jobs_per_s: rounded(jobs / processSeconds, 0),
    late_ms_p50: at(0.5),
    late_ms_p99: at(0.99),
    late_ms_max: at(1),
  }),
);
server.removeAllListeners("exit");
server.kill("SIGTERM");
await once(server, "exit");
rmSync(folder, { recursive: true });
