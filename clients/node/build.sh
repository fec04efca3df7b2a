#!/usr/bin/env bash
# Builds the package into a folder: clients/node/build.sh DEST. `npm ci` runs only if the lock file there is another one.
# DEST/dist is what `npm pack` in DEST packs, DEST/conformance/driver.mjs the driver.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dest=${1:?"usage: build.sh DEST"}
mkdir -p "$dest"
dest=$(cd "$dest" && pwd)
rm -rf "$dest"/{src,test,conformance,examples,dist,build}
for each in src test conformance examples package.json package-lock.json tsconfig.json eslint.config.mjs README.md; do
  if [ -e "$here/$each" ]; then cp -R "$here/$each" "$dest/"; fi
done
cd "$dest"
if ! cmp -s package-lock.json node_modules/.installed; then
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2
  cp package-lock.json node_modules/.installed
fi
npm run --silent build
