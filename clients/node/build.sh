#!/usr/bin/env bash
# Builds the package into a folder: clients/node/build.sh DEST. `npm ci` runs only if the lock file there is another one.
# DEST/dist is what `npm pack` in DEST packs, DEST/conformance/driver.mjs the driver.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dest=${1:?"usage: build.sh DEST"}
mkdir -p "$dest/examples"
dest=$(cd "$dest" && pwd)
# All but what npm has installed.
find "$dest" "$dest/examples" -mindepth 1 -maxdepth 1 ! -name node_modules ! -name examples -exec rm -rf {} +
for each in src test conformance examples package.json package-lock.json tsconfig.json eslint.config.mjs README.md; do
  cp -R "$here/$each" "$dest/"
done
cd "$dest"
if ! cmp -s package-lock.json node_modules/.installed; then
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2
  cp package-lock.json node_modules/.installed
fi
npm run --silent build
