#!/usr/bin/env bash
# Installs a package and a tarball on a clean Debian that its own systemd has booted, uses them, and removes them.
#
#   packaging/test/debian.sh target/packages/duetime_0.1.0-1_amd64.deb target/packages/duetime-0.1.0-x86_64-linux-gnu.tar.gz
#
# Needs root, mmdebstrap, systemd-nspawn (systemd-container) and a mirror of Debian; SUITE=trixie tries another Debian. The
# system has no network, and is gone afterwards. `steps.sh` runs inside.
set -euo pipefail
if [ $# -ne 2 ]; then
    echo "expected a package and a tarball, got $# arguments" >&2
    exit 2
fi
if [ "$(id -u)" != 0 ]; then
    echo "expected to be root, which systemd-nspawn needs" >&2
    exit 1
fi
deb=$(realpath "$1")
tar=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
work=$(mktemp --directory /var/tmp/duetime-package-XXXXXX)
root=$work/root
cgroups=()

# shellcheck disable=SC2317
clean_up() {
    rm -rf --one-file-system "$work"
    for cgroup in "${cgroups[@]}"; do
        find "$cgroup" -depth -type d -exec rmdir {} +
    done
}
trap clean_up EXIT

mmdebstrap --quiet --variant=minbase --include=apt,systemd,systemd-sysv,dbus,ca-certificates,tzdata "${SUITE:-bookworm}" "$root"

# The older package is the same with a lower version.
mkdir -p "$root/test/old" "$root/test/new" "$root/test/tar"
dpkg-deb --raw-extract "$deb" "$work/old"
sed -i 's/^Version: .*/Version: 0.0.1-1/' "$work/old/DEBIAN/control"
dpkg-deb --root-owner-group --build "$work/old" "$root/test/old/duetime_0.0.1-1.deb" >/dev/null
cp "$deb" "$root/test/new/"
cp "$tar" "$tar.sha256" "$root/test/tar/"
cp "$here/steps.sh" "$here/../../docs/operations/install.md" "$root/test/"
echo 'APT::Get::Assume-Yes "true"; quiet "2"; Dpkg::Use-Pty "0";' >"$root/etc/apt/apt.conf.d/quiet"
cat >"$root/etc/systemd/system/steps.service" <<'END'
[Unit]
After=multi-user.target
SuccessAction=exit
FailureAction=exit
[Service]
Type=oneshot
ExecStart=/test/steps.sh
Environment=HOME=/root DEBIAN_FRONTEND=noninteractive
StandardOutput=file:/test/log
StandardError=inherit
[Install]
WantedBy=default.target
END
systemctl --quiet --root="$root" enable steps.service

options=(--quiet --directory="$root" --boot --private-network --link-journal=no --register=no --console=pipe)
if [ ! -d /run/systemd/system ]; then
    # No systemd makes a control group for it: it gets one here, and sees no other.
    options+=(--keep-unit)
    export SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1
    for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
        [ -e "$hierarchy/cgroup.procs" ] || continue
        cgroups+=("$hierarchy/duetime-package-$$")
        mkdir "${cgroups[-1]}"
    done
fi
passed=0
(
    for cgroup in "${cgroups[@]}"; do echo "$BASHPID" >"$cgroup/cgroup.procs"; done
    exec timeout 300 systemd-nspawn "${options[@]}" </dev/null >"$work/console" 2>&1
) || passed=$?
cat "$root/test/log" || cat "$work/console"
if [ "$passed" != 0 ]; then
    echo "the steps ended with $passed" >&2
fi
exit "$passed"
