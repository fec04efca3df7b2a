#!/bin/sh
# The strict checks: see ../php/analyse.sh.
set -eu
cd "$(dirname "$0")"
files=$(find src tests config -name '*.php')
loose=config/duetime.php
. ../php/analyse.sh
