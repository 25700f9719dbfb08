#!/usr/bin/env python3
"""Every job of examples/ by `coxswain run`: its result, its accuracy, its checkpoint. And the pod
that fetches a model.

In short, on the first digits and for an epoch or two; with --full as they stand, on all of them:
what their comments promise.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import time
import zlib
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402

EXAMPLES = harness.ROOT / "examples"
SHORT_DIGITS = (4000, 1000)  # training, test
START = {"suspend: true": "suspend: false"}


@dataclass
class Example:
    """What a file should reach: in full, and in short, with a few things changed."""

    epochs: int
    accuracy: float
    short_epochs: int
    short_accuracy: float
    changes: dict  # made in both forms


TRAINED = {
    "mlp.yaml": Example(1, 0.90, 1, 0.50, {}),
    "mnist.yaml": Example(10, 0.993, 2, 0.85, {}),
    "singa.yaml": Example(10, 0.977, 4, 0.65, {}),
    "singa-one-rank.yaml": Example(10, 0.982, 3, 0.60, {}),
    "singa-gpu.yaml": Example(10, 0.977, 4, 0.65, {'gpu: "4"': 'gpu: "2"'}),
    "mxnet.yaml": Example(2, 0.95, 3, 0.30, {}),
    "keras.yaml": Example(8, 0.985, 3, 0.50, {}),
    "elastic.yaml": Example(10, 0.993, 2, 0.85, {}),
    "suspended.yaml": Example(5, 0.96, 2, 0.75, START),
    "ci/job.yaml": Example(2, 0.985, 1, 0.60, {}),
}


def expect(truth, what, done):
    if not truth:
        raise AssertionError(f"{what}\nexit code {done.returncode}\n{done.stdout[-2000:]}"
                             f"{done.stderr[-2000:]}")


def changed(name, changes):
    """The file's text with each change made once."""
    text = (EXAMPLES / name).read_text()
    for old, new in changes.items():
        text, count = re.subn(old, new, text)
        if count != 1:
            raise AssertionError(f"{name}: {old!r} is there {count} times")
    return text


WITH_DATA = {"  volumes:\n": "  volumes:\n    data: {emptyDir: {}}\n"}  # for --volume data=DIR


def run(directory, text, *flags, **environment):
    """`coxswain run` of a job in a directory of its own."""
    directory.mkdir(parents=True)
    (directory / "job.yaml").write_text(text)
    return subprocess.run(
        ["nice", harness.COXSWAIN, "run", "-f", "job.yaml", "--log-format", "json", *flags],
        cwd=directory, capture_output=True, text=True, check=False, timeout=3600,
        env={**os.environ, **environment})


def last_event(done):
    return json.loads(done.stdout.splitlines()[-1])


def checkpoint_of(directory, text, event):
    claim = re.search(r"claimName: (\S+?)}", text)[1]
    return directory / "coxswain-volumes" / claim / pathlib.Path(event["checkpoint"]).name


def train(directory, text, epochs, accuracy, flags):
    """The checkpoint that the job leaves."""
    done = run(directory, text, *flags)
    expect(done.returncode == 0, "it should succeed", done)
    event = last_event(done)
    expect(event["result"] == "Succeeded" and event["restarts"] == 0, "in one go", done)
    expect(event["epochs"] == epochs, f"after {epochs} epochs", done)
    expect(event["accuracy"] >= accuracy, f"accuracy at least {accuracy}", done)
    checkpoint = checkpoint_of(directory, text, event)
    expect((checkpoint / "MANIFEST.json").is_file(), f"no checkpoint {checkpoint}", done)
    return checkpoint, f"{event['accuracy']:.2%}, {event['samplesPerSecond']:,.0f} images/s"


def check_training(name, directory, full, small):
    example = TRAINED[name]
    if full:
        text = changed(name, example.changes)
        return train(directory, text, example.epochs, example.accuracy, [])[1]
    text = changed(name, {**example.changes, **WITH_DATA,
                          r"epochs: \d+": f"epochs: {example.short_epochs}"})
    return train(directory, text, example.short_epochs, example.short_accuracy,
                 ["--volume", f"data={small}"])[1]


def check_sizes(directory, _full, small):
    """elastic.yaml: the same weights on any number of ranks."""
    weights = set()
    for ranks in (1, 3):
        text = changed("elastic.yaml", {**WITH_DATA, r"epochs: \d+": "epochs: 1",
                                        "replicas: 2": f"replicas: {ranks}"})
        checkpoint, _ = train(directory / str(ranks), text, 1, 0.5,
                              ["--volume", f"data={small}"])
        weights.add((checkpoint / "model.safetensors").read_bytes())
    if len(weights) != 1:
        raise AssertionError("1 and 3 ranks should give the same weights")
    return "1 and 3 ranks: same weights"


def check_asynchronous(directory, full, small):
    """mxnet.yaml as its comment says of dist_async."""
    changes = {"mode: sync}": "mode: async}"}
    if not full:
        changes |= {**WITH_DATA, r"epochs: \d+": "epochs: 1"}
    epochs, accuracy = (2, 0.95) if full else (1, 0.15)
    flags = [] if full else ["--volume", f"data={small}"]
    return train(directory, changed("mxnet.yaml", changes), epochs, accuracy, flags)[1]


def check_lab(directory, full, _small):
    """d2l-*.yaml: the same weights with servers and without."""
    if not full:
        return "in short by parameter_server_test.py"
    weights = set()
    for name in ("d2l-all-reduce", "d2l-parameter-server"):
        checkpoint, said = train(directory / name, changed(f"{name}.yaml", {}), 1, 0.6, [])
        weights.add((checkpoint / "model.safetensors").read_bytes())
    if len(weights) != 1:
        raise AssertionError("with servers and without should give the same weights")
    return f"same weights, {said}"


def check_suspended(directory, _full, _small):
    done = run(directory, changed("suspended.yaml", {}))
    expect(done.returncode == 75, "a suspended job should end with 75", done)
    expect(last_event(done)["result"] == "Saved", "with nothing done", done)
    expect('"reason":"Suspended"' in done.stdout, "and the reason told", done)
    expect(not list(directory.glob("coxswain-volumes/*/*")), "without a checkpoint", done)
    return "suspended"


def check_foreign(name, environment, modules, check_said):
    """Somebody else's program, by a Python that has what it imports."""
    def check(directory, _full, _small):
        found = harness.python_with(environment, *modules)
        if found is None:
            return f"skipped: there is no python3 with {' and '.join(modules)}"
        done = run(directory, changed(name, {}), PATH=f"{found}:{os.environ['PATH']}")
        expect(done.returncode == 0, "it should succeed", done)
        return check_said(directory, done)
    return check


def png(path, pixels, width, height):
    """A PNG of bytes, three a pixel."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    lines = b"".join(b"\0" + pixels[3 * width * y:3 * width * (y + 1)] for y in range(height))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
                     + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


def digits_in_folders(directory, training, test):
    """The first digits of the real set, 32 x 32 in colour, in a folder for each class."""
    digits = harness.first_digits(directory / "idx", training, test)
    for part, name, count in (("train", "train", training), ("val", "t10k", test)):
        for i, (label, grey) in enumerate(padded_digits(digits, name, count)):
            png(directory / part / str(label) / f"{i:05}.png", bytes(v for g in grey for v in (g, g, g)), 32, 32)
    return directory


def padded_digits(directory, name, count):
    """Labels and 32 x 32 grey pixels."""
    images = (directory / f"{name}-images-idx3-ubyte").read_bytes()[16:]
    labels = (directory / f"{name}-labels-idx1-ubyte").read_bytes()[8:]
    for i in range(count):
        rows = [images[784 * i + 28 * y:784 * i + 28 * y + 28] for y in range(28)]
        yield labels[i], bytes(64) + b"".join(bytes(2) + row + bytes(2) for row in rows) + bytes(64)


def check_airbench(directory, _full, _small):
    """On digits in CIFAR-10's files."""
    digits = harness.first_digits(directory / "idx", 1000, 200)
    training, test = ([bytes([label]) + 3 * grey for label, grey in padded_digits(digits, name, count)]
                      for name, count in (("train", 1000), ("t10k", 200)))
    for i in range(5):
        (digits / f"data_batch_{i + 1}.bin").write_bytes(b"".join(training[200 * i:200 * i + 200]))
    (digits / "test_batch.bin").write_bytes(b"".join(test))
    shutil.copy(EXAMPLES / "networks/airbench.yaml", digits / "network.yaml")
    text = changed("airbench.yaml", {r"    data: {persistentVolumeClaim: .*": "    data: {emptyDir: {}}",
                                     "epochs: 8": "epochs: 1", "batchSize: 2000": "batchSize: 20"})
    return train(directory / "run", text, 1, 0.7, ["--volume", f"data={digits}"])[1]


def check_pictures(name, training, test, changes, pack=False):
    """An example on digits that are made as its data are."""
    def check(directory, _full, _small):
        data = digits_in_folders(directory / "made", training, test)
        if pack:
            (directory / "records").mkdir()
            subprocess.run([harness.BIN / "coxswain-trainer", "pack", "--from", data, "--to",
                            directory / "records"], check=True, capture_output=True)
            data = directory / "records"
        text = changed(name, {**changes, r"    data: {persistentVolumeClaim: .*": "    data: {emptyDir: {}}",
                              r"epochs: \d+": "epochs: 1"})
        return train(directory / "run", text, 1, 0.05, ["--volume", f"data={data}"])[1]
    return check


def check_finetune(directory, _full, _small):
    """On weights of as many classes as ImageNet has."""
    trainer = harness.BIN / "coxswain-trainer"
    data = digits_in_folders(directory / "made", 24, 80)
    subprocess.run([trainer, "train", "--model=resnet18", "--data.format=synthetic", "--data.shape=[3,32,32]",
                    "--data.classes=1000", "--data.size=4", "--batchSize=2", "--steps=1",
                    f"--checkpoint.path={directory}/first"], check=True, capture_output=True)
    subprocess.run([trainer, "export", f"--checkpoint={directory}/first", f"--output={data}/resnet18.safetensors"],
                   check=True, capture_output=True)
    text = changed("finetune.yaml", {
        r"    data: {persistentVolumeClaim: .*": "    data: {emptyDir: {}}", r"epochs: \d+": "epochs: 1",
        "batchSize: 32": "batchSize: 4", "replicas: 2": "replicas: 1"})
    done = run(directory / "run", text, "--volume", f"data={data}")
    expect(done.returncode == 0, "it should succeed", done)
    for line in ("begins with the weights of ", "fc begins anew", "frozen: "):
        expect(line in done.stdout, f"no line \"{line}\"", done)
    return f"{last_event(done)['accuracy']:.2%}"


def check_few_steps(name, changes):
    """What is for more ranks or other pictures than are here: an epoch of small steps, on the first digits."""
    def check(directory, _full, small):
        text = changed(name, {**changes, r"epochs: 8": "epochs: 1", r"batchSize: \d+": "batchSize: 64"})
        return train(directory, text, 1, 0.4, ["--volume", f"data={small}"])[1]
    return check


def all_learned(ranks, claim):
    """Each of so many torch ranks tells the same, and the model is saved."""
    def check(directory, done):
        said = re.findall(rf"rank (\d) of world {ranks}: (\S+)% of the test images", done.stdout)
        expect(sorted(rank for rank, _ in said) == [str(i) for i in range(ranks)], "all ranks speak", done)
        expect({share for _, share in said} == {"100.0"}, "all learned the same, and all", done)
        model = directory / f"coxswain-volumes/{claim}/model.pt"
        expect(model.is_file(), f"no {model}", done)
        return f"{said[0][1]}%"
    return check


def mirrored(directory, done):
    said = dict(re.findall(r"worker (\d) of 2: (\S+)% of the test images", done.stdout))
    expect(sorted(said) == ["0", "1"] and len(set(said.values())) == 1, "both learned the same", done)
    expect(float(said["0"]) > 95, "and enough", done)
    model = directory / "coxswain-volumes/tensorflow-checkpoints/model.weights.h5"
    expect(model.is_file(), f"no {model}", done)
    return f"{said['0']}%"


def coordinated(_directory, done):
    said = re.findall(r"chief: (\S+)% of the test images", done.stdout)
    expect(len(said) == 1 and float(said[0]) > 85, "the chief alone speaks, and learned", done)
    return f"{said[0]}%"


def pi_is_known(_directory, done):
    expect("pi is 3.141592654 by 4 ranks on 1 hosts" in done.stdout, "rank 0 speaks for four", done)
    return "pi"


def check_reader(_directory, _full, _small):
    """The pod that README hands out: of this version's image, and the same as the pipeline's."""
    text = (EXAMPLES / "ci/reader.yaml").read_text()
    pod = text[text.index("apiVersion:"):]
    version = re.search(r"project\(coxswain VERSION ([\d.]+)",
                        (harness.ROOT / "CMakeLists.txt").read_text())[1]
    image = f"registry.example.org/coxswain/trainer-cpu:{version}"
    script = (EXAMPLES / "ci/train.sh").read_text()
    its_pod = re.search(r"<<END\n(apiVersion: v1\nkind: Pod\n.*?)END\n", script, re.S)[1]
    its_pod = its_pod.replace("{generateName: ci-reader-}", "{name: reader}").replace(
        "$(field image)", image).replace("$claim", "mnist-checkpoints")
    if pod != its_pod:
        raise AssertionError(f"it is\n{pod}\nand by examples/ci/train.sh it would be\n{its_pod}")
    claim = "metadata: {name: mnist-checkpoints}\n"
    if claim not in (EXAMPLES / "mnist.yaml").read_text():
        raise AssertionError("mnist.yaml makes no claim mnist-checkpoints")
    return "as the pipeline's, on the claim of mnist.yaml"


def check_plan(name, *marks):
    """What the cluster is told, as `coxswain plan` prints it, of a job that trains as another one does."""
    def check(directory, full, small):
        done = subprocess.run([harness.COXSWAIN, "plan", "-f", EXAMPLES / name], capture_output=True, text=True,
                              timeout=60)
        expect(done.returncode == 0, name, done)
        for mark in marks:
            expect(mark in done.stdout, f"{name}: nothing says {mark!r}", done)
        return f"{len(marks)} marks"
    return check


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="as they stand, on all digits")
    parser.add_argument("only", nargs="*", help="names of examples, as mnist.yaml")
    arguments = parser.parse_args()
    checks = {name: lambda *a, name=name: check_training(name, *a) for name in TRAINED}
    checks |= {"d2l-parameter-server.yaml": check_lab,
               "mxnet.yaml, asynchronous": check_asynchronous,
               "elastic.yaml, sizes": check_sizes, "suspended.yaml, as it stands": check_suspended,
               "d2l-folder.yaml": check_pictures("d2l-folder.yaml", 160, 80,
                                                 {"limit: 800": "limit: 64", "batchSize: 128": "batchSize: 16"}),
               "cifar10.yaml": check_pictures("cifar10.yaml", 1000, 200, {"batchSize: 128": "batchSize: 32"}, True),
               "imagenet.yaml": check_pictures("imagenet.yaml", 24, 80, {
                   "batchSize: 256": "batchSize: 4", "replicas: 2": "replicas: 1",
                   # a handful of images: no rate of a large batch
                   "lr: 1.0": "lr: 0.001"}),
               "airbench.yaml": check_airbench,
               "finetune.yaml": check_finetune,
               "resnet50-nvidia.yaml": check_pictures("resnet50-nvidia.yaml", 24, 80, {
                   "batchSize: 256": "batchSize: 4", "replicas: 2": "replicas: 1", "warmupEpochs: 5": "warmupEpochs: 0.5",
                   "lr: 0.256": "lr: 0.001"}),
               "fashion.yaml": check_few_steps("fashion.yaml", {
                   r"    data: {persistentVolumeClaim: .*": "    data: {emptyDir: {}}"}),
               **{f"keras-{batch}.yaml": check_few_steps(f"keras-{batch}.yaml", {
                   **WITH_DATA, "slotsPerWorker: 4": "slotsPerWorker: 1"}) for batch in (512, 2048)},
               "keras-gpu.yaml": check_few_steps("keras-gpu.yaml", {**WITH_DATA, 'gpu: "8"': 'gpu: "1"'}),
               "gpu.yaml": check_plan("gpu.yaml", "image: coxswain/trainer-cuda", 'nvidia.com/gpu: "8"',
                                      "device: cuda", "slots=8"),
               "gang-kueue.yaml": check_plan("gang-kueue.yaml", "kueue.x-k8s.io/queue-name: team-a",
                                             "kueue.x-k8s.io/pod-group-name: gang-kueue-0",
                                             'kueue.x-k8s.io/pod-group-total-count: "2"',
                                             "topologyKey: topology.kubernetes.io/zone"),
               "gang-volcano.yaml": check_plan("gang-volcano.yaml", "apiVersion: scheduling.volcano.sh/v1beta1",
                                               "queue: default", "schedulerName: volcano"),
               "gang-coscheduling.yaml": check_plan("gang-coscheduling.yaml",
                                                    "apiVersion: scheduling.x-k8s.io/v1alpha1",
                                                    "scheduling.x-k8s.io/pod-group: gang-coscheduling"),
               "pytorch.yaml": check_foreign("pytorch.yaml", "peers", ["torch"], all_learned(2, "pytorch-checkpoints")),
               "torchrun.yaml": check_foreign("torchrun.yaml", "peers", ["torch"],
                                              all_learned(4, "torchrun-checkpoints")),
               "tensorflow.yaml": check_foreign("tensorflow.yaml", "tensorflow", ["tensorflow", "tf_keras"], mirrored),
               "tensorflow-parameter-server.yaml": check_foreign(
                   "tensorflow-parameter-server.yaml", "tensorflow", ["tensorflow", "tf_keras"], coordinated),
               "mpi4py.yaml": check_foreign("mpi4py.yaml", "mpi4py", ["mpi4py"], pi_is_known),
               "ci/reader.yaml": check_reader}
    named = {name.split(",")[0] for name in checks} | {"d2l-all-reduce.yaml"}
    there = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.glob("*.yaml")}
    failures = [f"{name}: has no test" for name in sorted(there - named)]
    with harness.temporary() as scratch:
        scratch = pathlib.Path(scratch)
        small = harness.first_digits(scratch / "digits", *SHORT_DIGITS)
        for index, (name, check) in enumerate(checks.items()):
            if arguments.only and name.split(",")[0] not in arguments.only:
                continue
            begin = time.monotonic()
            try:
                said = check(scratch / str(index), arguments.full, small)
                print(f"ok: {name}: {said}, {time.monotonic() - begin:.1f} s", flush=True)
            except AssertionError as error:
                failures.append(f"{name}: {error}")
    for failure in failures:
        print("FAILED:", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
