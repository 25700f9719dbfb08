#!/usr/bin/env python3
"""leader_test.py COXSWAIN SCRIPTED_KUBELET    two operators, one leads

Each scenario has a namespace and two operators of its own, and all run at once: the leader is told
to stop, killed, frozen, robbed of its lease or cut off from it. The other takes over in time, the
old one writes nothing afterwards, a running job keeps its pods, and a job that fails in the gap is
restarted once. Prints how long each takeover took.
"""
import concurrent.futures
import os
import signal
import sys
import tempfile
import time
import traceback

import operator_bed as bed
from operator_process import Process, submit, until

import fault_proxy
import fault_rules as rules
import history as h

RUN = f"lead-{int(time.time()) % 100000}"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
LEASE = "coxswain-operator"
EXPIRY = 15 + 2 * 2.4  # the lease's time, and a try before and after with its spread
CROWDED = 6.0  # what a busy machine may add
PATIENCE = 40  # seconds for what has no time of its own


class Scenario:
    """One namespace: two operators, each behind a proxy of its own, and two jobs."""

    def __init__(self, bench, name):
        self.bench, self.name, self.namespace = bench, name, f"{RUN}-{name}"
        self.world = bench.witness.world(self.namespace)
        self.hands = bed.Hands(bench.api, self.world)
        self.proxies = [fault_proxy.FaultProxy(bench.kubeconfig) for _ in range(2)]
        self.operators = []

    def close(self):
        for operator in self.operators:
            operator.close()
        for proxy in self.proxies:
            proxy.close()
        self.bench.api.call("DELETE", f"/api/v1/namespaces/{self.namespace}", accepted=(200, 404))

    def start(self, index):
        process = Process(self.bench.coxswain, "--leader-elect", "--lease-namespace",
                          self.namespace, "--namespaces", self.namespace,
                          kubeconfig=self.proxies[index].kubeconfig)
        self.operators.append(process)
        return process

    def lease(self):
        return self.bench.api.call("GET", f"{LEASES.format(self.namespace)}/{LEASE}")

    def leads(self, index):
        return self.operators[index].metric("coxswain_is_leader") == 1

    def wait(self, condition, seconds, what):
        took = until(condition, seconds)
        assert took is not None, f"{what}: not within {seconds:.0f} s"
        return took

    def writes(self, index, since=0.0):
        """Changing requests that operator sent, the Lease's apart."""
        return [f"{entry.method} {entry.path}" for entry in list(self.proxies[index].log)
                if entry.method != "GET" and "/leases" not in entry.path and entry.time > since]

    def job(self, name, life):
        submit(self.bench.api, self.namespace, name, 2, life,
               runPolicy={"terminationGracePeriodSeconds": 1, "stuckTerminationSeconds": 2})

    def pods(self, name):
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in self.world.pods()
                if pod["metadata"]["labels"]["coxswain.dev/job"] == name}

    def begin(self):
        """The first leads, the other waits; both jobs run."""
        self.hands.make_namespace()
        first = self.start(0)
        self.wait(lambda: self.leads(0) and first.is_ready(), PATIENCE,
                  "the first leads")
        second = self.start(1)
        self.wait(second.is_ready, PATIENCE, "the standby is ready")
        self.job("steady", [])
        self.job("fails", [])
        self.wait(lambda: all(self.world.phase(name) == "Running" for name in ("steady", "fails")),
                  PATIENCE, "both jobs run")
        # The witness may hear of the pods later than of their job.
        self.wait(lambda: len(self.pods("steady")) == 2, PATIENCE, "the witness sees both pods")
        self.steady = self.pods("steady")
        assert not self.leads(1), "two lead"
        assert not self.writes(1), f"the standby writes: {self.writes(1)}"

    def fail_worker(self):
        """While nobody leads, or nobody knows who does."""
        self.hands.end_pod("fails-worker-1", 1)

    def check_jobs(self):
        """Afterwards: nobody was harmed, and nothing was done twice."""
        self.wait(lambda: self.world.phase("fails") == "Running"
                  and self.world.status("fails").get("attempt") == 1, PATIENCE,
                  "the job that failed runs again")
        time.sleep(2.5)  # what would be done twice, is
        status = self.world.status("fails")
        assert status["attempt"] == 1 and status["restarts"].get("failure") == 1, status
        assert self.pods("steady") == self.steady, "a running job lost its pods"
        assert self.world.status("steady").get("attempt", 0) == 0
        created = [revision.name for revision in self.world.history.arrived()
                   if revision.kind == "Pod" and revision.event == "ADDED"
                   and h.identity(revision.object).attempt == 1]
        assert sorted(created) == ["fails-worker-0", "fails-worker-1"], created

    def check_takeover(self, seconds):
        took = self.wait(lambda: self.leads(1), seconds + CROWDED, "the other takes over")
        self.wait(self.operators[1].is_ready, PATIENCE, "the new leader is ready")
        return took


def told_to_stop(scene):
    """SIGTERM: the lease is given back."""
    scene.operators[0].signal(signal.SIGTERM)
    scene.fail_worker()
    took = scene.check_takeover(3)
    assert scene.operators[0].end() == 0, scene.operators[0].log()
    assert scene.lease()["spec"]["leaseTransitions"] == 1, scene.lease()
    return took


def killed(scene):
    """SIGKILL: the lease expires."""
    scene.operators[0].signal(signal.SIGKILL)
    scene.fail_worker()
    return scene.check_takeover(EXPIRY)


def frozen(scene):
    """SIGSTOP until long after another leads: what wakes up is a leader of the past."""
    begin = time.monotonic()
    scene.operators[0].signal(signal.SIGSTOP)
    scene.fail_worker()
    took = scene.check_takeover(EXPIRY)
    scene.wait(lambda: time.monotonic() - begin > 20, 21, "20 s are over")
    scene.wait(lambda: scene.world.phase("fails") == "Running", PATIENCE,
               "the new leader's work")
    woken = time.time()
    scene.operators[0].signal(signal.SIGCONT)
    assert scene.operators[0].end(6 + CROWDED) == 71, scene.operators[0].log()
    assert not scene.writes(0, woken), f"a leader of the past writes: {scene.writes(0, woken)}"
    assert "lease lost" in scene.operators[0].log()
    return took


def deleted(scene):
    """Whoever makes the Lease anew first leads, the other does not."""
    scene.bench.api.call("DELETE", f"{LEASES.format(scene.namespace)}/{LEASE}")
    scene.fail_worker()
    took = scene.wait(lambda: sum(scene.leads(index) for index in (0, 1)) == 1
                      and scene.bench.holder(scene) is not None, 5 + CROWDED, "one leads")
    time.sleep(5)
    leaders = [index for index in (0, 1) if scene.leads(index)]
    assert len(leaders) == 1, f"leaders: {leaders}"
    if leaders == [1]:
        assert scene.operators[0].end() == 71
    return took


def taken(scene):
    """By somebody who never shows up: the leader leaves, the standby waits for the lease's end."""
    path = f"{LEASES.format(scene.namespace)}/{LEASE}"
    begin = time.monotonic()
    scene.bench.api.patch(path, {"spec": {"holderIdentity": "somebody"}})
    assert scene.operators[0].end(4 + CROWDED) == 71, scene.operators[0].log()
    scene.fail_worker()
    left = time.time()
    scene.check_takeover(EXPIRY)
    assert not scene.writes(0, left)
    return time.monotonic() - begin


def cut_off(scene):
    """The API server answers 503 about leases alone, to the leader alone, for 12 s."""
    rule = scene.proxies[0].add(rules.Match(path="/leases", times=None), rules.server_error(503))
    assert rule.happened.wait(5)
    scene.fail_worker()
    begin = time.monotonic()
    assert scene.operators[0].end(12 + CROWDED) == 71, scene.operators[0].log()
    left = time.time()
    assert time.monotonic() - begin < 12 + CROWDED
    scene.check_takeover(EXPIRY)
    assert not scene.writes(0, left)
    log = scene.operators[0].log()
    assert log.count("lease not read or written") == 1, log
    return time.monotonic() - begin


class Bench:
    def __init__(self, coxswain, kubelet, kubeconfig, directory):
        self.coxswain, self.kubeconfig = coxswain, kubeconfig
        self.api, self.witness = bed.Api(kubeconfig), bed.Witness(kubeconfig)
        self.kubelet = bed.Kubelet(kubelet, kubeconfig, f"{directory}/kubelet")

    def close(self):
        self.kubelet.close()
        self.witness.close()

    def holder(self, scene):
        lease = self.api.call("GET", f"{LEASES.format(scene.namespace)}/{LEASE}",
                              accepted=(200, 404))
        return h.get(lease, "spec", "holderIdentity")

    def run(self, act):
        """(name, seconds until another led or None, what went wrong or "")"""
        scene = Scenario(self, act.__name__.replace("_", "-"))
        try:
            scene.begin()
            took = act(scene)
            scene.check_jobs()
            return act.__name__, took, ""
        except Exception:  # pylint: disable=broad-except  # one scenario's end is not all others'
            logs = "".join(f"--- operator {index}\n{operator.log()}"
                           for index, operator in enumerate(scene.operators))
            return act.__name__, None, traceback.format_exc() + logs
        finally:
            scene.close()


SCENARIOS = [told_to_stop, killed, frozen, deleted, taken, cut_off]


def main():
    coxswain, kubelet = sys.argv[1:3]
    chosen = [act for act in SCENARIOS if act.__name__ in sys.argv[3:]] or SCENARIOS
    failures = 0
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(coxswain, kubelet, os.environ["KUBECONFIG"], directory)
        try:
            with concurrent.futures.ThreadPoolExecutor(len(chosen)) as pool:
                for name, took, problem in pool.map(bench.run, chosen):
                    failures += bool(problem)
                    print(f"FAILED: {name}: {problem}" if problem else
                          f"{name:14} the other led after {took:4.1f} s")
        finally:
            bench.close()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
