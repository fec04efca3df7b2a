# The strict checks of a PHP package, in its folder: the syntax of each of `$files`, `strict_types` in all but `$loose`, and phpstan or
# psalm at its strictest level, where one is installed (neither Debian nor npm nor PyPI has them).
for file in $files; do
    php -d error_reporting=-1 -d display_errors=1 -l "$file" > /dev/null
    grep -q '^declare(strict_types=1);' "$file" || [ "$file" = "$loose" ] || { echo "$file: no strict_types"; exit 1; }
done
composer validate --no-interaction --quiet --no-check-version || { composer validate --no-interaction; exit 1; }
if command -v phpstan > /dev/null; then
    exec phpstan analyse --level max --no-progress --autoload-file tests/analysis.php src
elif command -v psalm > /dev/null; then
    # In another folder, because it wants to find an installation by Composer beside composer.json.
    config=$PWD/psalm.xml
    cd /
    exec psalm --config="$config" --no-cache --no-progress
fi
echo 'neither phpstan nor psalm is installed: only the syntax was checked'
