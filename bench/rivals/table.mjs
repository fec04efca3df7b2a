// Prints medians and ratios of the runs in a file of JSON lines, as a Markdown table. The system that is named first is
// the one that the others are compared with.

import { readFileSync } from "node:fs";

// Key, what it is, and whether more is better.
const ROWS = [
  ["push_jobs_per_s", "push in bulk, jobs/s", true],
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
  const figures = runs.filter((run) => run.name === name).map((run) => run[key]);
  return figures.sort((a, b) => a - b)[Math.floor(figures.length / 2)];
};
const shown = (number) => (number < 1_000 ? Number(number.toPrecision(3)) : Math.round(number)).toLocaleString("en");

const [{ jobs, waiting, redis }] = runs;
const count = runs.length / names.length;
console.log(`Redis ${redis}, ${jobs} jobs, ${waiting} waiting, median of ${count} runs.\n`);
const others = names.slice(1);
console.log(`| measure | ${[...names, ...others.map((name) => `${name} is`)].join(" | ")} |`);
console.log(`|---|${"---|".repeat(names.length + others.length)}`);
for (const [key, what, isMoreBetter] of ROWS) {
  const figures = names.map((name) => median(name, key));
  const ratios = figures.slice(1).map((figure) => (isMoreBetter ? figure / figures[0] : figures[0] / figure));
  const words = ratios.map((ratio) => `${ratio.toFixed(1)} × ${isMoreBetter ? "as fast" : "less"}`);
  console.log(`| ${[what, ...figures.map(shown), ...words].join(" | ")} |`);
}
