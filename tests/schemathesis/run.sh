#!/bin/sh
# Holds a private server to its OpenAPI document: every operation with right and wrong data, and in sequences.
#
# usage: tests/schemathesis/run.sh [--token TOKEN --tokens FILE] [--seconds N] [-- OPTIONS OF SCHEMATHESIS]
#
# Needs target/debug/duetime, or what DUETIME names, and Schemathesis: in PATH, or what SCHEMATHESIS names
# (python3 -m venv venv && venv/bin/pip install schemathesis==4.32.5).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
duetime=${DUETIME:-$here/../../target/debug/duetime}
schemathesis=${SCHEMATHESIS:-schemathesis}
token= tokens= seconds=
while [ $# -gt 0 ]; do
  case $1 in
    --token) token=$2; shift 2 ;;
    --tokens) tokens=$2; shift 2 ;;
    --seconds) seconds=$2; shift 2 ;;
    --) shift; break ;;
    *) echo "run.sh: expected --token, --tokens, --seconds or --, got $1" >&2; exit 2 ;;
  esac
done

folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
mkfifo "$folder/out"
"$duetime" serve --store memory --listen 127.0.0.1:0 --log-level error ${tokens:+--tokens "$tokens"} \
  >"$folder/out" 2>"$folder/log" &
server=$!
url=
exec 3<"$folder/out"
while IFS= read -r line <&3; do
  case $line in
    *'listening on '*) url=${line#*listening on } ;;
    *'  stop '*) break ;;
  esac
done
[ -n "$url" ] || { echo "run.sh: the server did not start:" >&2; cat "$folder/log" >&2; exit 1; }

# What it remembers of a run goes with the folder.
cp "$here/schemathesis.toml" "$folder"
cd "$folder"
status=0
# Events never end, so no answer of theirs can be judged.
"$schemathesis" run "$url/openapi.json" --checks all --continue-on-failure --exclude-path /v1/events \
  --request-timeout 90 ${seconds:+--max-time "$seconds"} ${token:+--header "authorization: Bearer $token"} "$@" || status=$?
if [ -s "$folder/log" ]; then
  echo "The server's log:" >&2
  tail -n 40 "$folder/log" >&2
fi
kill -0 "$server" || { echo "run.sh: the server has ended" >&2; exit 1; }
exit "$status"
