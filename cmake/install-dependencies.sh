#!/usr/bin/env bash
# Installs what is missing of Debian 12's packages: `build` to build and run, `test` for the tests as well, `bench`
# for the peers that a bench compares with, `cuda` to build for GPUs (CUDA itself as wheels of PyPI, into
# ~/.cache/coxswain/cuda), `cluster` for images and real nodes (tests/cluster; they also need Go), `fuzz` for libFuzzer.
# As root, or through sudo. Does nothing, at once, when all is there.
set -euo pipefail

build="cmake ninja-build g++ ccache pkg-config libdnnl-dev libgomp1 libopenmpi-dev openmpi-bin libyaml-cpp-dev
  libfmt-dev libcli11-dev nlohmann-json3-dev libboost-dev zlib1g-dev libjpeg62-turbo-dev libpng-dev libcpprest-dev
  libssl-dev prometheus-cpp-dev libspdlog-dev libprotozero-dev libeigen3-dev"
test="libgtest-dev libgmock-dev libboost-context-dev python3"
bench="python3-venv libtcmalloc-minimal4"
fuzz="clang-19 libclang-rt-19-dev libomp-19-dev"
cluster="containerd runc containernetworking-plugins iptables iproute2 conntrack procps e2fsprogs openssl curl jq
  debootstrap buildah"

case "${1:-}" in
  build) wanted=$build ;;
  test) wanted="$build $test" ;;
  bench) wanted="$build $test $bench" ;;
  cuda) wanted="$build python3-venv" ;;
  cluster) wanted="$build $test $cluster" ;;
  fuzz) wanted="$build $test $fuzz" ;;
  *) echo "usage: install-dependencies.sh build|test|bench|cuda|cluster|fuzz" >&2; exit 2 ;;
esac

missing=()
for package in $wanted; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
wheels() { [ "$1" != cuda ] || "$(dirname "$0")/install-cuda.sh"; }
[ ${#missing[@]} -gt 0 ] || { wheels "$1"; exit 0; }

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "needs root or sudo to install: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "installing ${#missing[@]} packages: ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
wheels "$1"
