"""Every revision of the objects of a cluster, in the order in which the API server made them."""
import base64
import dataclasses
import re
import typing

JOB_KIND = "TrainingJob"
CHILD_KINDS = ("Pod", "Service", "Secret", "ConfigMap", "PodGroup")
DEFAULT_BACKOFF_LIMIT = 3


@dataclasses.dataclass
class Revision:
    version: int  # metadata.resourceVersion: one order over all kinds
    event: str  # LISTED (it was there at the start), ADDED, MODIFIED, DELETED
    kind: str
    object: dict
    time: float  # when we saw it, seconds since the epoch

    @property
    def namespace(self):
        return self.object["metadata"].get("namespace", "")

    @property
    def name(self):
        return self.object["metadata"]["name"]

    @property
    def uid(self):
        return self.object["metadata"].get("uid", "")

    @property
    def key(self):
        return (self.kind, self.namespace, self.name)

    def __str__(self):
        return f"{self.kind} {self.namespace}/{self.name}"


# --- what objects say ---

def get(tree, *path):
    """The value at the path, or None where it ends early."""
    for part in path:
        if not isinstance(tree, dict):
            return None
        tree = tree.get(part)
    return tree


def controller(item):
    """The owner reference that controls the object, or {}."""
    owners = get(item, "metadata", "ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), {})


def job_uid(item):
    """The uid of the TrainingJob that controls the object, or None."""
    owner = controller(item)
    return owner.get("uid") if owner.get("kind") == JOB_KIND else None


def condition(item, kind):
    return next((c for c in get(item, "status", "conditions") or [] if c.get("type") == kind), None)


def is_true(item, kind):
    found = condition(item, kind)
    return found is not None and found.get("status") == "True"


def is_finished(job):
    return is_true(job, "Succeeded") or is_true(job, "Failed")


class PodIdentity(typing.NamedTuple):
    job: str  # uid
    role: str  # worker, server
    index: int
    attempt: int


def identity(pod):
    """Who a pod of ours is by its labels; None for others."""
    labels = get(pod, "metadata", "labels") or {}
    uid = job_uid(pod)
    index = labels.get("training.kubeflow.org/replica-index", "")
    attempt = labels.get("coxswain.dev/attempt", "")
    if uid is None or not index.isdigit() or not attempt.isdigit():
        return None
    role = labels.get("training.kubeflow.org/replica-type", "")
    return PodIdentity(uid, role, int(index), int(attempt))


def trainer_of(containers):
    """The container named trainer, else the only one."""
    named = [c for c in containers if c.get("name") == "trainer"]
    return (named or containers)[0] if named or len(containers) == 1 else {}


def exit_code(pod):
    """Of the trainer container; None while it has none."""
    statuses = get(pod, "status", "containerStatuses") or []
    code = get(trainer_of(statuses), "state", "terminated", "exitCode")
    if code is None and get(pod, "status", "phase") == "Succeeded":
        return 0
    return code


def has_ended(pod):
    return get(pod, "status", "phase") in ("Succeeded", "Failed") or exit_code(pod) is not None


def launcher(job):
    spec = job.get("spec", {})
    mpi = spec.get("strategy", "AllReduce") == "AllReduce" and "training" in spec
    return spec.get("launcher") or ("MPI" if mpi else "Env")


def success_policy(job):
    default = "RankZero" if launcher(job) == "MPI" else "AllWorkers"
    return get(job, "spec", "successPolicy") or default


# --- the whole ---

class World:
    """The objects at one revision, and what is remembered of those before it."""

    def __init__(self):
        self.objects = {}  # key -> Revision
        self.jobs = {}  # uid -> Revision, the last one, also after its end
        self.gone = {}  # uid of a job -> the Revision that took it away
        self.terminating = {}  # uid of a job -> the first Revision with a deletionTimestamp
        self.pods = {}  # uid of a job -> {name: pod}
        self.exits = {}  # PodIdentity -> exit codes seen
        self.sizes = {}  # (uid of a job, attempt) -> status.workers
        self.config_maps = {}  # (uid of a job, attempt) -> the ConfigMap that its first pod names

    def apply(self, revision):
        """Gives the object's state before it; None: there was none."""
        before = self.objects.get(revision.key)
        if revision.event == "DELETED":
            self.objects.pop(revision.key, None)
        else:
            self.objects[revision.key] = revision
        if revision.kind == JOB_KIND:
            self._apply_job(revision)
        elif revision.kind == "Pod":
            self._apply_pod(revision)
        return before.object if before else None

    def _apply_job(self, revision):
        self.jobs[revision.uid] = revision
        if revision.event == "DELETED":
            self.gone[revision.uid] = revision
        if get(revision.object, "metadata", "deletionTimestamp"):
            self.terminating.setdefault(revision.uid, revision)
        status = revision.object.get("status") or {}
        if status.get("workers"):
            self.sizes[revision.uid, status.get("attempt", 0)] = status["workers"]

    def _apply_pod(self, revision):
        who = identity(revision.object)
        if who is None:
            return
        pods = self.pods.setdefault(who.job, {})
        if revision.event == "DELETED":
            pods.pop(revision.name, None)
        else:
            pods[revision.name] = revision.object
        code = exit_code(revision.object)
        if code is not None:
            self.exits.setdefault(who, set()).add(code)

    def live_pods(self, job):
        return [(name, pod) for name, pod in self.pods.get(job, {}).items() if not has_ended(pod)]


class History:
    """Append in any order; reading is by version."""

    def __init__(self, revisions=()):
        self._arrived, self._sorted = list(revisions), None

    def add(self, revision):
        self._arrived.append(revision)
        self._sorted = None

    def arrived(self):
        """In the order of add(), which is that of versions within one kind only."""
        return self._arrived

    def revisions(self, namespace=None):
        if self._sorted is None:
            self._sorted = sorted(self._arrived, key=lambda revision: revision.version)
        return [revision for revision in self._sorted
                if namespace is None or revision.namespace == namespace]

    def forget(self, namespace):
        self._arrived = [r for r in self._arrived if r.namespace != namespace]
        self._sorted = None

    def world(self, namespace=None):
        """The state after the last revision."""
        world = World()
        for revision in self.revisions(namespace):
            world.apply(revision)
        return world

    def final_state(self, namespace):
        """What is there at the end, as {"Kind/name": object}, in a form that two runs share: without
        uids, versions, times, nodes, addresses, key bytes, hashes in names, and progress."""
        objects = self.world(namespace).objects
        return {normalised_key(revision): normalised(revision)
                for _, revision in sorted(objects.items()) if is_of_the_outcome(revision)}

    def writes(self, namespace):
        """{"Kind/name": {"create": n, "update": n, "delete": n}}, whoever made them."""
        counts = {}
        words = {"ADDED": "create", "MODIFIED": "update", "DELETED": "delete"}
        for revision in self.revisions(namespace):
            if revision.event in words and is_of_the_outcome(revision):
                row = counts.setdefault(normalised_key(revision),
                                        {"create": 0, "update": 0, "delete": 0})
                row[words[revision.event]] += 1
        return counts


# --- what two runs share ---

VOLATILE = {"uid", "resourceVersion", "managedFields", "nodeName", "podIP", "podIPs", "hostIP",
            "hostIPs", "containerID", "imageID", "progress", "node", "clusterIP", "clusterIPs"}
TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
UID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
HASH = re.compile(r"-[0-9a-f]{8,16}\b")


def is_of_the_outcome(revision):
    return (revision.kind not in ("Event", "Lease")
            and revision.name != "kube-root-ca.crt")  # of the namespace, not of a job


def normalised_text(text, namespace):
    text = HASH.sub("-<hash>", UID.sub("<uid>", TIME.sub("<time>", text)))
    return re.sub(rf"(?<![\w-]){re.escape(namespace)}(?![\w-])", "<namespace>", text)


def normalised_key(revision):
    return f"{revision.kind}/{HASH.sub('-<hash>', revision.name)}"


def tells_a_cause(part):
    """A variable of a pod: in which words a loss is told depends on when it was seen."""
    return isinstance(part, dict) and part.get("name") == "COXSWAIN_RESTART_CAUSE"


def normalised(revision):
    def walk(value):
        if isinstance(value, dict):
            return {key: walk(part) for key, part in value.items() if key not in VOLATILE}
        if isinstance(value, list):
            parts = [walk(part) for part in value if not tells_a_cause(part)]
            if all(isinstance(part, dict) and "type" in part for part in parts):
                parts.sort(key=lambda part: str(part["type"]))  # conditions
            return parts
        return normalised_text(value, revision.namespace) if isinstance(value, str) else value

    result = walk(revision.object)
    if revision.kind == "Secret" and "data" in result:
        result["data"] = {key: "<bytes>" for key in sorted(result["data"])}
    return result


PUBLIC_KEYS = re.compile(r"pub|known|authorized", re.IGNORECASE)


def secret_texts(secret):
    """Strings that would betray a Secret's private parts: a line of each, as it is and in base64."""
    texts = set()
    for key, value in (secret.get("data") or {}).items():
        if PUBLIC_KEYS.search(key):
            continue
        third = len(value) // 3  # beyond the header, which all keys share
        texts.add(value[third:third + 48])
        lines = base64.b64decode(value).decode(errors="replace").splitlines()
        texts.update(line for line in lines if not line.startswith("-----"))
    return {text for text in texts if len(text) >= 16}
