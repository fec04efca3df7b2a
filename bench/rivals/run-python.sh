#!/usr/bin/env bash
# Measures Celery, dramatiq and Duetime's Python worker in turns, on a private Redis (no persistence, a free port), and prints medians as
# a Markdown table:
#
#   DUETIME_BIN=target/release/duetime bench/rivals/run-python.sh [--jobs N] [--runs N] [--concurrency N]
#
# Needs redis-server, redis-cli, Python 3.10 or later and pip.
set -euo pipefail

# shellcheck source=servers.sh
source "$(dirname "${BASH_SOURCE[0]}")/servers.sh"
program=$(realpath "${DUETIME_BIN:?the path of a release build of duetime}")

venv=${CARGO_TARGET_DIR:-$here/../../target}/rivals-python
"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/pip" install -q --disable-pip-version-check "celery[redis]==5.7.0" "dramatiq[redis]==2.2.1" "$here/../../clients/python" >&2
start_redis
cd "$folder"
RIVALS_REDIS=$redis_url "$venv/bin/python" "$here/python_queues.py" "$program" "$@"
