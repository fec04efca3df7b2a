#!/bin/sh
# The tests of the Laravel driver, in an application of Debian's php-laravel-framework. Needs phpunit, php-sqlite3, php-curl, and
# DUETIME_BIN (or duetime in the PATH). With arguments for phpunit, such as `--filter Cancel`, one process runs all.
set -eu
cd "$(dirname "$0")"
. ../php/phpunit.sh
