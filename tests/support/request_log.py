"""What a FaultProxy's log tells: which object a request was about, and whose."""
import re
import typing

from history import get

KINDS = {"pods": "Pod", "services": "Service", "secrets": "Secret", "configmaps": "ConfigMap",
         "podgroups": "PodGroup", "trainingjobs": "TrainingJob", "leases": "Lease",
         "events": "Event", "persistentvolumeclaims": "PersistentVolumeClaim"}
PATH = re.compile(r"/(?:api|apis/[^/]+)/[^/]+(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[^/?]+)"
                  r"(?:/(?P<name>[^/?]+))?(?:/(?P<subresource>[^/?]+))?(?:\?.*)?$")


class Target(typing.NamedTuple):
    kind: str
    namespace: str
    name: str  # empty: a collection
    subresource: str


def target(entry):
    """What the request is about; the name of what is created is taken from its body."""
    found = PATH.match(entry.path)
    if not found:
        return Target("", "", "", "")
    name = found["name"] or ""
    if not name and entry.method == "POST":
        body = entry.json
        name = get(body, "metadata", "name") or get(body, "metadata", "generateName") or ""
    return Target(KINDS.get(found["plural"], found["plural"]), found["namespace"] or "", name,
                  found["subresource"] or "")


def took_effect(entry):
    return entry.status is not None and 200 <= entry.status < 300


def reply_uid(entry):
    """Of the object that the request changed, by the server's reply."""
    reply = entry.reply_json
    return get(reply, "metadata", "uid") or get(reply, "details", "uid")


def requests(log, namespace):
    """{"POST Pod/a-worker-0": n} of the changing requests that took effect, leases and events
    apart: the writes of the program behind the proxy alone."""
    counts = {}
    for entry in log:
        about = target(entry)
        if entry.number is None or about.namespace != namespace or not took_effect(entry):
            continue
        sub = f"/{about.subresource}" if about.subresource else ""
        name = re.sub(r"-[0-9a-f]{8,16}\b", "-<hash>", about.name)
        word = f"{entry.method} {about.kind}/{name}{sub}"
        counts[word] = counts.get(word, 0) + 1
    return counts
