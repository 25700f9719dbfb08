#!/usr/bin/env python3
"""Jobs with parameter servers whose workers and servers are killed, or stopped for a while, again and again: each
succeeds, and synchronous training ends in the weights of the undisturbed run. Goodput is the time that a run's steps
take at the speed that it had between faults (the median of what it told) by the time that it took.

usage: chaos_test.py [--seconds 300] [--seed N] [--mode sync|async]...
"""
import argparse
import os
import pathlib
import random
import signal
import statistics
import sys
import time

import harness

TRIAL = 400  # steps, to see how fast they are
FAULT_EVERY = {"sync": 180, "async": 60}  # seconds
ROWS_A_STEP = {"sync": 2 * 32, "async": 32}
LONGEST_STOP = 8  # who is silent for 10 is lost
JOB = """
apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {{name: chaos}}
spec:
  strategy: ParameterServer
  launcher: Env
  replicaSpecs: {{Worker: {{replicas: 2}}, Server: {{replicas: 2}}}}
  training:
    model: singa-cnn
    data: {{format: mnist, path: {data}}}
    steps: {steps}
    batchSize: 32
    optimizer: {{name: sgd, lr: 0.01, momentum: 0.9}}
    parameterServer: {{mode: {mode}}}
    evaluate: {{everyEpochs: 0}}
    threads: 1
  checkpoint: {{everySeconds: 10}}
  runPolicy: {{backoffLimit: 1000}}
  volumes:
    checkpoints: {{persistentVolumeClaim: {{claimName: digits}}}}
"""


def processes(run):
    """The workers' and servers' own, by role."""
    found = {"worker": [], "server": []}
    for pid in harness.descendants(run.process.pid):
        words = harness.command_of(pid).split()
        if len(words) > 1 and words[1] == "train":
            found["worker"].append(pid)
        elif len(words) > 1 and words[1] == "server":
            found["server"].append(pid)
    return found


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Chaos:
    """Disturbs a run, until it ends; what it did."""

    def __init__(self, run, mode, chance):
        self.run, self.mode, self.chance = run, mode, chance
        self.kills, self.stops = [], []
        self.to_continue = {}  # pid -> when

    def draw(self):
        """A process, once all are there."""
        all_of_them = processes(self.run)
        if any(len(pids) < 2 for pids in all_of_them.values()):
            return None, None
        role = self.chance.choice(sorted(all_of_them))
        return role, self.chance.choice(all_of_them[role])

    def disturb(self):
        """False: not now, not all are there."""
        role, pid = self.draw()
        if pid is None or pid in self.to_continue:
            return False
        if self.chance.random() < 0.5:
            send(pid, signal.SIGKILL)
            self.kills.append(role)
        else:
            send(pid, signal.SIGSTOP)
            self.to_continue[pid] = time.monotonic() + self.chance.uniform(1, LONGEST_STOP)
            self.stops.append(role)
        return True

    def let_go_on(self, now):
        for pid in [pid for pid, end in self.to_continue.items() if end <= now]:
            del self.to_continue[pid]
            send(pid, signal.SIGCONT)

    def __call__(self, limit):
        start = time.monotonic()
        next_fault = start + FAULT_EVERY[self.mode] * self.chance.uniform(0.1, 0.5)
        while self.run.process.poll() is None:
            now = time.monotonic()
            if now > start + limit:
                raise SystemExit(f"{self.mode}: not done after {limit:.0f} s\n{self.run.errors()[-2000:]}")
            self.let_go_on(now)
            if now >= next_fault and self.disturb():
                next_fault += FAULT_EVERY[self.mode]
            time.sleep(0.05)


def run_job(place, mode, steps, data, disturb=None, limit=1800):
    """The run, and the seconds that it took."""
    place.mkdir(parents=True)
    (place / "job.yaml").write_text(JOB.format(mode=mode, steps=steps, data=data))
    run = harness.Run.__new__(harness.Run)
    run.directory = place
    start = time.monotonic()
    run.start("job.yaml")
    try:
        if disturb is not None:
            disturb(run, limit)
        run.wait(limit)
    finally:
        if run.process.poll() is None:
            run.process.kill()
    if run.code != 0 or run.finished()["result"] != "Succeeded":
        raise SystemExit(f"{place.name}: exit {run.code}\n{run.output()[-2000:]}\n{run.errors()[-2000:]}")
    return run, time.monotonic() - start


def disturbed(mode, seconds, chance, top, data):
    _, trial = run_job(top / f"{mode}-trial", mode, TRIAL, data)
    steps = max(TRIAL, int(TRIAL * seconds / trial))
    in_calm = run_job(top / "calm", mode, steps, data)[0].weights() if mode == "sync" else None
    seen = []

    def disturb(run, limit):
        seen.append(Chaos(run, mode, chance))
        seen[0](limit)

    run, took = run_job(top / f"{mode}-disturbed", mode, steps, data, disturb, limit=20 * seconds + 600)
    chaos = seen[0]
    step, digest = run.weights()
    if step != steps:
        raise SystemExit(f"{mode}: the last checkpoint is of step {step}, not {steps}")
    if in_calm is not None and (step, digest) != in_calm:
        raise SystemExit(f"{mode}: the weights are not those of the undisturbed run")
    speed = statistics.median(event["samplesPerSecond"] for event in run.events("step"))
    goodput = steps * ROWS_A_STEP[mode] / speed / took
    print(f"{mode}: {steps} steps, killed {chaos.kills or 'nobody'}, stopped {chaos.stops or 'nobody'}; "
          f"{run.finished()['restarts']} restarts; {took:.0f} s, {speed:.0f} images/s between "
          f"faults: goodput {goodput:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--mode", action="append", choices=sorted(FAULT_EVERY))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed} (replay: chaos_test.py --seconds {arguments.seconds} --seed {arguments.seed})", flush=True)
    with harness.temporary() as name:
        top = pathlib.Path(name)
        data = harness.first_digits(top / "data", 6000, 1000)
        for mode in arguments.mode or sorted(FAULT_EVERY, reverse=True):
            disturbed(mode, arguments.seconds, random.Random(arguments.seed), top, data)


if __name__ == "__main__":
    sys.exit(main())
