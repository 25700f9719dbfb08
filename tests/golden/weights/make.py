#!/usr/bin/env python3
"""make.py mxnet|torch: mxnet.params, as MXNet 1.9.1 saves it, and torch.safetensors, as safetensors' own writer does:
the same numbers under the names of each."""
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
KERNEL = [[[[0.5, -1.0], [2.0, 0.25]]]]


def by_mxnet():
    import mxnet as mx

    arrays = {
        "arg:conv0_weight": mx.nd.array(KERNEL),
        "arg:bn0_gamma": mx.nd.array([1.5], dtype="float16"),
        "arg:bn0_beta": mx.nd.array([-0.5]),
        "aux:bn0_moving_mean": mx.nd.array([3.0]),
        "aux:bn0_moving_var": mx.nd.array([4.0]),
        "arg:count": mx.nd.array([7], dtype="int32"),
    }
    mx.nd.save(str(HERE / "mxnet.params"), arrays)


def by_torch():
    import torch
    from safetensors.torch import save_file

    tensors = {
        "module.conv0.weight": torch.tensor(KERNEL),
        "module.bn0.weight": torch.tensor([1.5], dtype=torch.float16),
        "module.bn0.bias": torch.tensor([-0.5], dtype=torch.bfloat16),
        "module.bn0.running_mean": torch.tensor([3.0]),
        "module.bn0.running_var": torch.tensor([4.0]),
        "module.bn0.num_batches_tracked": torch.tensor(7),
    }
    save_file(tensors, HERE / "torch.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    {"mxnet": by_mxnet, "torch": by_torch}[sys.argv[1]]()
