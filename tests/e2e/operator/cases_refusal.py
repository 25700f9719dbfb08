"""What the API server refuses, what the operator refuses, and how a job goes on afterwards."""
import functools
import json
import time

import jobs
from harness import (JOB_LABEL, conditions, expect, expect_in, expect_part, h, status_of, told,
                     words_of)

RETRY = 12  # seconds from the cure to the next try
RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
              "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def is_refused(scene, reason, *words, phase="Queued"):
    job = scene.reach_condition("ResourcesRejected", "True", reason)
    expect_in("ResourcesRejected", words_of(job, "ResourcesRejected"), *words)
    expect_part("refused", told(job), {"phase": phase, "attempt": 0, "restarts": {}})
    scene.until(f"an event {reason}", lambda: reason in scene.events())
    return time.time()


def goes_on(scene, reason, refused, attempt=0):
    """Cured at once after it was `refused`, at that time."""
    job = scene.reach("Running", attempt)
    tried = min(r.time for r in scene.revisions("Pod")
                if r.event == "ADDED" and r.time > refused and h.job_uid(r.object))
    if tried > refused + RETRY:
        raise AssertionError(f"tried again after {tried - refused:.1f} s")
    expect("accepted", told(job), {"phase": "Running", "attempt": attempt, "restarts": {},
                                   "conditions": {"ResourcesRejected": "False Accepted",
                                                  "Queued": "False Scheduled",
                                                  "Ready": "True AllReady",
                                                  "Running": "True AllReady"}})
    scene.expect_events("Started", reason, "Running")


def quota_is_used_up(scene):
    scene.create({"kind": "ResourceQuota", "metadata": {"name": "few"},
                  "spec": {"hard": {"pods": "1"}}})
    while "hard" not in (scene.get("ResourceQuota", "few").get("status") or {}):
        time.sleep(0.05)
    scene.create(jobs.mpi())
    refused = is_refused(scene, "Forbidden", "Pod a-worker-",
                         "exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1")
    expect("pods", len(scene.pods()), 1)
    scene.patch("few", {"spec": {"hard": {"pods": "2"}}}, "ResourceQuota")
    goes_on(scene, "Forbidden", refused)


def limits_are_too_high(scene):
    scene.create({"kind": "LimitRange", "metadata": {"name": "small"}, "spec": {"limits": [
        {"type": "Container", "max": {"cpu": "500m"}}]}})
    scene.create(jobs.mpi())
    refused = is_refused(scene, "Forbidden", "maximum cpu usage per Container is 500m")
    expect("pods", list(scene.pods()), [])
    scene.delete("LimitRange", "small")
    goes_on(scene, "Forbidden", refused)


def foreign_pod(name, labels=None):
    return {"kind": "Pod", "metadata": {"name": name, "labels": labels or {}}, "spec": {
        "containers": [{"name": "other", "image": "example.org/other",
                        "securityContext": RESTRICTED}]}}


def policy_forbids(scene):
    """An admission policy of the cluster: its words are shown."""
    name = scene.namespace
    group = "/apis/admissionregistration.k8s.io/v1"
    match = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
             "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                                "resources": ["pods"]}]}
    binding = {"metadata": {"name": name}, "spec": {"policyName": name,
                                                    "validationActions": ["Deny"]}}
    policy = {"metadata": {"name": name}, "spec": {"matchConstraints": match, "validations": [
        {"expression": "false", "message": "no training on Fridays"}]}}
    scene.call("POST", f"{group}/validatingadmissionpolicies", policy)
    try:
        scene.call("POST", f"{group}/validatingadmissionpolicybindings", binding)
        while "code" not in scene.call("POST", scene.path("Pod") + "?dryRun=All",
                                       foreign_pod("probe"), good=None):
            time.sleep(0.1)  # it takes effect in a while
        scene.create(jobs.mpi())
        refused = is_refused(scene, "Invalid", "no training on Fridays")
        expect("pods", list(scene.pods()), [])
    finally:
        for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            scene.call("DELETE", f"{group}/{kind}/{name}", good=None)
    goes_on(scene, "Invalid", refused)


FOREIGN = {
    "Service": {"kind": "Service", "metadata": {"name": "a"},
                "spec": {"clusterIP": "None", "selector": {"app": "other"}}},
    "Pod": foreign_pod("a-worker-1"),
}


def name_is_taken(kind, scene):
    name = FOREIGN[kind]["metadata"]["name"]
    before = scene.create(FOREIGN[kind])
    scene.create(jobs.mpi())
    refused = is_refused(scene, "NameConflict", f"{kind} {name} exists and is not this job's: "
                         "delete it, or give the job another name")
    expect("the other's", scene.get(kind, name)["metadata"]["uid"], before["metadata"]["uid"])
    expect("its spec", scene.get(kind, name)["metadata"].get("ownerReferences"), None)
    scene.delete(kind, name, gracePeriodSeconds=0)
    goes_on(scene, "NameConflict", refused)


# --- Invalid ---

def is_invalid(scene, *words):
    job = scene.reach("Invalid")
    expect("Invalid", told(job), {"phase": "Invalid", "attempt": 0, "restarts": {},
                                  "conditions": {"Invalid": "True Invalid"}})
    expect_in("message", words_of(job, "Invalid"), *words)
    time.sleep(0.5)
    expect("children", scene.children(), [])
    expect("completionTime", status_of(job).get("completionTime"), None)
    scene.expect_events("Invalid")


def invalid(job, *words):
    def case(scene):
        scene.create(job)
        is_invalid(scene, *words)
    return case


def corrected(scene):
    """kubectl apply of the corrected job, twice: a first correction was not enough."""
    wrong = jobs.mpi()
    for key in ("epoch", "epochz"):
        wrong["spec"]["training"] = {**jobs.TRAINING, key: 3}
        scene.kubectl("apply", "-f", "-", text=json.dumps(wrong))
        scene.until(f"{key} in the message", lambda key=key: (
            f"spec.training.{key}:" in words_of(scene.job(), "Invalid")))
        expect_in("message", words_of(scene.job(), "Invalid"), "epochs")
        del wrong["spec"]["training"]
    wrong["spec"]["training"] = {**jobs.TRAINING, "epochs": 3}
    scene.kubectl("apply", "-f", "-", text=json.dumps(wrong))
    job = scene.reach("Running", 0)
    expect("valid", conditions(job)["Invalid"], "False Valid")
    expect("attempts", scene.attempts(), {"a-worker-0": "0", "a-worker-1": "0"})
    scene.expect_events("Invalid", "Invalid", "Started", "Running")


def wrong_when_resumed(scene):
    """While suspended all is free, also to be wrong."""
    scene.create(jobs.mpi())
    scene.reach("Running", 0)
    scene.run_policy("a", suspend=True)
    scene.reach("Suspended")
    scene.patch("a", {"spec": {"training": {"epoch": 3}}})
    scene.run_policy("a", suspend=False)
    job = scene.reach("Invalid")
    expect_in("message", words_of(job, "Invalid"), "spec.training.epoch: ")
    scene.until("the end of its pods", lambda: not scene.pods())
    scene.patch("a", {"spec": {"training": {"epoch": None}}})
    expect("attempt", told(scene.reach("Running", 1))["conditions"]["Invalid"], "False Valid")


# --- objects of others, and what others do to ours ---

def foreign_pod_with_our_label(scene):
    """It is no worker, and nobody touches it."""
    labels = {JOB_LABEL: "a", "coxswain.dev/attempt": "7",
              "training.kubeflow.org/replica-type": "worker",
              "training.kubeflow.org/replica-index": "0"}
    stray = scene.create(foreign_pod("stray", labels))
    scene.create(jobs.mpi())
    scene.reach("Running", 0)
    scene.end("a-worker-1", 1)
    job = scene.reach("Running", 1)
    expect("attempt", status_of(job)["attempt"], 1)
    expect_part("counts", status_of(job)["replicaStatuses"]["Worker"], {"active": 2, "ready": 2})
    left = scene.get("Pod", "stray")["metadata"]
    expect("the stray pod", (left["uid"], left.get("deletionTimestamp")),
           (stray["metadata"]["uid"], None))


def pod_leaves_us(change, words, scene):
    """A label or an owner is taken from it: it is not ours to end, and its name is taken."""
    scene.excuse("I10")  # it runs on beside the new gang
    scene.create(jobs.mpi())
    scene.reach("Running", 0)
    scene.patch("a-worker-1", {"metadata": change}, "Pod")
    job = scene.reach_condition("ResourcesRejected", "True", "NameConflict")
    expect_in("message", words_of(job, "ResourcesRejected"), "Pod a-worker-1 ", words)
    expect("restarts", told(job)["restarts"], {"preemption": 1})
    expect("told to go", scene.get("Pod", "a-worker-1")["metadata"].get("deletionTimestamp"), None)
    scene.delete("Pod", "a-worker-1", gracePeriodSeconds=0)
    expect("attempts", (scene.reach("Running", 1) and scene.attempts()),
           {"a-worker-0": "1", "a-worker-1": "1"})
    scene.expect_events("Started", "Running", "Restarting", "NameConflict", "Running")


def service_is_deleted(scene):
    """The next gang has one again."""
    scene.create(jobs.mpi())
    scene.reach("Running", 0)
    scene.delete("Service", "a")
    scene.gone("Service", "a")
    scene.end("a-worker-1", 1)
    scene.reach("Running", 1)
    expect("controller", h.controller(scene.get("Service", "a")).get("uid"),
           scene.job()["metadata"]["uid"])


PRIVILEGED = jobs.env(container={"securityContext": {"privileged": True}})
CASES = {
    "refused-quota": quota_is_used_up,
    "refused-limits": limits_are_too_high,
    "refused-policy": policy_forbids,
    "refused-service": functools.partial(name_is_taken, "Service"),
    "refused-pod": functools.partial(name_is_taken, "Pod"),
    "pod-loses-owner": functools.partial(
        pod_leaves_us, {"ownerReferences": None}, "exists and is not this job's"),
    "pod-loses-label": functools.partial(
        pod_leaves_us, {"labels": {JOB_LABEL: None}}, "has lost its label coxswain.dev/job=a"),
    "invalid-corrected": corrected,
    "invalid-when-resumed": wrong_when_resumed,
    "invalid-privileged": invalid(
        PRIVILEGED, "spec.replicaSpecs.Worker.template.spec.containers", "privileged"),
    "invalid-environment": invalid(
        jobs.env(container={"env": [{"name": "COXSWAIN_ATTEMPT", "value": "0"}]}),
        "spec.replicaSpecs.Worker.template.spec.containers[0].env", "COXSWAIN_ATTEMPT"),
    "foreign-pod-with-our-label": foreign_pod_with_our_label,
    "service-deleted": service_is_deleted,
}
