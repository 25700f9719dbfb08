#!/usr/bin/env bash
# horovod.sh: builds Horovod 0.28.1 on MPI alone into ~/.cache/coxswain/horovod, for the test that runs it. It has no wheels
# and does not compile with a torch newer than 2.0.1, whose own wheels bring 3 GB of CUDA along. Needs cmake, g++ and
# libopenmpi-dev.
set -euo pipefail
cd "$(dirname "$0")/../../.."
home=${COXSWAIN_CACHE:-$HOME/.cache/coxswain}/horovod
[ -x "$home/bin/python" ] || python3 -m venv "$home"
"$home/bin/pip" install -q -r tests/e2e/programs/horovod.txt
# --no-build-isolation: it is compiled beside the torch that it will be used with.
"$home/bin/python" -c "import horovod.torch" 2>/dev/null ||
  HOROVOD_WITH_MPI=1 HOROVOD_WITHOUT_GLOO=1 HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 \
    MAKEFLAGS=-j2 "$home/bin/pip" install -q --no-build-isolation --no-binary horovod horovod==0.28.1
