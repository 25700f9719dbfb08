#!/usr/bin/env bash
# Training speed beside PyTorch's and TensorFlow's on this machine: images/s of whole steps, interleaved rounds.
#   run.sh [--rows REGEX] [--rounds 3] [--seconds 3] [--json FILE]
# Installs the peers into ~/.cache/coxswain/peers the first time (several GB). Takes up to half an hour.
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake/install-dependencies.sh bench
cmake/build.sh --tests release coxswain-trainer all_reduce_bench
peers=${XDG_CACHE_HOME:-$HOME/.cache}/coxswain/peers
if [ ! -x "$peers/bin/python" ]; then
  echo "installing the peers into $peers"
  python3 -m venv "$peers"
fi
"$peers/bin/python" -c 'import torch, torchvision, tensorflow' 2>/dev/null ||
  "$peers/bin/pip" install -q -r tests/bench/requirements.txt
exec python3 tests/bench/bench.py --python "$peers/bin/python" "$@"
