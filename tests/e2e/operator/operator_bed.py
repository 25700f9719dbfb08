"""What tests of a living operator share: its process, the cluster as an independent witness saw it,
and the hands of a user and of nodes. One namespace is one small world."""
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

SUPPORT = pathlib.Path(__file__).resolve().parents[2] / "support"
sys.path.insert(0, str(SUPPORT))

import history as h  # noqa: E402
import kube_access  # noqa: E402
import recorder  # noqa: E402

JOBS = "/apis/coxswain.dev/v1alpha1/namespaces/{}/trainingjobs"
PODS = "/api/v1/namespaces/{}/pods"
JOB = "mnist"
# kind -> "v1" or "group/version"; items of lists lack it.
API_VERSIONS = {kind: re.sub("^/apis?/|/[^/]+$", "", path)
                for path, kind in recorder.RESOURCES.items()}


class Api:
    """The API server for a user: one kept-alive connection a thread. Raises RuntimeError when an
    answer is not in `accepted`."""

    def __init__(self, kubeconfig):
        self._access = kube_access.Access(kubeconfig)
        self._context = self._access.context()
        self._threads = threading.local()

    def call(self, method, path, body=None, accepted=(200, 201, 202),
             content_type="application/json"):
        status, answer = self._exchange(method, path, body, content_type)
        if status not in accepted:
            raise RuntimeError(f"{method} {path}: {status} {answer}")
        return answer

    def patch(self, path, body, **options):
        return self.call("PATCH", path, body, content_type="application/merge-patch+json",
                         **options)

    def _exchange(self, method, path, body, content_type):
        data = None if body is None else json.dumps(body)
        headers = {**self._access.headers(), "Content-Type": content_type}
        for attempt in (1, 2):
            connection = getattr(self._threads, "connection", None)
            fresh = connection is None
            if fresh:
                connection = self._threads.connection = http.client.HTTPSConnection(
                    self._access.host, self._access.port, timeout=60, context=self._context)
            try:
                connection.request(method, path, data, headers)
                response = connection.getresponse()
                return response.status, kube_access.parse(response.read())
            except (http.client.HTTPException, OSError):
                connection.close()
                self._threads.connection = None
                if fresh or attempt == 2:  # an idle connection may have been closed meanwhile
                    raise
        return None


class World:
    """One namespace as the witness was told, and what happened in it."""

    def __init__(self, namespace):
        self.namespace = namespace
        self.history, self.objects = h.History(), {}  # (kind, name) -> object
        self._outcome = {}  # (kind, name) -> its part of the end state
        self.changed = threading.Condition()

    def tell(self, revision):
        key = revision.kind, revision.name
        part = (h.normalised_key(revision), h.normalised(revision)
                ) if h.is_of_the_outcome(revision) else None
        with self.changed:
            self.history.add(revision)
            if revision.event == "DELETED":
                self.objects.pop(key, None)
                self._outcome.pop(key, None)
            else:
                self.objects[key] = revision.object
                if part:
                    self._outcome[key] = part
            self.changed.notify_all()

    # --- as conditions ask ---

    def job(self, name=JOB):
        return self.objects.get(("TrainingJob", name), {})

    def status(self, name=JOB):
        return self.job(name).get("status") or {}

    def phase(self, name=JOB):
        return self.status(name).get("phase")

    def pods(self):
        return [item for (kind, _), item in self.objects.items() if kind == "Pod"]

    def living(self):
        return sum(not h.has_ended(pod) for pod in self.pods())

    def children(self):
        return [key for key, item in self.objects.items()
                if key[0] in h.CHILD_KINDS and h.job_uid(item)]

    def runs(self, attempt, workers):
        """The gang is in training, and the operator said so."""
        ready = [pod for pod in self.pods() if h.is_true(pod, "Ready")]
        return (self.phase() == "Running" and self.status().get("attempt", 0) == attempt
                and len(ready) == len(self.pods()) == workers
                and all(h.identity(pod).attempt == attempt for pod in ready))

    def end_state(self):
        """In a form that two runs share; see history.py."""
        with self.changed:
            return dict(self._outcome.values())


class Witness(recorder.Recorder):
    """Sees every revision in the cluster, each namespace by itself. With `server_restarts`, watches
    that a new server can't go on with begin with a list: for restarts while nothing changes."""

    def __init__(self, kubeconfig):
        self._worlds, self.server_restarts = {}, False
        super().__init__(kubeconfig)

    def world(self, namespace):
        return self._worlds.setdefault(namespace, World(namespace))

    def _enter(self, kind, event, item):
        item["metadata"].pop("managedFields", None)
        item = {"kind": kind, "apiVersion": API_VERSIONS[kind], **item}
        version = int(item["metadata"]["resourceVersion"])
        world = self._worlds.get(item["metadata"].get("namespace", ""))
        if world:
            world.tell(h.Revision(version, event, kind, item, time.time()))

    def _watch(self, path, kind):
        try:
            super()._watch(path, kind)
        except LookupError:
            if not self.server_restarts:
                raise
            try:
                self._versions[kind] = self._first_list(path, kind)
            except RuntimeError as error:  # not ready yet
                raise ValueError(str(error)) from error

    def until(self, world, condition, seconds):
        """Whether condition(world) became true."""
        deadline = time.monotonic() + seconds
        with world.changed:
            while not condition(world):
                self._raise_failure()
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                world.changed.wait(min(left, 1))
        return True

    def drop(self, namespace):
        self._worlds.pop(namespace, None)


class Operator:
    """The process under test; its log is kept over restarts."""

    def __init__(self, program, kubeconfig, namespace, log, flags=()):
        self._command = [
            # It must not outlive a test that is killed.
            "setpriv", "--pdeathsig", "KILL", program, "operator", "--kubeconfig", kubeconfig,
            "--namespaces", namespace, "--metrics-address", "", "--progress", "false",
            "--log-format", "json", *flags]
        self._log, self._process, self._lock = pathlib.Path(log), None, threading.Lock()
        self._log.write_bytes(b"")

    def start(self):
        with self._lock, self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log,
                                             stderr=log)

    def kill(self):
        with self._lock:
            if self._process:
                self._process.kill()
                self._process.wait()
                self._process = None

    @property
    def pid(self):
        return self._process.pid

    def is_alive(self):
        return self._process is not None and self._process.poll() is None

    def log(self):
        return self._log.read_text(errors="replace")


class Hands:
    """What users and nodes do in one namespace."""

    def __init__(self, api, world):
        self.api, self.world, self.namespace = api, world, world.namespace

    def make_namespace(self):
        self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        # Pods are refused before it is there; the controller manager would make it some time later.
        self.api.call("POST", f"/api/v1/namespaces/{self.namespace}/serviceaccounts",
                      {"metadata": {"name": "default"}}, accepted=(201, 409))

    def create(self, spec, name=JOB, life=None):
        spec = json.loads(json.dumps(spec))
        if life is not None:
            spec["replicaSpecs"]["Worker"]["template"] = {
                "metadata": {"annotations": {"coxswain.test/life": json.dumps(life)}},
                "spec": {"containers": [{"name": "trainer", "image": spec["image"]}]}}
        self.api.call("POST", JOBS.format(self.namespace), {
            "apiVersion": "coxswain.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": name}, "spec": spec})

    def edit(self, spec, name=JOB):
        self.api.patch(f"{JOBS.format(self.namespace)}/{name}", {"spec": spec})

    def delete(self, name=JOB, propagation="Background"):
        self.api.call("DELETE", f"{JOBS.format(self.namespace)}/{name}",
                      {"propagationPolicy": propagation}, accepted=(200, 202, 404))

    def delete_pod(self, name):
        self.api.call("DELETE", f"{PODS.format(self.namespace)}/{name}", accepted=(200, 202, 404))

    def running_pod(self, name, seconds=10):
        """As it is stored: what the witness was told of pods may be older than what it was told of
        their job."""
        deadline = time.monotonic() + seconds
        while True:
            pod = self.api.call("GET", f"{PODS.format(self.namespace)}/{name}", accepted=(200, 404))
            status = pod.get("status", {}) if pod.get("kind") == "Pod" else {}
            if status.get("containerStatuses") and status.get("conditions"):
                return pod
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name} does not run after {seconds} s: {status or pod}")
            time.sleep(0.05)

    def end_pod(self, name, code, reason="", message="", disruption=""):
        """Its trainer ends; the scripted kubelet leaves alone a pod that was to run for ever."""
        pod = self.running_pod(name)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        end = {"exitCode": code, "reason": reason or ("Error" if code else "Completed"),
               "message": message, "startedAt": now, "finishedAt": now}
        conditions = [{**condition, "status": "False"} if "Ready" in condition["type"]
                      else condition for condition in pod["status"]["conditions"]]
        if disruption:
            conditions.append({"type": "DisruptionTarget", "status": "True",
                               "reason": disruption, "lastTransitionTime": now})
        self.api.patch(f"{PODS.format(self.namespace)}/{name}/status", {
            "metadata": {"uid": pod["metadata"]["uid"]},
            "status": {"phase": "Failed" if code else "Succeeded", "conditions": conditions,
                       "containerStatuses": [
                           {**container, "ready": False, "started": False,
                            "state": {"terminated": end}}
                           for container in pod["status"]["containerStatuses"]]}})


class Kubelet:
    """Plays all pods of ours in the cluster, as scripted_kubelet/life.h tells."""

    def __init__(self, program, kubeconfig, log, *flags):
        with open(log, "wb") as output:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", program, "--kubeconfig", kubeconfig,
                 "--selector", "coxswain.dev/job", *flags], stdout=output, stderr=output)

    def close(self):
        self._process.terminate()
        self._process.wait()


def difference(wanted, found, limit=12):
    """Lines that tell where two end states differ."""
    lines = []

    def walk(path, a, b):
        if a == b:
            return
        if isinstance(a, dict) and isinstance(b, dict):
            for key in sorted({*a, *b}):
                walk(f"{path}.{key}" if path else key, a.get(key), b.get(key))
        elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
            for index, pair in enumerate(zip(a, b)):
                walk(f"{path}[{index}]", *pair)
        else:
            texts = json.dumps(a), json.dumps(b)
            begin = max(0, len(os.path.commonprefix(texts)) - 40)
            was, now = (text[begin:begin + 200] for text in texts)
            lines.append(f"{path}: {was} became {now}")

    walk("", wanted, found)
    more = [f"and {len(lines) - limit} more"] if len(lines) > limit else []
    return lines[:limit] + more


def merge(*trees):
    """Later trees over earlier ones."""
    result = {}
    for tree in trees:
        for key, value in tree.items():
            both = isinstance(value, dict) and isinstance(result.get(key), dict)
            result[key] = merge(result[key], value) if both else value
    return result
