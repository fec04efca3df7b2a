#!/bin/bash
# Succeeds while the server in this container hands out jobs: GET /readyz answers 200. Needs no program but bash.
set -u
listen=${DUETIME_LISTEN:-127.0.0.1:7300}
exec 3<>"/dev/tcp/127.0.0.1/${listen##*:}" || exit 1
printf 'GET /readyz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n' >&3
read -r -t 3 _ status _ <&3 && [[ $status == 200 ]]
