#!/usr/bin/env bash
# The strict checks: tsc and eslint. Needs Node 20 and npm.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(realpath -m "${CARGO_TARGET_DIR:-$here/../../target}/clients/node")
"$here/build.sh" "$folder"
PATH=$folder/bin:$PATH
cd "$folder"
node_modules/.bin/eslint . &
node_modules/.bin/tsc -p test --noEmit
node test/docs.mjs dist/index.d.ts dist/testing/index.d.ts
wait $!
