#!/bin/bash
# cleanroom.sh [--all]    the README's commands where nothing is installed: a root with nothing but Debian 12
#
# Runs examples/quickstart.sh to its end, on the tree as git has it (HEAD and the index). Of the machine it has the
# package sources, the network and the compiler cache. --all: also configures and builds what tests/run.sh --quick
# needs, there. As root; takes 3 minutes, --all some more. Exit code 77: this machine can't have such a root.
. "$(dirname "${BASH_SOURCE[0]}")/cluster/lib.sh"
all=false
case ${1:-} in
  '') ;;
  --all) all=true;;
  *) usage_error;;
esac
[ "$(id -u)" = 0 ] || { echo "cleanroom.sh: needs root" >&2; exit $CANT_RUN_HERE; }

"$HERE/images.sh" base
WORK=$(mktemp -d /var/tmp/coxswain-cleanroom.XXXXXX)
room=
leave() {
  [ -z "$room" ] || kill -KILL "$room" || true  # it ignores what is softer
  wait
  rm -rf --one-file-system "$WORK"
}
trap leave EXIT
trap 'exit 143' TERM INT
mkdir "$WORK/root"
tar -xOf "$IMAGES/base.tar" layer.tar | tar -x -C "$WORK/root"
cp /etc/resolv.conf "$WORK/root/etc/"
mkdir -p "$WORK/root/coxswain" "$WORK/root/root/.cache/ccache"
git -C "$ROOT" archive "$(git -C "$ROOT" write-tree)" | tar -x -C "$WORK/root/coxswain"
ccache=$(command -v ccache >/dev/null && ccache --get-config cache_dir || true)
[ -z "$ccache" ] || mkdir -p "$ccache"

# in_the_room COMMAND...: its mounts and processes end with it.
in_the_room() {
  # shellcheck disable=SC2016  # expanded in the room
  exec unshare --mount --pid --fork --kill-child bash -euc '
    root=$1 ccache=$2; shift 2
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    [ -z "$ccache" ] || mount --bind "$ccache" "$root/root/.cache/ccache"
    # The language is a part of what the compiler cache goes by.
    exec env -i HOME=/root ${LANG:+LANG=$LANG} PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" /bin/bash -c "cd /coxswain && exec $*"
  ' - "$WORK/root" "$ccache" "$@" </dev/null
}

# try COMMAND...: shows what is worth it of its lines; more of them if it fails.
try() {
  local begin
  begin=$(now)
  log "in a bare root: $*"
  in_the_room "$*" >"$WORK/log" 2>&1 &
  room=$!
  wait "$room" || { tail -n 60 "$WORK/log" >&2; die "$* failed in a bare root"; }
  room=
  grep '^coxswain: ' "$WORK/log" || true  # what it had to tell of a run, as why it was restarted
  tail -n 4 "$WORK/log"
  log "in a bare root: $* took $(since "$begin") s"
}

try examples/quickstart.sh
accuracy=$(sed -n 's/^Succeeded: test accuracy \([0-9.]*\) %.*/\1/p' "$WORK/log")
awk -v a="${accuracy:-0}" 'BEGIN{exit a < 99.3}' || die "test accuracy ${accuracy:-nowhere to be seen}, 99.3 % wanted"
if $all; then try tests/run.sh --quick --build; fi
