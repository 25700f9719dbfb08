#!/bin/bash
# in_cluster.sh DIR CMD...    run a test against the control plane that up.sh started in DIR
#
# CMD finds KUBECONFIG set and the cluster's own kubectl first in PATH. Exit code 77, which ctest
# takes for "skipped", if there is no control plane because its programs can't be built here.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
case ${1:-} in -*) usage; exit;; esac
[ $# -ge 2 ] || usage_error
if [ ! -f "$1/admin.kubeconfig" ]; then
  echo "skipped: no control plane in $1 (tests/cluster/up.sh starts one)"
  exit $CANT_RUN_HERE
fi
DIR=$(cd "$1" && pwd); shift
export KUBECONFIG=$DIR/admin.kubeconfig PATH=$BIN:$PATH
exec "$@"
