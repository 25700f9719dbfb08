#!/usr/bin/env bash
# build.sh [--tests] PRESET [TARGET...]: configures once, and after a change of the presets; builds, with ccache where
# it is there. --tests: the tests too, which need packages of their own (install-dependencies.sh test). The preset cuda
# takes an installed toolkit (nvcc in PATH) or the wheels of install-dependencies.sh cuda. All but the preset dev compile
# the files of a folder together (a third of the time: headers are most of it), so its files have no name twice; dev
# compiles each alone, for work on them.
set -euo pipefail
cd "$(dirname "$0")/.."
options=()
if [ "${1:-}" = --tests ]; then options=(-DCOXSWAIN_TESTS=ON); shift; fi
preset=$1
shift
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
  # Another clone of the same sources hits too.
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
fi

cuda_home=${COXSWAIN_CUDA_HOME:-$HOME/.cache/coxswain/cuda}
if [ "$preset" = cuda ] && [ -f "$cuda_home/installed.txt" ]; then
  options+=("-DCOXSWAIN_CUDA_HOME=$cuda_home")
elif [ "$preset" = cuda ] && ! command -v nvcc >/dev/null; then
  echo "no nvcc in PATH, and no wheels in $cuda_home: cmake/install-dependencies.sh cuda brings them" >&2
  exit 1
fi

is_configured() {
  [ "build/$preset/build.ninja" -nt CMakePresets.json ] || return 1
  [[ " ${options[*]-} " != *COXSWAIN_TESTS* ]] || grep -q '^COXSWAIN_TESTS:BOOL=ON' "build/$preset/CMakeCache.txt"
}

is_configured || cmake --preset "$preset" "${options[@]}" >"build-$preset.log" 2>&1 || {
  cat "build-$preset.log" >&2
  exit 1
}
rm -f "build-$preset.log"
cmake --build "build/$preset" --target "${@:-all}"
