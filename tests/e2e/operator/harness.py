"""What the tests of the operator's jobs share: one operator, one kubelet and one witness for all of
them; for each a namespace, in which it acts as a user and as a node."""
import collections
import datetime
import json
import os
import pathlib
import secrets
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/support"))
import history as h  # noqa: E402
import kube_access  # noqa: E402
import recorder  # noqa: E402

PATIENCE = 40  # seconds; long, since a busy machine is no bug
GROUPS = {"TrainingJob": "/apis/coxswain.dev/v1alpha1", "Deployment": "/apis/apps/v1"}
MERGE = "application/merge-patch+json"
JOB_LABEL = "coxswain.dev/job"


def plural(kind):
    return kind.lower() + "s"


def moment(text):
    """A time of the API, in seconds."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def expect(what, actual, wanted):
    if actual != wanted:
        raise AssertionError(f"{what}:\n  is   {show(actual)}\n  not  {show(wanted)}")


def expect_part(what, actual, wanted):
    """Every field of `wanted` is in `actual`; lists have as many entries."""
    if isinstance(wanted, dict) and isinstance(actual, dict):
        for key, value in wanted.items():
            expect_part(f"{what}.{key}", actual.get(key), value)
    elif isinstance(wanted, list) and isinstance(actual, list) and len(wanted) == len(actual):
        for index, value in enumerate(wanted):
            expect_part(f"{what}[{index}]", actual[index], value)
    else:
        expect(what, actual, wanted)


def expect_in(what, text, *words):
    for word in words:
        if word not in (text or ""):
            raise AssertionError(f"{what}:\n  lacks {word!r}: {text}")


def show(value):
    return json.dumps(value, sort_keys=True) if isinstance(value, (dict, list)) else repr(value)


# --- what a status says, in few words ---

def status_of(job):
    return (job or {}).get("status") or {}


def conditions(job):
    """{"Ready": "False Unschedulable"}"""
    return {c["type"]: f"{c['status']} {c['reason']}" for c in status_of(job).get("conditions", [])}


def words_of(job, condition):
    return (h.condition(job, condition) or {}).get("message", "")


def restarts(job):
    """Those that are not zero."""
    counts = status_of(job).get("restarts") or {}
    return {cause: n for cause, n in counts.items() if n and cause != "total"}


def told(job):
    status = status_of(job)
    return {"phase": status.get("phase", ""), "attempt": status.get("attempt", 0),
            "restarts": restarts(job), "conditions": conditions(job)}


class Board:
    """What is there now in each namespace, as the witness saw it."""

    def __init__(self):
        self._changed = threading.Condition()
        self._objects = collections.defaultdict(dict)
        self.seen = set()  # uids

    def enter(self, revision):
        with self._changed:
            objects = self._objects[revision.namespace]
            if revision.event == "DELETED":
                objects.pop((revision.kind, revision.name), None)
            else:
                objects[revision.kind, revision.name] = revision.object
            self.seen.add(revision.object["metadata"]["uid"])
            self._changed.notify_all()

    def objects(self, namespace):
        with self._changed:
            return dict(self._objects[namespace])

    def wait(self, what, ready, timeout):
        deadline = time.monotonic() + timeout
        with self._changed:
            while not (result := ready()):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"after {timeout} s: no sign of {what}")
                self._changed.wait(left)
        return result


class Bed:
    """An operator, a kubelet and a witness over one control plane. Stops what it started."""

    def __init__(self, kubeconfig, coxswain, kubelet, names, directory):
        self.kubeconfig, self.coxswain = kubeconfig, coxswain
        self.access = kube_access.Access(kubeconfig)
        self.board = Board()
        run = secrets.token_hex(2)
        self.namespaces = {name: f"life-{name}-{run}" for name in names}
        self.excused = set()  # (invariant, namespace)
        self.witness = recorder.Recorder(kubeconfig, self.namespaces.values(),
                                         listener=self.board.enter)
        self._log = pathlib.Path(directory, "operator.log")
        self._processes = [
            self._start(directory, "kubelet", kubelet, "--kubeconfig", kubeconfig),
            self._start(directory, "operator", coxswain, "operator", "--kubeconfig", kubeconfig,
                        "--metrics-address", "", "--log-format", "json")]

    @staticmethod
    def _start(directory, name, *command):
        with open(pathlib.Path(directory, name + ".log"), "wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def log(self, word=""):
        return [line for line in self._log.read_text().splitlines() if word in line]

    def wait_ready(self):
        deadline = time.monotonic() + PATIENCE
        while not self.log('"ready"'):
            self.check_alive()
            if time.monotonic() > deadline:
                raise AssertionError("the operator is not ready: " + "\n".join(self.log()))
            time.sleep(0.05)

    def check_alive(self):
        for process in self._processes:
            if process.poll() is not None:
                raise AssertionError(f"{process.args[0]} ended with {process.returncode}")

    def sweep(self, case):
        """Takes the namespace of a case away; for when the operator has stopped."""
        namespace = f"/api/v1/namespaces/{self.namespaces[case]}"
        # There is no node any more that would let them go.
        self.access.call("DELETE", f"{namespace}/pods?gracePeriodSeconds=0")
        self.access.call("DELETE", namespace)

    def close(self):
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        self.witness.close()


class Scene:
    """One test's namespace."""

    def __init__(self, bed, case):
        self.bed, self.case = bed, case
        self.namespace = bed.namespaces[case]

    def begin(self):
        # Every case runs under the strictest admission.
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        self.call("POST", "/api/v1/namespaces",
                  {"metadata": {"name": self.namespace, "labels": labels}})
        # Pods are refused until it is there, and the controller manager may take its time.
        account = {"kind": "ServiceAccount", "metadata": {"name": "default"}}
        self.call("POST", self.path("ServiceAccount"), account, good=(201, 409))

    # --- as a user ---

    def call(self, method, path, body=None, good=(200, 201, 202)):
        kind = MERGE if method == "PATCH" else "application/json"
        status, answer = self.bed.access.call(method, path, body, kind)
        if good and status not in good:
            raise AssertionError(f"{method} {path}: {status} {show(answer)}")
        return answer

    def path(self, kind, name=""):
        group = GROUPS.get(kind, "/api/v1")
        return f"{group}/namespaces/{self.namespace}/{plural(kind)}" + (f"/{name}" if name else "")

    def create(self, body):
        return self.call("POST", self.path(body["kind"]), body)

    def get(self, kind, name):
        """None: it is not there."""
        status, answer = self.bed.access.call("GET", self.path(kind, name))
        return answer if status == 200 else None

    def patch(self, name, change, kind="TrainingJob"):
        return self.call("PATCH", self.path(kind, name), change)

    def run_policy(self, name, **fields):
        return self.patch(name, {"spec": {"runPolicy": fields}})

    def delete(self, kind, name, policy="Background", **options):
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy, **options}
        return self.call("DELETE", self.path(kind, name), body)

    def kubectl(self, *arguments, text=None, good=True):
        done = subprocess.run(
            ["kubectl", "-n", self.namespace, *arguments], input=text, capture_output=True,
            text=True, timeout=60, check=False, env={**os.environ,
                                                     "KUBECONFIG": self.bed.kubeconfig})
        said = (done.stdout + done.stderr).strip()
        if good is not None and good != (done.returncode == 0):
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.returncode} {said}")
        return said

    # --- as a node ---

    def end(self, pod, code=0, reason="", message="", disruption="", status=None):
        """How the pod's trainer ended. code None: its container has no status any more. `status`:
        of the pod itself."""
        name = self.get("Pod", pod)["spec"]["containers"][0]["name"]
        at = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        state = {"terminated": {"exitCode": code, "message": message, "startedAt": at,
                                "finishedAt": at,
                                "reason": reason or ("Error" if code else "Completed")}}
        container = {"name": name, "image": "", "imageID": "", "ready": False, "restartCount": 0,
                     "state": state}
        because = [{"type": "DisruptionTarget", "status": "True", "reason": disruption,
                    "message": "so it is told", "lastTransitionTime": at}] if disruption else []
        self.patch(f"{pod}/status", {"status": {
            "phase": "Succeeded" if code == 0 else "Failed",
            "containerStatuses": None if code is None else [container],
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at},
                           {"type": "Ready", "status": "False", "lastTransitionTime": at},
                           *because],
            **(status or {})}}, "Pod")

    def excuse(self, invariant):
        """For users who do what makes it break."""
        self.bed.excused.add((invariant, self.namespace))

    # --- as the witness saw it ---

    def objects(self, kind=None):
        """{name: object}, or {(kind, name): object}"""
        every = self.bed.board.objects(self.namespace)
        return every if kind is None else {
            name: item for (each, name), item in every.items() if each == kind}

    def now(self, kind, name):
        return self.objects().get((kind, name))

    def job(self, name="a"):
        return self.now("TrainingJob", name)

    def pods(self, job="a"):
        return {name: pod for name, pod in sorted(self.objects("Pod").items())
                if h.controller(pod).get("name") == job}

    def attempts(self, job="a"):
        """{pod: attempt}"""
        return {name: pod["metadata"]["labels"]["coxswain.dev/attempt"]
                for name, pod in self.pods(job).items()}

    def children(self, job="a"):
        """(kind, name) of all that the job, or one of its name, controls."""
        return sorted(key for key, item in self.objects().items()
                      if h.controller(item).get("name") == job)

    def revisions(self, kind, name=None):
        return [r for r in self.bed.witness.history.arrived()
                if r.kind == kind and r.namespace == self.namespace and name in (None, r.name)]

    def phases(self, job="a"):
        """Each once in a row. Starting is left out: whoever looks twice a second may miss it."""
        seen = []
        for revision in self.revisions("TrainingJob", job):
            phase = status_of(revision.object).get("phase")
            if phase and phase != "Starting" and seen[-1:] != [phase]:
                seen.append(phase)
        return seen

    def events(self, job="a"):
        about = [item for item in self.objects("Event").values()
                 if h.get(item, "regarding", "name") == job
                 and h.get(item, "regarding", "kind") == "TrainingJob"]
        about.sort(key=lambda item: item["eventTime"])
        return [item["reason"] for item in about]

    # --- waiting ---

    def until(self, what, ready, timeout=PATIENCE):
        return self.bed.board.wait(what, ready, timeout)

    def reach(self, phase, attempt=None, job="a", timeout=PATIENCE):
        """The job, once it is in this phase (of this attempt)."""
        def ready():
            found = self.job(job)
            status = status_of(found)
            fits = status.get("phase") == phase and attempt in (None, status.get("attempt"))
            return found if fits else None
        found = self.until(f"{job} {phase} in attempt {attempt}", ready, timeout)
        if phase == "Running":
            self.catch_up()
        return found

    def catch_up(self):
        """Jobs and pods come by watches of their own: what is said of a job may be known before its pods are."""
        there = {item["metadata"]["uid"] for item in self.call("GET", self.path("Pod"))["items"]}
        self.until("the pods of now", lambda: there <= self.bed.board.seen)

    def reach_condition(self, kind, truth, reason=None, job="a", timeout=PATIENCE):
        def ready():
            found = self.job(job)
            is_now = conditions(found).get(kind, "")
            fits = is_now.startswith(truth) and (reason is None or is_now == f"{truth} {reason}")
            return found if fits else None
        return self.until(f"{job} {kind}={truth} {reason}", ready, timeout)

    def gone(self, kind, name, timeout=PATIENCE):
        self.until(f"the end of {kind} {name}", lambda: self.now(kind, name) is None, timeout)

    def expect_events(self, *wanted, job="a"):
        self.until(f"events {wanted} of {job}, there are {self.events(job)}",
                   lambda: len(self.events(job)) >= len(wanted), 10)
        expect("events", self.events(job), list(wanted))

    def report(self):
        """What helps to see why the test failed."""
        lines = [json.dumps(status_of(job), indent=1, sort_keys=True)
                 for job in self.objects("TrainingJob").values()]
        lines += [f"{name} {h.get(pod, 'status', 'phase')} {pod['metadata'].get('labels')}"
                  for name, pod in self.objects("Pod").items()]
        return "\n".join(lines + [f"events {self.events(name)} of {name}"
                                  for name in self.objects("TrainingJob")]
                         + self.bed.log(self.namespace))
