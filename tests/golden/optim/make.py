#!/usr/bin/env python3
"""make.py: the files beside it. peers.txt: what torch and Keras (on torch) do in 20 steps, and MXNet's rules written in
float64, as the weights after each 5 steps; curves.txt: each step's learning rate; loss_scale.txt: the scale that torch's
GradScaler takes, as the steps at which it changes. The versions are in the files' first line."""
import os
import pathlib

os.environ["KERAS_BACKEND"] = "torch"
import keras  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

HERE = pathlib.Path(__file__).parent
STEPS, SIZE = 20, 4
WEIGHTS = np.array([1, -0.5, 0.25, 2], np.float64)
VERSIONS = f"torch {torch.__version__.split('+')[0]}, keras {keras.__version__}, numpy {np.__version__}"


def gradient(step):  # sixteenths, exact in float32; one that is always 0
    return np.array([(7 * step % 11 - 5) / 16, (5 * step % 7 - 1) / 16, (3 * step % 5 + 1) / 16, 0], np.float64)


def by_torch(make):
    w = torch.nn.Parameter(torch.tensor(WEIGHTS))
    optimizer = make([w])
    for step in range(STEPS):
        w.grad = torch.tensor(gradient(step))
        optimizer.step()
        yield w.detach().numpy().copy()


def by_keras(optimizer):
    w = keras.Variable(WEIGHTS, dtype="float64")
    for step in range(STEPS):
        optimizer.apply([keras.ops.convert_to_tensor(gradient(step), dtype="float64")], [w])
        yield keras.ops.convert_to_numpy(w).copy()


# mxnet/optimizer/rmsprop.py 1.9.1: the operators rmsprop_update and rmspropalex_update
def mxnet_rmsprop(lr, gamma1, gamma2, eps, wd, centered):
    w, n, mean, delta = WEIGHTS.copy(), np.zeros(SIZE), np.zeros(SIZE), np.zeros(SIZE)
    for step in range(STEPS):
        g = gradient(step) + wd * w
        n = (1 - gamma1) * g * g + gamma1 * n
        if centered:
            mean = (1 - gamma1) * g + gamma1 * mean
            delta = gamma2 * delta - lr * g / np.sqrt(n - mean * mean + eps)
            w = w + delta
        else:
            w = w - lr * g / np.sqrt(n + eps)
        yield w.copy()


# the operators signum_update and signsgd_update of MXNet 1.9.1
def mxnet_signum(lr, momentum, wd):
    w, mom = WEIGHTS.copy(), np.zeros(SIZE)
    for step in range(STEPS):
        mom = momentum * mom - (1 - momentum) * (gradient(step) + wd * w)
        w = w + lr * np.sign(mom)
        yield w.copy()


# mxnet/optimizer/optimizer.py 1.9.1: AdaGrad, whose decay isn't the gradient's: compared without
def mxnet_adagrad(lr, eps):
    w, history = WEIGHTS.copy(), np.zeros(SIZE)
    for step in range(STEPS):
        g = gradient(step)
        history = history + g * g
        w = w - lr * g / np.sqrt(history + eps)
        yield w.copy()


# mxnet/optimizer/lars.py 1.9.1, and the operators of sgd_mom_update: weights have a rate of their own
def mxnet_lars(lr, momentum, eta, wd):
    w, mom = WEIGHTS.copy(), np.zeros(SIZE)
    for step in range(STEPS):
        g = gradient(step)
        norm, along = np.linalg.norm(w), np.linalg.norm(g)
        rate = lr * eta * norm / (along + wd * norm)
        mom = momentum * mom - rate * (g + wd * w)
        w = w + mom
        yield w.copy()


# mxnet/optimizer/lamb.py 1.9.1: the operators lamb_update_phase1 and 2
def mxnet_lamb(lr, beta1, beta2, eps, wd):
    w, mean, var = WEIGHTS.copy(), np.zeros(SIZE), np.zeros(SIZE)
    for t in range(1, STEPS + 1):
        g = gradient(t - 1)
        mean = beta1 * mean + (1 - beta1) * g
        var = beta2 * var + (1 - beta2) * g * g
        direction = mean / (1 - beta1**t) / (np.sqrt(var / (1 - beta2**t)) + eps) + wd * w
        w = w - lr * np.linalg.norm(w) / np.linalg.norm(direction) * direction
        yield w.copy()


# torch's own, in bfloat16; the weights as a matrix of two rows
def torch_muon(**options):
    w = torch.nn.Parameter(torch.tensor(WEIGHTS, dtype=torch.float32).reshape(2, -1))
    optimizer = torch.optim.Muon([w], adjust_lr_fn="match_rms_adamw", **options)
    for step in range(STEPS):
        w.grad = torch.tensor(gradient(step), dtype=torch.float32).reshape(2, -1)
        optimizer.step()
        yield w.detach().numpy().flatten().copy()


# the same rule in float64
def muon(lr, momentum, weight_decay):
    w, mean = WEIGHTS.reshape(2, -1).copy(), np.zeros((2, SIZE // 2))
    for step in range(STEPS):
        g = gradient(step).reshape(2, -1)
        mean = momentum * mean + (1 - momentum) * g
        x = (1 - momentum) * g + momentum * mean
        x = x / max(np.linalg.norm(x), 1e-7)
        for _ in range(5):
            gram = x @ x.T
            x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
        w = w * (1 - lr * weight_decay) - lr * 0.2 * np.sqrt(max(w.shape)) * x
        yield w.flatten()


def clipped(how):
    def make(parameters):
        optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.1)
        optimizer.register_step_pre_hook(lambda *_: (how(parameters), None)[1])
        return optimizer
    return by_torch(make)


def average(decay):
    w = torch.nn.Linear(SIZE, 1, bias=False).double()
    w.weight.data.copy_(torch.tensor(WEIGHTS))
    averaged = torch.optim.swa_utils.AveragedModel(w, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(decay))
    averaged.update_parameters(w)  # the first call copies
    optimizer = torch.optim.SGD(w.parameters(), lr=0.1)
    for step in range(STEPS):
        w.weight.grad = torch.tensor(gradient(step))[None]
        optimizer.step()
        averaged.update_parameters(w)
        yield averaged.module.weight.detach().numpy()[0].copy()


def loss_scales(overflows, steps):
    scaler = torch.amp.GradScaler("cpu")
    w = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([w], lr=0.0)
    before = None
    for step in range(steps):
        scaler.scale(w.sum()).backward()
        if step in overflows:
            w.grad.fill_(float("inf"))
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if scaler.get_scale() != before:
            before = scaler.get_scale()
            yield step, before


o, k = torch.optim, keras.optimizers
RULES = {
    "torch_adamw": by_torch(lambda p: o.AdamW(p, lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1)),
    "keras_adamw": by_keras(k.AdamW(0.01, weight_decay=0.1, epsilon=1e-8)),
    "torch_rmsprop": by_torch(lambda p: o.RMSprop(p, lr=0.01, alpha=0.9, eps=1e-3, weight_decay=0.1)),
    "torch_rmsprop_momentum": by_torch(lambda p: o.RMSprop(p, lr=0.01, alpha=0.9, eps=1e-3, momentum=0.8)),
    "torch_rmsprop_centered": by_torch(lambda p: o.RMSprop(p, lr=0.01, alpha=0.9, eps=1e-3, centered=True)),
    "torch_rmsprop_both": by_torch(lambda p: o.RMSprop(p, lr=0.01, alpha=0.9, eps=1e-3, momentum=0.8, centered=True)),
    "keras_rmsprop": by_keras(k.RMSprop(0.01, rho=0.9, epsilon=1e-3)),
    "keras_rmsprop_momentum": by_keras(k.RMSprop(0.01, rho=0.9, epsilon=1e-3, momentum=0.8)),
    "keras_rmsprop_both": by_keras(k.RMSprop(0.01, rho=0.9, epsilon=1e-3, momentum=0.8, centered=True)),
    "mxnet_rmsprop": mxnet_rmsprop(0.01, 0.9, 0, 1e-3, 0.1, False),
    "mxnet_rmsprop_both": mxnet_rmsprop(0.01, 0.9, 0.8, 1e-3, 0.1, True),
    "torch_adagrad": by_torch(lambda p: o.Adagrad(p, lr=0.05, eps=1e-3, weight_decay=0.1)),
    "keras_adagrad": by_keras(k.Adagrad(0.05, initial_accumulator_value=0.0, epsilon=1e-3)),
    "mxnet_adagrad": mxnet_adagrad(0.05, 1e-3),
    "torch_adadelta": by_torch(lambda p: o.Adadelta(p, lr=1, rho=0.9, eps=1e-3, weight_decay=0.1)),
    "keras_adadelta": by_keras(k.Adadelta(1.0, rho=0.9, epsilon=1e-3)),
    "mxnet_signum": mxnet_signum(0.01, 0.8, 0.1),
    "mxnet_signsgd": mxnet_signum(0.01, 0, 0.1),
    "mxnet_lars": mxnet_lars(0.5, 0.9, 0.01, 0.1),
    "mxnet_lamb": mxnet_lamb(0.01, 0.9, 0.999, 1e-6, 0.1),
    "keras_lamb": by_keras(k.Lamb(0.01, epsilon=1e-6)),
    "torch_muon": torch_muon(lr=0.05, momentum=0.9, weight_decay=0.1),
    "muon": muon(0.05, 0.9, 0.1),
    "torch_clip_norm": clipped(lambda p: torch.nn.utils.clip_grad_norm_(p, 0.25)),
    "torch_clip_value": clipped(lambda p: torch.nn.utils.clip_grad_value_(p, 0.125)),
    "torch_average": average(0.9),
}


# Warm-up, where there is one, is the torch schedule's own beginning moved by so many steps.
def curve(make, steps=20, lr=0.5):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    schedule = make(optimizer)
    for _ in range(steps):
        yield optimizer.param_groups[0]["lr"]
        optimizer.step()
        schedule.step()


OVERFLOWS = {0, 1, 2, 100, 2099, 4101, 4102, *range(8000, 8004)}
s = torch.optim.lr_scheduler


def each_epoch(make):  # 4 steps an epoch, as torch's users call these
    for rate in curve(make, steps=5):
        yield from [rate] * 4


def cyclic(mode):
    return lambda opt: s.CyclicLR(opt, base_lr=0.1, max_lr=0.5, step_size_up=3, mode=mode, cycle_momentum=False)


CURVES = {
    "step": each_epoch(lambda opt: s.StepLR(opt, step_size=2, gamma=0.3)),
    "exponential": each_epoch(lambda opt: s.ExponentialLR(opt, gamma=0.9)),
    "triangular": curve(cyclic("triangular")),
    "triangular2": curve(cyclic("triangular2")),
}


def main():
    with open(HERE / "peers.txt", "w") as out:
        print("#", VERSIONS, file=out)
        for name, steps in RULES.items():
            values = [w for i, w in enumerate(steps) if i % 5 == 4]
            print(name, *(f"{x:.9g}" for x in np.concatenate(values)), file=out)
    with open(HERE / "curves.txt", "w") as out:
        print("#", VERSIONS, file=out)
        for name, rates in CURVES.items():
            print(name, *(f"{x:.9g}" for x in rates), file=out)
    with open(HERE / "loss_scale.txt", "w") as out:
        print("#", VERSIONS, file=out)
        for step, scale in loss_scales(OVERFLOWS, 9000):
            print(f"{step} {scale:.9g}", file=out)


if __name__ == "__main__":
    main()
