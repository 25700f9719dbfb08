#!/usr/bin/env bash
# install.sh: fetches other people's programs for the tests that run them, into ~/.cache/coxswain: PyTorch (peers),
# TensorFlow with tf-keras, mpi4py, MXNet. Some GB; the tests skip what is not there, and fetch nothing.
set -euo pipefail
cd "$(dirname "$0")/../../.."
install=tests/bench/install-peers.sh
$install peers tests/e2e/programs/torch.txt torch
$install tensorflow tests/e2e/programs/tensorflow.txt "tensorflow, tf_keras"
$install mpi4py tests/e2e/programs/mpi4py.txt "mpi4py.MPI"
$install mxnet tests/bench/parameter_server/requirements.txt mxnet
