#!/usr/bin/env python3
"""MXNet's parameter server on this machine: its scheduler, servers and workers, over loopback.

usage: mxnet_peer.py push-pull|train WORKERS SERVERS dist_sync|dist_async [--megabytes 45] [--repeats 20] [--batch 128]
push-pull: each worker pushes so many bytes of gradients and pulls the weights; the servers run SGD with momentum.
Prints one JSON line {"milliseconds": [...]}, of all workers.
train: D2L's ResNet-18 in gluon on images from memory, a Trainer on the kvstore, as in D2L's lab on several machines.
Prints one JSON line {"best": images/s of all workers, "median": ...}.
"""
import argparse
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


def resnet18(mx):
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


def run_worker(arguments):
    import mxnet as mx  # a scheduler and a server serve here, and leave
    store = mx.kv.create(arguments.store)
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
    parser.add_argument("what", choices=["push-pull", "train"])
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
    rates = [arguments.workers * arguments.batch * 1e3 / max(step) for step in zip(*said)]
    print(json.dumps({"best": max(rates), "median": statistics.median(rates)}))


if __name__ == "__main__":
    main()
