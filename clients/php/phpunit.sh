# Runs phpunit in this folder, in one process for each file of tests: they mostly wait. With arguments for phpunit, in one for all.
phpunit='phpunit --no-configuration --do-not-cache-result --bootstrap tests/bootstrap.php --test-suffix Test.php --fail-on-risky --colors=never'
if [ $# -gt 0 ]; then
    exec $phpunit "$@" tests
fi
said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT
for file in tests/*Test.php; do
    { $phpunit "$file" > "$said/${file##*/}" 2>&1 || touch "$said/failed"; } &
done
wait
cat "$said"/*Test.php
[ ! -e "$said/failed" ]
