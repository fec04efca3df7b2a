#!/usr/bin/env bash
# Measures pg-boss, graphile-worker and Duetime in turns, each in an empty database of one private PostgreSQL (its
# defaults, so durable, but shared_buffers = 256MB), and prints the medians as a Markdown table:
#
#   DUETIME_BENCH_SQL=PROGRAM bench/rivals/run-postgres.sh [--jobs 20000] [--runs 3] [--seconds 30]
#
# DUETIME_BENCH_SQL is a command that takes the URL of a Redis that is empty and its own (without persistence), the URL
# of the database, and the number of jobs, and prints JSON with the keys that postgres.mjs explains; without it the
# rivals are measured alone. NODE is the Node to use, `node` by default: they ask for 22.18 or later, and run
# on 20, but slower. Needs PostgreSQL's programs, npm, and for Duetime redis-server and redis-cli.
set -euo pipefail

jobs=20000
runs=3
seconds=30
while [ $# -gt 0 ]; do
  case $1 in
    --jobs) jobs=$2 ;;
    --runs) runs=$2 ;;
    --seconds) seconds=$2 ;;
    *) echo "expected --jobs, --runs or --seconds, got $1" >&2 && exit 2 ;;
  esac
  shift 2
done
# shellcheck source=servers.sh
source "$(dirname "${BASH_SOURCE[0]}")/servers.sh"

# One run of a rival, with defaults or tuned; its JSON is a line of the results.
measure() {
  fresh_database
  "${NODE:-node}" "$here/$1.mjs" "$postgres_url" --jobs "$jobs" --seconds "$seconds" "${@:2}" | tee -a "$folder/results" >&2
}

install_packages
start_postgres
for _ in $(seq "$runs"); do
  measure pg-boss
  measure pg-boss --tuned
  if [ -n "${DUETIME_BENCH_SQL:-}" ]; then
    fresh_database
    start_redis
    # shellcheck disable=SC2086 # the words of a command
    $DUETIME_BENCH_SQL "$redis_url" "$postgres_url" "$jobs" | tee -a "$folder/results" >&2
    stop_redis
  fi
  measure graphile-worker
  measure graphile-worker --tuned
done
node "$here/table.mjs" "$folder/results"
