#!/usr/bin/env bash
# What only a GPU can prove, in at most 8 minutes: gpu_test.py on this machine's.
#   run.sh [--pack FILE.tar.xz]
# --pack: builds, and packs what a machine with a GPU needs that has neither our packages nor a compiler, and a run.sh
# for there. CUDA, cuDNN and NCCL are not in it: that machine has them, as wheels or installed.
# Without a GPU it says so and leaves with 77.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

if [ -d "$here/bin" ]; then  # a packed one
  exec python3 "$here/gpu_test.py" "$here"
fi

cd "$here/../.."
pack=build/gpu
file=
case "${1:-}" in
  --pack) file=${2:?"--pack wants a file"} ;;
  "") ;;
  *) echo "usage: tests/gpu/run.sh [--pack FILE.tar.xz]" >&2; exit 2 ;;
esac
cmake/install-dependencies.sh test
cmake/install-dependencies.sh cuda
cmake/build.sh --tests cuda coxswain-trainer gpu_checks

rm -rf "$pack"
mkdir -p "$pack/bin" "$pack/lib" "$pack/data"
for program in build/cuda/bin/coxswain-trainer build/cuda/bin/gpu_checks; do
  strip -o "$pack/bin/$(basename "$program")" "$program"
done
# All that the programs name but CUDA's own and the C library's.
ldd build/cuda/bin/coxswain-trainer build/cuda/bin/gpu_checks | awk '$2 == "=>" { print $3 }' | sort -u |
  grep -v -E '/nvidia/|/(libc|libm|librt|libdl|libpthread)\.so' | xargs cp -L -t "$pack/lib"
cp examples/data/mnist/* "$pack/data"
cp tests/gpu/run.sh tests/gpu/gpu_test.py "$pack"
[ -n "$file" ] || exec "$pack/run.sh"
tar -C "$pack" -cJf "$file" .
echo "$file: $(du -m "$file" | cut -f1) MiB"
