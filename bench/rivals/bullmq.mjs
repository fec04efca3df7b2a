// Measures BullMQ against a Redis that is empty and used by nothing else, and prints one JSON object:
//
//   node bullmq.mjs redis://127.0.0.1:PORT/0 [--jobs 200000] [--waiting 0] [--in-flight 4]
//
//   push_jobs_per_s         bulks of 1,000 jobs with 100 bytes of JSON each, this many bulks in flight
//   process_jobs_per_s      the same jobs through one worker that does nothing, at a concurrency of 100
//   push_, process_ and both together (without a prefix):
//     redis_us_per_job      processor time of the Redis process
//     commands_per_job      commands that Redis counts, those inside scripts included
//   late_ms_p50, _p99, _max start of the handler minus due time, of 2,000 delayed jobs at 400 a second
//   bytes_per_delayed_job   of Redis' used_memory, by the delayed jobs that wait all the while (`--waiting`), or else by
//                           100,000 that are delayed at the end
//
// Finished jobs are removed at once, which is the fastest that BullMQ offers.

import { createRequire } from "node:module";
import { parseArgs } from "node:util";
import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";

const BULK = 1_000;
const CONCURRENCY = 100;
const DELAYED = 100_000;
const LATE_JOBS = 2_000;
const LATE_PER_S = 400;
// From the push to the first due time: all are pushed before.
const LEAD_MS = 3_000;
const DAY_MS = 86_400_000;

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    jobs: { type: "string", default: "200000" },
    waiting: { type: "string", default: "0" },
    "in-flight": { type: "string", default: "4" },
  },
});
const url = new URL(positionals[0] ?? "redis://127.0.0.1:6379/0");
const jobs = Number(options.jobs);
const waiting = Number(options.waiting);
const inFlight = Number(options["in-flight"]);
const data = { body: "x".repeat(100 - JSON.stringify({ body: "" }).length) };

const connection = { host: url.hostname, port: Number(url.port), db: Number(url.pathname.slice(1)), maxRetriesPerRequest: null };
const redis = new Redis(connection);
const info = async (field) => {
  const text = await redis.info();
  return text.match(new RegExp(`^${field}:(.*)\r$`, "m"))[1];
};
const cost = async () => ({
  s: Number(await info("used_cpu_user")) + Number(await info("used_cpu_sys")),
  commands: Number(await info("total_commands_processed")),
});

if ((await redis.dbsize()) > 0) {
  throw new Error(`expected an empty database at ${url}, got ${await redis.dbsize()} keys`);
}
const queue = new Queue("bench", { connection, defaultJobOptions: { removeOnComplete: true } });
await queue.waitUntilReady();

/** Pushes `count` jobs in bulks; `delay` answers that of the nth in ms, or undefined. */
async function push(count, delay) {
  let next = 0;
  const lane = async () => {
    while (next < count) {
      const first = next;
      next = Math.min(count, first + BULK);
      await queue.addBulk(
        Array.from({ length: next - first }, (_, i) => ({ name: "job", data, opts: { delay: delay?.(first + i) } })),
      );
    }
  };
  await Promise.all(Array.from({ length: inFlight }, lane));
}

/** Runs a worker until it has finished `count` jobs; answers the seconds that took. */
async function work(count, handler, begin) {
  const worker = new Worker("bench", handler, { connection, concurrency: CONCURRENCY, autorun: false });
  await worker.waitUntilReady();
  const start = performance.now();
  await new Promise((resolve, reject) => {
    let left = count;
    worker.on("completed", () => --left === 0 && resolve());
    worker.on("failed", (_, error) => reject(error));
    worker.run().catch(reject);
    begin?.();
  });
  const seconds = (performance.now() - start) / 1_000;
  await worker.close();
  return seconds;
}

/** Bytes of each of `count` jobs that are due in 1 to 30 days. */
async function memory(count) {
  const before = Number(await info("used_memory"));
  await push(count, (n) => DAY_MS + ((n * 7_919) % count) * ((29 * DAY_MS) / count));
  return (Number(await info("used_memory")) - before) / count;
}

/** Lateness of each delayed job in ms, in order. */
async function lateness() {
  const late = [];
  const wall = () => performance.timeOrigin + performance.now();
  const begin = Date.now() + LEAD_MS;
  const handler = async (job) => void late.push(wall() - (job.timestamp + job.opts.delay));
  await work(LATE_JOBS, handler, () => push(LATE_JOBS, (n) => Math.round(begin + (n * 1_000) / LATE_PER_S - Date.now())));
  return late.sort((a, b) => a - b);
}

const bytesWaiting = waiting > 0 ? await memory(waiting) : undefined;
const costs = [await cost()];
let start = performance.now();
await push(jobs);
const pushSeconds = (performance.now() - start) / 1_000;
costs.push(await cost());
const processSeconds = await work(jobs, async () => {});
costs.push(await cost());
const late = await lateness();
const bytes = bytesWaiting ?? (await memory(DELAYED));

const rounded = (number, digits = 2) => Number(number.toFixed(digits));
const between = (prefix, from, to) => ({
  [`${prefix}redis_us_per_job`]: rounded(((to.s - from.s) * 1e6) / jobs),
  [`${prefix}commands_per_job`]: rounded((to.commands - from.commands) / jobs),
});
const at = (share) => rounded(late[Math.min(late.length - 1, Math.floor(late.length * share))]);
console.log(
  JSON.stringify({
    name: `BullMQ ${createRequire(import.meta.url)("bullmq/package.json").version}`,
    redis: await info("redis_version"),
    jobs,
    waiting,
    push_jobs_per_s: rounded(jobs / pushSeconds, 0),
    process_jobs_per_s: rounded(jobs / processSeconds, 0),
    ...between("push_", costs[0], costs[1]),
    ...between("process_", costs[1], costs[2]),
    ...between("", costs[0], costs[2]),
    late_ms_p50: at(0.5),
    late_ms_p99: at(0.99),
    late_ms_max: at(1),
    bytes_per_delayed_job: rounded(bytes, 0),
  }),
);
await queue.close();
redis.disconnect();
