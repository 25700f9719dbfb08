"""A cluster of real nodes with the chart installed, and what tests do to the jobs in it."""
import hashlib
import json
import os
import pathlib
import secrets
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/e2e/operator"))
sys.path.insert(0, str(ROOT / "tests/support"))
from operator_bed import Api  # noqa: E402

CLUSTER = ROOT / "tests/cluster"
CACHE = pathlib.Path(os.environ.get("COXSWAIN_CACHE", pathlib.Path.home() / ".cache/coxswain"))
SYSTEM = "coxswain-system"
CANT_RUN_HERE = 77
JOBS = "/apis/coxswain.dev/v1alpha1/namespaces/{}/trainingjobs"
# Each rank has its own core, as far as the machine has them.
REQUESTS = {"requests": {"cpu": "200m", "memory": "300Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}


class Failed(Exception):
    """What a test found wrong, for people."""


class Skipped(Exception):
    """Why this machine can't have such a cluster."""


def run(*words, check=True, timeout=300, text=None):
    """What a command said; its error output is part of it. Raises Failed when it must not fail."""
    done = subprocess.run([str(word) for word in words], input=text, capture_output=True, text=True,
                          timeout=timeout, check=False)
    if done.returncode == CANT_RUN_HERE:
        raise Skipped(done.stderr.strip().splitlines()[-1])
    if check and done.returncode:
        raise Failed(f"{' '.join(map(str, words))}: code {done.returncode}\n"
                     f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout + done.stderr


def mlp(name, epochs=20, workers=2, every=200, resources=None, **spec):
    """A job of 469 short steps an epoch, which saves often; servers, if any, are as its workers."""
    worker = {"replicas": workers, "template": {"spec": {"containers": [
        {"name": "trainer", "resources": resources or REQUESTS}]}}}
    roles = {"Worker": worker}
    if spec.get("strategy") == "ParameterServer":
        roles["Server"] = worker
    training = {"model": "mlp", "data": {"format": "mnist"}, "epochs": epochs,
                "optimizer": {"lr": 0.1}, "threads": 1}
    training.update(spec.pop("training", {}))
    return {"apiVersion": "coxswain.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": name},
            "spec": {"replicaSpecs": roles, "training": training,
                     "checkpoint": {"everySteps": every},
                     "volumes": {"checkpoints": {"persistentVolumeClaim": {"claimName": name}}},
                     **spec}}


def newest_checkpoint(directory):
    """The last step whose manifest is there; None before the first."""
    found = [(int(path.name.split(".g")[1]), int(path.name[5:13]), path)
             for path in pathlib.Path(directory).glob("step-*.g*")
             if (path / "MANIFEST.json").exists()]
    return max(found)[2] if found else None


def weights_of(directory):
    """(step, hash of the weights) of the newest checkpoint."""
    path = newest_checkpoint(directory)
    if path is None:
        raise Failed(f"no checkpoint in {directory}")
    digest = hashlib.sha256((path / "model.safetensors").read_bytes()).hexdigest()[:16]
    return int(path.name[5:13]), digest


class Bed:
    """Two nodes, our images, the operator by `helm install`. To be run inside lab.sh."""

    def __init__(self, directory, nodes=2):
        self.directory = pathlib.Path(directory)
        self.nodes = nodes
        self.kubeconfig = self.directory / "admin.kubeconfig"

    def up(self, images=()):
        """With our images and these."""
        os.environ["CRDS"] = ""  # Helm's
        os.environ["NODE_IMAGES"] = " ".join(["pause", "base", "operator", "trainer-cpu", *images])
        run(CLUSTER / "build.sh", "kube", "coredns", "helm", timeout=1800)
        run(CLUSTER / "cluster.sh", "up", self.directory, self.nodes, timeout=1800)
        os.environ["KUBECONFIG"] = str(self.kubeconfig)
        os.environ["PATH"] = f"{CACHE / 'bin'}:{os.environ['PATH']}"
        self.api = Api(str(self.kubeconfig))
        if not (self.directory / "volumes/pool-1").exists():
            run(CLUSTER / "volumes.sh", "pool", self.directory, 16)

    def down(self):
        run(CLUSTER / "cluster.sh", "down", self.directory, check=False)

    def helm(self, *words, **options):
        return run("helm", *words, "--namespace", SYSTEM, **options)

    def install(self, *words):
        return self.helm("install", "coxswain", ROOT / "charts/coxswain", "--create-namespace",
                         "--set", "image.registry=localhost", "--wait", "--timeout", "60s", *words)

    def node(self, verb, node, *words, **options):
        return run(CLUSTER / "node.sh", verb, self.directory, node, *words, **options)

    def operator_pod(self):
        pods = self.api.call("GET", f"/api/v1/namespaces/{SYSTEM}/pods")["items"]
        return next(pod for pod in pods if not pod["metadata"].get("deletionTimestamp"))


class Scene:
    """A namespace of its own, inside Pod Security `restricted`."""

    def __init__(self, bed, name):
        self.bed, self.name = bed, name
        self.namespace = f"{name.replace('_', '-')}-{secrets.token_hex(2)}"
        self.volumes = {}
        run("kubectl", "create", "namespace", self.namespace)
        run("kubectl", "label", "namespace", self.namespace,
            "pod-security.kubernetes.io/enforce=restricted",
            "pod-security.kubernetes.io/warn=restricted")

    def kubectl(self, *words, **options):
        return run("kubectl", "-n", self.namespace, *words, **options)

    def claim(self, name, size=None):
        self.volumes[name] = run(CLUSTER / "volumes.sh", "claim", self.bed.directory,
                                 self.namespace, name, *([size] if size else [])).split()[-1]

    def start(self, job, size=None):
        """Applies it, with its volume; no warning may come."""
        name = job["metadata"]["name"]
        if name not in self.volumes:
            self.claim(name, size)
        said = self.kubectl("apply", "-f", "-", text=json.dumps(job))
        if "Warning" in said:
            raise Failed(f"kubectl apply warns: {said}")
        return time.monotonic()

    def job(self, name):
        return self.bed.api.call("GET", f"{JOBS.format(self.namespace)}/{name}")

    def status(self, name):
        return self.job(name).get("status", {})

    def condition(self, name, kind):
        return next((c for c in self.status(name).get("conditions", []) if c["type"] == kind), {})

    def pods(self, name):
        items = self.bed.api.call("GET", f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return {pod["metadata"]["name"]: pod for pod in items
                if pod["metadata"]["labels"].get("coxswain.dev/job") == name}

    def until(self, what, ready, seconds, advance=lambda: None):
        """Asks `ready` until it says something; gives that. What `advance` says may not stay the same so long."""
        begin, seen = time.monotonic(), None
        while time.monotonic() < begin + seconds:
            found = ready()
            if found:
                return found
            if (now := advance()) != seen:
                begin, seen = time.monotonic(), now
            time.sleep(0.2)
        raise Failed(f"no {what} within {seconds} s")

    def reach(self, name, phase, seconds=60, attempt=None):
        """Within these seconds, or these after its last step that the status knows of."""
        def there():
            status = self.status(name)
            if phase not in ("Failed", status.get("phase")) and status.get("phase") == "Failed":
                raise Failed(f"{name} failed: {self.condition(name, 'Failed').get('message')}")
            return status.get("phase") == phase and attempt in (None, status.get("attempt"))
        try:
            self.until(f"{name} {phase}", there, seconds,
                       lambda: self.status(name).get("progress", {}).get("step"))
        except Failed as failure:
            raise Failed(f"{failure}; it is {self.status(name).get('phase')}: "
                         f"{self.words(name)}") from None
        return self.status(name)

    def words(self, name):
        """What the status says to people."""
        status = self.status(name)
        told = [f"{c['type']}={c['status']} {c['reason']}: {c.get('message', '')}"
                for c in status.get("conditions", [])]
        return "; ".join(told + [f"lastFailure {json.dumps(status.get('lastFailure'))}"])

    def trains(self, name, step=1, seconds=60, attempt=0):
        """Until rank 0 of this attempt has done so many steps: what its endpoint says."""
        def far_enough():
            pod = self.pods(name).get(f"{name}-worker-0", {})
            if pod.get("metadata", {}).get("labels", {}).get("coxswain.dev/attempt") != str(attempt):
                return None
            address = pod.get("status", {}).get("podIP")
            if not address:
                return None
            if pod["status"].get("phase") == "Succeeded":  # and its endpoint is gone
                progress = self.status(name).get("progress")
            else:
                said = subprocess.run(["curl", "-sf", "-m", "1", f"http://{address}:9400/progress"],
                                      capture_output=True, text=True, check=False).stdout
                progress = json.loads(said).get("progress") if said else None
            return progress if progress and progress.get("step", 0) >= step else None
        return self.until(f"step {step} of {name}, attempt {attempt}", far_enough, seconds)

    def saved(self, name, step=1, seconds=60):
        """Until a checkpoint of at least this step lies on the volume."""
        def there():
            path = newest_checkpoint(self.volumes[name])
            return path and int(path.name[5:13]) >= step
        self.until(f"checkpoint of {name}", there, seconds)

    def weights(self, name):
        return weights_of(self.volumes[name])

    def execute(self, pod, *words, **options):
        return self.kubectl("exec", pod, "-c", "trainer", "--", *words, **options)

    def tell(self):
        """What is left to see after a failure."""
        told = [self.kubectl("get", "tj,pods", "-o", "wide", check=False)]
        for pod in self.kubectl("get", "pods", "-o", "name", check=False).split():
            told.append(f"--- {pod}\n" + self.kubectl("logs", "--tail", "12", pod, check=False))
        order = "--sort-by=.metadata.creationTimestamp"
        told.append(self.kubectl("get", "events.events.k8s.io", order, check=False)[-1500:])
        told.append(self.kubectl("get", "events.events.k8s.io", order, "-o", "wide", "--field-selector",
                                 "regarding.kind=TrainingJob", check=False))
        operator = self.bed.operator_pod()["metadata"]["name"]
        said = run("kubectl", "logs", "--namespace", SYSTEM, "--tail", "2000", operator, check=False)
        told.append(f"--- {operator}\n" +
                    "\n".join(line for line in said.splitlines() if self.namespace in line))
        return "\n".join(told)

    def close(self):
        """Its volumes go with the cluster."""
        run("kubectl", "delete", "namespace", self.namespace, "--wait=false", check=False)


def expect(what, found, wanted):
    if found != wanted:
        raise Failed(f"{what}: {found!r} instead of {wanted!r}")


def expect_in(what, text, *parts):
    for part in parts:
        if part not in str(text):
            raise Failed(f"{what} does not say {part!r}: {text}")
