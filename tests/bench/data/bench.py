#!/usr/bin/env python3
"""Our reading of pictures beside others', on one core. See run.sh."""
import argparse
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from commands import TRAINER, last_json  # noqa: E402

BENCH = "build/release/bin/picture_bench"
HERE = "tests/bench/data"
IMAGES = 200
LISTED, CLASSES = 1_300_000, 1000


def one_core(command):
    """As on one core, the first that we may use."""
    return ["taskset", "-c", str(min(os.sched_getaffinity(0))), *map(str, command)]


class Bench:
    def __init__(self, arguments, directory):
        self.arguments = arguments
        self.directory = directory
        self.rounds = arguments.rounds
        self.made = None
        self.measured = None

    def pictures(self):
        if self.made is None:
            self.made = self.directory / "pictures"
            subprocess.run([BENCH, "make", self.made, str(IMAGES)], check=True)
        return self.made

    def records(self):
        to = self.directory / "train.rec"
        if not to.exists():
            subprocess.run([TRAINER, "pack", "--from", self.pictures(), "--to", to], check=True, capture_output=True)
        return to

    def ours(self):
        if self.measured is None:
            self.measured = last_json(one_core([BENCH, "measure", self.pictures(), self.rounds]))
        return self.measured

    def decode(self):
        """Ours, the peer, and their ratio of medians."""
        return self.beside(self.ours()["decodeAlone"])

    def beside(self, rates):
        ours, other = statistics.median(self.ours()["ours"]), statistics.median(rates)
        return {"ours": ours, "other": other, "ratio": ours / other}

    def torchvision(self):
        if not self.arguments.torch:
            return {"skipped": "there is no torchvision"}
        return self.beside(last_json(one_core([self.arguments.torch, f"{HERE}/torchvision_peer.py", self.pictures(),
                                               self.rounds]), OMP_NUM_THREADS="1")["rates"])

    def mxnet(self):
        if not self.arguments.mxnet:
            return {"skipped": "there is no MXNet"}
        return self.beside(last_json(one_core([self.arguments.mxnet, f"{HERE}/mxnet_peer.py", self.records(),
                                               self.rounds]), OMP_NUM_THREADS="1")["rates"])

    def digits(self):
        """Training on the digits as raw records, and as IDX, in turns: images a CPU second."""
        to = self.directory / "digits.rec"
        subprocess.run([TRAINER, "pack", "--from", "mnist", "--encoding", "raw", "--to", to], check=True,
                       capture_output=True)
        flags = ["--model=mlp", "--batchSize=64", "--threads=1", "--optimizer.lr=0.1", "--steps=15000",
                 "--evaluate.everyEpochs=0"]
        sides = {"idx": ["--data.format=mnist"],
                 "rec": ["--data.format=recordio", f"--data.path={to}", f"--data.evalPath={to}",
                         "--data.shape=[1,28,28]"]}
        seconds = {name: [] for name in sides}
        for _ in range(self.rounds):
            for name, more in sides.items():
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                subprocess.run(one_core([TRAINER, "train", *flags, *more]), check=True, capture_output=True)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                seconds[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        ours, other = (15000 * 64 / statistics.median(seconds[name]) for name in ("rec", "idx"))
        return {"ours": ours, "other": other, "ratio": ours / other}

    def index(self):
        """Seconds to list a folder whose names the kernel has, and the process's memory."""
        root = self.directory / "listed"
        for c in range(CLASSES):
            folder = root / "train" / f"n{c:08}"
            folder.mkdir(parents=True)
            for i in range(LISTED // CLASSES):
                os.close(os.open(folder / f"n{c:08}_{i}.JPEG", os.O_CREAT | os.O_WRONLY))
        begin = time.monotonic()
        listing = subprocess.Popen([TRAINER, "pack", "--index", root], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(listing.pid, 0)  # its own memory, not the most of all rows' programs
        listing.returncode = os.waitstatus_to_exitcode(status)
        if listing.returncode != 0:
            raise RuntimeError(f"pack --index: {listing.returncode}")
        seconds, memory = time.monotonic() - begin, usage.ru_maxrss / 1024
        return {"seconds": seconds, "megabytes": memory, "files": LISTED}

    def cold(self):
        """Images a second of the first pass over files that are not in memory, beside a warm one."""
        def seconds():
            begin = time.monotonic()
            subprocess.run(one_core([BENCH, "measure", self.pictures(), 1]), check=True, capture_output=True)
            return time.monotonic() - begin
        self.pictures()
        seconds()
        warm = seconds()
        for file in self.pictures().rglob("*.jpg"):
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
        return {"coldSeconds": seconds(), "warmSeconds": warm}


ROWS = {"decode alone (wanted 0.85)": Bench.decode, "torchvision (wanted 1.5)": Bench.torchvision,
        "MXNet (wanted 1.2)": Bench.mxnet, "records beside IDX (wanted 0.97)": Bench.digits,
        "index of 1.3 million files (wanted 20 s, 200 MB)": Bench.index, "a cold start": Bench.cold}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    parser.add_argument("--torch", default="")
    parser.add_argument("--mxnet", default="")
    arguments = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(arguments, pathlib.Path(directory))
        for name, row in ROWS.items():
            if not re.search(arguments.rows, name):
                continue
            results[name] = row(bench)
            print(name + ":", ", ".join(f"{key} {value:,.2f}" if isinstance(value, float) else f"{key} {value}"
                                        for key, value in results[name].items()), flush=True)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
