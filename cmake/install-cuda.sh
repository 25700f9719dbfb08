#!/usr/bin/env bash
# Brings CUDA's compiler and libraries as wheels of PyPI (1.5 GB to fetch, 2.3 GB installed), no GPU needed, and prints
# where they are. Does nothing, at once, when they are there. COXSWAIN_CUDA_HOME says where; by default
# ~/.cache/coxswain/cuda.
set -euo pipefail
cd "$(dirname "$0")"
home=${COXSWAIN_CUDA_HOME:-$HOME/.cache/coxswain/cuda}
if ! cmp -s cuda-requirements.txt "$home/installed.txt"; then
  rm -rf "$home"
  python3 -m venv "$home"
  "$home/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-compile -r cuda-requirements.txt
  site=$("$home/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  ln -s "$site" "$home/site"
  # nvcc looks into lib64. The wheels hold libX.so.N alone; linkers and CMake look for libX.so.
  ln -s lib "$site/nvidia/cu13/lib64"
  for library in "$site"/nvidia/*/lib/lib*.so.*; do
    name=$(basename "$library")
    ln -sf "$name" "$(dirname "$library")/${name%%.so.*}.so"
  done
  cp cuda-requirements.txt "$home/installed.txt"
fi
echo "$home"
