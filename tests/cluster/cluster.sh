#!/bin/bash
# cluster.sh up|down DIR [NODES]    a control plane, NODES (2) real nodes and cluster DNS; as root
#
# Environment: as up.sh and node.sh take it; PORT for the port.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ $# -ge 2 ] || usage_error
VERB=$1 DIR=$2 NODES=${3:-2}
mkdir -p "$DIR"; DIR=$(cd "$DIR" && pwd)

up() {
  local begin n address
  begin=$(now)
  "$HERE/build.sh" kube coredns || exit $?
  "$HERE/node.sh" net-up "$DIR"
  address=$("$HERE/node.sh" address "$DIR")
  ADDRESS=$address COMPONENTS="${COMPONENTS-kcm scheduler}" \
    KCM_FLAGS="--node-monitor-grace-period=20s ${KCM_FLAGS:-}" \
    "$HERE/up.sh" "$DIR" ${PORT:+"$PORT"}
  "$HERE/node.sh" dns-up "$DIR"
  # One after the other: they share a certificate serial file, and two cores are soon busy.
  for n in $(seq 1 "$NODES"); do "$HERE/node.sh" up "$DIR" "node$n"; done
  log "cluster up in $(since "$begin") s: kubectl --kubeconfig $DIR/admin.kubeconfig"
}

down() {
  local node
  for node in "$DIR"/nodes/node*; do
    [ ! -d "$node" ] || "$HERE/node.sh" down "$DIR" "${node##*/}"
  done
  "$HERE/node.sh" dns-down "$DIR"
  "$HERE/node.sh" net-down "$DIR"
  "$HERE/down.sh" "$DIR"
}

case $VERB in
  up) up;;
  down) down;;
  *) usage_error;;
esac
