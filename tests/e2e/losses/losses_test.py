#!/usr/bin/env python3
"""The losses of three labs, by the programs that they were written for and by what `coxswain convert` makes of their
commands: from the same weights, of the same digits, step by step, two workers each. MXNet 1.9.1 with two servers, and
torch's DistributedDataParallel on gloo; skips what is not there.

    losses_test.py [NAME...]
"""
import json
import pathlib
import re
import struct
import subprocess
import sys
import time
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import harness  # noqa: E402

WORKERS, TEST_DIGITS = 2, 100
PATIENCE, ATTEMPTS = 900, 3  # seconds, of a busy machine
LAUNCH = ["launch.py", "-n", "2", "-s", "2", "--launcher", "local"]


class Lab(NamedTuple):
    """The labs' own recipes, but for the images and what diverged there or takes long."""
    command: list
    environment: str  # of the Python that has these modules
    modules: list
    program: list     # {digits}, {weights}, {steps}, {batch}, {rate}
    steps: int
    batch: int        # images of a worker
    rate: float
    within: float


LABS = {
    "cifar10": Lab([*LAUNCH, "python", "train_cifar10.py", "--network", "resnet", "--num-layers", "8", "--kv-store",
                    "dist_device_sync", "--num-epochs", "1"], "mxnet", ["mxnet"],
                   ["mxnet_labs.py", "cifar10", "{digits}", "{steps}", "{batch}", "{rate}", "{weights}"],
                   50, 64, 0.05, 0.02),
    "d2l": Lab([*LAUNCH, "python multimachine_cifar10_train.py"], "mxnet", ["mxnet"],
               ["mxnet_labs.py", "d2l", "{digits}", "{steps}", "{batch}", "{rate}", "{weights}"],
               8, 16, 0.0003, 0.02),
    # The first steps of 100 epochs. Of digits this small the last features are one pixel, and a ReLU whose input is zero
    # but for rounding counts: at this rate torch's own float32 and float64 are 1.6e-3 apart after 50 steps.
    "imagenet": Lab(["python", "imagenet-distributed.py", "-n", "2", "-g", "1", "-nr", "0", "--epochs", "100"],
                    "peers", ["torch"], ["torch_lab.py", "{digits}", "{steps}", "{batch}", "{rate}", "2000", "{weights}"],
                    20, 32, 0.0005, 5e-3),
}


def template(command):
    return {"spec": {"containers": [{"name": "trainer", "image": "theirs", "command": command}]}}


def job_of_theirs(lab, python, values):
    train = [python, str(HERE / lab.program[0]), *(word.format(**values) for word in lab.program[1:])]
    roles = {"Worker": {"replicas": WORKERS, "template": template(train)}}
    spec = {"launcher": "Env", "rendezvous": ["PyTorch"]}
    if lab.environment == "mxnet":
        roles["Server"] = {"replicas": 2, "template": template([python, "-c", "import mxnet"])}
        spec = {"strategy": "ParameterServer", "rendezvous": ["MXNet"]}
    return {"apiVersion": "coxswain.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "theirs"},
            "spec": {**spec, "replicaSpecs": roles, "runPolicy": {"backoffLimit": 0}}}


def finished(directory, job):
    """Begun anew where it doesn't end: of gluon's start on a kvstore, one in some stays in a barrier for ever."""
    for attempt in range(ATTEMPTS):
        run = harness.Run.of_file(directory / str(attempt), job)
        try:
            return run.wait(PATIENCE / ATTEMPTS)
        except subprocess.TimeoutExpired:
            run.process.terminate()
            run.wait()
    raise AssertionError(f"not at its end after {PATIENCE} s: {run.output()[-3000:]}")


def their_losses(directory, lab, python, values):
    job = directory.with_suffix(".json")
    job.write_text(json.dumps(job_of_theirs(lab, python, values)))
    run = finished(directory, job)
    said = re.findall(r"worker (\d) step (\d+): loss (\S+)", run.output())
    assert run.code == 0 and len(said) == WORKERS * lab.steps, (run.code, run.output()[-3000:], run.errors()[-3000:])
    losses = [0.0] * lab.steps
    for _, step, loss in said:
        losses[int(step) - 1] += float(loss) / WORKERS
    return losses


def replaced(job, pattern, text):
    job, count = re.subn(pattern, text, job)
    assert count == 1, (count, pattern, job)
    return job


def our_job(lab, values):
    done = subprocess.run([harness.COXSWAIN, "convert", "--", *lab.command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    data = f"format: mnist, path: {values['digits']}, channels: 3, split: contiguous"
    job = replaced(done.stdout, r"\n    data:\n(      .*\n)+(?=    \w)", f"\n    data: {{{data}}}\n")
    job = replaced(job, r"\n    data:\n      persistentVolumeClaim:\n        claimName: \w+", "")
    job = replaced(job, r"batchSize: \d+", f"batchSize: {lab.batch}")
    job = replaced(job, r"\n      lr: \S+", f"\n      lr: {lab.rate}")
    report = "{logEverySteps: 1, tensorboard: curves}"
    return replaced(job, "\n  training:", f"\n  training:\n    pretrained: {values['weights']}\n    report: {report}")


def curve(directory):
    """What the file of TensorBoard's holds by now."""
    data = b"".join(file.read_bytes() for file in directory.glob("coxswain-volumes/*/curves/*"))
    return [struct.unpack("<f", loss)[0] for loss in re.findall(rb"Loss/train\x15(.{4})", data, re.DOTALL)]


def our_losses(directory, lab, values):
    job = directory.with_suffix(".yaml")
    job.write_text(our_job(lab, values))
    run, end = harness.Run.of_file(directory, job), time.monotonic() + PATIENCE
    while len(curve(directory)) < lab.steps and run.process.poll() is None and time.monotonic() < end:
        time.sleep(0.1)
    run.process.terminate()
    run.wait()
    losses = curve(directory)[:lab.steps]
    assert len(losses) == lab.steps, (run.code, run.output()[-3000:], run.errors()[-3000:])
    return losses


def compare(directory, lab, python):
    directory.mkdir()
    digits = harness.first_digits(directory / "digits", WORKERS * lab.steps * lab.batch, TEST_DIGITS)
    values = {"digits": str(digits), "weights": str(directory / "first.weights"), "steps": lab.steps,
              "batch": lab.batch, "rate": lab.rate}
    expected = their_losses(directory / "theirs", lab, python, values)
    got = our_losses(directory / "ours", lab, values)
    apart = [abs(a - b) / b for a, b in zip(got, expected)]
    assert max(apart) < lab.within, list(zip(expected, got))
    return f"{lab.steps} losses from {expected[0]:.4f} to {expected[-1]:.4f}, at most {max(apart):.1e} of them apart"


def main():
    compared = 0
    with harness.temporary() as scratch:
        for name in sys.argv[1:] or LABS:
            lab = LABS[name]
            found = harness.python_with(lab.environment, *lab.modules)
            if found is None:
                print(f"skipped: {name}: no python3 with {', '.join(lab.modules)}; "
                      "tests/e2e/programs/install.sh brings one")
                continue
            print(f"ok: {name}: {compare(pathlib.Path(scratch, name), lab, f'{found}/python3')}", flush=True)
            compared += 1
    return 0 if compared else 77


if __name__ == "__main__":
    sys.exit(main())
