#!/usr/bin/env python3
"""A rank killed at a random step and phase, again and again: each run ends with the weights of the undisturbed one,
whether its ranks sum over MPI, over TCP or by parameter servers.

usage: recovery_test.py [--kills 20] [--seed N] [--clock]     --clock: also once by the clock on the full example
"""
import argparse
import os
import pathlib
import random
import shutil
import signal
import sys
import time

import harness

NETWORKS = [("AllReduce", "MPI"), ("AllReduce", "Env"), ("ParameterServer", "Env")]
PHASES = ["load", "forward", "backward", "reduce", "update", "evaluate", "save"]


def random_fail_point(chance, steps):
    phase = chance.choice(PHASES)
    step = chance.randrange(1, steps)
    if phase == "save":
        step = chance.randrange(1, steps // 10) * 10
    if phase == "evaluate":
        step = chance.choice([steps // 2, steps])
    rank = 0 if phase == "save" else chance.randrange(2)
    return f"{rank}:{step}:{phase}"


def run_killed(directory, data, point, **job):
    run = harness.Run(directory, data, environment={"COXSWAIN_FAIL_POINT": point}, **job).wait()
    if run.code != 0:
        raise SystemExit(f"fail point {point}: exit {run.code}\n{run.output()[-2000:]}\n{run.errors()[-2000:]}")
    return run


def by_clock(directory):
    """The full example, a rank killed after some seconds; the kill must have struck."""
    job = harness.ROOT / "examples/mnist.yaml"
    digests = []
    for kill in (False, True):
        place = pathlib.Path(directory) / f"clock-{kill}"
        run = harness.Run.of_file(place, job)
        if kill:
            time.sleep(15)
            os.kill(harness.ranks(run)[-1], signal.SIGKILL)
        run.wait(1200)
        if run.code != 0 or run.finished()["restarts"] != int(kill):
            raise SystemExit(f"by the clock: exit {run.code}, {run.finished()}\n{run.errors()[-2000:]}")
        newest = sorted(place.glob("coxswain-volumes/*/step-*"))[-1]
        digests.append((newest / "model.safetensors").read_bytes())
        print(f"full example, {'one rank killed after 15 s' if kill else 'undisturbed'}: "
              f"accuracy {run.finished()['accuracy']:.4f}", flush=True)
    if digests[0] != digests[1]:
        raise SystemExit("by the clock: the weights differ")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--clock", action="store_true")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed} (replay: recovery_test.py --kills {arguments.kills} --seed {arguments.seed})")
    chance = random.Random(arguments.seed)
    with harness.temporary() as top:
        data = harness.first_digits(pathlib.Path(top) / "data", 6000, 1000)
        undisturbed = harness.Run(pathlib.Path(top) / "undisturbed", data).wait()
        steps, digest = undisturbed.weights()
        print(f"undisturbed: {steps} steps, accuracy {undisturbed.finished()['accuracy']:.4f}", flush=True)
        over_tcp = harness.Run(pathlib.Path(top) / "env", data, launcher="Env", workers=1, slots=2).wait()
        if over_tcp.code != 0 or over_tcp.weights() != (steps, digest):
            raise SystemExit(f"launcher Env: exit {over_tcp.code}\n{over_tcp.errors()[-2000:]}")
        for kill in range(arguments.kills):
            point = random_fail_point(chance, steps)
            strategy, launcher = NETWORKS[kill % 3]
            place = pathlib.Path(top) / f"kill-{kill}"
            start = time.monotonic()
            run = run_killed(place, data, point, strategy=strategy, launcher=launcher)
            if run.finished()["restarts"] != 1:
                raise SystemExit(f"fail point {point} did not strike once: {run.finished()}")
            if run.weights() != (steps, digest):
                raise SystemExit(f"fail point {point}, {strategy} by {launcher}: the weights are not those of the undisturbed run")
            print(f"killed at {point}, {strategy} by {launcher}: same weights, {time.monotonic() - start:.1f} s", flush=True)
            shutil.rmtree(place)
        if arguments.clock:
            by_clock(top)
    print("every run ended with the weights of the undisturbed one")


if __name__ == "__main__":
    sys.exit(main())
