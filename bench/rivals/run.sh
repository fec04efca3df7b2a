#!/usr/bin/env bash
# Measures BullMQ and Duetime in turns, each run on its own private Redis (no persistence, a free port), and prints
# medians and ratios as a Markdown table:
#
#   DUETIME_BENCH=target/release/examples/redis_figures bench/rivals/run.sh [--jobs N] [--waiting N]
#
# DUETIME_BENCH is a command that takes the URL and the same options as bullmq.mjs and prints the same JSON; without it
# BullMQ is measured alone. RUNS sets the number of runs of each, 3 by default. Needs redis-server, redis-cli,
# Node 20 or later and npm.
set -euo pipefail

options=("$@")
runs=${RUNS:-3}
# shellcheck source=servers.sh
source "$(dirname "${BASH_SOURCE[0]}")/servers.sh"

# One run of a command, on its own server; its JSON is a line of the results.
measure() {
  start_redis
  "$@" "$redis_url" "${options[@]}" | tee -a "$folder/results" >&2
  stop_redis
}

install_packages
for _ in $(seq "$runs"); do
  measure node "$here/bullmq.mjs"
  # shellcheck disable=SC2086 # the words of a command
  if [ -n "${DUETIME_BENCH:-}" ]; then measure $DUETIME_BENCH; fi
done
node "$here/table.mjs" "$folder/results"
