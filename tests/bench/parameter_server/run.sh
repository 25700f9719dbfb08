#!/usr/bin/env bash
# The parameter server beside MXNet's on this machine: push + pull over loopback, and training; rounds in turns.
#   run.sh [--rows REGEX] [--sides REGEX] [--rounds 20] [--json FILE]
# Installs MXNet 1.9.1 into ~/.cache/coxswain/mxnet the first time (300 MB). Takes about half an hour.
set -euo pipefail
cd "$(dirname "$0")/../../.."
here=tests/bench/parameter_server
cmake/install-dependencies.sh bench
cmake/build.sh --tests release coxswain coxswain-trainer push_pull_bench stream_bench
python=$(tests/bench/install-peers.sh mxnet "$here/requirements.txt" mxnet)
exec python3 "$here/bench.py" --python "$python" "$@"
