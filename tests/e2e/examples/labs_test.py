#!/usr/bin/env python3
"""The commands of five labs, as their readers type them: `coxswain convert` makes a job of each, and the job trains.

    labs_test.py [NAME...]

Small stand-ins take the place of the data sets, and what would take long on them is said less of: a smaller batch, one
epoch. All else is as it was converted.
"""
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402
from examples_test import digits_in_folders  # noqa: E402


def cifar(directory, training, test):
    """CIFAR-10's binary batches, of stripes whose direction is the class."""
    directory.mkdir(parents=True)

    def image(label, seed):
        return bytes(255 if (x * (label + 1) + y * (10 - label) + seed) // 16 % 2 else 0
                     for _ in range(3) for y in range(32) for x in range(32))

    parts = [(f"data_batch_{part}.bin", training // 5, 100 * part) for part in range(1, 6)]
    for name, count, seed in [*parts, ("test_batch.bin", test, 0)]:
        (directory / name).write_bytes(b"".join(bytes([i % 10]) + image(i % 10, seed + i) for i in range(count)))
    return directory


# name -> the command, what of its job is less, the data of its volume, what it may not fall short of
LABS = {
    "mxnet": (["../../tools/launch.py", "-n", "2", "-s", "2", "-H", "hosts", "python", "train_cifar10.py",
               "--network", "resnet", "--num-layers", "8", "--kv-store", "dist_device_sync", "--num-epochs", "2"],
              {r"batchSize: \d+": "batchSize: 16"}, lambda place: cifar(place, 320, 40), 0.3),
    "d2l": (['!python /opt/conda/mxnet/tools/launch.py -n 2 -s 2 --sync-dst-dir /tmp/lab --launcher local '
             '"python multimachine_cifar10_train.py"'],
            {}, lambda place: cifar(place, 20, 10), 0),
    "imagenet": (["python", "imagenet-distributed.py", "-n", "2", "-g", "1", "-nr", "0", "--epochs", "2"],
                 {r"batchSize: \d+": "batchSize: 4", r"epochs: \d+": "epochs: 1"},
                 lambda place: digits_in_folders(place, 24, 70), 0),
    "singa": (["mpiexec", "--hostfile", "host_file", "-n", "4", "python", "train_mpi.py", "cnn", "mnist"],
              {r"epochs: \d+": "epochs: 2"}, lambda place: harness.first_digits(place, 2048, 512), 0.5),
    "keras": (["!horovodrun -np 8 -H h:4,i:4 python ../source_code/N3/cnn_fmnist.py --batch-size=2048 2> /dev/null"],
              {r"batchSize: \d+": "batchSize: 32", r"epochs: \d+": "epochs: 2"},
              lambda place: harness.first_digits(place, 1024, 256), 0.3),
}


def converted(directory, command):
    """The job that the command becomes, with all that it needs beside it."""
    (directory / "hosts").write_text("h1\nh2\n")
    (directory / "host_file").write_text("localhost:4\n")
    done = subprocess.run([harness.COXSWAIN, "convert", "--", *command], cwd=directory, capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise AssertionError(f"convert: {done.returncode} {done.stderr}")
    return done.stdout


def less(job, changes, data):
    for pattern, text in changes.items():
        job, count = re.subn(pattern, text, job)
        if count != 1:
            raise AssertionError(f"{count} times {pattern} in\n{job}")
    # A data set that comes with the trainer has no volume.
    return job if "\n    data:\n      persistentVolumeClaim" in job else job.replace(
        "format: mnist", f"format: mnist\n      path: {data}")


def train(directory, name):
    command, changes, make_data, accuracy = LABS[name]
    directory.mkdir()
    data = make_data(directory / "data")
    job = less(converted(directory, command), changes, data)
    (directory / "job.yaml").write_text(job)
    volumes = ["--volume", f"data={data}"] if "claimName: cifar10" in job or "claimName: imagenet" in job else []
    done = subprocess.run([harness.COXSWAIN, "run", "-f", "job.yaml", "--log-format", "json", *volumes], cwd=directory,
                          capture_output=True, text=True, timeout=300, check=False)
    event = harness.json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}
    if done.returncode != 0 or event.get("result") != "Succeeded":
        raise AssertionError(f"run: {done.returncode} {event} {done.stderr[-2000:]}")
    if not math.isfinite(event["loss"]) or event["accuracy"] < accuracy:
        raise AssertionError(f"loss {event['loss']}, accuracy {event['accuracy']}, at least {accuracy}")
    model = next(directory.glob("coxswain-volumes/*/" + pathlib.Path(event["checkpoint"]).name + "/model.safetensors"))
    return f"{event['steps']} steps, accuracy {event['accuracy']:.3f}, {model.stat().st_size} bytes"


def main():
    failures = 0
    with tempfile.TemporaryDirectory(prefix="labs-") as top:
        for name in sys.argv[1:] or LABS:
            begin = time.monotonic()
            try:
                told = train(pathlib.Path(top, name), name)
                print(f"ok     {time.monotonic() - begin:5.1f} s  {name}: {told}", flush=True)
            except (AssertionError, subprocess.TimeoutExpired, StopIteration) as failure:
                failures += 1
                print(f"FAILED {time.monotonic() - begin:5.1f} s  {name}: {failure}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
