#!/usr/bin/env python3
"""What a rank pays for `coxswain top`: CPU time of the thread that serves rank 0's figures, against the run's.

    tests/bench/top/bench.py [--seconds 20] [--every 2]

Two ranks train on this machine; first nobody looks but `coxswain run` itself, then `coxswain top` does, as often as on a
terminal. Prints what the serving thread took of the time each time, and what one look costs."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests/bench"), str(ROOT / "tests/e2e")]
from commands import environment  # noqa: E402
from harness import COXSWAIN, command_of, descendants  # noqa: E402

WISHED = 0.001
JOB = {"apiVersion": "coxswain.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "looked-at"},
       "spec": {"replicaSpecs": {"Worker": {"replicas": 2}}, "launcher": "Env",
                "training": {"model": "singa-cnn", "data": {"format": "synthetic", "size": 4096}, "epochs": 100000,
                             "batchSize": 64, "threads": 1, "evaluate": {"everyEpochs": 0},
                             "optimizer": {"name": "sgd", "lr": 0.01, "momentum": 0.9}}}}


def until(ready, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = ready()
        if found:
            return found
        time.sleep(0.1)
    raise RuntimeError(f"not there after {seconds} s")


def server_of(process):
    """The directory of the thread that serves, below /proc."""
    for rank in descendants(process.pid):
        if " train" not in command_of(rank):
            continue
        for thread in pathlib.Path(f"/proc/{rank}/task").iterdir():
            if (thread / "comm").read_text().strip() == "http":
                return thread
    return None


def cpu_seconds(thread):
    for line in (thread / "sched").read_text().splitlines():
        if line.startswith("se.sum_exec_runtime"):
            return float(line.split(":")[1]) / 1000
    raise RuntimeError(f"{thread}/sched does not tell its time: the kernel lacks CONFIG_SCHED_DEBUG")


def rank_seconds(thread):
    return sum(cpu_seconds(each) for each in thread.parent.iterdir())


def top(directory):
    done = subprocess.run([COXSWAIN, "top", "looked-at", "--local", "--run-dir", directory, "--every", "0"],
                          capture_output=True, text=True, check=True, env=environment())
    if "RANK" not in done.stdout:
        raise RuntimeError(f"top shows no ranks: {done.stdout}")


def watch(thread, seconds, look, every):
    """Seconds of the serving thread, of the rank, and how often somebody looked."""
    served, rank = cpu_seconds(thread), rank_seconds(thread)
    looks, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        if look:
            look()
            looks += 1
        time.sleep(max(0.0, min(every, end - time.monotonic())))
    return cpu_seconds(thread) - served, rank_seconds(thread) - rank, looks


def report(name, watched, seconds):
    """The share is of the time that went by: a rank whose core others take has less of it, and trains less."""
    served, rank, looks = watched
    each = f"{served / looks * 1e6:8.0f}" if looks else f"{'':8}"
    verdict = "ok" if served / seconds <= WISHED else "ABOVE"
    print(f"{name:<28} {served * 1e3:>10.3f} {rank:>10.2f} {served / seconds:>10.4%} {each} {verdict}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--every", type=float, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        job, run = pathlib.Path(directory, "job.json"), str(pathlib.Path(directory, "run"))
        job.write_text(json.dumps(JOB))
        process = subprocess.Popen([COXSWAIN, "run", "-f", job, "--run-dir", run], cwd=directory, env=environment(),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            thread = until(lambda: server_of(process))
            until(lambda: rank_seconds(thread) > 5, 300)  # past its start, on a busy machine too
            print(f"{'who looks':<28} {'serving ms':>10} {'rank s':>10} {'share':>10} {'us a look':>8}")
            report("coxswain run alone", watch(thread, arguments.seconds, None, arguments.every), arguments.seconds)
            report(f"and top every {arguments.every:g} s",
                   watch(thread, arguments.seconds, lambda: top(run), arguments.every), arguments.seconds)
        finally:
            process.terminate()
            process.wait(60)


if __name__ == "__main__":
    main()
