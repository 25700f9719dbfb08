#!/usr/bin/env python3
"""One peer's training speed on one model: forward, cross-entropy, backward, SGD with momentum, fed from memory.

usage: peers.py torch|tensorflow MODEL BATCH fp32|bf16 THREADS SECONDS [--compile]
Prints one JSON line: {"best": images/s, "median": images/s, "parameters": n}. The models are layer by layer those of
`coxswain-trainer models`; the parameter counts must agree.
"""
import argparse
import json
import os
import statistics
import time

# name: (channels, side, classes, trainable parameters)
MODELS = {
    "singa-cnn": (1, 28, 10, 431080),
    "keras-cnn": (1, 28, 10, 1199882),
    "cifar-resnet8": (3, 28, 10, 78109),
    "cifar-resnet20": (3, 28, 10, 272541),
    "d2l-resnet18": (3, 32, 10, 11176970),
    "resnet50": (3, 224, 1000, 25557032),
}
INTERVAL = 0.3  # seconds of one measurement


def rates(step, batch, seconds):
    """Images a second over short intervals, after a warm-up."""
    for _ in range(3):
        step()
    result, start = [], time.perf_counter()
    while time.perf_counter() - start < seconds:
        begin, count = time.perf_counter(), 0
        while time.perf_counter() - begin < INTERVAL:
            step()
            count += 1
        result.append(count * batch / (time.perf_counter() - begin))
    return result


def torch_model(name):
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    class Preactivation(nn.Module):  # MXNet v2's basic unit: the first of a stage projects after BN and ReLU
        def __init__(self, inputs, outputs, stride, project):
            super().__init__()
            self.bn1, self.conv1 = nn.BatchNorm2d(inputs, 2e-5), nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn2, self.conv2 = nn.BatchNorm2d(outputs, 2e-5), nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.project = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if project else None

        def forward(self, x):
            a = torch.relu(self.bn1(x))
            y = self.conv2(torch.relu(self.bn2(self.conv1(a))))
            return y + (x if self.project is None else self.project(a))

    class D2lBlock(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1), nn.BatchNorm2d(outputs)
            self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1), nn.BatchNorm2d(outputs)
            self.project = nn.Conv2d(inputs, outputs, 1, stride) if stride != 1 else None

        def forward(self, x):
            y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
            return torch.relu(y + (x if self.project is None else self.project(x)))

    class Lambda(nn.Module):
        def __init__(self, function):
            super().__init__()
            self.function = function

        def forward(self, x):
            return self.function(x)

    pool = lambda: Lambda(lambda x: x.mean((2, 3)))
    if name == "singa-cnn":
        return nn.Sequential(nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(),
                             nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))
    if name == "keras-cnn":
        return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                             nn.Dropout(0.25), nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5),
                             nn.Linear(128, 10))
    if name.startswith("cifar-resnet"):
        units = (int(name[len("cifar-resnet"):]) - 2) // 6
        data = nn.BatchNorm2d(3, 2e-5)
        data.weight.requires_grad_(False)
        layers, inputs = [data, nn.Conv2d(3, 16, 3, 1, 1, bias=False)], 16
        for stage, width in enumerate((16, 32, 64)):
            for unit in range(units):
                layers.append(Preactivation(inputs, width, 2 if stage and not unit else 1, unit == 0))
                inputs = width
        return nn.Sequential(*layers, nn.BatchNorm2d(64, 2e-5), nn.ReLU(), pool(), nn.Linear(64, 10))
    if name == "d2l-resnet18":
        layers, inputs = [nn.Conv2d(3, 64, 3, 1, 1), nn.BatchNorm2d(64), nn.ReLU()], 64
        for stage, width in enumerate((64, 128, 256, 512)):
            layers += [D2lBlock(inputs, width, 2 if stage else 1), D2lBlock(width, width, 1)]
            inputs = width
        return nn.Sequential(*layers, pool(), nn.Linear(512, 10))
    import torchvision
    return torchvision.models.resnet50(weights=None)


def run_torch(arguments):
    import torch
    import torch.nn.functional as F
    torch.manual_seed(0)
    torch.set_num_threads(arguments.threads)
    channels, side, classes, _ = MODELS[arguments.model]
    net = torch_model(arguments.model).to(memory_format=torch.channels_last).train()
    images = torch.randn(arguments.batch, channels, side, side).to(memory_format=torch.channels_last)
    labels = torch.randint(0, classes, (arguments.batch,))
    model = torch.compile(net) if arguments.compile else net
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=arguments.precision == "bf16"):
            loss = F.cross_entropy(model(images).float(), labels)
        loss.backward()
        optimizer.step()

    parameters = sum(p.numel() for p in net.parameters() if p.requires_grad)
    return rates(step, arguments.batch, arguments.seconds), parameters


def keras_model(name, keras):
    layers = keras.layers
    channels, side, classes, _ = MODELS[name]
    image = layers.Input((side, side, channels))

    def conv(x, width, kernel, stride=1, bias=True, padding="same", activation=None):
        return layers.Conv2D(width, kernel, stride, padding, use_bias=bias, activation=activation)(x)

    def norm(x, relu, epsilon=1e-5, scale=True):
        x = layers.BatchNormalization(epsilon=epsilon, momentum=0.9, scale=scale)(x)
        return layers.ReLU()(x) if relu else x

    if name == "singa-cnn":
        x = layers.MaxPool2D()(conv(image, 20, 5, padding="valid", activation="relu"))
        x = layers.MaxPool2D()(conv(x, 50, 5, padding="valid", activation="relu"))
        x = layers.Dense(500, activation="relu")(layers.Flatten()(x))
    elif name == "keras-cnn":
        x = conv(conv(image, 32, 3, padding="valid", activation="relu"), 64, 3, padding="valid", activation="relu")
        x = layers.Flatten()(layers.Dropout(0.25)(layers.MaxPool2D()(x)))
        x = layers.Dropout(0.5)(layers.Dense(128, activation="relu")(x))
    elif name.startswith("cifar-resnet"):
        units = (int(name[len("cifar-resnet"):]) - 2) // 6
        x = conv(norm(image, False, 2e-5, scale=False), 16, 3, bias=False)
        for stage, width in enumerate((16, 32, 64)):
            for unit in range(units):
                stride = 2 if stage and not unit else 1
                a = norm(x, True, 2e-5)
                shortcut = conv(a, width, 1, stride, bias=False) if unit == 0 else x
                y = conv(norm(conv(a, width, 3, stride, bias=False), True, 2e-5), width, 3, bias=False)
                x = layers.Add()([y, shortcut])
        x = layers.GlobalAveragePooling2D()(norm(x, True, 2e-5))
    elif name == "d2l-resnet18":
        x = norm(conv(image, 64, 3), True)
        for stage, width in enumerate((64, 128, 256, 512)):
            for unit in range(2):
                stride = 2 if stage and not unit else 1
                y = norm(conv(norm(conv(x, width, 3, stride), True), width, 3), False)
                shortcut = conv(x, width, 1, stride) if stride == 2 else x
                x = layers.ReLU()(layers.Add()([y, shortcut]))
        x = layers.GlobalAveragePooling2D()(x)
    else:
        x = layers.ZeroPadding2D(3)(image)
        x = norm(conv(x, 64, 7, 2, bias=False, padding="valid"), True)
        x = layers.MaxPool2D(3, 2, "valid")(layers.ZeroPadding2D(1)(x))
        for stage, (width, units) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
            for unit in range(units):
                stride = 2 if stage and not unit else 1
                y = norm(conv(x, width, 1, bias=False), True)
                y = norm(conv(y, width, 3, stride, bias=False), True)
                y = norm(conv(y, 4 * width, 1, bias=False), False)
                shortcut = norm(conv(x, 4 * width, 1, stride, bias=False), False) if unit == 0 else x
                x = layers.ReLU()(layers.Add()([y, shortcut]))
        x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, layers.Dense(classes)(x))


def run_tensorflow(arguments):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import tensorflow as tf
    from tensorflow import keras
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    keras.utils.set_random_seed(0)
    keras.mixed_precision.set_global_policy("mixed_bfloat16" if arguments.precision == "bf16" else "float32")
    net = keras_model(arguments.model, keras)
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer.build(net.trainable_variables)
    channels, side, classes, _ = MODELS[arguments.model]
    images = tf.random.normal((arguments.batch, side, side, channels))
    labels = tf.random.uniform((arguments.batch,), 0, classes, tf.int32)

    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, net(x, training=True))
        optimizer.apply(tape.gradient(loss, net.trainable_variables), net.trainable_variables)
        return loss

    parameters = sum(int(tf.size(v)) for v in net.trainable_variables)
    return rates(lambda: train_step(images, labels).numpy(), arguments.batch, arguments.seconds), parameters


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=["torch", "tensorflow"])
    parser.add_argument("model", choices=list(MODELS))
    parser.add_argument("batch", type=int)
    parser.add_argument("precision", choices=["fp32", "bf16"])
    parser.add_argument("threads", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--compile", action="store_true")
    arguments = parser.parse_args()
    result, parameters = (run_torch if arguments.peer == "torch" else run_tensorflow)(arguments)
    expected = MODELS[arguments.model][3]
    if parameters != expected:
        raise SystemExit(f"{arguments.peer} {arguments.model}: {parameters} parameters, expected {expected}")
    print(json.dumps({"best": max(result), "median": statistics.median(result), "parameters": parameters}))


if __name__ == "__main__":
    main()
