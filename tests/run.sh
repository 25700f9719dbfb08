#!/usr/bin/env bash
# All tests. --all adds the long ones; --quick leaves out the sanitizer builds; --cluster runs those on real nodes
# alone, all of them. Those need root, and what they do stays in network namespaces of their own.
set -euo pipefail
cd "$(dirname "$0")/.."

all=false
quick=false
cluster=false
for argument in "$@"; do
  case "$argument" in
    --all) all=true ;;
    --quick) quick=true ;;
    --cluster) cluster=true ;;
    *) echo "usage: tests/run.sh [--all] [--quick] | --cluster" >&2; exit 2 ;;
  esac
done

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
stage() { printf '\n==> %s\n' "$*"; }
run_tests() {  # build folder, then ctest's own flags
  local folder=$1
  shift
  ctest --test-dir "build/$folder" --output-on-failure --no-tests=error -j 2 "$@"
}

stage "packages"
if [ "$(id -u)" -eq 0 ]; then cmake/install-dependencies.sh cluster; else cmake/install-dependencies.sh test; fi

stage "build: release"
cmake/build.sh release

stage "build: a Kubernetes control plane for the operator's tests"
# 77: this machine has no Go that can build it; those tests are then skipped, and say so.
tests/cluster/build.sh kube helm || [ $? -eq 77 ]

if $cluster; then
  stage "tests on real nodes"
  run_tests release -R '^e2e_nodes_full$' --verbose
  exit
fi

if ! $quick; then
  # The folders without vendor code under AddressSanitizer and UBSan, those with threads under ThreadSanitizer.
  asan="test_tensor test_graph test_optim test_data test_checkpoint test_contract test_job test_kube test_controller"
  tsan="test_comm test_checkpoint test_data test_controller"
  stage "build: asan"
  cmake/build.sh asan $asan
  stage "build: tsan"
  cmake/build.sh tsan $tsan
  stage "tests under AddressSanitizer and UBSan"
  run_tests asan -R "^(${asan// /|})\$"
  stage "tests under ThreadSanitizer"
  run_tests tsan -R "^(${tsan// /|})\$"
fi

if $all; then
  stage "every header compiles alone"
  cmake/build.sh dev all_verify_interface_header_sets
fi

stage "tests"
if $all; then run_tests release; else run_tests release -LE long; fi
