#!/usr/bin/env python3
"""The operator is killed at every call to the API server, before the call takes effect and after,
in the lives of sweep_workloads.py. Whenever it dies, the job comes to the same end as undisturbed
within 10 s, at most one write is repeated, and no law of invariants.py is broken on the way.

    sweep_test.py COXSWAIN SCRIPTED_KUBELET               a selection; --seed N chooses another
    sweep_test.py COXSWAIN SCRIPTED_KUBELET --all         every point
    sweep_test.py ... --point fails_once:write:3:after    one point, as a failure prints it
"""
import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import queue
import random
import sys
import tempfile
import threading
import time

import operator_bed as bed
import sweep_workloads
from operator_bed import h

import fault_proxy
import fault_rules as rules
import invariants
import request_log

LONGEST_RECOVERY = 10.0  # seconds from the crash to the end
LONGEST_LIFE = 60.0
UNHURRIED = 3.0  # seconds: what a clean life may last for its writes to be counted
REST = 4.6  # seconds without a write after which a life is over: more than PATIENCE
AFTERMATH = 0.2  # seconds that the end state must last
PATIENCE = 4.0  # seconds that the operator lets observations wait for others
COALESCED = 2  # status writes of observations that another rhythm may need


@dataclasses.dataclass(frozen=True)
class Point:
    workload: str
    call: str  # write, event, read
    number: int  # among the calls of its kind
    moment: str  # before, after

    def __str__(self):
        return f"{self.workload}:{self.call}:{self.number}:{self.moment}"

    @staticmethod
    def parse(text):
        workload, call, number, moment = text.split(":")
        return Point(workload, call, int(number), moment)

    @property
    def down_time(self):
        """Seconds until the operator is back: at every second point pods end meanwhile."""
        return 0.3 * (self.number % 2)


MATCHES = {"write": {"mutating": True},
           "event": {"method": "POST", "path": "/events$"},
           "read": {"method": "GET", "when": lambda entry: not entry.is_watch}}


def calls(log):
    """How many calls of each kind."""
    return {"write": sum(entry.number is not None for entry in log),
            "event": sum(entry.method == "POST" and entry.path.endswith("/events")
                         for entry in log),
            "read": sum(entry.method == "GET" and not entry.is_watch for entry in log)}


@dataclasses.dataclass
class Undisturbed:
    end: dict
    requests: dict
    calls: dict
    seconds: float


@dataclasses.dataclass
class Outcome:
    point: Point
    recovery: float = 0.0  # seconds from the crash to the end
    seconds: float = 0.0
    reached: bool = True  # False: this life made fewer calls
    failures: list = dataclasses.field(default_factory=list)


class Failed(Exception):
    """A life took a wrong turn: what, with the operator's log."""


class Lane:
    """A proxy, and one life at a time in a namespace of its own."""

    def __init__(self, sweep):
        self.sweep = sweep
        self.proxy = fault_proxy.FaultProxy(sweep.kubeconfig)
        self.crashed = None

    def close(self):
        self.proxy.close()

    def live(self, workload, arrange, finish):
        """One life from its first call: arrange(operator) before it, finish(world, hands) after
        its last step gives the result."""
        namespace = self.sweep.new_namespace()
        world = self.sweep.witness.world(namespace)
        hands = bed.Hands(self.sweep.api, world)
        log = self.sweep.directory / f"{namespace}.log"
        operator = bed.Operator(self.sweep.coxswain, self.proxy.kubeconfig, namespace, log)
        self.proxy.reset()
        self.crashed = None
        hands.make_namespace()
        arrange(operator)
        operator.start()
        try:
            self._play(workload, world, hands)
            return finish(world)
        except Failed as failure:
            raise Failed(f"{failure}\n{tail(operator.log())}") from None
        finally:
            operator.kill()
            self.proxy.reset()
            hands.delete()
            self.sweep.witness.drop(namespace)

    def _play(self, workload, world, hands):
        deadline = time.monotonic() + LONGEST_LIFE
        for number, (condition, act) in enumerate(workload.steps):
            if not self.sweep.witness.until(world, condition, deadline - time.monotonic()):
                raise Failed(f"step {number} of {workload.name} never came: the job is "
                             f"{world.phase()}, {world.living()} pods live")
            act(hands)

    # --- the undisturbed run ---

    def undisturbed(self, workload):
        begin = time.monotonic()

        def finish(world):
            if not self.sweep.witness.until(world, workload.end, LONGEST_LIFE):
                raise Failed(f"{workload.name} never came to its end: {world.status()}")
            seconds = time.monotonic() - begin
            self._rest(world)
            log, namespace = list(self.proxy.log), world.namespace
            if not workload.end(world):
                raise Failed(f"{workload.name} did not stay at its end: {world.status()}")
            counts = workload.clean and seconds < UNHURRIED
            clean = [(namespace, bed.JOB)] if counts else []
            broken = invariants.check(world.history, log, namespace=namespace, clean_jobs=clean)
            if broken:
                raise Failed("\n".join(map(str, broken)))
            return Undisturbed(world.end_state(), request_log.requests(log, namespace), calls(log),
                               seconds)

        return self.live(workload, lambda operator: None, finish)

    def _rest(self, world):
        """Until nothing was written for a while."""
        deadline = time.monotonic() + LONGEST_LIFE
        while time.monotonic() < deadline:
            seen = len(self.proxy.log)
            if not self.sweep.witness.until(world, lambda _: len(self.proxy.log) > seen, REST):
                return
        raise Failed(f"the operator never rests: {self.proxy.log[-1].path}")

    # --- one crash ---

    def crash(self, workload, point, oracle):
        begin = time.monotonic()
        outcome = Outcome(point)

        def arrange(operator):
            def strike():
                operator.kill()
                self.crashed, self.crash_time = time.monotonic(), time.time()
                time.sleep(point.down_time)
                operator.start()
            fault = rules.Before(strike) if point.moment == "before" else rules.After(strike)
            match = rules.Match(nth=point.number, **MATCHES[point.call])
            self.proxy.add(match, fault)

        def finish(world):
            self._await_end(world, workload, oracle, outcome)
            time.sleep(AFTERMATH)
            log = list(self.proxy.log)
            outcome.reached = self.crashed is not None
            outcome.failures += map(str, invariants.check(
                world.history, log, namespace=world.namespace))
            later = time.monotonic() - begin - oracle.seconds
            outcome.failures += excess(oracle.requests, request_log.requests(log, world.namespace),
                                       1 + COALESCED + later / PATIENCE,
                                       1 + self._under_way(log))

        try:
            self.live(workload, arrange, finish)
        except Failed as failure:
            outcome.failures.append(str(failure))
        outcome.seconds = time.monotonic() - begin
        return outcome

    def _under_way(self, log):
        """How many changes the API server was still at when the operator died: the next one may
        have listed what was there before them."""
        return sum(1 for entry in log if entry.number is not None and self.crashed is not None
                   and entry.time <= self.crash_time < entry.time + entry.duration)

    def _await_end(self, world, workload, oracle, outcome):
        wanted = certain(oracle.end, workload)

        def at_end(_):
            return certain(world.end_state(), workload) == wanted

        if not self.sweep.witness.until(world, at_end, LONGEST_LIFE):
            lines = bed.difference(wanted, certain(world.end_state(), workload))
            raise Failed("\n".join([f"another end {LONGEST_LIFE:.0f} s later:", *lines]))
        outcome.recovery = time.monotonic() - (self.crashed or time.monotonic())
        limit = LONGEST_RECOVERY * self.sweep.patience
        if outcome.recovery > limit:
            outcome.failures.append(
                f"the end came {outcome.recovery:.1f} s after the crash, later than {limit:.0f} s")


def certain(end, workload):
    """The end state without what may differ in this workload."""
    if not workload.unsure:
        return end
    return {key: {**item, "status": {field: value for field, value in item["status"].items()
                                     if field not in workload.unsure}}
            if key.startswith("TrainingJob/") and "status" in item else item
            for key, item in end.items()}


def excess(wanted, found, more_statuses, more_others):
    """A crash repeats what was under way; what is coalesced may be told in more pieces."""
    failures, repeated = [], 0
    for call in sorted({*wanted, *found}):
        more = found.get(call, 0) - wanted.get(call, 0)
        if call.startswith("PATCH"):
            if more > more_statuses:
                failures.append(f"{more} more than undisturbed: {call}")
        elif call.startswith("POST Secret/") and more > 0:
            pass  # a crash before its name was stored: the next operator draws another
        elif call.startswith("POST") and more != 0:
            failures.append(f"{found.get(call, 0)} times instead of {wanted.get(call, 0)}: {call}")
        else:
            repeated += max(0, more)
    if repeated > more_others:
        failures.append(f"{repeated} writes were repeated: {found}, undisturbed {wanted}")
    return failures


def tail(log, lines=12):
    return "\n".join("  operator: " + line[:300] for line in log.splitlines()[-lines:])


class Sweep:
    """The cluster's side of all lanes."""

    def __init__(self, options):
        self.kubeconfig = os.environ["KUBECONFIG"]
        self.coxswain, self.patience = options.coxswain, options.patience
        self._temporary = tempfile.TemporaryDirectory(prefix="sweep-")
        self.directory = pathlib.Path(self._temporary.name)
        self.api = bed.Api(self.kubeconfig)
        self.kubelet = bed.Kubelet(options.kubelet, self.kubeconfig, self.directory / "kubelet.log")
        self.witness = bed.Witness(self.kubeconfig)
        self._made, self._lock = 0, threading.Lock()
        self._run = f"bed-{os.getpid()}-{time.time_ns() % 1000000}"
        self.lanes = [Lane(self) for _ in range(options.lanes)]
        self._idle = queue.Queue()
        for lane in self.lanes:
            self._idle.put(lane)

    def new_namespace(self):
        with self._lock:
            self._made += 1
            return f"{self._run}-n{self._made}"

    def in_a_lane(self, act):
        lane = self._idle.get()
        try:
            return act(lane)
        finally:
            self._idle.put(lane)

    def leftovers(self):
        """I4: when all jobs are deleted, their children go. What is left after a while."""
        kinds = ("pods", "services", "secrets", "configmaps")
        deadline = time.monotonic() + 60
        while True:
            left = []
            for kind in kinds:
                items = self.api.call("GET", f"/api/v1/{kind}")["items"]
                left += [f"I4: {kind[:-1]} {item['metadata']['namespace']}/"
                         f"{item['metadata']['name']} is left of a deleted job"
                         for item in items if h.job_uid(item)
                         and item["metadata"]["namespace"].startswith(self._run)]
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.5)

    def close(self):
        for lane in self.lanes:
            lane.close()
        self.witness.close()
        self.kubelet.close()
        self._temporary.cleanup()


# --- which points ---

def all_points(workload, oracle):
    """Every write, every first list, and a part of the events, evenly thinned to what the workload
    may have."""
    points = [Point(workload.name, "write", number, moment)
              for number in range(1, oracle.calls["write"] + 1) for moment in ("before", "after")]
    points = thinned(points, workload.most_points)
    points += [Point(workload.name, "event", number, "after" if number % 2 else "before")
               for number in range(1, oracle.calls["event"] + 1, 2)]
    points += [Point(workload.name, "read", number, "after") for number in (1, 2)]
    return points


def thinned(points, most):
    step = max(1.0, len(points) / most)
    return [points[int(index * step)] for index in range(min(len(points), most))]


def choose(options, points):
    """{workload: points} of this run."""
    if options.point:
        return {options.point.workload: [options.point]}
    if options.all:
        return points
    generator = random.Random(options.seed)
    return {name: generator.sample(some, 2) for name, some in points.items()}


# --- the run ---

def undisturbed_runs(sweep, pool, workloads):
    futures = {workload.name: pool.submit(sweep.in_a_lane, lambda lane, w=workload:
                                          lane.undisturbed(w)) for workload in workloads}
    oracles, failures = {}, []
    for name, future in futures.items():
        try:
            oracles[name] = future.result()
        except (Failed, RuntimeError) as failure:
            failures.append(f"{name}, undisturbed: {failure}")
            print("FAILED:", failures[-1], flush=True)
    return oracles, failures


def report(name, oracle, outcomes):
    reached = [outcome for outcome in outcomes if outcome.reached]
    worst = max((outcome.recovery for outcome in reached), default=0)
    seconds = sum(outcome.seconds for outcome in outcomes)
    made = " ".join(f"{count} {call}s" for call, count in oracle.calls.items())
    print(f"{name:26} {len(reached):3} points {seconds:6.1f} s, worst recovery {worst:4.1f} s   "
          f"undisturbed: {oracle.seconds:.1f} s, {made}", flush=True)


def tell_failures(options, outcomes):
    failures = []
    for outcome in outcomes:
        if outcome.failures:
            command = (f"tests/cluster/in_cluster.sh DIR {sys.argv[0]} {options.coxswain} "
                       f"{options.kubelet} --point {outcome.point}")
            failures.append("\n".join([f"{outcome.point}:", *outcome.failures,
                                       f"again: {command}"]))
            print("FAILED:", failures[-1], flush=True)
    return failures


def crashes(sweep, pool, workloads, oracles, points):
    """Gives (workload, outcomes) in order, as they come to their end."""
    futures = {name: [pool.submit(sweep.in_a_lane, lambda lane, p=point: lane.crash(
        workloads[p.workload], p, oracles[p.workload])) for point in some]
        for name, some in points.items()}
    for name, some in futures.items():
        yield name, [future.result() for future in some]


def run(options, sweep):
    begin = time.monotonic()
    workloads = {workload.name: workload for workload in sweep_workloads.workloads()}
    wanted = options.point.workload if options.point else options.only
    chosen = [w for name, w in workloads.items() if wanted in (None, name)]
    with concurrent.futures.ThreadPoolExecutor(options.lanes) as pool:
        oracles, failures = undisturbed_runs(sweep, pool, chosen)
        points = choose(options, {name: all_points(workloads[name], oracle)
                                  for name, oracle in oracles.items()})
    every = []
    # Large gangs by themselves: what is measured is the operator, not the machine.
    for is_large, lanes in ((True, 2), (False, options.lanes)):
        some = {name: points[name] for name in oracles if workloads[name].is_large == is_large}
        with concurrent.futures.ThreadPoolExecutor(lanes) as pool:
            for name, outcomes in crashes(sweep, pool, workloads, oracles, some):
                report(name, oracles[name], outcomes)
                failures += tell_failures(options, outcomes)
                every += outcomes
    left = sweep.leftovers()
    print(*left, sep="\n")
    failures += left
    reached = sum(outcome.reached for outcome in every)
    worst = max((outcome.recovery for outcome in every), default=0)
    print(f"{reached} points in {len(oracles)} workloads, {len(failures)} failures, worst recovery "
          f"{worst:.1f} s, {time.monotonic() - begin:.0f} s, --seed {options.seed}")
    return 1 if failures or not reached else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("coxswain")
    parser.add_argument("kubelet", help="the scripted kubelet")
    parser.add_argument("--all", action="store_true", help="every point")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--point", type=Point.parse, help="this one alone")
    parser.add_argument("--only", help="this workload alone")
    parser.add_argument("--lanes", type=int, default=6)
    parser.add_argument("--patience", type=float, default=1.0,
                        help="factor of the time to recover, for a machine that is busy")
    options = parser.parse_args()
    print(f"--seed {options.seed}", flush=True)
    sweep = Sweep(options)
    try:
        return run(options, sweep)
    finally:
        sweep.close()


if __name__ == "__main__":
    sys.exit(main())
