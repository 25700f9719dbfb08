#!/bin/sh
# collect.sh PROGRAM ROOT    make ROOT the file system of an image that runs PROGRAM and nothing else
set -eu
program=$1 root=$2
mkdir -p "$root/etc/ssl/certs" "$root/usr/bin" "$root/usr/lib" "$root/usr/lib64" "$root/tmp"
# As in Debian, so that the loader is where the programs name it.
for directory in bin lib lib64; do ln -s "usr/$directory" "$root/$directory"; done
chmod 1777 "$root/tmp"

cp "$program" "$root/usr/bin/"
ldd "$program" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p; s/^\t\(\/[^ ]*\) .*/\1/p' |
  while read -r library; do
    mkdir -p "$root/$(dirname "$library")"
    cp -L "$library" "$root/$library"
  done

cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
echo 'operator:x:65532:65532:operator:/tmp:/usr/sbin/nologin' >"$root/etc/passwd"
echo 'operator:x:65532:' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"  # glibc has both built in
