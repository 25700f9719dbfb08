#!/usr/bin/env python3
"""A job that fails once, restarts and succeeds, while something is wrong between the operator and
the API server (fault_cases.py), or with the API server, the operator's token, or a second operator.
It comes to the same end as undisturbed in the time stated, and no law of invariants.py is broken.

    faults_test.py COXSWAIN SCRIPTED_KUBELET [--all] [--only NAME] [--patience FACTOR]
"""
import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import time

import operator_bed as bed
import sweep_test
import sweep_workloads

import fault_cases
import fault_rules as rules
import invariants
import kube_access

CLUSTER = pathlib.Path(__file__).resolve().parents[2] / "cluster"
MOST_GROWTH = 4 << 20  # bytes of resident memory over an outage


def workload():
    """What the watch does not tell is found out when the pod is deleted by force, after 5 s."""
    job = sweep_workloads.spec(2, runPolicy={"stuckTerminationSeconds": 5})
    return sweep_workloads.restarts_once("faults", sweep_workloads.exits(1, 137), "failure", job)


class Trial:
    """One case: a namespace, an operator behind a proxy, and a verdict."""

    def __init__(self, sweep, lane, oracle, name):
        self.sweep, self.lane, self.oracle, self.name = sweep, lane, oracle, name
        namespace = sweep.new_namespace()
        self.world = sweep.witness.world(namespace)
        self.hands = bed.Hands(sweep.api, self.world)
        self.failures, self.operators = [], []
        lane.proxy.reset()
        self.hands.make_namespace()

    def operator(self, kubeconfig=None):
        log = self.sweep.directory / f"{self.world.namespace}-{len(self.operators)}.log"
        self.operators.append(bed.Operator(
            self.sweep.coxswain, kubeconfig or self.lane.proxy.kubeconfig, self.world.namespace,
            log))
        self.operators[-1].start()
        return self.operators[-1]

    def expect(self, condition, seconds, what):
        """Raises Failed if it does not become true of the world in time."""
        if not self.sweep.witness.until(self.world, condition, seconds * self.sweep.patience):
            raise sweep_test.Failed(f"{what} not within {seconds} s: {self.world.status()}")

    def play(self, seconds, steps=None):
        """The workload, to the same end as undisturbed."""
        deadline = time.monotonic() + seconds * self.sweep.patience
        for condition, act in steps or workload().steps:
            self._until(condition, deadline)
            act(self.hands)
        self._until(lambda world: world.end_state() == self.oracle.end, deadline)

    def _until(self, condition, deadline):
        if not self.sweep.witness.until(self.world, condition, deadline - time.monotonic()):
            lines = bed.difference(self.oracle.end, self.world.end_state(), limit=6)
            raise sweep_test.Failed("\n".join(["too late; what differs from the end:", *lines]))

    def finish(self):
        time.sleep(sweep_test.AFTERMATH)
        log = list(self.lane.proxy.log)
        self.failures += map(str, invariants.check(
            self.world.history, log, namespace=self.world.namespace))
        return log

    def close(self):
        if self.failures:
            for operator in self.operators:
                self.failures.append(sweep_test.tail(operator.log()))
        for operator in self.operators:
            operator.kill()
        self.lane.proxy.reset()
        self.sweep.api.call("DELETE", bed.JOBS.format(self.world.namespace))
        self.sweep.witness.drop(self.world.namespace)


def try_case(sweep, lane, oracle, name, act):
    """(name, seconds, failures)"""
    begin = time.monotonic()
    trial = Trial(sweep, lane, oracle, name)
    try:
        act(trial)
    except sweep_test.Failed as failure:
        trial.failures.append(str(failure))
    finally:
        trial.close()
    return name, time.monotonic() - begin, trial.failures


# --- the link ---

def with_faults(case):
    def act(trial):
        placed = [trial.lane.proxy.add(match, fault) for match, fault in case.faults]
        trial.operator()
        trial.play(case.seconds)
        log = trial.finish()
        trial.failures += case.check(log)
        if not any(rule.fired for rule in placed):
            trial.failures.append("the fault never struck")
    return act


def one_pod_cannot_be_deleted(trial):
    """The gang of that pod waits for it; another job goes on."""
    rule = trial.lane.proxy.add(rules.Match("DELETE", "/stuck-worker-1$", times=None),
                                rules.server_error(500))
    trial.operator()
    trial.hands.create(sweep_workloads.spec(2), name="stuck")
    trial.expect(lambda world: world.phase("stuck") == "Running", 8, "Running")
    trial.hands.end_pod("stuck-worker-1", 137)
    trial.expect(lambda world: world.phase("stuck") == "Restarting" and rule.fired, 8, "Restarting")
    trial.hands.create(sweep_workloads.spec(2), name="other")
    trial.expect(lambda world: world.phase("other") == "Running", 8, "the other job's Running")
    trial.hands.end_pod("other-worker-0", 0)
    trial.expect(lambda world: world.phase("other") == "Succeeded"
                 and ("Pod", "other-worker-1") not in world.objects, 8, "the other job's end")
    if ("Pod", "stuck-worker-1") not in trial.world.objects:
        trial.failures.append("the pod that can't be deleted is gone")
    trial.lane.proxy.clear()
    trial.expect(lambda world: world.phase("stuck") == "Running"
                 and world.status("stuck").get("attempt") == 1, 40, "the stuck job's new gang")
    trial.finish()


# --- who we are ---

def token_replaced(trial):
    """Valid, then not, then valid again: the file is read anew."""
    access = kube_access.Access(trial.sweep.kubeconfig)
    directory = trial.sweep.directory
    token, kubeconfig = directory / "token", directory / "token.kubeconfig"
    valid = (pathlib.Path(trial.sweep.kubeconfig).parent / "admin.token").read_text().strip()
    token.write_text(valid)
    kube_access.write_kubeconfig(kubeconfig, access.server, access.ca, {"tokenFile": str(token)})
    operator = trial.operator(str(kubeconfig))
    make, *rest = workload().steps
    make[1](trial.hands)
    trial.expect(rest[0][0], 8, "Running")
    token.write_text("no-such-token")
    deadline = time.monotonic() + 30
    trial.hands.edit({"runPolicy": {"backoffLimit": 4}})  # something to write about
    while "401" not in operator.log() and time.monotonic() < deadline:
        time.sleep(0.2)
        trial.hands.edit({"runPolicy": {"backoffLimit": 5 + int(time.monotonic()) % 2}})
    if "401" not in operator.log():
        trial.failures.append("the operator went on with a token that was taken from it")
    token.write_text(valid)
    trial.hands.edit({"runPolicy": {"backoffLimit": 3}})
    for condition, act in rest:
        trial.expect(condition, 45, "a step with the new token")
        act(trial.hands)
    trial.expect(lambda world: world.phase() == "Succeeded", 20, "Succeeded")
    trial.finish()


# --- two operators ---

def zombie_leader(trial, other_lane):
    """A second operator on the same jobs, told everything late: never two pods of one rank alive,
    and no attempt falls. That is what the laws check; who did what does not matter."""
    other_lane.proxy.reset()
    for path in (fault_cases.JOB_WATCH, fault_cases.POD_WATCH):
        other_lane.proxy.add(rules.Match(path=path, times=None), rules.Hold(0.3))
    trial.operator()
    trial.operator(other_lane.proxy.kubeconfig)
    trial.play(25)
    trial.finish()
    time.sleep(3)  # the late one has been told all
    if trial.world.end_state() != trial.oracle.end:
        trial.failures.append("the end did not last: " + "\n".join(
            bed.difference(trial.oracle.end, trial.world.end_state(), limit=6)))


# --- the API server itself ---

def resident(pid):
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def api_server_killed(trial):
    """Killed and started again under running jobs: they go on, watches are taken up again with at
    most one list a kind, nothing is written for it, and memory stays."""
    cluster = pathlib.Path(trial.sweep.kubeconfig).parent
    operator = trial.operator()
    make, *rest = workload().steps
    make[1](trial.hands)
    trial.expect(rest[0][0], 8, "Running")
    time.sleep(sweep_test.REST)
    trial.sweep.witness.server_restarts = True
    before, seen = resident(operator.pid), len(trial.lane.proxy.log)
    for script in ([CLUSTER / "down.sh", cluster, "apiserver"], [CLUSTER / "up.sh", cluster]):
        subprocess.run(script, check=True, capture_output=True, timeout=180)
    deadline = time.monotonic() + 40 * trial.sweep.patience
    while time.monotonic() < deadline:
        watches = " ".join(trial.lane.proxy.live_watches())
        if "/trainingjobs" in watches and "/pods" in watches:
            break
        time.sleep(0.2)
    else:
        trial.failures.append("the watches were not taken up again in 40 s")
    time.sleep(1)
    log = trial.lane.proxy.log[seen:]
    lists = [entry.path for entry in log if entry.method == "GET" and not entry.is_watch
             and entry.status == 200]
    if len(lists) != len(set(path.split("?")[0] for path in lists)):
        trial.failures.append(f"more than a list a kind: {lists}")
    writes = [f"{entry.method} {entry.path}" for entry in log if entry.number]
    if writes:
        trial.failures.append(f"written for nothing: {writes}")
    if resident(operator.pid) > before + MOST_GROWTH:
        trial.failures.append(f"memory grew from {before >> 10} to "
                              f"{resident(operator.pid) >> 10} KiB")
    trial.play(20, rest)
    trial.finish()


# --- the run ---

def tell(options, results):
    failures = 0
    for name, seconds, complaints in results:
        print(f"{'FAILED' if complaints else 'ok':6} {seconds:5.1f} s  {name}", flush=True)
        for complaint in complaints:
            print("       " + complaint.replace("\n", "\n       "), flush=True)
        failures += bool(complaints)
    return failures


def in_parallel(options, sweep, oracle):
    acts = {case.name: with_faults(case) for case in fault_cases.cases()
            if options.all or not case.long}
    acts["one pod can't be deleted"] = one_pod_cannot_be_deleted
    acts["a token is replaced"] = token_replaced
    if options.only:
        acts = {name: act for name, act in acts.items() if name == options.only}
    with concurrent.futures.ThreadPoolExecutor(options.lanes) as pool:
        futures = [pool.submit(sweep.in_a_lane, lambda lane, n=name, a=act: try_case(
            sweep, lane, oracle, n, a)) for name, act in acts.items()]
        return [future.result() for future in futures]


def one_by_one(options, sweep, oracle):
    first, second = sweep.lanes[:2]
    acts = {"two operators": lambda trial: zombie_leader(trial, second),
            "the API server is killed": api_server_killed}
    return [try_case(sweep, first, oracle, name, act) for name, act in acts.items()
            if options.only in (None, name)]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("coxswain")
    parser.add_argument("kubelet", help="the scripted kubelet")
    parser.add_argument("--all", action="store_true", help="with those that take a minute")
    parser.add_argument("--only", help="the case of this name alone")
    parser.add_argument("--lanes", type=int, default=6)
    parser.add_argument("--patience", type=float, default=1.0,
                        help="factor of all times, for a machine that is busy")
    options = parser.parse_args()
    begin = time.monotonic()
    sweep = sweep_test.Sweep(options)
    try:
        oracle = sweep.in_a_lane(lambda lane: lane.undisturbed(workload()))
        failures = tell(options, in_parallel(options, sweep, oracle))
        failures += tell(options, one_by_one(options, sweep, oracle))
    finally:
        sweep.close()
    print(f"{failures} failures, {time.monotonic() - begin:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
