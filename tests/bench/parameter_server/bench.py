#!/usr/bin/env python3
"""Our parameter server beside MXNet's kvstore, our all-reduce and a bare stream, in turns. See run.sh."""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from commands import COXSWAIN, last_json  # noqa: E402

PEER = "tests/bench/parameter_server/mxnet_peer.py"
MEGABYTES, REPEATS = 45, 20  # of one push and pull; in one turn
JOB = """
apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {{name: bench}}
spec:
  strategy: {strategy}
  launcher: Env
  replicaSpecs: {{Worker: {{replicas: 2}}}}
  training:
    model: d2l-resnet18
    data: {{format: synthetic, size: 4096}}
    steps: 8
    batchSize: 128
    threads: 1
    optimizer: {{name: sgd, lr: 0.01, momentum: 0.9}}
    evaluate: {{everyEpochs: 0}}
"""
SYNC, ASYNC = "dist_sync", "dist_async"


# Each side gives one figure a turn: milliseconds of a push and pull, or images/s.
def milliseconds(command):
    return statistics.median(last_json(command)["milliseconds"])


def our_push_pull(_python, workers, servers, mode, tls):
    return milliseconds(["build/release/bin/push_pull_bench", f"--workers={workers}", f"--servers={servers}",
                         f"--mode={mode.removeprefix('dist_')}", f"--megabytes={MEGABYTES}", f"--repeats={REPEATS}",
                         f"--tls={tls}"])


def mxnet_push_pull(python, workers, servers, mode):
    return milliseconds([python, PEER, "push-pull", str(workers), str(servers), mode, f"--megabytes={MEGABYTES}",
                         f"--repeats={REPEATS}"])


def stream(_python, kind):
    return milliseconds(["build/release/bin/stream_bench", kind, str(MEGABYTES), str(REPEATS)])


def our_images(strategy):
    with tempfile.TemporaryDirectory() as directory:
        job = pathlib.Path(directory) / "job.yaml"
        job.write_text(JOB.format(strategy=strategy))
        return last_json([COXSWAIN, "run", "-f", str(job), "--log-format", "json"])["samplesPerSecond"]


def our_server(_python):
    return our_images("ParameterServer")


def our_all_reduce(_python):
    return our_images("AllReduce")


def mxnet_lab(python):
    return last_json([python, PEER, "train", "2", "2", SYNC, "--batch=128", "--repeats=4"])["median"]


def push_pull(**options):
    flags = [f"--{name}={value}" for name, value in options.items()]
    return last_json(["build/release/bin/push_pull_bench", *flags])


# Limits of our own: a row's name, a function of it, at most what.
def small_request(share):
    times = sorted(push_pull(megabytes=0.001, repeats=2000, tls="on")["milliseconds"])
    return times[int(share * len(times))]


def memory(servers, weights):
    """MiB of a server above 2.5 times what it holds, its own and, of several, another's."""
    return max(push_pull(workers=servers, servers=servers, megabytes=MEGABYTES, repeats=5)["serverMiB"]) - 2.5 * weights


def crowd(part):
    """64 workers push 2 MB to one server as they like."""
    result = push_pull(workers=64, servers=1, megabytes=2, repeats=80, mode="async")
    mean = statistics.mean(result["steps"])
    return {"fairness": max(abs(steps - mean) for steps in result["steps"]) / mean * 100,
            "memory": result["serverMiB"][0]}[part]


MIB = MEGABYTES * 1e6 / 2**20
LIMITS = [
    ("a small request, median, ms", (small_request, 0.5), 0.1),
    ("a small request, 99 %, ms", (small_request, 0.99), 1),
    ("memory above 2.5 x 45 MB, 1 server, MiB", (memory, 1, MIB), 64),
    ("memory above 2.5 x 45 MB, 2 servers, MiB", (memory, 2, MIB), 64),
    ("64 workers: furthest from the mean, %", (crowd, "fairness"), 5),
    ("64 workers: memory of the server, MiB", (crowd, "memory"), 64 + 2.5 * 2),
]


# A row's name, our side, the other side (each a function and what it is told), how many times as good we should be.
PUSH_PULL = [
    ("1 worker, 1 server", (our_push_pull, 1, 1, SYNC, "off"), (mxnet_push_pull, 1, 1, SYNC), 3),
    ("1 worker, 1 server, TLS", (our_push_pull, 1, 1, SYNC, "on"), (mxnet_push_pull, 1, 1, SYNC), 2),
    ("1 worker, 1 server, a bare stream", (our_push_pull, 1, 1, SYNC, "off"), (stream, "plain"), 0.7),
    ("1 worker, 1 server, TLS, a sealed stream", (our_push_pull, 1, 1, SYNC, "on"), (stream, "sealed"), 0.7),
    ("2 workers, 2 servers, sync", (our_push_pull, 2, 2, SYNC, "off"), (mxnet_push_pull, 2, 2, SYNC), 3),
    ("2 workers, 2 servers, sync, TLS", (our_push_pull, 2, 2, SYNC, "on"), (mxnet_push_pull, 2, 2, SYNC), 1.5),
    ("2 workers, 2 servers, async", (our_push_pull, 2, 2, ASYNC, "off"), (mxnet_push_pull, 2, 2, ASYNC), 3),
    ("2 workers, 2 servers, async, TLS", (our_push_pull, 2, 2, ASYNC, "on"), (mxnet_push_pull, 2, 2, ASYNC), 1.1),
]
IMAGES = [
    ("d2l-resnet18, our all-reduce", (our_server,), (our_all_reduce,), 0.9),
    ("d2l-resnet18, MXNet's lab", (our_server,), (mxnet_lab,), 1.5),
]
SIDES = {"ours": (our_push_pull, our_server), "all-reduce": (our_all_reduce,), "stream": (stream,),
         "mxnet": (mxnet_push_pull, mxnet_lab)}  # --sides


def name_of(side):
    return next(name for name, functions in SIDES.items() if side[0] in functions)


def measure(rows, rounds, arguments):
    """{side: its median over the rounds}; every side has its turn in every round."""
    sides = list(dict.fromkeys(side for _, *pair, _ in rows for side in pair))
    sides = [side for side in sides if re.fullmatch(arguments.sides, name_of(side))]
    turns = [{side: side[0](arguments.python, *side[1:]) for side in sides} for _ in range(rounds)]
    return {side: statistics.median(turn[side] for turn in turns) for side in sides}


def compare(title, rows, rounds, arguments, is_time):
    rows = [row for row in rows if re.search(arguments.rows, row[0])]
    figures = measure(rows, rounds, arguments)
    print(f"\n{title:<42}{'ours':>9}{'theirs':>9}{'':>12}{'ratio':>7}{'goal':>6}")
    results = []
    for name, our_side, their_side, wanted in rows:
        ours, theirs = figures.get(our_side), figures.get(their_side)
        ratio = None if None in (ours, theirs) else (theirs / ours if is_time else ours / theirs)
        shown = [f"{value:9.1f}" if value else f"{'-':>9}" for value in (ours, theirs)]
        verdict = "" if ratio is None else f"{ratio:7.2f}{wanted:6.2f} {'ok' if ratio >= wanted else 'BELOW'}"
        print(f"{name:<42}{''.join(shown)} {name_of(their_side):<11}{verdict}", flush=True)
        results.append({"row": name, "ours": ours, name_of(their_side): theirs, "ratio": ratio, "wanted": wanted})
    return results


CURVE = """
apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {{name: curve}}
spec:
  strategy: ParameterServer
  replicaSpecs: {{Worker: {{replicas: 4}}, Server: {{replicas: 2}}}}
  training:
    model: cifar-resnet8
    data: {{format: mnist, channels: 3}}
    epochs: {passes}
    batchSize: 64
    threads: 1
    optimizer: {{name: sgd, lr: 0.05, momentum: 0.9}}
    parameterServer: {{mode: {mode}}}
"""
PASSES = 3


def our_curve(mode):
    with tempfile.TemporaryDirectory() as directory:
        job = pathlib.Path(directory) / "job.yaml"
        job.write_text(CURVE.format(mode=mode, passes=PASSES))
        done = subprocess.run([COXSWAIN, "run", "-f", str(job), "--log-format", "json"], capture_output=True,
                              text=True, check=True, timeout=1800)
        epochs = [event for event in map(json.loads, done.stdout.splitlines()) if event["event"] == "epoch"]
        if mode == "async":
            print(f"mean staleness of each pass: {[round(epoch['staleness'], 1) for epoch in epochs]}")
        return [1 - epoch["accuracy"] for epoch in epochs]


def learn(python):
    """Test error after each pass over the digits, 4 workers and 2 servers, one seed; the last against the synchronous."""
    mxnet = last_json([python, PEER, "learn", "4", "2", ASYNC, "--batch=64", f"--repeats={PASSES}"])["errors"]
    curves = {"sync": our_curve("sync"), "async": our_curve("async"), "mxnet dist_async": mxnet}
    for name, errors in curves.items():
        print(f"{name:<20}" + "".join(f"{error * 100:9.2f} %" for error in errors), flush=True)
    ratio = curves["async"][-1] / curves["sync"][-1]
    print(f"async ends with {ratio:.2f} times the synchronous error; at most 1.25")
    return [{"row": "cifar-resnet8, test error", **curves, "ratio": ratio, "atMost": 1.25}]


def check_limits(rows):
    print(f"\n{'limits':<42}{'ours':>9}{'at most':>9}")
    results = []
    for name, (function, *told), most in rows:
        ours = function(*told)
        print(f"{name:<42}{ours:9.2f}{most:9.2f} {'ok' if ours <= most else 'ABOVE'}", flush=True)
        results.append({"row": name, "ours": ours, "atMost": most})
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="interpreter that has MXNet")
    parser.add_argument("--rows", default="", help="regular expression on a row's name")
    parser.add_argument("--sides", default=".*", help=f"regular expression on {', '.join(SIDES)}")
    parser.add_argument("--rounds", type=int, default=20, help="of push and pull; training has a sixth of them")
    parser.add_argument("--json", default="")
    arguments = parser.parse_args()
    results = compare(f"ms of push + pull, {MEGABYTES} MB", PUSH_PULL, arguments.rounds, arguments, is_time=True)
    results += compare("images/s, 2 workers of 128, 2 servers", IMAGES, max(1, arguments.rounds // 6), arguments,
                       is_time=False)
    results += check_limits([row for row in LIMITS if re.search(arguments.rows, row[0])])
    if re.search(arguments.rows, "learn"):
        results += learn(arguments.python)
    if arguments.json:
        with open(arguments.json, "w") as out:
            json.dump(results, out, indent=1)


if __name__ == "__main__":
    main()
