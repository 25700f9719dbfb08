"""The operators that are compared: how each starts, and what its jobs look like."""
import pathlib
import time
import urllib.error
import urllib.request

from api import path_of, wait_for
from kubelet import node_for
from processes import cpu_seconds, rss_mib, start, stop



def container(name, **more):
    return {"name": name, "image": "example.org/bench:1", **more,
            "resources": {"requests": {"cpu": "1m", "memory": "1Mi"},
                          "limits": {"cpu": "1", "memory": "64Mi"}}}


class Operator:
    """Resource. One operator process at a time, started and stopped by the rows."""
    tuned = True

    def __init__(self, cluster, load, program):
        self.cluster, self.load, self.program = pathlib.Path(cluster), load, program
        self.kubeconfig = self.cluster / f"{self.user}.kubeconfig"
        self.log = self.cluster / f"{self.name}.log"
        self.process = None

    def start(self):
        """Gives the seconds from exec to ready."""
        self.log.write_bytes(b"")
        begin = time.monotonic()
        self.process = start(self.command(), self.log)
        wait_for(f"{self.name}: readiness (log: {self.log.read_text()[-500:]})", 120,
                 self._ready_or_dead, 0.01)
        return time.monotonic() - begin

    def _ready_or_dead(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} ended at its start: {self.log.read_text()[-800:]}")
        return self.ready()

    def stop(self):
        if self.process:
            stop(self.process)
            self.process = None

    def rss_mib(self):
        return rss_mib(self.process.pid)

    def cpu_seconds(self):
        return cpu_seconds(self.process.pid)

    def jobs_path(self, namespace):
        return path_of(self.group_version, namespace, self.plural)


class Ours(Operator):
    name, user = "ours", "bench-ours"
    group_version, plural = "coxswain.dev/v1alpha1", "trainingjobs"
    port = 22190

    def command(self):
        return [self.program, "operator", "--kubeconfig", self.kubeconfig,
                "--metrics-address", f"127.0.0.1:{self.port}"]

    def _get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
            return answer.read().decode()

    def ready(self):
        try:
            return bool(self._get("/readyz")) or True
        except (urllib.error.URLError, OSError):
            return False

    def metrics(self):
        return self._get("/metrics")

    def job(self, name, workers):
        template = {"spec": {"nodeName": node_for(name), "containers": [container("trainer")]}}
        return {"apiVersion": self.group_version, "kind": "TrainingJob",
                "metadata": {"name": name},
                "spec": {"replicaSpecs": {"Worker": {"replicas": workers, "template": template}},
                         "training": {"model": "singa-cnn", "data": {"format": "mnist"},
                                      "epochs": 1}}}

    def children(self, workers):
        """Objects that the operator itself makes for a job."""
        return {"services": 1, "secrets": 1, "configmaps": 1, "pods": workers}

    def pods_text(self, workers):
        return f"{workers} workers, worker 0 launches"

    def launcher_pods(self, pods):
        return [pod for pod in pods if pod["metadata"]["name"].endswith("-worker-0")]


class MpiOperator(Operator):
    user = "bench-mpi-operator"
    group_version, plural = "kubeflow.org/v2beta1", "mpijobs"
    flags = []

    def start(self):
        # The Lease of one that was stopped is not given back: the next would wait for its end.
        self.load.must("DELETE", path_of("coordination.k8s.io/v1", "default", "leases/mpi-operator"),
                       also=(404,))
        return super().start()

    def command(self):
        return [self.program, "-kubeConfig", self.kubeconfig, "-lock-namespace",
                "default", *self.flags]

    def ready(self):
        return "Started workers" in self.log.read_text()

    def job(self, name, workers):
        def replicas(count, what, command):
            return {"replicas": count, "template": {"spec": {
                "nodeName": node_for(name), "containers": [container(what, command=command)]}}}
        return {"apiVersion": self.group_version, "kind": "MPIJob", "metadata": {"name": name},
                "spec": {"slotsPerWorker": 1, "runPolicy": {"cleanPodPolicy": "Running"},
                         "mpiReplicaSpecs": {
                             "Launcher": replicas(1, "launcher", ["mpirun", "train"]),
                             "Worker": replicas(workers, "worker", ["/usr/sbin/sshd", "-De"])}}}

    def children(self, workers):
        return {"services": 1, "secrets": 1, "configmaps": 1, "pods": workers, "jobs": 1}

    def pods_text(self, workers):
        return f"{workers} workers + 1 launcher, a Job whose pod the Job controller makes"

    def launcher_pods(self, pods):
        return [pod for pod in pods if "-launcher-" in pod["metadata"]["name"]]


class MpiOperatorDefault(MpiOperator):
    name = "mpi_operator_default"
    tuned = False


class MpiOperatorTuned(MpiOperator):
    name = "mpi_operator_tuned"
    flags = ["-kube-api-qps", "2000", "-kube-api-burst", "4000", "-controller-queue-rate-limit",
             "2000", "-controller-queue-burst", "4000", "-threadiness", "8"]
