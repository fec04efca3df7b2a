#!/usr/bin/env bash
# Runs the tests in a virtual environment below the target folder. Needs Python 3.9 or later (PYTHON, by default python3), pip, and a
# `duetime` (DUETIME_BIN, or the PATH).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=$("$here/venv.sh")
cd "$here"
exec "$venv/bin/python" -m pytest -q -p no:cacheprovider "$@"
