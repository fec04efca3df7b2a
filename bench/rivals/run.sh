#!/usr/bin/env bash
# Measures BullMQ and Duetime in turns, each run on a private Redis of its own (no persistence, a free port), and prints
# medians and ratios as a Markdown table:
#
#   DUETIME_BENCH=target/release/examples/redis_figures bench/rivals/run.sh [--jobs N] [--waiting N]
#
# DUETIME_BENCH is a command that takes the URL and the same options as bullmq.mjs and prints the same JSON; without it
# BullMQ is measured alone. RUNS sets the number of runs of each, 3 where it is not given. Needs redis-server, redis-cli,
# Node 20 or later and npm.
set -euo pipefail

options=("$@")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
runs=${RUNS:-3}
folder=$(mktemp -d -t duetime-rivals-XXXXXX)
server=
stop() {
  if [ -n "$server" ]; then
    kill -KILL "$server" && wait "$server" || true
    server=
  fi 2> /dev/null
}
trap 'stop; rm -rf "$folder"' EXIT

# Starts a server on a port below those of clients. One that another program holds ends it at once: then another.
start() {
  local tries
  for tries in 1 2 3 4 5; do
    port=$((10000 + RANDOM % 10000))
    redis-server --port "$port" --bind 127.0.0.1 --save "" --appendonly no --dir "$folder" > "$folder/redis.log" 2>&1 &
    server=$!
    while kill -0 "$server" 2> /dev/null; do
      # Not `PING`: the port may be another's.
      if redis-cli -p "$port" INFO server 2> /dev/null | grep -q "^process_id:$server"; then return; fi
    done
    server=
  done
  echo "expected redis-server to start: $(tail -n 3 "$folder/redis.log")" >&2
  exit 1
}

# One run of a command, on a server of its own; its JSON is a line of the results.
measure() {
  start
  "$@" "redis://127.0.0.1:$port/0" "${options[@]}" | tee -a "$folder/results" >&2
  stop
}

# As the lock file says; a no-op where that is installed already.
if ! cmp -s "$here/package-lock.json" "$here/node_modules/.installed"; then
  (cd "$here" && npm ci --ignore-scripts --no-audit --no-fund >&2 && cp package-lock.json node_modules/.installed)
fi
for _ in $(seq "$runs"); do
  measure node "$here/bullmq.mjs"
  # shellcheck disable=SC2086 # the words of a command
  if [ -n "${DUETIME_BENCH:-}" ]; then measure $DUETIME_BENCH; fi
done
node "$here/table.mjs" "$folder/results"
