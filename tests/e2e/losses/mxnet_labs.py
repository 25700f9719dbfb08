"""Somebody else's programs, and nothing of ours in them: two labs of MXNet's on the digits as three colours, over its
parameter server, where and as what the environment says. Worker r reads the r-th part, in the order of the files.

mxnet_labs.py cifar10|d2l DIGITS STEPS BATCH RATE WEIGHTS: the first weights go to WEIGHTS; each step's loss is printed.
cifar10: MXNet's script for CIFAR-10 with a resnet of 8 layers, by symbols and a Module. d2l: the multi-machine lab of
"Dive into Deep Learning", by gluon and a Trainer.
"""
import gzip
import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two workers on two cores that others use too
import mxnet as mx  # a scheduler and a server serve here, and leave with 0
import numpy as np
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

DIGITS, STEPS, BATCH, RATE, WEIGHTS = sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]), sys.argv[6]
DECAY = {"cifar10": 1e-4, "d2l": 5e-4}


def batches(worker, workers):
    def values(kind, head, length):
        file = os.path.join(DIGITS, f"train-{kind}-ubyte")
        return np.frombuffer(open(file, "rb").read(), np.uint8, -1, head).reshape(-1, length).astype(np.float32)
    images = np.repeat(values("images-idx3", 16, 784).reshape(-1, 1, 28, 28), 3, axis=1) / 255
    labels = values("labels-idx1", 8, 1).ravel()
    first = worker * (len(labels) // workers)
    for start in range(first, first + STEPS * BATCH, BATCH):
        yield images[start:start + BATCH], labels[start:start + BATCH]


def cifar_resnet(layers):
    """MXNet's example of a resnet, for images of at most 28 x 28 and less than 164 layers."""
    def norm(x, name):
        x = mx.sym.BatchNorm(x, fix_gamma=False, eps=2e-5, momentum=0.9, name=name)
        return mx.sym.Activation(x, act_type="relu")

    def conv(x, name, channels, kernel, stride):
        return mx.sym.Convolution(x, num_filter=channels, kernel=(kernel, kernel), stride=(stride, stride),
                                  pad=(kernel // 2, kernel // 2), no_bias=True, name=name)
    x = mx.sym.BatchNorm(mx.sym.Variable("data"), fix_gamma=True, eps=2e-5, momentum=0.9, name="bn_data")
    x = conv(x, "conv0", 16, 3, 1)
    for stage, channels in enumerate((16, 32, 64)):
        for unit in range((layers - 2) // 6):
            name, stride = f"stage{stage + 1}_unit{unit + 1}_", 2 if stage and not unit else 1
            act = norm(x, name + "bn1")
            y = conv(norm(conv(act, name + "conv1", channels, 3, stride), name + "bn2"), name + "conv2", channels, 3, 1)
            x = y + (x if unit else conv(act, name + "sc", channels, 1, stride))
    x = mx.sym.Pooling(norm(x, "bn1"), global_pool=True, kernel=(7, 7), pool_type="avg")
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=10, name="fc1")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def cifar10(store):
    """As MXNet's examples train, without their changes to the images."""
    module = mx.mod.Module(cifar_resnet(8))
    module.bind([("data", (BATCH, 3, 28, 28))], [("softmax_label", (BATCH,))])
    module.init_params(mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2))
    module.init_optimizer(store, "sgd", {"learning_rate": RATE, "momentum": 0.9, "wd": DECAY["cifar10"],
                                         "multi_precision": True})
    weights, states = module.get_params()
    yield {**weights, **states}
    for images, labels in batches(store.rank, store.num_workers):
        module.forward_backward(mx.io.DataBatch([nd.array(images)], [nd.array(labels)]))
        shares = module.get_outputs()[0].asnumpy()
        module.update()
        yield -np.log(shares[np.arange(BATCH), labels.astype(int)]).mean()


class Residual(nn.HybridBlock):
    def __init__(self, channels, use_1x1conv, strides, prefix):
        super().__init__(prefix=prefix)
        with self.name_scope():
            self.conv1 = nn.Conv2D(channels, kernel_size=3, padding=1, strides=strides, prefix="conv1_")
            self.conv2 = nn.Conv2D(channels, kernel_size=3, padding=1, prefix="conv2_")
            self.conv3 = nn.Conv2D(channels, kernel_size=1, strides=strides, prefix="conv3_") if use_1x1conv else None
            self.bn1, self.bn2 = nn.BatchNorm(prefix="bn1_"), nn.BatchNorm(prefix="bn2_")

    def hybrid_forward(self, F, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + (self.conv3(x) if self.conv3 else x))


def resnet18():
    net = nn.HybridSequential(prefix="")
    net.add(nn.Conv2D(64, kernel_size=3, strides=1, padding=1, prefix="conv_"), nn.BatchNorm(prefix="bn_"),
            nn.Activation("relu"))
    for stage, channels in enumerate((64, 128, 256, 512)):
        for unit in range(2):
            first = stage > 0 and unit == 0
            net.add(Residual(channels, first, 2 if first else 1, f"stage{stage + 1}.unit{unit + 1}."))
    net.add(nn.GlobalAvgPool2D(), nn.Dense(10, prefix="fc_"))
    return net


def d2l(store):
    net = resnet18()
    net.collect_params().initialize(mx.init.Xavier())
    net.hybridize()
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd",
                            {"learning_rate": RATE, "momentum": 0.9, "wd": DECAY["d2l"]}, kvstore=store)
    net(nd.zeros((1, 3, 28, 28))).wait_to_read()
    yield {name: one.data() for name, one in net.collect_params().items()}
    for images, labels in batches(store.rank, store.num_workers):
        with autograd.record():
            loss = loss_of(net(nd.array(images)), nd.array(labels)).sum()
        loss.backward()
        trainer.step(BATCH)
        yield float(loss.asscalar()) / BATCH


def main():
    mx.random.seed(7)
    np.random.seed(7)
    store = mx.kv.create("dist_sync")
    run = {"cifar10": cifar10, "d2l": d2l}[sys.argv[1]](store)
    weights = next(run)
    if store.rank == 0:
        nd.save(WEIGHTS, weights)
    for step, loss in enumerate(run, 1):
        os.write(1, f"worker {store.rank} step {step}: loss {loss:.6f}\n".encode())  # at once: two lines don't mix


main()
