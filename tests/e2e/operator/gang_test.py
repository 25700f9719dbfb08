#!/usr/bin/env python3
"""gang_test.py COXSWAIN SCRIPTED_KUBELET    gangs under a real scheduler, that of the coscheduling
plug-in

Two jobs of three pods meet four places. As gangs they run one after the other: the second holds no place before all
its pods fit. Without a gang scheduler it does, with too few: the deadlock that a longer queue makes of it is what
gangs are for. Skipped (77) where the scheduler can't be built.
"""
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import operator_bed as bed
from operator_process import until

import history as h
import kube_access

ROOT = pathlib.Path(__file__).resolve().parents[3]
CACHE = pathlib.Path(os.environ.get("COXSWAIN_CACHE", pathlib.Path.home() / ".cache/coxswain"))
CRD = ROOT / "tests/cluster/crds/coscheduling-podgroups.yaml"
RUN = f"gang-{int(time.time()) % 100000}"
NODE, SCHEDULER = RUN, RUN  # of this run alone, as a taint keeps other pods away
WORKERS, PLACES = 3, 4
LIFE = [{"exit_after_ms": 1000, "exit": 0}]
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
clientConnection: {{kubeconfig: {kubeconfig}}}
profiles:
- schedulerName: {name}
  plugins:
    multiPoint: {{enabled: [{{name: Coscheduling}}]}}
    queueSort: {{enabled: [{{name: Coscheduling}}], disabled: [{{name: "*"}}]}}
  pluginConfig:
  - name: Coscheduling
    args: {{permitWaitingTimeSeconds: 10}}
"""


class Node:
    """One node with PLACES places for pods that ask for a CPU, and its heartbeat."""

    def __init__(self, api):
        self._api, self._over = api, threading.Event()
        now = self._now()
        room = {"cpu": str(PLACES), "memory": "64Gi", "pods": "100"}
        ready = {"type": "Ready", "status": "True", "reason": "Scripted", "lastHeartbeatTime": now,
                 "lastTransitionTime": now}
        taint = {"key": RUN, "effect": "NoSchedule"}
        api.call("POST", "/api/v1/nodes", {
            "metadata": {"name": NODE}, "spec": {"taints": [taint]},
            "status": {"capacity": room, "allocatable": room, "conditions": [ready]}})
        api.call("POST", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", {
            "metadata": {"name": NODE}, "spec": self._lease()})
        self._thread = threading.Thread(target=self._beat)
        self._thread.start()

    @staticmethod
    def _now():
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

    def _lease(self):
        return {"holderIdentity": NODE, "leaseDurationSeconds": 40,
                "renewTime": self._now().replace("Z", ".000000Z")}

    def _beat(self):
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE}"
        while not self._over.wait(10):
            self._api.patch(path, {"spec": self._lease()})

    def close(self):
        self._over.set()
        self._thread.join()
        self._api.call("DELETE", f"/api/v1/nodes/{NODE}", accepted=(200, 404))


@contextlib.contextmanager
def scheduler(kubeconfig, directory):
    file, log = pathlib.Path(directory, "scheduler.yaml"), pathlib.Path(directory, "scheduler.log")
    file.write_text(CONFIGURATION.format(kubeconfig=kubeconfig, name=SCHEDULER))
    with log.open("wb") as output, subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", CACHE / "bin/coscheduling", "--config", file,
             "--secure-port", "0", "-v", "3"], stdout=output, stderr=output) as process:
        try:
            yield log
        finally:
            process.kill()


def submit(hands, name, gang):
    hands.api.call("POST", bed.JOBS.format(hands.namespace), {
        "apiVersion": "coxswain.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name},
        "spec": {
            "runPolicy": {"schedulingPolicy": {"gang": gang}, "terminationGracePeriodSeconds": 1},
            "replicaSpecs": {"Worker": {"replicas": WORKERS, "template": {
                "metadata": {"annotations": {"coxswain.test/life": bed.json.dumps(LIFE)}},
                "spec": {"schedulerName": SCHEDULER,
                         "tolerations": [{"key": RUN, "operator": "Exists"}],
                         "containers": [{"name": "trainer", "image": "example.org/train:1",
                                         "resources": {"requests": {"cpu": "1"}}}]}}}}}})


def holders(world):
    """After each change: how many places the pods of each job hold."""
    places = {}
    for revision in world.history.arrived():
        if revision.kind != "Pod":
            continue
        pod = revision.object
        holds = (revision.event != "DELETED" and pod["spec"].get("nodeName")
                 and not h.has_ended(pod))
        job = pod["metadata"]["labels"]["coxswain.dev/job"]
        places.setdefault(job, set()).discard(revision.name)
        if holds:
            places[job].add(revision.name)
        yield {name: len(pods) for name, pods in places.items() if pods}


class Bench:
    def __init__(self, programs, kubeconfig, directory, witness):
        self.coxswain, self.kubelet = programs
        self.kubeconfig, self.directory, self.witness = kubeconfig, directory, witness
        self.api = bed.Api(kubeconfig)

    def run(self, gang, seconds):
        """Two jobs, created at once, to their end: what held places, and the seconds it took."""
        namespace = f"{RUN}-{gang.lower()}"
        world = self.witness.world(namespace)
        hands = bed.Hands(self.api, world)
        hands.make_namespace()
        operator = bed.Operator(self.coxswain, self.kubeconfig, namespace,
                                pathlib.Path(self.directory, f"{gang}.log"))
        operator.start()
        try:
            for name in "a", "b":
                submit(hands, name, gang)
            took = until(lambda: {world.phase(name) for name in "ab"} == {"Succeeded"}, seconds)
            said = {name: world.status(name) for name in "ab"}
        finally:
            operator.kill()
            self.api.call("DELETE", f"/api/v1/namespaces/{namespace}")
        assert took is not None, f"{gang}: no end after {seconds} s: {said}\n{operator.log()}"
        print(f"gang {gang}: both ended after {took:.1f} s")
        return list(holders(world))


def too_early(states):
    """When the second job held a place while the first left too few for all its pods."""
    first = next(name for held in states for name in held)
    return [held for held in states if len(held) > 1 and held.get(first, 0) > PLACES - WORKERS]


def check(bench):
    early = too_early(bench.run("Coscheduling", 60))
    assert not early, f"both hold places: {early[0]}"
    early = too_early(bench.run("None", 60))
    assert early, "without gangs none began beside the other: this test would see nothing"


def main():
    built = subprocess.run([ROOT / "tests/cluster/build.sh", "coscheduling"], check=False)
    if built.returncode:
        return built.returncode
    kubeconfig = os.environ["KUBECONFIG"]
    kube_access.apply_crds(CRD)
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        stack.callback(subprocess.run, ["kubectl", "delete", "-f", CRD], check=True,
                       stdout=subprocess.DEVNULL)
        witness = stack.enter_context(contextlib.closing(bed.Witness(kubeconfig)))
        stack.enter_context(contextlib.closing(Node(bed.Api(kubeconfig))))
        stack.enter_context(contextlib.closing(bed.Kubelet(
            sys.argv[2], kubeconfig, pathlib.Path(directory, "kubelet"), "--no-scheduling")))
        log = stack.enter_context(scheduler(kubeconfig, directory))
        try:
            check(Bench(sys.argv[1:3], kubeconfig, directory, witness))
        except BaseException:
            print(log.read_text(errors="replace")[-20000:])
            raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
