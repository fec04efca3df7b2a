#!/bin/sh
# The tests of the Laravel driver, in an application of Debian's php-laravel-framework. Needs phpunit, php-sqlite3, php-curl, and
# DUETIME_BIN (or duetime in the PATH).
set -eu
cd "$(dirname "$0")"
exec phpunit --no-configuration --do-not-cache-result --bootstrap tests/bootstrap.php --test-suffix Test.php --fail-on-risky --colors=never "$@" tests
