#!/usr/bin/env bash
# fetch_sshd.sh: Debian's sshd into $COXSWAIN_CACHE/sshd, for the hosts of hosts_test.py. It is unpacked, not installed:
# no server is to start on this machine.
set -euo pipefail
target=${COXSWAIN_CACHE:-$HOME/.cache/coxswain}/sshd
[ ! -x "$target/usr/sbin/sshd" ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cd "$work"
# A machine that lacked no package has perhaps no lists of them either.
apt-get download -q openssh-server libwrap0 || { apt-get update -q; apt-get download -q openssh-server libwrap0; }
for package in *.deb; do dpkg -x "$package" unpacked; done
mkdir -p "$(dirname "$target")"
rm -rf "$target"
mv unpacked "$target"
