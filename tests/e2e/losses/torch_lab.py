"""Somebody else's program, and nothing of ours in it: the ImageNet lab's DistributedDataParallel of torchvision's ResNet-18
on the digits as three colours, by the environment of its rank. Rank r reads the r-th part, in the order of the files.

torch_lab.py DIGITS STEPS BATCH RATE SCHEDULED WEIGHTS: the first weights go to WEIGHTS, as safetensors; each step's loss
is printed. SCHEDULED: the steps of OneCycleLR, of which STEPS are made.
"""
import ctypes
import json
import os
import sys

import torch
from torch import nn
from torch.nn.functional import cross_entropy

DIGITS, STEPS, BATCH, RATE = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
SCHEDULED, WEIGHTS = int(sys.argv[5]), sys.argv[6]


def batches(rank, world):
    def values(kind, head, length):
        data = bytearray(open(os.path.join(DIGITS, f"train-{kind}-ubyte"), "rb").read()[head:])
        return torch.frombuffer(data, dtype=torch.uint8).reshape(-1, length)
    images = values("images-idx3", 16, 784).reshape(-1, 1, 28, 28).expand(-1, 3, -1, -1).float() / 255
    labels = values("labels-idx1", 8, 1).ravel().long()
    first = rank * (len(labels) // world)
    for start in range(first, first + STEPS * BATCH, BATCH):
        yield images[start:start + BATCH], labels[start:start + BATCH]


class Block(nn.Module):
    def __init__(self, inputs, planes, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, planes, 3, stride, 1, bias=False), nn.BatchNorm2d(planes)
        self.conv2, self.bn2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False), nn.BatchNorm2d(planes)
        self.downsample = None if stride == 1 else nn.Sequential(nn.Conv2d(inputs, planes, 1, stride, bias=False),
                                                                 nn.BatchNorm2d(planes))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (self.downsample(x) if self.downsample else x))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        for stage, planes in enumerate((64, 128, 256, 512), 1):
            first = Block(max(64, planes // 2), planes, 1 if stage == 1 else 2)
            self.add_module(f"layer{stage}", nn.Sequential(first, Block(planes, planes, 1)))
        self.fc = nn.Linear(512, 10)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def save(tensors, path):
    head, end = {}, 0
    for name, one in tensors.items():
        head[name] = {"dtype": "F32", "shape": list(one.shape), "data_offsets": [end, end + one.nbytes]}
        end += one.nbytes
    text = json.dumps(head).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for one in tensors.values():
            file.write(ctypes.string_at(one.data_ptr(), one.nbytes))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(7)
    torch.distributed.init_process_group("gloo")
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    network = ResNet18()
    if rank == 0:
        save({name: one for name, one in network.state_dict().items() if one.dtype == torch.float32}, WEIGHTS)
    model = nn.parallel.DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=RATE, total_steps=SCHEDULED)
    for step, (images, labels) in enumerate(batches(rank, world), 1):
        loss = cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        os.write(1, f"worker {rank} step {step}: loss {loss.item():.6f}\n".encode())  # at once: two lines don't mix
    torch.distributed.destroy_process_group()


main()
