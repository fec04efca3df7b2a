#!/bin/sh
# Pushes over HTTP with wrk as the load: plain, with TLS, and with TLS and a token, in turns, each on a new store.
#
# usage: bench/wrk/run.sh [ROUNDS [SECONDS]]
#
# Needs wrk, openssl and target/release/duetime, or the binary in DUETIME.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
duetime=${DUETIME:-$here/../../target/release/duetime}
rounds=${1:-3}
seconds=${2:-10}
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
  -keyout "$folder/key.pem" -out "$folder/cert.pem" 2>/dev/null
token=$("$duetime" token create bench --allow push --tokens "$folder/tokens.toml" 2>/dev/null)

# one SCHEME BATCH CONNECTIONS OPTIONS...
one() {
  scheme=$1 batch=$2 connections=$3
  shift 3
  rm -f "$folder"/store.db*
  "$duetime" serve --store "$folder/store.db" --listen 127.0.0.1:7391 --log-level error "$@" >/dev/null &
  server=$!
  until curl -ks "$scheme://127.0.0.1:7391/healthz" >/dev/null; do :; done
  BATCH=$batch wrk -t2 -c"$connections" -d"${seconds}s" -s "$here/push.lua" "$scheme://127.0.0.1:7391" | tail -1
  kill "$server"
  wait "$server" || true
  server=
}

for batch in 1 1000; do
  connections=$([ "$batch" = 1 ] && echo 64 || echo 4)
  for round in $(seq "$rounds"); do
    printf 'batch %s, plain:            ' "$batch"
    one http "$batch" "$connections"
    printf 'batch %s, TLS:              ' "$batch"
    one https "$batch" "$connections" --tls-cert "$folder/cert.pem" --tls-key "$folder/key.pem"
    printf 'batch %s, TLS and a token:  ' "$batch"
    TOKEN=$token one https "$batch" "$connections" --tls-cert "$folder/cert.pem" --tls-key "$folder/key.pem" \
      --tokens "$folder/tokens.toml"
  done
done
