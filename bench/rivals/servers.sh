# shellcheck shell=bash disable=SC2034 # the URLs are for those who source it
# The servers of the measurements, each private, in a temporary folder and on a free port; to be sourced. They are
# stopped when the script ends.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d -t duetime-rivals-XXXXXX)
redis=
postgres=
trap 'stop_redis; stop_postgres; rm -rf "$folder"' EXIT

# The packages of the lock file; a no-op if they are installed.
install_packages() {
  if ! cmp -s "$here/package-lock.json" "$here/node_modules/.installed"; then
    (cd "$here" && npm ci --ignore-scripts --no-audit --no-fund >&2 && cp package-lock.json node_modules/.installed)
  fi
}

# A port below those of clients.
some_port() {
  echo $((10000 + RANDOM % 10000))
}

# Starts a Redis without persistence, unless the arguments say otherwise; `redis_url` is its address. If another program holds the port, Redis exits at once,
# and another port is tried.
start_redis() {
  local port
  for _ in 1 2 3 4 5; do
    port=$(some_port)
    redis_url=redis://127.0.0.1:$port/0
    redis-server --port "$port" --bind 127.0.0.1 --save "" --appendonly no --dir "$folder" "$@" > "$folder/redis.log" 2>&1 &
    redis=$!
    while kill -0 "$redis" 2> /dev/null; do
      # Not `PING`: another server may have the port.
      if redis-cli -p "$port" INFO server 2> /dev/null | grep -q "^process_id:$redis"; then return; fi
    done
    redis=
  done
  echo "expected redis-server to start: $(tail -n 3 "$folder/redis.log")" >&2
  exit 1
}

stop_redis() {
  if [ -n "$redis" ]; then
    kill -KILL "$redis" && wait "$redis" || true
    redis=
  fi 2> /dev/null
}

# A program of PostgreSQL, by the user that may run it: root may not. Debian keeps them off the PATH.
of_postgres() {
  local bin
  bin=$(find /usr/lib/postgresql -mindepth 2 -maxdepth 2 -name bin 2> /dev/null | sort -V | tail -n 1 || true)
  if [ "$(id -u)" = 0 ]; then
    (cd "$folder" && PATH=${bin:+$bin:}$PATH runuser -u postgres -- "$@")
  else
    PATH=${bin:+$bin:}$PATH "$@"
  fi
}

# Starts a PostgreSQL with its defaults, so what is committed is on disk, but more shared memory; `postgres_server` is
# its URL without a database.
start_postgres() {
  local port data=$folder/postgres
  mkdir "$data"
  if [ "$(id -u)" = 0 ]; then
    # It has to pass through the folder.
    chmod 711 "$folder"
    chown postgres "$data"
  fi
  of_postgres initdb -A trust -E UTF8 --locale C.UTF-8 -U duetime -D "$data" > "$folder/initdb.log"
  for _ in 1 2 3 4 5; do
    port=$(some_port)
    postgres_server=postgres://duetime@127.0.0.1:$port
    if of_postgres pg_ctl start -w -s -D "$data" -l "$data/log" \
      -o "-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c shared_buffers=256MB"; then
      postgres=$data
      return
    fi
  done
  echo "expected PostgreSQL to start: $(tail -n 3 "$data/log")" >&2
  exit 1
}

stop_postgres() {
  if [ -n "$postgres" ]; then
    of_postgres pg_ctl stop -s -m immediate -D "$postgres" || true
    postgres=
  fi
}

# Recreates the database `bench`; `postgres_url` is its address. Earlier writes are flushed first, so no run pays for another.
fresh_database() {
  postgres_url=$postgres_server/bench
  of_postgres psql -q -v ON_ERROR_STOP=1 "$postgres_server/postgres" <<- SQL
	set client_min_messages = warning;
	drop database if exists bench with (force);
	create database bench;
	checkpoint;
	SQL
}
