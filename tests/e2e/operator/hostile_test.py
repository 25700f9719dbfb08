#!/usr/bin/env python3
"""hostile_test.py COXSWAIN SCRIPTED_KUBELET    one user's objects harm no other's

Among a thousand jobs one is nested too deep to be read, and twenty are so long that they don't fit
into one page of a list: the operator starts, tells which one it can't read, and all others go on;
so it does when such a job comes later, and after a restart.
"""
import concurrent.futures
import os
import sys
import tempfile
import time

import operator_bed as bed
from operator_process import Process, submit, until

JOBS = 1000  # one of them can't be read
LONG = 20  # jobs of 1 MiB: more than a page's 16 MiB
PATIENCE = 90  # seconds; long, since a busy machine is no bug
OTHERS = "example.org/somebody-else"  # manages the jobs that are only there


def nested(depth):
    value = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def job(name, training=None, **run_policy):
    return {"apiVersion": "coxswain.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": name},
            "spec": {"replicaSpecs": {"Worker": {"replicas": 1}},
                     "training": {"model": "mlp", "data": {"format": "mnist"}, **(training or {})},
                     "runPolicy": run_policy}}


class Scene:
    def __init__(self, coxswain, kubelet, kubeconfig, directory):
        self.coxswain, self.kubeconfig = coxswain, kubeconfig
        self.api, self.witness = bed.Api(kubeconfig), bed.Witness(kubeconfig)
        self.kubelet = bed.Kubelet(kubelet, kubeconfig, f"{directory}/kubelet")
        self.namespace = f"hostile-{time.time_ns() % 1000000}"
        self.jobs = bed.JOBS.format(self.namespace)
        self.world = self.witness.world(self.namespace)
        bed.Hands(self.api, self.world).make_namespace()

    def close(self):
        self.kubelet.close()
        for path in (self.jobs, bed.PODS.format(self.namespace) + "?gracePeriodSeconds=0",
                     f"/api/v1/namespaces/{self.namespace}"):
            self.api.call("DELETE", path, accepted=(200, 202, 404))
        self.witness.close()

    def fill(self):
        bodies = [job(f"quiet-{n}", managedBy=OTHERS) for n in range(JOBS - 1)]
        bodies.insert(JOBS // 3, job("poison", nested(100)))
        bodies += [job(f"long-{n}", {"words": "x" * (1 << 20)}, managedBy=OTHERS)
                   for n in range(LONG)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda body: self.api.call("POST", self.jobs, body), bodies))

    def start(self):
        return Process(self.coxswain, "--namespaces", self.namespace, kubeconfig=self.kubeconfig)

    def expect(self, operator, condition, what):
        begin = time.monotonic()
        if until(condition, PATIENCE) is None:
            raise AssertionError(f"{what}: not within {PATIENCE} s\n{operator.log()}")
        print(f"ok {time.monotonic() - begin:5.1f} s  {what}", flush=True)

    def is_quarantined(self, name):
        said = [c["message"] for c in self.world.status(name).get("conditions", [])
                if c["type"] == "Invalid" and c["status"] == "True"]
        return (self.world.phase(name) == "Invalid"
                and said == ["spec.training: nested deeper than 64 levels"])

    def expect_service(self, operator, name):
        """A job that comes now gets its pods."""
        submit(self.api, self.namespace, name, 2, [])
        self.expect(operator, lambda: self.world.phase(name) == "Running", f"{name} runs")

    def play(self):
        self.fill()
        with self.start() as operator:
            self.expect(operator, operator.is_ready, f"ready, with 1 of {JOBS} jobs poisoned")
            self.expect(operator, lambda: self.is_quarantined("poison"), "poison is Invalid")
            self.expect_service(operator, "first")
            self.api.call("POST", self.jobs, job("later", nested(200)))
            self.expect(operator, lambda: self.is_quarantined("later"), "later is Invalid")
            self.expect_service(operator, "second")
        with self.start() as operator:
            self.expect(operator, operator.is_ready, "ready after a restart")
            self.expect_service(operator, "third")
            self.api.patch(f"{self.jobs}/poison", {"spec": {"training": {"a": None}}})
            self.expect(operator, lambda: self.world.phase("poison") == "Running",
                        "poison runs once it is mended")
        assert all(self.world.phase(name) == "Running" for name in ("first", "second", "third"))


def main():
    coxswain, kubelet = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as directory:
        scene = Scene(coxswain, kubelet, os.environ["KUBECONFIG"], directory)
        try:
            scene.play()
        finally:
            scene.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
