#!/bin/bash
# build.sh [PROGRAM...]    build the programs of the test cluster from Go modules
#
#   kube          etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet,
#                 kube-proxy and kubectl: one file, with a link for each name (the default)
#   coredns       with the plugins that serve cluster.local, no more
#   helm
#   coscheduling  a scheduler that binds all pods of a gang or none
#   kwok          nodes that only seem to be, for load tests
#   mpi-operator  the peer that benchmarks compare with
#   jobset        JobSet's controller, which others have on the same cluster, and its jobsets.yaml
#
# They go to $COXSWAIN_CACHE/bin (~/.cache/coxswain/bin), which is worth keeping between runs of CI:
# what is up to date is not built again. A first build of kube downloads 140 MB of modules and takes
# 6 minutes on 2 cores. Exit code 77: this machine can't build what is missing.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
leave_the_lab "$@"
TOOLS=$HERE/tools
KUBERNETES=$(awk '$1=="k8s.io/kubernetes"{print $2; exit}' "$TOOLS/go.mod")
export CGO_ENABLED=0 GOFLAGS="-mod=readonly -trimpath" GOTOOLCHAIN="${GOTOOLCHAIN:-local}"
LD_FLAGS="-s -w"
for word in "gitVersion=$KUBERNETES" gitMajor=1 "gitMinor=$(cut -d. -f2 <<<"$KUBERNETES")" \
            gitTreeState=clean buildDate=1970-01-01T00:00:00Z; do
  LD_FLAGS="$LD_FLAGS -X k8s.io/component-base/version.$word"
done
# What `helm template` takes a cluster to be.
for word in k8sVersionMajor=1 "k8sVersionMinor=$(cut -d. -f2 <<<"$KUBERNETES")"; do
  LD_FLAGS="$LD_FLAGS -X helm.sh/helm/v3/pkg/chartutil.$word"
done

cant_build() {
  printf 'build.sh: %s\n' "$*" >&2
  exit $CANT_RUN_HERE
}

# check_go MODULE_FOLDER: a Go that is new enough for the module.
check_go() {
  local have want
  want=$(awk '$1=="go"{print $2; exit}' "$1/go.mod")
  command -v go >/dev/null || cant_build "no Go toolchain; install Go $want or newer (go.dev/dl)"
  have=$(go env GOVERSION); have=${have#go}
  [ "$(printf '%s\n%s\n' "$want" "$have" | sort -V | head -1)" = "$want" ] ||
    cant_build "Go $have is too old for $1; install Go $want or newer (go.dev/dl)"
}

# with_a_sign_of_life PROGRAM CMD...: says each half minute that it still goes on.
with_a_sign_of_life() {
  local program=$1 seconds=0 builder
  shift
  "$@" &
  builder=$!
  while kill -0 "$builder" 2>/dev/null; do
    sleep 1
    seconds=$((seconds + 1))
    [ $((seconds % 30)) -ne 0 ] || log "$program: $seconds s"
  done
  wait "$builder"
}

# build PROGRAM MODULE_FOLDER PACKAGE
build() {
  local stamp start_of_build
  local sources=("$2/go.mod" "$2/go.sum")
  [ ! -f "$TOOLS/$1/main.go" ] || sources+=("$TOOLS/$1/main.go")
  check_go "$2"
  stamp=$( (go version; cat "${sources[@]}") | sha256sum | cut -d' ' -f1)
  if [ -x "$BIN/$1" ] && [ "$(cat "$BIN/.$1.stamp" 2>/dev/null)" = "$stamp" ]; then return; fi
  log "$1: fetching its modules and building, which may take minutes"
  start_of_build=$(now)
  (cd "$2" && with_a_sign_of_life "$1" go build -ldflags "$LD_FLAGS" -o "$BIN/$1.new" "$3") ||
    die "$1: go build failed"
  mv "$BIN/$1.new" "$BIN/$1"; echo "$stamp" >"$BIN/.$1.stamp"
  log "$1: built in $(since "$start_of_build") s, $(du -m "$BIN/$1" | cut -f1) MB"
}

# copy_of_module MODULE_FOLDER MODULE FILE NAME: a file of a module that the folder's go.mod names.
copy_of_module() {
  local directory
  directory=$(cd "$1" && go mod download "$2" && go list -m -f '{{.Dir}}' "$2")
  install -m 644 "$directory/$3" "$BIN/$4"
}

build_all() {
  local program name
  for program in "$@"; do
    case $program in
      kube)
        build kube "$TOOLS" ./kube
        for name in etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy \
                    kubectl; do ln -sf kube "$BIN/$name"; done;;
      coredns) build coredns "$TOOLS" ./coredns;;
      helm) build helm "$TOOLS" helm.sh/helm/v3/cmd/helm;;
      coscheduling) build coscheduling "$TOOLS/coscheduling" .;;
      kwok) build kwok "$TOOLS/kwok" sigs.k8s.io/kwok/cmd/kwok;;
      mpi-operator)
        build mpi-operator "$TOOLS/mpi-operator" \
          github.com/kubeflow/mpi-operator/cmd/mpi-operator;;
      jobset)
        build jobset "$TOOLS/jobset" sigs.k8s.io/jobset
        copy_of_module "$TOOLS/jobset" sigs.k8s.io/jobset \
          config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml jobsets.yaml;;
      -h|--help) usage; exit;;
      *) usage_error;;
    esac
  done
}

mkdir -p "$BIN"
# One build at a time: two would compile the same packages, at 2 GB each.
exec 9>"$BIN/.lock"
flock -w 1800 9 || die "another build holds $BIN/.lock for half an hour"
[ $# -gt 0 ] || set -- kube
build_all "$@"
