// The measurements of a job queue on PostgreSQL, the same for each. One run is one JSON object:
//
//   jobs, seconds            how many jobs with 100 bytes of JSON each, and how long they may be processed at most
//   push_jobs_per_s          bulks of 1,000, this many bulks in flight
//   process_jobs_per_s       the same jobs through workers that do nothing, until the database holds no unfinished job
//   processed                how many of them ended; less than `jobs` only if the seconds were over before
//   cycle_jobs_per_s         from the first push to the last completion: both one after the other. If the seconds were
//                            over, as if the rest were processed at the same rate
//   late_ms_p50, _p99, _max  start of the handler minus due time, of 400 jobs that fall due between 2 and 6 s after their
//                            push, with the workers running all the while
//   late_unstarted           how many of those had not started when the seconds were over; they count as late until then,
//                            so the lateness is a lower bound
//
// A queue is a function `open(url, isTuned)`, which returns
//
//   push(queue, bulk)        pushes a bulk of { data, due }; `due` is a Date, or undefined
//   work(queue, handler)     starts workers that call handler(data); returns the function that stops them
//   unfinished               SQL of the number of unfinished jobs of the queue $1
//   close()

import { parseArgs } from "node:util";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";

const BULK = 1_000;
const LATE_JOBS = 400;
const LATE_SPAN_MS = 4_000;
// From the push to the first due time.
const LEAD_MS = 2_000;
const PAYLOAD_BYTES = 100;

/** Measures a queue in the empty database at the URL of the command line; prints the JSON. */
export async function measure(system, open) {
  const { values: options, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      jobs: { type: "string", default: "20000" },
      seconds: { type: "string", default: "30" },
      "in-flight": { type: "string", default: "4" },
      tuned: { type: "boolean", default: false },
    },
  });
  const [url] = positionals;
  const [jobs, seconds, inFlight] = [options.jobs, options.seconds, options["in-flight"]].map(Number);
  const database = new pg.Client({ connectionString: url });
  await database.connect();
  const queue = await open(url, options.tuned);
  const limit = seconds * 1_000;

  const pushed = performance.now();
  await push(queue, jobs, inFlight);
  const pushMs = performance.now() - pushed;
  const { processed, processMs } = await work(queue, database, jobs, limit);
  const { late, unstarted } = await lateness(queue, limit);

  const perS = (count, ms) => rounded((count * 1_000) / ms, count < jobs ? 2 : 0);
  const at = (share) => rounded(late[Math.min(late.length - 1, Math.floor(late.length * share))], 2);
  console.log(
    JSON.stringify({
      name: options.tuned ? `${system}, tuned` : system,
      postgres: (await database.query("show server_version")).rows[0].server_version.split(" ")[0],
      node: process.version.slice(1),
      jobs,
      seconds,
      push_jobs_per_s: perS(jobs, pushMs),
      process_jobs_per_s: perS(processed, processMs),
      processed,
      cycle_jobs_per_s: perS(processed, (pushMs * processed) / jobs + processMs),
      late_ms_p50: at(0.5),
      late_ms_p99: at(0.99),
      late_ms_max: at(1),
      late_unstarted: unstarted,
    }),
  );
  await queue.close();
  await database.end();
}

async function push(queue, count, inFlight) {
  let next = 0;
  const lane = async () => {
    while (next < count) {
      const first = next;
      next = Math.min(count, first + BULK);
      await queue.push("bench", Array.from({ length: next - first }, (_, i) => ({ data: payload(first + i) })));
    }
  };
  await Promise.all(Array.from({ length: inFlight }, lane));
}

async function work(queue, database, count, limit) {
  const unfinished = async () => Number((await database.query(queue.unfinished, ["bench"])).rows[0].count);
  let left = count;
  let allCalled;
  const called = new Promise((resolve) => (allCalled = resolve));
  const start = performance.now();
  const stop = await queue.work("bench", () => void (--left === 0 && allCalled()));
  await orAfter(limit, called);
  // The last ones are called, and their ends on the way to the database.
  let rest = await unfinished();
  while (rest > 0 && performance.now() - start < limit) {
    await sleep(1);
    rest = await unfinished();
  }
  const processMs = performance.now() - start;
  await stop();
  return { processed: count - rest, processMs };
}

async function lateness(queue, limit) {
  const wall = () => performance.timeOrigin + performance.now();
  const late = [];
  let allStarted;
  const started = new Promise((resolve) => (allStarted = resolve));
  const unstarted = new Set();
  const stop = await queue.work("late", ({ n: due }) => {
    if (unstarted.delete(due)) late.push(wall() - due);
    if (unstarted.size === 0) allStarted();
  });
  const first = Date.now() + LEAD_MS;
  const dues = Array.from({ length: LATE_JOBS }, (_, n) => first + Math.round((n * LATE_SPAN_MS) / LATE_JOBS));
  dues.forEach((due) => unstarted.add(due));
  await queue.push("late", dues.map((due) => ({ data: payload(due), due: new Date(due) })));
  await orAfter(first + LATE_SPAN_MS + limit - Date.now(), started);
  const count = unstarted.size;
  unstarted.forEach((due) => late.push(wall() - due));
  unstarted.clear();
  await stop();
  return { late: late.sort((a, b) => a - b), unstarted: count };
}

function payload(n) {
  const body = "x".repeat(PAYLOAD_BYTES - JSON.stringify({ n, body: "" }).length);
  return { n, body };
}

async function orAfter(ms, promise) {
  const given = new AbortController();
  await Promise.race([promise, sleep(ms, undefined, { signal: given.signal }).catch(() => {})]);
  given.abort();
}

const rounded = (number, digits) => Number(number.toFixed(digits));
