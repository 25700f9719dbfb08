#!/usr/bin/env python3
"""MXNet's parameter server on this machine: its scheduler, servers and workers, over loopback.

usage: mxnet_peer.py push-pull|train|learn WORKERS SERVERS dist_sync|dist_async [--megabytes 45] [--repeats 20] [--batch 128]
push-pull: each worker pushes so many bytes of gradients and pulls the weights; the servers run SGD with momentum.
Prints one JSON line {"milliseconds": [...]}, of all workers.
train: D2L's ResNet-18 in gluon on images from memory, a Trainer on the kvstore, as in D2L's lab on several machines.
Prints one JSON line {"best": images/s of all workers, "median": ...}.
learn: cifar-resnet8 on the digits as 3 x 28 x 28, each worker its share; --repeats passes.
Prints one JSON line {"errors": [share of the test digits that worker 0 has wrong after each pass]}.
"""
import argparse
import gzip
import json
import os
import socket
import statistics
import subprocess
import sys
import time

WARM_UP = 2
KEYS = 16  # arrays small enough that MXNet cuts none: their number is even on any servers
CLASSES, IMAGE, PARAMETERS = 10, (3, 32, 32), 11176970  # d2l-resnet18 of tests/bench/peers.py
RATE = 0.05  # of learn, as in bench.py


def push_pull(mx, store, arguments):
    count = int(arguments.megabytes * 1e6 / 4 / KEYS)
    keys = list(range(KEYS))
    gradients, weights = ([mx.nd.ones((count,)) for _ in keys] for _ in range(2))
    store.init(keys, weights)
    store.set_optimizer(mx.optimizer.SGD(learning_rate=0.01, momentum=0.9))

    def step():
        store.push(keys, gradients)
        store.pull(keys, out=weights)
        mx.nd.waitall()
    return step


def residual(mx):
    nn = mx.gluon.nn

    class Residual(nn.HybridBlock):
        def __init__(self, channels, stride, project):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2D(channels, 3, stride, 1), nn.BatchNorm()
            self.conv2, self.bn2 = nn.Conv2D(channels, 3, 1, 1), nn.BatchNorm()
            self.conv3 = nn.Conv2D(channels, 1, stride) if project else None

        def hybrid_forward(self, F, x):
            y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
            return F.relu(y + (self.conv3(x) if self.conv3 else x))
    return Residual


def resnet18(mx):
    nn, Residual = mx.gluon.nn, residual(mx)
    net = nn.HybridSequential()
    net.add(nn.Conv2D(64, 3, 1, 1), nn.BatchNorm(), nn.Activation("relu"))
    for stage, channels in enumerate((64, 128, 256, 512)):
        for unit in range(2):
            first = stage > 0 and unit == 0
            net.add(Residual(channels, 2 if first else 1, first))
    net.add(nn.GlobalAvgPool2D(), nn.Dense(CLASSES))
    return net


def train(mx, store, arguments):
    net = resnet18(mx)
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    images = mx.nd.random.normal(shape=(arguments.batch, *IMAGE))
    labels = mx.nd.random.randint(0, CLASSES, shape=(arguments.batch,)).astype("float32")
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    net(images).wait_to_read()
    parameters = sum(p.data().size for p in net.collect_params().values() if p.grad_req != "null")
    if parameters != PARAMETERS:
        raise SystemExit(f"MXNet's d2l-resnet18: {parameters} parameters, expected {PARAMETERS}")
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9}, kvstore=store)

    def step():
        with mx.autograd.record():
            loss = loss_of(net(images), labels).sum()
        loss.backward()
        trainer.step(arguments.batch * store.num_workers)
        loss.wait_to_read()
        mx.nd.waitall()
    return step


def digits(mx, kind, share):
    """Images as 3 x 28 x 28 and labels of every share-th digit, from this worker's first."""
    def values(name, head):
        path = f"examples/data/mnist/{kind}-{name}-ubyte.gz"
        return mx.nd.array(bytearray(gzip.open(path).read()[head:]), dtype="uint8").astype("float32")
    first, step = share
    labels = values("labels-idx1", 8)[first::step]
    images = values("images-idx3", 16).reshape((-1, 1, 28, 28))[first::step] / 255
    return mx.nd.tile(images, (1, 3, 1, 1)), labels


def learn(mx, store, arguments):
    """The shape of cifar-resnet8, with He's blocks."""
    nn, Residual = mx.gluon.nn, residual(mx)
    net = nn.HybridSequential()
    net.add(nn.Conv2D(16, 3, 1, 1), nn.BatchNorm(), nn.Activation("relu"))
    for channels in (16, 32, 64):
        net.add(Residual(channels, 1 if channels == 16 else 2, channels > 16))
    net.add(nn.GlobalAvgPool2D(), nn.Dense(CLASSES))
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    images, labels = digits(mx, "train", (store.rank, store.num_workers))
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    net(images[:1]).wait_to_read()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": RATE, "momentum": 0.9}, kvstore=store)
    errors = []
    for _ in range(arguments.repeats):
        order = mx.nd.random.shuffle(mx.nd.arange(len(labels)))
        for start in range(0, len(labels) - arguments.batch + 1, arguments.batch):
            some = order[start:start + arguments.batch]
            with mx.autograd.record():
                loss = loss_of(net(images.take(some)), labels.take(some)).sum()
            loss.backward()
            trainer.step(arguments.batch)
        errors.append(wrong(mx, net) if store.rank == 0 else None)
    print(json.dumps(errors), flush=True)


def wrong(mx, net):
    images, labels = digits(mx, "t10k", (0, 1))
    right = sum(int((net(images[i:i + 500]).argmax(axis=1) == labels[i:i + 500]).sum().asscalar())
                for i in range(0, len(labels), 500))
    return 1 - right / len(labels)


def run_worker(arguments):
    import mxnet as mx  # a scheduler and a server serve here, and leave
    store = mx.kv.create(arguments.store)
    if arguments.what == "learn":
        learn(mx, store, arguments)
        return
    step = {"push-pull": push_pull, "train": train}[arguments.what](mx, store, arguments)
    milliseconds = []
    for _ in range(WARM_UP + arguments.repeats):
        begin = time.perf_counter()
        step()
        milliseconds.append((time.perf_counter() - begin) * 1e3)
    print(json.dumps(milliseconds[WARM_UP:]), flush=True)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run_cluster(arguments):
    """What each worker measured."""
    common = {**os.environ, "DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(free_port()),
              "DMLC_NUM_WORKER": str(arguments.workers), "DMLC_NUM_SERVER": str(arguments.servers),
              "DMLC_USE_KUBERNETES": "1", "DMLC_NODE_HOST": "127.0.0.1"}

    def start(role, **more):
        return subprocess.Popen([sys.executable] + sys.argv, stdout=subprocess.PIPE, text=True,
                                env={**common, "DMLC_ROLE": role, **more})

    others = [start(role) for role in ["scheduler"] + ["server"] * arguments.servers]
    threads = {"OMP_NUM_THREADS": str(max(1, os.cpu_count() // arguments.workers))}
    workers = [start("worker", **threads) for _ in range(arguments.workers)]
    try:
        said = [json.loads(worker.communicate(timeout=600)[0]) for worker in workers]
        for other in others:
            other.wait(timeout=20)
    finally:
        for process in workers + others:
            process.kill()
    return said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["push-pull", "train", "learn"])
    parser.add_argument("workers", type=int)
    parser.add_argument("servers", type=int)
    parser.add_argument("store", choices=["dist_sync", "dist_async"])
    parser.add_argument("--megabytes", type=float, default=45)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--batch", type=int, default=128)
    arguments = parser.parse_args()
    if "DMLC_ROLE" in os.environ:
        run_worker(arguments)
        return
    said = run_cluster(arguments)
    if arguments.what == "push-pull":
        print(json.dumps({"milliseconds": [value for worker in said for value in worker]}))
        return
    if arguments.what == "learn":
        print(json.dumps({"errors": next(errors for errors in said if None not in errors)}))
        return
    rates = [arguments.workers * arguments.batch * 1e3 / max(step) for step in zip(*said)]
    print(json.dumps({"best": max(rates), "median": statistics.median(rates)}))


if __name__ == "__main__":
    main()
