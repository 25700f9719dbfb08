"""What holds for every job and pod of a whole run."""
import collections
import json

import harness
import history as h

RESTRICTED_POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
RESTRICTED_CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def broken(bed):
    """(law, what broke it) for each."""
    bed.witness.settle()
    for violation in bed.witness.check(texts={"the operator's log": "\n".join(bed.log())}):
        excused = any(invariant == violation.invariant and namespace in violation.message
                      for invariant, namespace in bed.excused)
        if not excused:
            yield f"invariant {violation.invariant}", str(violation)
    pods = [r for r in bed.witness.history.arrived() if r.kind == "Pod" and r.event == "ADDED"
            and h.job_uid(r.object)]
    for pod in pods:
        try:
            check_pod(pod.object)
        except AssertionError as error:
            yield f"every pod: {pod}", str(error)
    yield from check_events(bed)
    yield from check_log(bed)
    if not pods:
        yield "every pod", "there was none"


def check_pod(pod):
    harness.expect_part(pod["metadata"]["name"], pod["spec"], {
        "automountServiceAccountToken": False, "enableServiceLinks": False,
        "restartPolicy": "Never", "securityContext": RESTRICTED_POD,
        "hostname": pod["metadata"]["name"],
        "subdomain": pod["metadata"]["labels"][harness.JOB_LABEL]})
    for container in pod["spec"]["containers"]:
        harness.expect_part(container["name"], container["securityContext"], RESTRICTED_CONTAINER)
    owner = h.controller(pod)
    harness.expect("owner", {key: owner.get(key) for key in ("apiVersion", "kind", "name")},
                   {"apiVersion": "coxswain.dev/v1alpha1", "kind": "TrainingJob",
                    "name": pod["metadata"]["labels"][harness.JOB_LABEL]})
    harness.expect("blockOwnerDeletion", owner.get("blockOwnerDeletion"), None)


def turns(revisions, condition):
    """How often it became True, and whether it is."""
    count, before = 0, False
    for revision in revisions:
        now = h.is_true(revision.object, condition)
        count, before = count + (now and not before), now
    return count


def check_events(bed):
    """One a change of state, no more and no fewer."""
    jobs, events = collections.defaultdict(list), collections.Counter()
    for revision in bed.witness.history.revisions():
        if revision.kind == "TrainingJob" and revision.event != "DELETED":
            jobs[revision.uid].append(revision)
        elif revision.kind == "Event" and revision.event == "ADDED":
            regarding = revision.object.get("regarding") or {}
            reason = revision.object["reason"]
            events[regarding.get("uid"), reason] += 1
    for uid, revisions in jobs.items():
        last = revisions[-1]
        starts = events[uid, "Started"] + events[uid, "Resumed"]
        for kind, wanted in (("Running", turns(revisions, "Running")),
                             ("Succeeded", turns(revisions, "Succeeded")),
                             ("Suspended", turns(revisions, "Suspended"))):
            if events[uid, kind] != wanted:
                yield "events", f"{last}: {events[uid, kind]} events {kind}, {wanted} such changes"
        if h.get(last.object, "status", "attemptStartTime") and not starts:
            yield "events", f"{last}: none tells of its start"


def check_log(bed):
    """A constant message and fields; nothing went wrong that was not told to."""
    for line in bed.log():
        entry = json.loads(line)
        if "phase" in entry and entry["message"] != "job changed":
            yield "log", f"a field took the place of the message: {line}"
        if entry["severity"] == "error":
            yield "log", line
