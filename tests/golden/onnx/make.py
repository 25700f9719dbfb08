#!/usr/bin/env python3
"""make.py: small networks as PyTorch exports them, by both of its exporters, and losses.txt, what PyTorch makes of each:
the loss in evaluation, and in training those of six steps of SGD without momentum.
Made with torch 2.15.0, onnx 1.23.2, onnxscript 0.7.2."""
import copy
import logging
import pathlib
import warnings

import onnx
import torch
from torch import nn
from torch.nn import functional as F

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
HERE = pathlib.Path(__file__).parent
ROWS, CLASSES, RATE = 4, 5, 0.1


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4, eps=1e-3), nn.GELU(), nn.AvgPool2d(2))
        self.conv2 = nn.Conv2d(4, 4, 1)
        self.bn2 = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.0)
        self.fc = nn.Linear(4 * 2 * 2, 6)
        self.fc2 = nn.Linear(6, CLASSES)

    def forward(self, x):
        x = self.features(x)
        x = torch.relu(self.bn2(self.conv2(x)) + x)
        x = self.drop(x.view(x.size(0), -1))
        return self.fc2(torch.tanh(self.fc(x)))


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, stride=2, padding=1)
        self.deep = nn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.groups = nn.Conv2d(6, 4, 3, padding=1, groups=2)
        self.gate = nn.Conv2d(6, 2, 1)
        self.fc = nn.Linear(12, CLASSES)

    def forward(self, x):
        x = F.silu(self.stem(x))
        x = torch.cat([F.hardswish(self.deep(x)), F.relu6(self.groups(x)), torch.sigmoid(self.gate(x))], 1)
        return torch.softmax(self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1)), 1)

    def logits(self, x):
        return self.forward(x).log()  # of which softmax makes the same


class Gates(nn.Module):
    """Squeeze and excitation, windows that are padded unevenly or rounded up, products of values."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2)
        self.squeeze, self.excite = nn.Conv2d(8, 3, 1), nn.Conv2d(3, 8, 1)
        self.down, self.up = nn.Linear(8, 3), nn.Linear(3, 8)
        self.fc, self.gate = nn.Linear(8 * 3 * 3, 6), nn.Linear(8 * 3 * 3, 6)
        self.fc2 = nn.Linear(6, CLASSES)

    def forward(self, x):
        x = F.hardswish(self.stem(F.pad(x, (0, 1, 0, 1))))
        x = x * F.hardsigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(x, 1)))))
        x = F.max_pool2d(F.pad(F.relu(x), (1, 0, 1, 0)), 2, stride=2, ceil_mode=True)
        gate = torch.sigmoid(self.up(F.silu(self.down(x.mean((2, 3))))))
        x = torch.flatten(gate[:, :, None, None] * x, 1)
        return self.fc2(torch.tanh(self.fc(x)) * (F.relu6(self.gate(x) + 3) / 6))


def images():
    pixel = torch.arange(64).reshape(1, 1, 8, 8)
    channel = torch.arange(3).reshape(1, 3, 1, 1)
    sample = torch.arange(ROWS).reshape(ROWS, 1, 1, 1)
    return ((167 * pixel + 31 * channel + 89 * sample) % 256).float() / 255


def loss_of(net, x):
    logits = net.logits(x) if hasattr(net, "logits") else net(x)
    return F.cross_entropy(logits, torch.arange(ROWS) % CLASSES)


def evaluation(net, x):
    net = copy.deepcopy(net).eval()
    with torch.no_grad():
        return loss_of(net, x).item()


def training(net, x):
    net = copy.deepcopy(net).train()
    optimizer = torch.optim.SGD(net.parameters(), RATE)
    losses = []
    for _ in range(6):
        loss = loss_of(net, x)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses


def export(net, name, **how):
    if how.get("dynamo"):
        how = {"external_data": False, **how}
    else:
        how = {"dynamo": False, "input_names": ["input"], "dynamic_axes": {"input": {0: "N"}}, **how}
    file = HERE / f"{name}.onnx"
    torch.onnx.export(copy.deepcopy(net), (images(),), str(file), verbose=False, **how)  # which runs it
    model = onnx.load(file, load_external_data=False)
    for part in (model, model.graph, *model.graph.node, *model.graph.value_info, *model.graph.initializer):
        part.ClearField("metadata_props")  # stack traces
    onnx.save(model, file)


def with_statistics_of(net, file):
    """The exporter of a net in training runs it, so that the file has other running statistics."""
    net = copy.deepcopy(net)
    own = dict(net.named_buffers())
    for tensor in onnx.load(file).graph.initializer:
        if tensor.name in own:
            own[tensor.name].copy_(torch.tensor(onnx.numpy_helper.to_array(tensor)))
    return net


def main():
    torch.manual_seed(3)
    plain, branches, gates = Plain(), Branches(), Gates()
    with torch.no_grad():
        plain.bn2.bias.fill_(1)  # else no Relu before the last layers lets anything through in evaluation
        plain.train()(images().flip(3) * 2)  # running statistics of their own
    keep = {"training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False}
    batch = ({0: torch.export.Dim("N")},)
    export(plain.train(), "plain-torchscript", **keep)
    export(plain.train(), "plain-opset13", opset_version=13, **keep)
    export(plain.train(), "plain-dynamo", dynamo=True, optimize=False, dynamic_shapes=batch)
    export(plain.eval(), "folded-torchscript")
    export(plain.eval(), "folded-dynamo", dynamo=True, external_data=True)
    export(branches.train(), "branches-torchscript", **keep)
    export(branches.train(), "branches-opset13", opset_version=13, **keep)
    export(branches.eval(), "branches-dynamo", dynamo=True)
    export(gates.train(), "gates-torchscript", **keep)
    export(gates.train(), "gates-opset13", opset_version=13, **keep)
    export(gates.train(), "gates-dynamo", dynamo=True, optimize=False, dynamic_shapes=batch)
    lines = []
    for file in sorted(HERE.glob("*.onnx")):
        net = {"branches": branches, "gates": gates}.get(file.stem.split("-")[0], plain)
        lines.append(f"{file.stem} evaluation {evaluation(with_statistics_of(net, file), images()):.7f}")
        if not file.stem.startswith("folded"):
            lines.append(f"{file.stem} training " + " ".join(f"{loss:.7f}" for loss in training(net, images())))
    (HERE / "losses.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
