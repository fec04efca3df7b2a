#!/usr/bin/env bash
# The strict checks: mypy and ruff. Needs Python 3.10 or later (PYTHON, by default python3) and pip.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
venv=$("$here/venv.sh")
cd "$here"
"$venv/bin/mypy" --cache-dir "$venv/mypy"
"$venv/bin/ruff" check --no-cache
"$venv/bin/ruff" format --check --no-cache
