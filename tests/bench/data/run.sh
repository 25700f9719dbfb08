#!/usr/bin/env bash
# Reading pictures beside libjpeg-turbo, torchvision and MXNet, on one core, by CPU time; records beside IDX; the index of a
# large folder; a cold start.
#   run.sh [--rows REGEX] [--rounds 5] [--json FILE]
# Installs torchvision and MXNet 1.9.1 into ~/.cache/coxswain the first time. Takes about ten minutes.
set -euo pipefail
cd "$(dirname "$0")/../../.."
cmake/install-dependencies.sh bench
cmake/build.sh --tests release coxswain-trainer picture_bench
torch=$(tests/bench/install-peers.sh peers tests/bench/requirements.txt torchvision || true)
mxnet=$(tests/bench/install-peers.sh mxnet tests/bench/parameter_server/requirements.txt mxnet || true)
exec python3 tests/bench/data/bench.py --torch "$torch" --mxnet "$mxnet" "$@"
