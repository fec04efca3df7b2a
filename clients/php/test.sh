#!/bin/sh
# The tests of the PHP client. Needs php-cli with curl, pcntl, pdo_sqlite and xml, phpunit, and DUETIME_BIN (or duetime in the PATH).
set -eu
cd "$(dirname "$0")"
export XDEBUG_MODE=off
exec phpunit --no-configuration --do-not-cache-result --bootstrap tests/bootstrap.php --test-suffix Test.php --fail-on-risky --colors=never "$@" tests
