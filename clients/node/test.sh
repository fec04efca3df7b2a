#!/usr/bin/env bash
# Builds the package in a temporary folder and runs its tests and those of the examples there. Needs Node 20, npm and a
# `duetime` (DUETIME_BIN, or the PATH).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(realpath -m "${CARGO_TARGET_DIR:-$here/../../target}/clients/node")
"$here/build.sh" "$folder"
PATH=$folder/bin:$PATH
cd "$folder"
# Meanwhile the examples are made.
make_examples() {
  cd examples
  if ! cmp -s package-lock.json node_modules/.installed; then
    npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2
    cp package-lock.json node_modules/.installed
  fi
  node_modules/.bin/tsc -p .
}
make_examples &
# check.sh looks at their types.
node_modules/.bin/tsc -p test --noCheck
node --test --test-timeout=60000 --test-concurrency=4 build/test/*.test.js
wait $!
cd examples
node --test --test-timeout=30000 examples.test.mjs
