#!/bin/bash
# down.sh [DIR] [COMPONENT...]    stop what up.sh started in DIR (build/cluster)
#
# Without a COMPONENT everything stops, and all of DIR but its logs is deleted. With some of
# etcd, apiserver, kcm, scheduler only those stop, the state stays, and `up.sh DIR` goes on with it.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
case ${1:-} in -*) usage; exit;; esac
DIR=${1:-$ROOT/build/cluster}
[ $# -eq 0 ] || shift
[ -d "$DIR" ] || exit 0
DIR=$(cd "$DIR" && pwd)
[ -f "$DIR/settings" ] || exit 0

stop_one() {
  case $1 in
    # A connection from a node that lost its power can hold the API server for a minute. Nothing is
    # lost by not waiting: what it acknowledged is in etcd.
    apiserver) stop apiserver 5;;
    etcd|kcm|scheduler) stop "$1" 30;;
    *) usage_error;;
  esac
}

if [ $# -gt 0 ]; then
  for component in "$@"; do stop_one "$component"; done
else
  for component in scheduler kcm apiserver etcd; do stop_one $component; done
  rm -rf "$DIR"/{settings,etcd,pki,run,admin.token} "$DIR"/*.kubeconfig
fi
