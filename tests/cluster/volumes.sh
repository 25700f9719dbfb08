#!/bin/bash
# volumes.sh claim DIR NAMESPACE NAME [SIZE]    a PersistentVolume that all nodes share, and its claim
# volumes.sh pool DIR COUNT                     COUNT volumes for claims that tests apply themselves,
#                                               behind a default StorageClass; 1 GiB each
# volumes.sh drop DIR NAMESPACE NAME            claim, volume and files
# volumes.sh up|down DIR                        cluster.sh does this
#
# A volume is a directory of the machine, DIR/volumes/NAME or NAMESPACE-NAME, which `claim` prints: a
# test looks into it from outside. With SIZE (8M, 1G) it is a file system that is full at SIZE.
# Volumes are of type `local`, so the kubelet gives them to the group fsGroup, as it does disks.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ $# -ge 2 ] || usage_error
VERB=$1 DIR=$(cd "$2" && pwd); shift 2
VOLUMES=$DIR/volumes
CLASS=shared

# Nodes see what is mounted below after they have started.
up() {
  mkdir -p "$VOLUMES"
  mountpoint -q "$VOLUMES" || mount --bind "$VOLUMES" "$VOLUMES"
  mount --make-shared "$VOLUMES"
}

down() {
  local mounted
  mountpoint -q "$VOLUMES" || return 0
  for mounted in "$VOLUMES"/*/; do
    if mountpoint -q "$mounted"; then umount "$mounted"; fi
  done
  umount "$VOLUMES"
  rm -rf "$VOLUMES"
}

# directory NAME [SIZE]
directory() {
  local path=$VOLUMES/$1
  [ ! -e "$path" ] || die "there is a volume $1 already: $path"
  mkdir "$path"
  [ -n "${2:-}" ] || return 0
  truncate -s "$2" "$path.ext4"
  # Without a journal and reserved blocks all of SIZE is for files.
  mkfs.ext4 -q -m 0 -O ^has_journal "$path.ext4"
  mount -o loop "$path.ext4" "$path"
  rmdir "$path/lost+found"
}

# volume NAME [CLAIM_NAMESPACE CLAIM_NAME]: the object, as YAML
volume() {
  cat <<END
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: $1}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce, ReadWriteMany]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: $CLASS
  ${2:+"claimRef: {namespace: $2, name: $3}"}
  local: {path: $VOLUMES/$1}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{key: coxswain.test/node, operator: Exists}]
END
}

# until_phase PHASE KUBECTL_ARGUMENT...: a claim that comes before its volume is known, or a pod
# before its claim is bound, waits up to 15 s for the controller's next round.
until_phase() {
  kc wait --request-timeout 35s --timeout 30s --for "jsonpath={.status.phase}=$1" "${@:2}" >/dev/null
}

claim() {
  local namespace=$1 name=$2
  directory "$namespace-$name" "${3:-}"
  volume "$namespace-$name" "$namespace" "$name" | kc apply -f - >/dev/null
  until_phase Available pv "$namespace-$name"
  kc apply -f - >/dev/null <<END
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $name, namespace: $namespace}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: $CLASS
  volumeName: $namespace-$name
  resources: {requests: {storage: 1Gi}}
END
  until_phase Bound -n "$namespace" pvc "$name"
  echo "$VOLUMES/$namespace-$name"
}

pool() {
  local n
  { cat <<END
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: $CLASS
  annotations: {storageclass.kubernetes.io/is-default-class: "true"}
provisioner: kubernetes.io/no-provisioner
END
    for n in $(seq 1 "$1"); do
      directory "pool-$n"
      volume "pool-$n"
    done
  } | kc apply -f - >/dev/null
  for n in $(seq 1 "$1"); do until_phase Available pv "pool-$n"; done
}

drop() {
  local path=$VOLUMES/$1-$2
  kc -n "$1" delete --ignore-not-found pvc "$2" >/dev/null
  kc delete --ignore-not-found pv "$1-$2" >/dev/null
  if mountpoint -q "$path"; then umount "$path"; fi
  rm -rf "$path" "$path.ext4"
}

case $VERB/$# in
  up/0) up;;
  down/0) down;;
  claim/[23]) claim "$@";;
  pool/1) pool "$@";;
  drop/2) drop "$@";;
  *) usage_error;;
esac
