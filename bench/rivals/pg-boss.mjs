// Measures pg-boss in a PostgreSQL database that is empty and used by nothing else; postgres.mjs says what it prints:
//
//   node pg-boss.mjs postgres://USER@127.0.0.1:PORT/DB [--tuned] [--jobs 20000] [--seconds 30] [--in-flight 4]
//
// With its defaults, one worker fetches one job every two seconds. Tuned, several workers take a batch at a time, complete it as
// a whole, continue without a pause while batches are full, and otherwise poll as often as pg-boss allows. Two to eight workers
// with batches of 500 to 2,000 did about equally well, smaller batches worse.

import { createRequire } from "node:module";
import { PgBoss } from "pg-boss";
import { measure } from "./postgres.mjs";

const LANES = 4;
const BATCH = 1_000;
const TUNED = { batchSize: BATCH, localConcurrency: LANES, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };

const { version } = createRequire(import.meta.url)("pg-boss/package.json");

await measure(`pg-boss ${version}`, async (url, isTuned) => {
  const boss = new PgBoss(url);
  boss.on("error", (error) => {
    throw error;
  });
  await boss.start();
  for (const queue of ["bench", "late"]) await boss.createQueue(queue);
  return {
    push: (queue, bulk) => boss.insert(queue, bulk.map(({ data, due }) => ({ data, startAfter: due }))),
    work: async (queue, handler) => {
      await boss.work(queue, isTuned ? TUNED : {}, async (jobs) => jobs.forEach((job) => handler(job.data)));
      return () => boss.offWork(queue);
    },
    unfinished: "select count(*) from pgboss.job where name = $1 and state < 'completed'",
    close: () => boss.stop({ graceful: false }),
  };
});
