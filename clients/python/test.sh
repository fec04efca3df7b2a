#!/usr/bin/env bash
# Runs the tests in a virtual environment below the target folder. Needs Python 3.9 or later (PYTHON, by default python3), pip, and a
# `duetime` (DUETIME_BIN, or the PATH).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=$("$here/venv.sh")
cd "$here"
pytest=("$venv/bin/python" -m pytest -q -p no:cacheprovider)
if [ $# -gt 0 ]; then exec "${pytest[@]}" "$@"; fi
# The two slow files beside the others: they wait for leases.
said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT
slow=(tests/test_worker.py tests/test_processes.py)
for file in "${slow[@]}"; do
  { "${pytest[@]}" "$file" >"$said/${file##*/}" 2>&1 || touch "$said/failed"; } &
done
"${pytest[@]}" "${slow[@]/#/--ignore=}" || touch "$said/failed"
wait
cat "$said"/*.py
[ ! -e "$said/failed" ]
