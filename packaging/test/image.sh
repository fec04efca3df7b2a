#!/bin/sh
# Runs in a container of the image, as its user: a server is started, found healthy, and used.
set -eu
test "$(id -u):$(id -g) $PWD $DUETIME_LISTEN" = "7300:7300 /var/lib/duetime 0.0.0.0:7300"
DUETIME_ALLOW_REMOTE=true duetime serve >/dev/null &
timeout 30 sh -c 'until duetime health --configured >/dev/null 2>&1; do sleep 0.1; done'
duetime health --configured
duetime push --queue mail hello
test "$(duetime work mail --once -- cat)" = hello
# The root certificates and the time zones are there.
test -s /etc/ssl/certs/ca-certificates.crt
test -s /usr/share/zoneinfo/Europe/Berlin
kill $!
wait $!
test -s duetime.db
