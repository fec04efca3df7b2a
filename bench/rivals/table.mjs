// Prints medians of the runs in a file of JSON lines, as a Markdown table; with ratios if two
// systems are compared. Keys that no run has are omitted.

import { readFileSync } from "node:fs";

// Key, what it is, and whether more is better.
const ROWS = [
  ["push_jobs_per_s", "push in bulk, jobs/s", true],
  ["cycle_jobs_per_s", "push, then process, jobs/s", true],
  ["process_jobs_per_s", "process, jobs/s", true],
  ["late_ms_p50", "lateness p50, ms", false],
  ["late_ms_p99", "lateness p99, ms", false],
  ["late_ms_max", "lateness max, ms", false],
  ["bytes_per_delayed_job", "Redis memory per delayed job, bytes", false],
  ["redis_us_per_job", "Redis CPU per job over its life, µs", false],
  ["commands_per_job", "Redis commands per job over its life", false],
  ["push_redis_us_per_job", "of which push, µs", false],
  ["process_redis_us_per_job", "of which process, µs", false],
];

const runs = readFileSync(process.argv[2], "utf8").trim().split("\n").map((line) => JSON.parse(line));
const names = [...new Set(runs.map((run) => run.name))];
const median = (name, key) => {
  const figures = runs.filter((run) => run.name === name && key in run).map((run) => run[key]);
  return figures.sort((a, b) => a - b)[Math.floor(figures.length / 2)];
};
const shown = (number) => (number < 1_000 ? Number(number.toPrecision(3)) : Math.round(number)).toLocaleString("en");
const cell = (name, key) => {
  const figure = median(name, key);
  const isAtLeast = key.startsWith("late_") && median(name, "late_unstarted") > 0;
  return figure === undefined ? "" : `${isAtLeast ? "≥ " : ""}${shown(figure)}`;
};

const [{ jobs, seconds, waiting, redis, postgres, node }] = runs;
const servers = postgres ? `PostgreSQL ${postgres}, Node ${node}` : `Redis ${redis}`;
const beside = waiting === undefined ? "" : `, ${waiting} waiting`;
const count = runs.filter((run) => run.name === names[0]).length;
console.log(`${servers}, ${jobs} jobs${beside}, median of ${count} runs.\n`);
const others = names.length === 2 ? names.slice(1) : [];
console.log(`| measure | ${[...names, ...others.map((name) => `${name} is`)].join(" | ")} |`);
console.log(`|---|${"---|".repeat(names.length + others.length)}`);
for (const [key, what, isMoreBetter] of ROWS.filter(([key]) => runs.some((run) => key in run))) {
  const ratio = (name) => (median(name, key) / median(names[0], key)) ** (isMoreBetter ? 1 : -1);
  const words = others.map((name) => (median(name, key) === undefined ? "" : `${ratio(name).toFixed(1)} × ${isMoreBetter ? "as fast" : "less"}`));
  console.log(`| ${[what, ...names.map((name) => cell(name, key)), ...words].join(" | ")} |`);
}
for (const name of names.filter((name) => median(name, "processed") < jobs)) {
  console.log(`\n${name} processed ${shown(median(name, "processed"))} of the jobs in ${seconds} s; its rates are of these.`);
}
