#!/bin/bash
# lab.sh CMD...    run a command in the test cluster's own network namespace; as root
# lab.sh --end     remove the namespace
#
# So no address of the cluster exists on the machine's network. It is made on first use:
#   lab.sh cluster.sh up DIR 2; lab.sh kubectl ...; lab.sh cluster.sh down DIR; lab.sh --end
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
NAME=${COXSWAIN_LAB:-coxswain-lab}
case ${1:-} in
  --end)
    for name in "$NAME" "$NAME-outside"; do ip netns del "$name" 2>/dev/null || true; done
    exit;;
  ''|-*) usage_error;;
esac
[ "$(id -u)" = 0 ] || { echo "lab.sh: needs root" >&2; exit $CANT_RUN_HERE; }
if [ ! -e "/run/netns/$NAME" ]; then
  ip netns add "$NAME" || exit $CANT_RUN_HERE
  ip -n "$NAME" link set lo up
fi
# What fetches from elsewhere leaves the namespace: see `leave_the_lab` in lib.sh.
# Anew for each caller, who may have another network than the one before.
if [ -z "${COXSWAIN_OUTSIDE:-}" ]; then
  export COXSWAIN_OUTSIDE=/run/netns/$NAME-outside
  ip netns del "$NAME-outside" 2>/dev/null || true
  ip netns attach "$NAME-outside" $$
fi
# nsenter and not `ip netns exec`: that one mounts a new /sys and hides the cgroups.
exec nsenter --net="/run/netns/$NAME" -- "$@"
