#!/usr/bin/env python3
"""Runs every row of the table in interleaved rounds and prints best and median. See run.sh."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys

from commands import MPIRUN, TRAINER, environment, last_json

MALLOC = "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"

# name, model, batch, precision, threads, convolution, wanted ratio to the better peer
ROWS = [
    ("singa-cnn fp32", "singa-cnn", 64, "fp32", 1, "direct", 1.0),
    ("singa-cnn bf16", "singa-cnn", 64, "bf16", 1, "direct", 1.15),
    ("keras-cnn fp32", "keras-cnn", 128, "fp32", 1, "direct", 1.0),
    ("keras-cnn bf16", "keras-cnn", 128, "bf16", 1, "direct", 1.0),
    ("cifar-resnet8 fp32", "cifar-resnet8", 128, "fp32", 1, "direct", 1.3),
    ("cifar-resnet8 bf16", "cifar-resnet8", 128, "bf16", 1, "direct", 1.6),
    ("cifar-resnet20 fp32", "cifar-resnet20", 128, "fp32", 1, "direct", 1.3),
    ("cifar-resnet20 bf16", "cifar-resnet20", 128, "bf16", 1, "direct", 1.5),
    ("d2l-resnet18 fp32", "d2l-resnet18", 32, "fp32", 1, "direct", 1.05),
    ("d2l-resnet18 fp32 winograd", "d2l-resnet18", 32, "fp32", 1, "winograd", 1.4),
    ("d2l-resnet18 bf16", "d2l-resnet18", 32, "bf16", 1, "direct", 1.2),
    ("resnet50 fp32", "resnet50", 16, "fp32", 2, "direct", 1.2),
    ("resnet50 bf16", "resnet50", 16, "bf16", 2, "direct", 1.1),
]
COMPILES = {"cifar-resnet8"}  # where torch.compile helps

# model, batch, precision, wanted share of two independent trainings (none: printed alone)
SCALING = [
    ("singa-cnn", 64, "fp32", 0.91), ("cifar-resnet8", 128, "fp32", 0.96), ("cifar-resnet20", 128, "fp32", 0.96),
    ("d2l-resnet18", 32, "fp32", 0.96), ("singa-cnn", 64, "bf16", None), ("cifar-resnet8", 128, "bf16", None),
]


def cores(threads, first=0):
    return ["taskset", "-c", ",".join(str(c) for c in range(first, first + threads))]


def trainer(model, batch, precision, threads, convolution, seconds):
    return [TRAINER, "bench", f"--seconds={seconds}", f"--model={model}", f"--batchSize={batch}",
            f"--precision={precision}", f"--threads={threads}", f"--convolution={convolution}",
            "--data.format=synthetic", "--data.size=4096", "--optimizer.lr=0.01", "--optimizer.momentum=0.9"]


def peer(python, name, model, batch, precision, threads, seconds, compiled=False):
    command = cores(threads) + [python, "tests/bench/peers.py", name, model, str(batch), precision, str(threads),
                                str(seconds)] + (["--compile"] if compiled else [])
    preload = {"LD_PRELOAD": MALLOC} if name == "torch" and os.path.exists(MALLOC) else {}
    return last_json(command, OMP_NUM_THREADS=str(threads), **preload)


def bench_row(row, arguments):
    name, model, batch, precision, threads, convolution, wanted = row
    runs = {"ours": [], "torch": [], "tensorflow": []}
    extra = {}
    for _ in range(arguments.rounds):
        ours = last_json(cores(threads) + trainer(model, batch, precision, threads, convolution, arguments.seconds))
        runs["ours"].append(ours)
        extra = {"limit": max(ours["limit"], extra.get("limit", 0)), "peakMemoryMb": ours["peakMemoryMb"]}
        for compiled in [False] + ([True] if model in COMPILES else []):
            runs["torch"].append(peer(arguments.python, "torch", model, batch, precision, threads, arguments.seconds,
                                      compiled))
        runs["tensorflow"].append(peer(arguments.python, "tensorflow", model, batch, precision, threads,
                                       arguments.seconds))
    figures = {who: {"best": max(r["best"] for r in results), "median": statistics.median(r["median"] for r in results)}
               for who, results in runs.items()}
    ratio = figures["ours"]["best"] / max(figures["torch"]["best"], figures["tensorflow"]["best"])
    share = figures["ours"]["best"] / extra["limit"]
    verdict = "ok" if ratio >= wanted else "BELOW"
    print(f"{name:<27} {figures['ours']['best']:>9.1f} {figures['ours']['median']:>9.1f} "
          f"{figures['torch']['best']:>9.1f} {figures['torch']['median']:>9.1f} "
          f"{figures['tensorflow']['best']:>9.1f} {figures['tensorflow']['median']:>9.1f} "
          f"{ratio:>6.2f} {wanted:>6.2f} {verdict:<5} {share:>5.0%} {extra['peakMemoryMb']:>6.0f}", flush=True)
    return {"row": name, **figures, **extra, "ratio": ratio, "wanted": wanted}


def bench_scaling(row, arguments):
    """Two ranks of one job as a share of two trainings that know nothing of each other, one a core."""
    model, batch, precision, wanted = row
    command = trainer(model, batch, precision, 1, "direct", arguments.seconds)
    shares, together_best, apart_best = [], 0, 0
    for _ in range(arguments.rounds):
        apart = [subprocess.Popen(cores(1, core) + command, stdout=subprocess.PIPE, text=True, env=environment())
                 for core in (0, 1)]
        rates = [json.loads(p.communicate(timeout=600)[0].splitlines()[-1])["median"] for p in apart]
        together = last_json(MPIRUN + command)["median"]
        shares.append(together / sum(rates))
        together_best, apart_best = max(together_best, together), max(apart_best, sum(rates))
    best = max(shares)
    verdict = "" if wanted is None else ("ok" if best >= wanted else "BELOW")
    goal = "-" if wanted is None else f"{wanted:.2f}"
    print(f"{model + ' ' + precision:<27} {together_best:>9.1f} {apart_best:>9.1f} {best:>7.1%} "
          f"{statistics.median(shares):>7.1%} {goal:>6} {verdict}", flush=True)
    return {"row": f"{model} {precision} 2 ranks", "share": best, "median": statistics.median(shares), "wanted": wanted}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="interpreter that has the peers")
    parser.add_argument("--rows", default="", help="regular expression on a row's name")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--json", default="")
    arguments = parser.parse_args()
    flags = open("/proc/cpuinfo").read()
    if "avx512_bf16" not in flags or "amx_bf16" in flags:
        print("this CPU is not one with AVX-512 bf16 and without AMX: the goals do not bind here")
    results = []
    print(f"{'images/s: best, median':<27} {'ours':>19} {'PyTorch':>19} {'TensorFlow':>19} "
          f"{'ratio':>6} {'goal':>6} {'':<5} {'limit':>5} {'MB':>6}")
    for row in ROWS:
        if re.search(arguments.rows, row[0]):
            results.append(bench_row(row, arguments))
    print(f"\n{'2 ranks x 1 thread':<27} {'together':>9} {'apart':>9} {'share':>7} {'median':>7} {'goal':>6}")
    for row in SCALING:
        if re.search(arguments.rows, f"{row[0]} {row[2]} 2 ranks"):
            results.append(bench_scaling(row, arguments))
    if re.search(arguments.rows, "all-reduce"):
        print("\nall-reduce of 45 MB between 2 ranks")
        sys.stdout.flush()
        subprocess.run(MPIRUN + ["build/release/bin/all_reduce_bench"], env=environment(), check=True)
    if arguments.json:
        with open(arguments.json, "w") as out:
            json.dump(results, out, indent=1)


if __name__ == "__main__":
    main()
