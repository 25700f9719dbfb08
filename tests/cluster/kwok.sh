#!/bin/bash
# kwok.sh up|down DIR [NODES]    nodes (10) that only seem to be, for load tests
#
# Pods bound to them become Running at once, and vanish when deleted; no process runs. The control
# plane in DIR needs a scheduler: COMPONENTS="kcm scheduler" up.sh DIR.
# STAGES: a folder of further Stage files, for example one that ends a pod after a while. (kwok's
# own "fast" stages would end every pod of a Job at once.)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ $# -ge 2 ] || usage_error
VERB=$1 DIR=$(cd "$2" && pwd) NODES=${3:-10}

nodes() {
  local n
  for n in $(seq 1 "$NODES"); do cat <<END
---
apiVersion: v1
kind: Node
metadata:
  name: kwok-$n
  annotations: {kwok.x-k8s.io/node: fake}
  labels: {kubernetes.io/hostname: kwok-$n, type: kwok}
status:
  allocatable: {cpu: 1k, memory: 4Ti, pods: 10k}
  capacity: {cpu: 1k, memory: 4Ti, pods: 10k}
END
  done
}

up() {
  local stages=() file
  "$HERE/build.sh" kwok || exit $?
  nodes | kc apply --request-timeout 60s -f - >/dev/null
  for file in "$HERE"/kwok/*.yaml ${STAGES:+"$STAGES"/*.yaml}; do stages+=(--config "$file"); done
  start kwok "$BIN/kwok" --kubeconfig "$DIR/admin.kubeconfig" --manage-all-nodes=false \
    --manage-nodes-with-annotation-selector kwok.x-k8s.io/node=fake \
    --node-lease-duration-seconds 40 "${stages[@]}"
  kc wait --request-timeout 65s --for condition=Ready node -l type=kwok --timeout 60s >/dev/null
}

case $VERB in
  up) up;;
  down) stop kwok; kc delete node -l type=kwok --wait=false >/dev/null;;
  *) usage_error;;
esac
