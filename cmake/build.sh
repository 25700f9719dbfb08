#!/usr/bin/env bash
# build.sh PRESET [TARGET...]: configures once, and after a change of the presets; builds, with ccache where it is there.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_C_COMPILER_LAUNCHER=ccache
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1  # another clone of the same sources hits too
fi
[ "build/$preset/build.ninja" -nt CMakePresets.json ] || cmake --preset "$preset" >"build-$preset.log" 2>&1 || {
  cat "build-$preset.log" >&2
  exit 1
}
rm -f "build-$preset.log"
cmake --build "build/$preset" --target "${@:-all}"
