"""What end-to-end tests share: a small real data set, jobs, runs of the released programs."""
import gzip
import hashlib
import json
import os
import pathlib
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("COXSWAIN_BIN", ROOT / "build/release/bin"))
COXSWAIN = str(BIN / "coxswain")
TRAINER = str(BIN / "coxswain-trainer")
DIGITS = ROOT / "examples/data/mnist"

JOB = """
apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {{name: digits}}
spec:
  strategy: {strategy}
  launcher: {launcher}
  replicaSpecs:
    Worker: {{replicas: {workers}}}
  slotsPerWorker: {slots}
  training:
    model: {model}
    data: {{format: mnist, path: {data}, augment: [pad-crop: {{pad: 2}}]}}
    epochs: {epochs}
    batchSize: 64
    optimizer: {{name: sgd, lr: {lr}, momentum: 0.9}}
    seed: 7
  checkpoint: {{everySteps: {every_steps}}}
  runPolicy: {{backoffLimit: {backoff}}}
  volumes:
    checkpoints: {{persistentVolumeClaim: {{claimName: digits}}}}
"""
DEFAULTS = dict(strategy="AllReduce", launcher="MPI", workers=2, slots=1, model="singa-cnn", epochs=2, lr=0.05,
                every_steps=10, backoff=3)


def idx(path, magic, counts, payload):
    header = b"".join(n.to_bytes(4, "big") for n in (magic, *counts))
    path.write_bytes(header + payload)


def first_digits(directory, training, test):
    """The first digits of the real set as plain IDX files."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", training), ("t10k", test)):
        images = gzip.open(DIGITS / f"{name}-images-idx3-ubyte.gz").read()[16:16 + 784 * count]
        labels = gzip.open(DIGITS / f"{name}-labels-idx1-ubyte.gz").read()[8:8 + count]
        idx(directory / f"{name}-images-idx3-ubyte", 2051, (count, 28, 28), images)
        idx(directory / f"{name}-labels-idx1-ubyte", 2049, (count,), labels)
    return directory


class Run:
    """One `coxswain run` in a directory of its own; waits are bounded."""

    def __init__(self, directory, data, environment=None, **job):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "job.yaml").write_text(JOB.format(data=data, **{**DEFAULTS, **job}))
        self.start("job.yaml", environment)

    @classmethod
    def of_file(cls, directory, job):
        """A run of a job file as it stands."""
        run = cls.__new__(cls)
        run.directory = pathlib.Path(directory)
        run.directory.mkdir(parents=True)
        run.start(job)
        return run

    def start(self, job, environment=None):
        with open(self.directory / "out", "w") as out, open(self.directory / "err", "w") as err:
            self.process = subprocess.Popen([COXSWAIN, "run", "-f", str(job), "--log-format", "json"],
                                            cwd=self.directory, stdout=out, stderr=err,
                                            env={**os.environ, **(environment or {})})

    def wait(self, seconds=120):
        self.process.wait(timeout=seconds)
        return self

    @property
    def code(self):
        return self.process.returncode

    def output(self):
        return (self.directory / "out").read_text()

    def errors(self):
        return (self.directory / "err").read_text()

    def events(self, kind):
        lines = [line for line in self.output().splitlines() if line.startswith("{")]
        return [event for event in map(json.loads, lines) if event.get("event") == kind]

    def finished(self):
        return self.events("finished")[-1]

    def wait_for_step(self, step, seconds=60):
        """Until a checkpoint of at least this step is there."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if any(self.checkpoint_step(p) >= step for p in self.checkpoints()):
                return
            if self.process.poll() is not None:
                raise AssertionError(f"ended early with {self.code}: {self.errors()}")
            time.sleep(0.02)
        raise AssertionError(f"no checkpoint of step {step} after {seconds} s")

    def checkpoints(self):
        return sorted((self.directory / "coxswain-volumes/digits").glob("step-*"))

    @staticmethod
    def checkpoint_step(path):
        return int(path.name.split(".")[0].split("-")[1])

    def weights(self):
        """Digest of the final model and optimizer."""
        newest = max(self.checkpoints(), key=lambda p: (self.checkpoint_step(p), p.name))
        digest = hashlib.sha256()
        for name in ("model.safetensors", "optimizer.safetensors"):
            digest.update((newest / name).read_bytes())
        return self.checkpoint_step(newest), digest.hexdigest()


def descendants(pid):
    """Process numbers below pid, as /proc tells."""
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, queue = [], [pid]
    while queue:
        for child in children.get(queue.pop(), []):
            found.append(child)
            queue.append(child)
    return found


def command_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def ranks(run):
    """The processes that train, in the order of their start."""
    return sorted(p for p in descendants(run.process.pid) if " train" in command_of(p) and " rank" not in command_of(p)
                  and "mpirun" not in command_of(p) and " worker" not in command_of(p))


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def temporary():
    return tempfile.TemporaryDirectory(prefix="coxswain-e2e-")


def python_with(environment, *modules):
    """The directory of a python3 that has these modules: in PATH, or where tests/e2e/programs/install.sh puts it."""
    cache = pathlib.Path(os.environ.get("COXSWAIN_CACHE", pathlib.Path.home() / ".cache/coxswain"))
    find = f"import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, {modules!r})))"
    for directory in (*os.environ["PATH"].split(":"), cache / environment / "bin"):
        python = pathlib.Path(directory, "python3")
        if python.is_file() and subprocess.run([python, "-c", find], capture_output=True,
                                               check=False).returncode == 0:
            return directory
    return None
