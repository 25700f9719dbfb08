#!/bin/bash
# cluster.sh up DIR [NODES]         a control plane, NODES (2) real nodes and cluster DNS; as root
# cluster.sh images DIR [IMAGE...]  make the images anew (ours), and load them into its nodes: pods
#                                   that start from now on run the programs of build/release/bin
# cluster.sh down DIR
#
# Through lab.sh, so that the cluster has a network of its own. Environment: as up.sh and node.sh
# take it; PORT for the port.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ $# -ge 2 ] || usage_error
VERB=$1
mkdir -p "$2"; DIR=$(cd "$2" && pwd); shift 2

up() {
  local begin n address nodes=${1:-2}
  "$HERE/build.sh" kube coredns || exit $?
  # shellcheck disable=SC2086  # a list
  "$HERE/images.sh" ${NODE_IMAGES:-}
  begin=$(now)
  "$HERE/volumes.sh" up "$DIR"
  "$HERE/node.sh" net-up "$DIR"
  address=$("$HERE/node.sh" address "$DIR")
  ADDRESS=$address COMPONENTS="${COMPONENTS-kcm scheduler}" \
    KCM_FLAGS="--node-monitor-grace-period=20s ${KCM_FLAGS:-}" \
    "$HERE/up.sh" "$DIR" ${PORT:+"$PORT"}
  "$HERE/node.sh" dns-up "$DIR"
  # One after the other: they share a certificate serial file, and two cores are soon busy.
  for n in $(seq 1 "$nodes"); do "$HERE/node.sh" up "$DIR" "node$n"; done
  log "cluster up in $(since "$begin") s: kubectl --kubeconfig $DIR/admin.kubeconfig"
}

images() {
  local node
  [ $# -gt 0 ] || set -- operator trainer-cpu
  "$HERE/images.sh" "$@"
  for node in "$DIR"/nodes/node*; do "$HERE/node.sh" load "$DIR" "${node##*/}" "$@"; done
}

down() {
  local node
  for node in "$DIR"/nodes/node*; do
    [ ! -d "$node" ] || "$HERE/node.sh" down "$DIR" "${node##*/}"
  done
  "$HERE/volumes.sh" down "$DIR"
  "$HERE/node.sh" dns-down "$DIR"
  "$HERE/node.sh" net-down "$DIR"
  "$HERE/down.sh" "$DIR"
  rm -rf "$DIR"/{Corefile,network,nodes}
}

case $VERB in
  up) up "$@";;
  images) images "$@";;
  down) down;;
  *) usage_error;;
esac
