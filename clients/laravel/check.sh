#!/bin/sh
# Strict checks: the syntax of each file, and phpstan at its highest level where it is installed (neither Debian nor npm nor PyPI has it).
set -eu
cd "$(dirname "$0")"
for file in $(find src tests config -name '*.php'); do
    php -d error_reporting=-1 -d display_errors=1 -l "$file" > /dev/null
    grep -q '^declare(strict_types=1);' "$file" || [ "$file" = config/duetime.php ] || { echo "$file: no strict_types"; exit 1; }
done
composer validate --no-interaction --quiet --no-check-version || { composer validate --no-interaction; exit 1; }
if command -v phpstan > /dev/null; then
    exec phpstan analyse --level max --no-progress --autoload-file tests/bootstrap.php src
fi
echo 'phpstan is not installed: only the syntax was checked'
