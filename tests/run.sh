#!/usr/bin/env bash
# All tests. --all adds the long ones; --quick leaves out the sanitizer builds, CUDA's and the bare root; --cluster
# runs those on real nodes alone, all of them; --build builds, and runs none. What needs root is skipped without it, and
# says so. What tests do stays in network namespaces of their own.
set -euo pipefail
cd "$(dirname "$0")/.."

all=false
quick=false
cluster=false
build=false
for argument in "$@"; do
  case "$argument" in
    --all) all=true ;;
    --quick) quick=true ;;
    --cluster) cluster=true ;;
    --build) build=true ;;
    *) echo "usage: tests/run.sh [--all] [--quick] [--build] | --cluster" >&2; exit 2 ;;
  esac
done

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
is_root=false
offline=()
if [ "$(id -u)" -eq 0 ]; then
  is_root=true
  # Loopback alone: a test that fetches something fails on every machine, not only where no cache has it.
  # shellcheck disable=SC2016  # expanded inside
  offline=(unshare --net sh -c 'ip link set lo up && exec "$@"' sh)
fi
stage() { printf '\n==> %s\n' "$*"; }
run_tests() {  # build folder, then ctest's own flags; its limit is for what hangs, not for a slow machine
  local folder=$1
  shift
  "${offline[@]}" ctest --test-dir "build/$folder" --output-on-failure --no-tests=error --timeout 1800 -j 2 "$@"
}

# All that is fetched is fetched here. Images of pods hold the programs too, so they come after the build.
stage "fetch: packages"
if $is_root; then cmake/install-dependencies.sh cluster; else cmake/install-dependencies.sh test; fi
if $is_root; then tests/e2e/hosts/fetch_sshd.sh; fi
stage "fetch: a Kubernetes control plane and what its nodes run, as Go modules"
has_kubernetes=true
# 77: this machine has no Go that can build it; those tests are then skipped, and say so.
tests/cluster/build.sh kube coredns helm || { [ $? -eq 77 ] && has_kubernetes=false; }
if $all && $has_kubernetes; then tests/cluster/build.sh coscheduling; fi
if { $all || $cluster; } && $has_kubernetes; then tests/cluster/build.sh jobset; fi
if $all && ! $quick; then
  stage "fetch: clang, for libFuzzer"
  cmake/install-dependencies.sh fuzz
fi

if ! $quick; then
  stage "fetch: CUDA, as wheels"
  cmake/install-dependencies.sh cuda
fi

stage "build: release"
cmake/build.sh --tests release
if $cluster; then quick=true; fi
if ! $quick; then
  # The folders without vendor code under AddressSanitizer and UBSan, those with threads under ThreadSanitizer. UBSan's
  # checks of null, alignment, object-size and vptr are left to the fuzz preset of --all: they cost a third of the compile.
  asan="test_tensor test_graph test_optim test_data test_picture test_checkpoint test_contract test_net test_compress test_ps test_job test_kube test_controller test_cuda_backend"
  fuzz=$(cd tests/fuzz && echo fuzz_*.cc)  # two seconds each, without libFuzzer
  asan+=" ${fuzz//.cc/}"
  tsan="test_comm test_comm_tcp test_checkpoint test_data test_controller"
  stage "build: asan"
  cmake/build.sh --tests asan $asan
  if $all; then
    stage "build: fuzz"
    cmake/build.sh --tests fuzz ${fuzz//.cc/}
  fi
  stage "build: tsan"
  cmake/build.sh --tests tsan $tsan
  # Compiled for all architectures, without warnings and spilled registers, and linked: no GPU is needed for that.
  stage "build: cuda"
  cmake/build.sh --tests cuda coxswain-trainer cuda_plans
fi
if $all; then
  stage "build: every file and every header alone"
  cmake/build.sh --tests dev all all_verify_interface_header_sets
fi
if $build; then exit; fi

if $is_root && $has_kubernetes; then
  stage "fetch: packages for images of pods"
  tests/cluster/images.sh
  if $all || $cluster; then tests/cluster/images.sh pytorch mxnet tensorflow mpi4py; fi
  if $all && ! $quick; then tests/cluster/images.sh trainer-cuda; fi
fi

if $cluster; then
  stage "tests on real nodes"
  run_tests release -R '^e2e_nodes_full$' --verbose
  exit
fi

if ! $quick; then
  if $is_root; then
    stage "a bare root: the first command"
    if $all; then tests/cleanroom.sh --all; else tests/cleanroom.sh; fi
  fi
  stage "tests under AddressSanitizer and UBSan"
  run_tests asan -R "^(${asan// /|})\$"
  if $all; then
    stage "libFuzzer, ten minutes of it shared by all targets"
    run_tests fuzz -R '^fuzz_'
  fi
  stage "tests under ThreadSanitizer"
  run_tests tsan -R "^(${tsan// /|})\$"
  stage "tests of CUDA's libraries that need no GPU"
  run_tests cuda -R '^cuda_plans$'
fi

stage "tests"
if $all; then run_tests release; else run_tests release -LE long; fi
