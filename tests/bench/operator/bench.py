#!/usr/bin/env python3
"""The operator beside kubeflow's mpi-operator on one API server. See run.sh."""
import argparse
import json
import os
import pathlib
import re
import sys
import time

import rows
import table
from bed import Bed
from sides import MpiOperatorDefault, MpiOperatorTuned, Ours

ROOT = pathlib.Path(__file__).resolve().parents[3]
CACHE = pathlib.Path(os.environ.get("COXSWAIN_CACHE", pathlib.Path.home() / ".cache/coxswain"))

# What is run in full, and with --quick.
SIZES = {"bulk_jobs": (500, 60), "default_jobs": (25, 5), "rounds": (3, 1), "loaded_jobs": (1000, 60),
         "foreign": (5000, 300), "quiet_seconds": (60, 5), "churn_jobs": (300, 60),
         "churn_seconds": (30, 5), "recoveries": (10, 3)}
ROW_NAMES = ["bulk", "bulk-no-kubelet", "life", "memory", "churn", "recovery"]


def plan(bed, sides, size):
    """(row, side, function to call) in the order in which they run: rounds alternate sides."""
    fast = [side for side in sides if side.tuned]
    for name, with_kubelet in (("bulk", True), ("bulk-no-kubelet", False)):
        for _ in range(size["rounds"]):
            for side in fast:
                yield name, side, lambda s=side, k=with_kubelet: rows.bulk(
                    bed, s, size["bulk_jobs"], 4, k)
        for side in sides:
            if not side.tuned:
                yield name, side, lambda s=side, k=with_kubelet: rows.bulk(
                    bed, s, size["default_jobs"], 4, k)
    for side in fast:
        yield "life", side, lambda s=side: rows.clean_life(bed, s, 8)
    for side in fast:
        yield "memory", side, lambda s=side: rows.memory_and_quiet(
            bed, s, size["loaded_jobs"], 8, size["foreign"], size["quiet_seconds"])
    for side in sides:
        if side.name == "ours":
            yield "churn", side, lambda s=side: rows.churn(
                bed, s, size["churn_jobs"], 4, size["churn_seconds"])
            yield "recovery", side, lambda s=side: rows.recovery(bed, s, size["recoveries"], 8)


def run(bed, sides, size, arguments):
    """Figures as {side: {row: [figures of each round]}}. A row that fails is told, and the next
    one runs."""
    results, failed = {side.name: {} for side in sides}, []
    for row, side, measure in plan(bed, sides, size):
        if not re.fullmatch(arguments.rows, row):
            continue
        begin = time.monotonic()
        try:
            figures = measure()
        except (TimeoutError, RuntimeError, OSError, ValueError) as problem:
            failed.append(f"{row}, {side.name}: {problem}")
            print(f"FAILED {failed[-1]}", flush=True)
            continue
        results[side.name].setdefault(row, []).append(figures)
        print(f"{time.strftime('%T')} {row} {side.name} ({time.monotonic() - begin:.0f} s): {table.brief(figures)}",
              flush=True)
    return results, failed


def parse_arguments():
    parser = argparse.ArgumentParser(prog="run.sh", description=__doc__)
    parser.add_argument("--json", default="", help="write all figures to this file")
    parser.add_argument("--quick", action="store_true", help="few jobs: is everything there?")
    parser.add_argument("--rows", default=".*", help="of " + ", ".join(ROW_NAMES))
    parser.add_argument("--sides", default=".*", help="of ours, mpi_operator_default, _tuned")
    parser.add_argument("--jobs", type=int, help="of the bulk rows")
    parser.add_argument("--rounds", type=int, help="of the bulk rows")
    parser.add_argument("--operator", default=ROOT / "build/release/bin/coxswain")
    parser.add_argument("--cluster", required=True, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    size = {name: sizes[arguments.quick] for name, sizes in SIZES.items()}
    size["rounds"] = arguments.rounds or size["rounds"]
    size["bulk_jobs"] = arguments.jobs or size["bulk_jobs"]
    bed = Bed(arguments.cluster, CACHE / "bin/kwok")
    peer = CACHE / "bin/mpi-operator"
    sides = [kind(arguments.cluster, bed.load, program) for kind, program in (
        (Ours, arguments.operator), (MpiOperatorTuned, peer), (MpiOperatorDefault, peer))]
    sides = [side for side in sides if re.fullmatch(arguments.sides, side.name)]
    for side in sides:
        print(f"{side.name}: {side.pods_text(4)}")
    try:
        results, failed = run(bed, sides, size, arguments)
    finally:
        for side in sides:
            side.stop()
        bed.kubelet.stop()
    summary = table.summary(results)
    print("\n" + table.text(summary))
    if arguments.json:
        with open(arguments.json, "w") as out:
            json.dump({**summary, "failed": failed}, out, indent=1)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
