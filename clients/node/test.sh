#!/usr/bin/env bash
# Builds the package in a temporary folder and runs its tests there. Needs Node 20, npm and a `duetime` (DUETIME_BIN, or the PATH).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${CARGO_TARGET_DIR:-$here/../../target}/clients/node
"$here/build.sh" "$folder"
cd "$folder"
npx --no-install tsc -p test
node --test --test-timeout=30000 build/
