"""What the rows share: the control plane, the load, namespaces that come and go, the waiting."""
import collections
import itertools
import pathlib
import time

from api import Api, Watch, path_of, wait_for
from audit import Audit, done
from kubelet import Kubelet

STRATEGIC = "application/strategic-merge-patch+json"
CHILDREN = [("v1", "pods"), ("batch/v1", "jobs"), ("v1", "services"), ("v1", "secrets"),
            ("v1", "configmaps"), ("events.k8s.io/v1", "events")]


class Bed:
    """Resource. One control plane with one kubelet; rows use it one after the other."""

    def __init__(self, cluster, kwok):
        self.cluster = pathlib.Path(cluster)
        self.load = Api(self.cluster / "bench-load.kubeconfig")
        self.kubelet = Kubelet(cluster, self.load, kwok)
        self._numbers = itertools.count(1)

    def audit(self):
        return Audit(self.cluster / "audit.log")

    def namespace(self):
        name = f"bench-{next(self._numbers)}"
        self.load.must("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        account = path_of("v1", name, "serviceaccounts/default")
        wait_for(f"the default ServiceAccount of {name}", 60,
                 lambda: self.load.send("GET", account)[0] == 200)
        return name

    def create_jobs(self, side, namespace, count, workers):
        """Gives (time of the first request, seconds until the last was answered)."""
        requests = [("POST", side.jobs_path(namespace), side.job(f"job-{index}", workers))
                    for index in range(count)]
        begin = time.time()
        self.load.send_all(requests)
        return begin, time.time() - begin

    def watch_jobs(self, side, namespace, condition=None):
        """Which jobs have the condition, or any."""
        def wanted(event):
            return any(condition in (None, c["type"]) and c["status"] == "True"
                       for c in event["object"].get("status", {}).get("conditions", []))
        return Watch(self.load, side.jobs_path(namespace), wanted)

    def wait_for_children(self, audit, side, namespace, count, workers, seconds):
        """Until all that the operator itself makes is made; gives the time of the last answer."""
        expected = {kind: number * count for kind, number in side.children(workers).items()}

        def missing():
            made = created(audit, side, namespace)
            short = {kind: f"{made[kind]} of {number}" for kind, number in expected.items()
                     if made[kind] < number}
            return None if short else True
        try:
            wait_for("", seconds, missing)
        except TimeoutError:
            raise TimeoutError(f"{side.name}: not all children after {seconds} s: made "
                               f"{dict(created(audit, side, namespace))}, wanted {expected}; its log "
                               f"ends {side.log.read_text()[-400:]}") from None
        return max(w.end for w in creations(audit, side, namespace))

    def settle(self, audit, side, pods=None, seconds=600, calm=3.0):
        """Until the operator has written nothing for `calm` seconds and `pods` = (namespace,
        count) run."""
        begin = time.time()

        def calm_now():
            writes = audit.by(side.user)
            return time.time() - max([begin] + [w.end for w in writes[-1:]]) >= calm
        if pods:
            wait_for(f"{side.name}: {pods[1]} running pods", seconds,
                     lambda: len(started(audit, pods[0])) >= pods[1], 0.25)
        wait_for(f"{side.name}: an end of its writes", seconds, calm_now, 0.25)

    def pods(self, namespace):
        return self.load.must("GET", path_of("v1", namespace, "pods"))["items"]

    def end_pod(self, pod, exit_code, also=()):
        """The request (for Api.must) that plays the end of a pod's only container."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        container = pod["spec"]["containers"][0]
        meta = pod["metadata"]
        return ("PATCH", path_of("v1", meta["namespace"], f"pods/{meta['name']}/status"), {
            "status": {
                "phase": "Failed" if exit_code else "Succeeded",
                "conditions": [{"type": kind, "status": "False", "reason": "PodCompleted"}
                               for kind in ("Ready", "ContainersReady")],
                "containerStatuses": [{
                    "name": container["name"], "image": container["image"], "imageID": "",
                    "ready": False, "restartCount": 0, "state": {"terminated": {
                        "exitCode": exit_code, "reason": "Error" if exit_code else "Completed",
                        "startedAt": now, "finishedAt": now}}}]}}, STRATEGIC, also)

    def clear(self, sides, namespaces):
        """Deletes all that is in them. No operator may run."""
        self.kubelet.start()
        for namespace in namespaces:
            paths = [side.jobs_path(namespace) for side in sides]
            paths += [path_of(version, namespace, plural) for version, plural in CHILDREN]
            for path in paths:
                wait_for(f"the delete of {path}", 600, lambda: self._deletes_all(path))
            for path in paths[:-2]:
                wait_for(f"the end of {path}", 300, lambda: self._is_empty(path), 0.5)

    def _deletes_all(self, path):
        """False: the API server gave up after its 60 s. What it deleted stays deleted."""
        try:
            status, _ = self.load.send(
                "DELETE", path + "?gracePeriodSeconds=0&propagationPolicy=Background")
        except ConnectionError:
            return False
        return status in (200, 404, 405)

    def _is_empty(self, path):
        status, answer = self.load.send("GET", path + "?limit=1")
        return status == 404 or b'"items":[]' in answer


def creations(audit, side, namespace):
    return [w for w in audit.by(side.user)
            if w.verb == "create" and w.namespace == namespace and done(w)]


def started(audit, namespace):
    """Names of the pods that the kubelet made run."""
    return {w.name for w in audit.update() if w.user == "bench-kubelet"
            and w.resource == "pods/status" and w.namespace == namespace and done(w)}


def created(audit, side, namespace):
    return collections.Counter(w.resource for w in creations(audit, side, namespace))
