// Measures graphile-worker in a PostgreSQL database that is empty and used by nothing else; postgres.mjs says what it
// prints:
//
//   node graphile-worker.mjs postgres://USER@127.0.0.1:PORT/DB [--tuned] [--jobs 20000] [--seconds 30] [--in-flight 4]
//
// With its defaults it runs one job at a time and looks for due jobs every two seconds. Tuned, it has the settings of its
// own benchmark (https://worker.graphile.org/docs/performance), but takes 2,000 jobs at a time
// instead of 500, which was faster here, and polls every 10 ms: an idle worker polls a hundred times a second. It logs
// nothing either way, as in its own measurement.

import { createRequire } from "node:module";
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import { measure } from "./postgres.mjs";

const TUNED = {
  concurrentJobs: 24,
  maxPoolSize: 25,
  localQueue: { size: 2_000 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
  pollInterval: 10,
};

// It does not export this file.
const { version } = createRequire(import.meta.url)("./node_modules/graphile-worker/package.json");
const logger = new Logger(() => () => {});

await measure(`graphile-worker ${version}`, async (url, isTuned) => {
  const preset = { worker: { connectionString: url, logger, ...(isTuned ? TUNED : {}) } };
  const utils = await makeWorkerUtils({ preset });
  await utils.migrate();
  return {
    push: (queue, bulk) =>
      utils.addJobs(bulk.map(({ data, due }) => ({ identifier: queue, payload: data, runAt: due }))),
    work: async (queue, handler) => {
      const runner = await run({ preset, noHandleSignals: true, taskList: { [queue]: async (data) => handler(data) } });
      return () => runner.stop();
    },
    unfinished: "select count(*) from graphile_worker.jobs where task_identifier = $1",
    close: () => utils.release(),
  };
});
