#!/usr/bin/env bash
# Builds the package into a folder: clients/node/build.sh DEST. A second call does nothing while the sources are the same.
# DEST/dist is what `npm pack` in DEST packs, DEST/conformance/driver.mjs the driver, DEST/bin/node a Node that can run it: that of the PATH,
# or one from npm if that is older than 20.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dest=${1:?"usage: build.sh DEST"}
sources=(src test conformance examples package.json package-lock.json tsconfig.json eslint.config.mjs README.md)
mark=$(cd "$here" && find "${sources[@]}" -type f -not -path '*/node_modules/*' -exec sha256sum {} + | LC_ALL=C sort | sha256sum)
if [ "$(cat "$dest/.mark" 2>/dev/null)" = "$mark" ]; then exit 0; fi
mkdir -p "$dest/examples"
dest=$(cd "$dest" && pwd)
# All but what npm has installed.
find "$dest" "$dest/examples" -mindepth 1 -maxdepth 1 ! -name node_modules ! -name node20 ! -name examples -exec rm -rf {} +
for each in "${sources[@]}"; do
  cp -R "$here/$each" "$dest/"
done
cd "$dest"
if ! cmp -s package-lock.json node_modules/.installed; then
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2
  cp package-lock.json node_modules/.installed
fi
node=$(command -v node)
if [ "$(node -p 'parseInt(process.versions.node)')" -lt 20 ]; then
  npm install --prefix "$dest/node20" --no-audit --no-fund --loglevel=error node@20 >&2
  node=$dest/node20/node_modules/node/bin/node
fi
mkdir bin
ln -s "$node" bin/node
PATH=$dest/bin:$PATH node_modules/.bin/tsc -p .
echo "$mark" >.mark
