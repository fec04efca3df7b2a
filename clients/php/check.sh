#!/bin/sh
# The strict checks: see analyse.sh.
set -eu
cd "$(dirname "$0")"
files=$(find src tests conformance examples bin -name '*.php' -o -path bin/duetime-work)
loose=examples/handlers.php
. ./analyse.sh
