"""Somebody else's program, and nothing of ours in it: gluon on MNIST's digits, over MXNet's parameter server, where
and as what the environment says. mxnet_digits.py DIRECTORY"""
import gzip
import os
import sys

import mxnet as mx  # a scheduler and a server serve here, and leave with 0
import numpy as np
from mxnet import autograd, gluon, nd

BATCH = 64


def digits(name, count):
    def values(kind, head, length):
        data = gzip.open(os.path.join(sys.argv[1], f"{name}-{kind}-ubyte.gz")).read()
        return np.frombuffer(data, np.uint8, length * count, head).astype(np.float32)
    return values("images-idx3", 16, 784).reshape(count, 784) / 255, values("labels-idx1", 8, 1)


store = mx.kv.create("dist_sync")
images, labels = digits("train", 30000)
own = slice(store.rank, None, store.num_workers)
images, labels = images[own], labels[own]
net = gluon.nn.Sequential()
net.add(gluon.nn.Dense(128, activation="relu"), gluon.nn.Dense(10))
net.initialize(mx.init.Xavier())
trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9}, kvstore=store)
loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
for start in list(range(0, len(images) - BATCH + 1, BATCH)) * 2:
    some, wanted = nd.array(images[start:start + BATCH]), nd.array(labels[start:start + BATCH])
    with autograd.record():
        loss = loss_of(net(some), wanted).sum()
    loss.backward()
    trainer.step(BATCH * store.num_workers)
images, labels = digits("t10k", 2000)
right = (net(nd.array(images)).argmax(axis=1).asnumpy() == labels).mean()
print(f"worker {store.rank} of {store.num_workers}: accuracy {right:.1%}", flush=True)
