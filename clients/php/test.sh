#!/bin/sh
# The tests of the PHP client. Needs php-cli with curl, pcntl, pdo_sqlite and xml, phpunit, and DUETIME_BIN (or duetime in the PATH).
# With arguments for phpunit, such as `--filter Lock`, one process runs all.
set -eu
cd "$(dirname "$0")"
export XDEBUG_MODE=off
. ./phpunit.sh
