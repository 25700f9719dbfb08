#!/usr/bin/env python3
"""make.py: torch.txt beside it: what torch computes of small networks, in float64: loss, logits and the gradients of the
tensors before the operation and of its own. The version is in the file's first line. The networks stand in
tests/trainer/backend/peers_test.cc in the same order of tensors."""
import pathlib

import torch
from torch import nn

HERE = pathlib.Path(__file__).parent
torch.set_default_dtype(torch.float64)
ROWS, CHANNELS, SIZE, CLASSES = 2, 4, 5, 3


def image():  # quarters, from -4 to 4
    pixels = torch.arange(ROWS * CHANNELS * SIZE * SIZE)
    return ((pixels * 29 % 33 - 16) / 4).reshape(ROWS, CHANNELS, SIZE, SIZE)


def fill(tensor, place, parts):  # from -15/parts to 15/parts
    at = torch.arange(tensor.numel())
    tensor.data = ((29 * at + 13 * place + 7) % 31 - 15).div(parts).reshape(tensor.shape)


class Concat(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(4, 3, 3, padding=1)
        self.b = nn.Conv2d(4, 5, 1, bias=False)

    def forward(self, x):
        return torch.cat([torch.relu(self.a(x)), x, self.b(x)], 1)


class SqueezeExcitation(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(4, 2, 1)
        self.b = nn.Conv2d(2, 4, 1)

    def forward(self, x):
        return x * nn.functional.hardsigmoid(self.b(torch.relu(self.a(x.mean((2, 3), keepdim=True)))))


OPERATIONS = {
    "groups": lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2),
    "depthwise": lambda: nn.Conv2d(4, 8, 3, padding=1, groups=4, bias=False),
    "concat": Concat,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "hard_swish": nn.Hardswish,
    "hard_sigmoid": nn.Hardsigmoid,
    "squeeze_excitation": SqueezeExcitation,
    "padded_more_after": lambda: nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(4, 6, 4, stride=2)),
    "max_pool_rounded_up": lambda: nn.MaxPool2d(2, ceil_mode=True),
    "relu6": nn.ReLU6,
    "gelu": nn.GELU,
    "avg_pool": lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False),
    "avg_pool_counts_padding": lambda: nn.AvgPool2d(3, 2, 1),
}


def results(operation):
    first = nn.Conv2d(CHANNELS, CHANNELS, 1)
    last = nn.Linear(operation(torch.zeros(ROWS, CHANNELS, SIZE, SIZE)).numel() // ROWS, CLASSES)
    trained = [*first.parameters(), *operation.parameters()]
    for place, tensor in enumerate(trained):
        fill(tensor, place, 16)
    for place, tensor in enumerate(last.parameters()):
        fill(tensor, place, 256)
    logits = last(torch.flatten(operation(first(image())), 1))
    loss = nn.functional.cross_entropy(logits, torch.arange(ROWS) % CLASSES, reduction="sum")
    loss.backward()
    return [loss.detach(), logits.detach(), *(tensor.grad for tensor in trained)]


def main():
    with open(HERE / "torch.txt", "w") as out:
        print("# torch", torch.__version__.split("+")[0], file=out)
        for name, make in OPERATIONS.items():
            for index, values in enumerate(results(make())):
                print(f"{name}.{index}", *(f"{x:.9g}" for x in values.flatten().tolist()), file=out)


main()
