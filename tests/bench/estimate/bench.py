#!/usr/bin/env python3
"""`coxswain estimate` against what it foretells: prediction / measurement of real runs, on this machine and on two
network namespaces whose link is shaped. As root.

    tests/bench/estimate/bench.py [--rows REGEX] [--rounds 3] [--seconds 8]

A rank's own speed is measured as two that know nothing of each other, at once, each on its core: what two cores of one
machine take from each other is not the network's. Each round measures that speed and then the run, and compares the two;
the middle round counts. The last column is what others took of the machine meanwhile: above some per cent the row says
little."""
import argparse
import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from commands import COXSWAIN, TRAINER, environment  # noqa: E402
from two_nodes import LATENCY, TwoNodes  # noqa: E402

WISHED = 0.15
TRAINING = {"data": {"format": "synthetic", "size": 4096}, "threads": 1, "evaluate": {"everyEpochs": 0},
            "optimizer": {"name": "sgd", "lr": 0.01, "momentum": 0.9}}
# model, images of a rank's batch
MODELS = [("singa-cnn", 64), ("cifar-resnet20", 128), ("d2l-resnet18", 32), ("resnet18", 8)]
# `rate` between two nodes, `mode` of the server, which has the second one.
Place = collections.namedtuple("Place", "name workers slots rate mode", defaults=(None, None))
PLACES = [Place("1 rank", 1, 1), Place("2 ranks, one machine", 1, 2), Place("4 ranks, one machine", 1, 4),
          Place("2 nodes, 10 Gb/s", 2, 1, "10gbit"), Place("2 nodes, 1 Gb/s", 2, 1, "1gbit"),
          Place("a server, 10 Gb/s", 1, 1, "10gbit", "sync"), Place("a server, 1 Gb/s", 1, 1, "1gbit", "sync"),
          Place("async, 10 Gb/s", 1, 1, "10gbit", "async"), Place("async, 1 Gb/s", 1, 1, "1gbit", "async")]
CORES = len(os.sched_getaffinity(0))


def job_of(training, place):
    limits = {"cpu": min(place.slots, CORES)}
    template = {"spec": {"containers": [{"name": "trainer", "resources": {"limits": limits}}]}}
    replicas = {"Worker": {"replicas": place.workers, "template": template}}
    spec = {"slotsPerWorker": place.slots, "replicaSpecs": replicas, "training": training}
    if place.mode:
        replicas["Server"] = {"replicas": 1}
        spec["strategy"] = "ParameterServer"
    else:
        spec["launcher"] = "Env"
    return {"apiVersion": "coxswain.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "estimate"}, "spec": spec}


def bench(core, model, batch, seconds):
    done = subprocess.run(
        ["taskset", "-c", str(core), TRAINER, "bench", f"--seconds={seconds}", f"--model={model}",
         f"--batchSize={batch}", "--threads=1", "--data.format=synthetic", "--data.size=4096", "--optimizer.lr=0.01",
         "--optimizer.momentum=0.9"], capture_output=True, text=True, check=True, env=environment())
    return json.loads(done.stdout.splitlines()[-1])


def alone(ranks, model, batch, seconds):
    """Images a second of a rank that knows nothing of the others, and the model's parameters."""
    with concurrent.futures.ThreadPoolExecutor(ranks) as pool:
        found = list(pool.map(lambda core: bench(core, model, batch, seconds), range(ranks)))
    return statistics.mean(one["median"] for one in found), found[0]["parameters"]


def pace(process):
    """The middle one of the speeds that a run's log tells, but for the first."""
    speeds = [event["samplesPerSecond"] for event in map(json.loads, filter(lambda line: line.startswith("{"), process.stdout))
              if event.get("event") == "step"]
    if len(speeds) < 3:
        raise RuntimeError(f"the run told its speed {len(speeds)} times")
    return statistics.median(speeds[1:])


def run_here(training, place):
    with tempfile.TemporaryDirectory() as directory:
        job = pathlib.Path(directory, "job.json")
        job.write_text(json.dumps(job_of(training, place)))
        with subprocess.Popen([COXSWAIN, "run", "-f", str(job), "--log-format", "json"], stdout=subprocess.PIPE,
                              text=True, env=environment()) as process:
            speed = pace(process)
        return speed, [process.returncode]


def run_on_nodes(training, place):
    with tempfile.TemporaryDirectory() as directory, contextlib.closing(TwoNodes(place.rate)) as nodes:
        processes = nodes.start(directory, json.dumps(training), bool(place.mode))
        speed = pace(processes[0])
        codes = [rank.wait(60) for rank in processes[:place.workers]]
        for server in processes[place.workers:]:
            server.terminate()
            codes.append(server.wait(60))
        return speed, codes


def foretold(training, rate_alone, parameters, place):
    network = (place.rate or "10gbit").replace("gbit", "Gb/s")
    with tempfile.TemporaryDirectory() as directory:
        job = pathlib.Path(directory, "job.json")
        job.write_text(json.dumps(job_of(training, place)))
        said = subprocess.run(
            [COXSWAIN, "estimate", "-f", str(job), f"--rate={rate_alone}", f"--parameters={parameters}",
             f"--workers={place.workers}", f"--network={network},{LATENCY}"], capture_output=True, text=True, check=True).stdout
    return float(re.search(rf"^ +{place.workers} +{place.workers * place.slots} +([\d,]+)", said, re.M)[1].replace(",", ""))


class OthersWork:
    """What this machine did that was not a child of ours, in cores."""

    def __init__(self):
        self.began = self.figures()

    @staticmethod
    def figures():
        first = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        ticks = [int(word) for word in first]
        busy = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
        ours = resource.getrusage(resource.RUSAGE_CHILDREN)
        return busy - ours.ru_utime - ours.ru_stime, sum(ticks) / os.sysconf("SC_CLK_TCK")

    def share(self):
        busy, all_ticks = self.figures()
        return max(0.0, busy - self.began[0]) / (all_ticks - self.began[1])


def verdict(ratio, place):
    if place.workers * place.slots > CORES:
        return "most"  # what is foretold of ranks that share cores is no more than that
    return "ok" if abs(ratio - 1) <= WISHED else "OFF"


def measure(model, batch, place, arguments):
    ranks = min(place.workers * place.slots, CORES)
    rounds, others = [], OthersWork()
    for _ in range(arguments.rounds):
        speed_alone, parameters = alone(ranks, model, batch, arguments.seconds)
        training = {**TRAINING, "model": model, "batchSize": batch,
                    "steps": max(20, int(speed_alone / batch * arguments.seconds))}
        if place.mode:
            training["parameterServer"] = {"mode": place.mode}
        speed, codes = run_on_nodes(training, place) if place.rate else run_here(training, place)
        if any(codes):
            raise RuntimeError(f"{model}, {place.name}: the run left with {codes}")
        rounds.append((foretold(training, speed_alone, parameters, place), speed, speed_alone * ranks))
    foretold_speed, speed, most = sorted(rounds, key=lambda one: one[0] / one[1])[len(rounds) // 2]
    ratio = foretold_speed / speed
    print(f"{model:<15} {batch:>5} {place.name:<21} {most:>9.1f} {speed:>9.1f} {foretold_speed:>9.1f} {ratio:>6.2f} "
          f"{verdict(ratio, place):<4} {others.share():>6.0%}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="", help="those that this expression finds")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=8)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # its namespaces go with it
    print(f"{'model':<15} {'batch':>5} {'place':<21} {'apart':>9} {'measured':>9} {'foretold':>9} {'ratio':>6} {'':<4} "
          f"{'others':>6}")
    for place in PLACES:
        for model, batch in MODELS:
            if re.search(arguments.rows, f"{model} {place.name}"):
                measure(model, batch, place, arguments)


if __name__ == "__main__":
    main()
