#!/usr/bin/env bash
# From a bare Debian 12 machine to a trained model: installs packages, builds, trains SINGA's CNN on the real
# MNIST digits with two ranks. Can be run again at any time.
set -euo pipefail
cd "$(dirname "$0")/.."

stage() { printf '\n==> %s\n' "$*"; }

stage "1/3 packages"
cmake/install-dependencies.sh build

stage "2/3 build (release; some minutes the first time)"
cmake/build.sh release coxswain coxswain-trainer

stage "3/3 train: coxswain run -f examples/mnist.yaml"
exec build/release/bin/coxswain run -f examples/mnist.yaml "$@"
