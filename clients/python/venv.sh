#!/usr/bin/env bash
# Makes the virtual environment of the tests and checks, if it is not there or the requirements have changed, and prints its path.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-python3}
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
venv=${CARGO_TARGET_DIR:-$here/../../target}/clients/python-$version
mark=$(cat "$here/requirements.txt" "$here/pyproject.toml" <(echo "$here") | sha256sum)
if [ "$(cat "$venv/mark" 2>/dev/null)" != "$mark" ]; then
    rm -rf "$venv"
    "$python" -m venv "$venv" >&2
    "$venv/bin/pip" install -q --disable-pip-version-check -r "$here/requirements.txt" -e "$here" >&2
    echo "$mark" >"$venv/mark"
fi
echo "$venv"
