#!/usr/bin/env bash
# Training speed beside PyTorch's and TensorFlow's on this machine: images/s of whole steps, interleaved rounds.
#   run.sh [--rows REGEX] [--rounds 3] [--seconds 3] [--json FILE]
# Installs the peers into ~/.cache/coxswain/peers the first time (several GB). Takes up to half an hour.
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake/install-dependencies.sh bench
cmake/build.sh --tests release coxswain-trainer all_reduce_bench
python=$(tests/bench/install-peers.sh peers tests/bench/requirements.txt "torch, torchvision, tensorflow")
exec python3 tests/bench/bench.py --python "$python" "$@"
