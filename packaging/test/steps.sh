#!/usr/bin/env bash
# What a person does with the package, and what must come of it. `debian.sh` boots a clean Debian for it.
set -euo pipefail
cd /test/old
trap 'echo "FAILED: line $LINENO: $BASH_COMMAND"; journalctl --no-pager --lines=60' ERR

step() { echo "== $*"; }

# The N-th block of commands under a heading of the page, run as it stands.
page() {
    local block
    block=$(awk -v heading="## $1" -v nth="$2" '
        /^## / { on = $0 == heading }
        /^```/ && inside { inside = 0 }
        inside && count == nth
        on && /^```sh$/ { inside = 1; count++ }' /test/install.md)
    [ -n "$block" ]
    echo "$ ${block//$'\n'/$'\n$ '}"
    bash -e -c "$block"
}

# Fails unless both are the same.
same() {
    if [ "$2" != "$3" ]; then
        echo "$1: expected $2, got $3"
        return 1
    fi
}

ready() {
    # shellcheck disable=SC2016
    timeout 30 bash -c 'until duetime health --configured >/dev/null 2>&1; do sleep 0.1; done'
    duetime health
}

pid() { systemctl show --property=MainPID --value duetime; }
active() { systemctl is-active "$1" || true; }
enabled() { systemctl is-enabled "$1" 2>/dev/null || true; }
waiting() { duetime list --json --state scheduled | grep -o '"id":"[0-9]*"' | sort; }
owner() { stat --format='%U:%G %a' "$1"; }

step "install"
page "Debian and Ubuntu" 1
same "the service" "active enabled" "$(active duetime) $(enabled duetime)"
same "the timer" "inactive disabled" "$(active duetime-backup.timer) $(enabled duetime-backup.timer)"
same "the configuration" "root:duetime 750" "$(owner /etc/duetime)"
same "its file" "root:duetime 640" "$(owner /etc/duetime/duetime.toml)"
same "the store" "duetime:duetime 700" "$(owner /var/lib/duetime)"
same "the folder of backups" "duetime:duetime 700" "$(owner /var/backups/duetime)"
ready

step "units"
units=(/usr/lib/systemd/system/duetime.service /usr/lib/systemd/system/duetime-backup.{service,timer})
same "what systemd says of the units" "" "$(systemd-analyze verify --man=no "${units[@]}" 2>&1)"
for unit in duetime.service duetime-backup.service; do
    exposure=$(systemd-analyze security --no-pager "$unit" | grep -o ': [0-9.]* ' | tail -n 1 | tr -d ': ')
    echo "$unit has the exposure $exposure"
    same "an exposure of 2 at most" 1 "$(awk "BEGIN { print $exposure <= 2 }")"
done

step "confinement"
status=/proc/$(pid)/status
same "its user" "duetime" "$(stat --format=%U "/proc/$(pid)")"
same "seccomp and new privileges" "2 1" "$(awk '/^Seccomp:/ {s = $2} /^NoNewPrivs:/ {n = $2} END {print s, n}' "$status")"
same "its capabilities" "0000000000000000" "$(awk '/^CapBnd:/ {print $2}' "$status")"
for path in /usr /etc /var/lib /root; do
    if nsenter --target "$(pid)" --mount touch "$path/x" 2>/dev/null; then
        echo "the service may write to $path"
        false
    fi
done
nsenter --target "$(pid)" --mount --setuid "$(id -u duetime)" test -w /var/lib/duetime

step "jobs"
page "Debian and Ubuntu" 2
duetime push --queue mail now
same "what a worker printed" "now" "$(duetime work mail --once -- sh -c 'cat; echo')"
duetime push --queue mail --delay 2h --tag later later
before=$(waiting)
same "jobs that wait" 2 "$(wc -l <<<"$before")"

step "configuration and backup"
echo 'log_format = "json"' >>/etc/duetime/duetime.toml
page "Debian and Ubuntu" 3
ready
systemctl start duetime-backup.service
same "backups" 1 "$(find /var/backups/duetime -name 'duetime-*.db' | wc -l)"
same "the timer" "active enabled" "$(active duetime-backup.timer) $(enabled duetime-backup.timer)"

step "files"
duetime push --help >/dev/null
gzip --test /usr/share/man/man1/duetime{,-push}.1.gz
bash -c '. /usr/share/bash-completion/completions/duetime && complete -p duetime'
test -s /usr/share/zsh/vendor-completions/_duetime
test -s /usr/share/fish/vendor_completions.d/duetime.fish
dpkg --verify duetime | grep -v ' c /etc/duetime/duetime.toml' && false

step "upgrade"
old=$(pid)
cd /test/new
page "Debian and Ubuntu" 1
test "$(pid)" != "$old"
ready
same "jobs that waited" "$before" "$(waiting)"
grep -qx 'log_format = "json"' /etc/duetime/duetime.toml
same "the timer" "active enabled" "$(active duetime-backup.timer) $(enabled duetime-backup.timer)"
duetime run --tag later
same "what a worker printed" "later" "$(duetime work mail --once -- sh -c 'cat; echo')"
before=$(waiting)

step "an upgrade leaves a service off that was turned off"
systemctl disable --now duetime
apt-get install --reinstall ./duetime_*.deb
same "the service" "inactive disabled" "$(active duetime) $(enabled duetime)"
systemctl enable --now duetime
ready

step "remove"
page "Debian and Ubuntu" 4
same "the service" "inactive" "$(active duetime)"
test ! -e /usr/bin/duetime
test -s /var/lib/duetime/duetime.db
page "Debian and Ubuntu" 1
ready
same "jobs that waited" "$before" "$(waiting)"
same "the timer" "active enabled" "$(active duetime-backup.timer) $(enabled duetime-backup.timer)"

step "purge"
page "Debian and Ubuntu" 5
test ! -e /etc/duetime
test ! -e /var/lib/duetime
test ! -e /var/log/duetime
same "backups" 1 "$(find /var/backups/duetime -name 'duetime-*.db' | wc -l)"
same "what is left of the units" "" "$(find /etc/systemd/system /var/lib/systemd/deb-systemd-helper-* -name 'duetime*')"

step "tarball"
cd /test/tar
page "Any Linux" 1
cd duetime-*/
page "Any Linux" 2
ready
duetime push --delay 1h hello
systemctl start duetime-backup.service
same "backups" 2 "$(find /var/backups/duetime -name 'duetime-*.db' | wc -l)"
step "all passed"
