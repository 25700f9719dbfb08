#!/usr/bin/env bash
# The operator beside kubeflow's mpi-operator on one API server: speed, writes, memory, latency.
#   run.sh [--json FILE] [--quick] [--rows REGEX] [--sides REGEX] [--jobs N] [--rounds N]
# Everything runs in its own network and process namespaces: the peer listens on :8080 of every
# address, and whatever happens to this script, nothing that it started outlives it.
set -euo pipefail
cd "$(dirname "$0")/../../.."
here=tests/bench/operator
cache=${COXSWAIN_CACHE:-$HOME/.cache/coxswain}/bin
case ${1:-} in -h | --help) exec python3 "$here/bench.py" --help ;; esac
if [ -z "${COXSWAIN_BENCH_INSIDE:-}" ]; then
  tests/cluster/build.sh kube kwok mpi-operator
  if [ ! -f "$cache/mpijobs.yaml" ]; then
    module=github.com/kubeflow/mpi-operator
    cd tests/cluster/tools/mpi-operator
    go mod download "$module"
    cp "$(go list -m -f '{{.Dir}}' "$module")/manifests/base/kubeflow.org_mpijobs.yaml" "$cache/mpijobs.yaml"
    cd -
  fi
  [ -n "${COXSWAIN_BENCH_BUILT:-}" ] || cmake/build.sh release coxswain
  as_root=()
  [ "$(id -u)" = 0 ] || as_root=(--map-root-user)
  COXSWAIN_BENCH_INSIDE=1 exec unshare "${as_root[@]}" --net --pid --fork --kill-child --mount-proc \
    "$here/run.sh" "$@"
fi

# Inside: a control plane in a folder that goes away, and a certificate for each who writes to it.
ip link set lo up
cluster=$(mktemp -d /tmp/coxswain-bench.XXXXXX)
trap 'tests/cluster/down.sh "$cluster"; rm -rf "$cluster"' EXIT
trap 'exit 143' TERM INT
export COMPONENTS=kcm KCM_FLAGS="--kube-api-qps 500 --kube-api-burst 1000
  --controllers=*,-node-lifecycle-controller"
export APISERVER_FLAGS="--audit-policy-file $PWD/$here/audit-policy.yaml
  --audit-log-path $cluster/audit.log --delete-collection-workers 4"
tests/cluster/up.sh "$cluster" 22100
(
  DIR=$cluster
  # shellcheck source=../../cluster/lib.sh
  . tests/cluster/lib.sh
  read_settings
  umask 077
  for user in bench-load bench-kubelet bench-ours bench-mpi-operator; do
    cert "$user" "/O=system:masters/CN=$user" clientAuth
    kubeconfig "$DIR/$user.kubeconfig" "$user" "https://$ADDRESS:$PORT"
  done
  # `create`: it is too large for what `apply` remembers. The peer ends at once without it.
  kc create -f "$cache/mpijobs.yaml" >/dev/null
  wait_for 30 "the peer's CRD" kc wait --for condition=Established --timeout 1s \
    -f "$cache/mpijobs.yaml"
)
python3 "$here/bench.py" --cluster "$cluster" "$@"
