#!/usr/bin/env bash
# Measures Laravel's queue drivers in turns, each run on an empty store of its own, and prints the medians as a Markdown table:
#
#   DUETIME_BIN=target/release/duetime bench/rivals/run-laravel.sh [JOBS]
#
# The drivers are `database` on SQLite with its defaults, `redis` (phpredis) on a private Redis without persistence and on one that syncs
# each write, and `duetime` on a server with a file (what is acknowledged is on disk) and on one in memory, whose jobs may be tried once or
# three times. RUNS is the number of runs of each, 3 by default.
# Needs Debian's php-laravel-framework, php-redis, php-sqlite3 and redis-server.
set -euo pipefail

jobs=${1:-5000}
runs=${RUNS:-3}
# shellcheck source=servers.sh
source "$(dirname "${BASH_SOURCE[0]}")/servers.sh"
server=
stop_duetime() {
  if [ -n "$server" ]; then
    kill -KILL "$server" && wait "$server" || true
    server=
  fi 2> /dev/null
}
trap 'stop_redis; stop_duetime; rm -rf "$folder"' EXIT

start_duetime() {
  "${DUETIME_BIN:-duetime}" serve --store "$1" --listen 127.0.0.1:0 > "$folder/duetime.log" 2> /dev/null &
  server=$!
  until grep -q 'listening on' "$folder/duetime.log"; do
    kill -0 "$server" 2> /dev/null || { echo "expected a server from DUETIME_BIN: $(cat "$folder/duetime.log")" >&2; exit 1; }
  done
  DUETIME_SERVER=$(grep -o 'http://[0-9.:]*' "$folder/duetime.log" | head -n 1)
  export DUETIME_SERVER
}

# One run of a driver, in an application of its own.
measure() {
  local app
  app=$(mktemp -d "$folder/app-XXXXXX")
  LABEL=$1 php "$here/laravel.php" "$app" "$2" "$3" | tee -a "$folder/results" >&2
}

measure_redis() {
  local label=$1
  rm -rf "$folder/appendonlydir"
  start_redis "${@:2}"
  REDIS_PORT=${redis_url##*:} && export REDIS_PORT=${REDIS_PORT%/0}
  measure "$label" redis "$jobs"
  stop_redis
}

for run in $(seq "$runs"); do
  # Each of its jobs waits for the disk four times, so a tenth of them is enough.
  measure database database $((jobs / 10))
  measure_redis redis
  measure_redis 'redis, synced' --appendonly yes --appendfsync always
  start_duetime "$folder/run-$run.db"
  measure 'duetime, file' duetime "$jobs"
  TRIES=3 measure 'duetime, file, 3 tries' duetime "$jobs"
  stop_duetime
  start_duetime memory
  measure 'duetime, memory' duetime "$jobs"
  TRIES=3 measure 'duetime, memory, 3 tries' duetime "$jobs"
  stop_duetime
done
php -r '
  foreach (file($argv[1]) as $line) { $one = json_decode($line, true); $all[$one["queue"]][] = $one; }
  echo "| driver | push/s | bulk push/s | process/s | worker CPU a job |\n|---|---|---|---|---|\n";
  foreach ($all as $name => $runs) {
      $median = static function (string $key) use ($runs) { $values = array_column($runs, $key); sort($values); return $values[intdiv(count($values), 2)]; };
      printf("| %s | %s | %s | %s | %.2f ms |\n", $name, number_format($median("push")), number_format($median("bulk")), number_format($median("process")), $median("cpu"));
  }' "$folder/results"
