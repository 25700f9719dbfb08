"""Deadlines, cleaning up, waiting reasons, and other sizes."""
import functools
import json
import time

import jobs
from harness import (conditions, expect, expect_in, expect_part, moment, restarts, status_of, told,
                     words_of)

A_WHILE = 1.5  # seconds; long enough for a wrong deed to show


def stays(scene, job, pods):
    scene.until(f"{pods} alone", lambda: list(scene.pods(job)) == pods)
    time.sleep(A_WHILE)
    left = scene.pods(job)
    expect(f"pods of {job}", list(left), pods)
    expect(f"told to go, of {job}", [name for name, pod in left.items()
                                     if pod["metadata"].get("deletionTimestamp")], [])


def cleans_up(policy, after_success, after_failure, scene):
    """Worker 0 ends with 0 while worker 1 trains on; worker 1 fails while worker 0 trains on."""
    fields = {"cleanPodPolicy": policy, "backoffLimit": 0} if policy else {"backoffLimit": 0}
    scene.create(jobs.env("good", successPolicy="RankZero", run_policy=fields))
    scene.create(jobs.env("bad", run_policy=fields))
    for name in ("good", "bad"):
        scene.reach("Running", job=name)
    scene.end("good-worker-0", 0)
    scene.end("bad-worker-1", 1)
    scene.reach("Succeeded", job="good")
    scene.reach("Failed", job="bad")
    stays(scene, "good", [f"good-worker-{i}" for i in after_success])
    stays(scene, "bad", [f"bad-worker-{i}" for i in after_failure])
    active = after_success.count(1)
    scene.until(f"{active} active", lambda: status_of(scene.job("good"))["replicaStatuses"][
        "Worker"]["active"] == active)
    # An ended job makes nothing again.
    for name in scene.pods("good"):
        scene.delete("Pod", name, gracePeriodSeconds=0)
    stays(scene, "good", [])


def serving_pods_go_under_every_policy(scene):
    scene.create(jobs.mpi(workers=3, run_policy={"cleanPodPolicy": "None"}))
    scene.reach("Running")
    scene.end("a-worker-0", 0)
    scene.reach("Succeeded")
    stays(scene, "a", ["a-worker-0"])


def is_on_the_hosts_network(scene):
    """A namespace's own label decides what a template may ask for; the API server agrees."""
    on_host = jobs.mpi()
    on_host["spec"]["replicaSpecs"]["Worker"]["template"] = {"spec": {
        "hostNetwork": True, "serviceAccountName": "robot", "containers": [{"name": "trainer"}]}}
    scene.create({"kind": "ServiceAccount", "metadata": {"name": "robot"}})
    scene.call("PATCH", f"/api/v1/namespaces/{scene.namespace}", {"metadata": {"labels": {
        "pod-security.kubernetes.io/enforce": "privileged"}}})
    scene.create(on_host)
    seen = []
    for attempt in 0, 1:
        first = status_of(scene.reach("Running", attempt))["hostPort"]
        seen.append(first)
        for name, pod in scene.pods().items():
            expect_part(name, pod["spec"], {"hostNetwork": True, "serviceAccountName": "robot",
                                            "dnsPolicy": "ClusterFirstWithHostNet"})
            ports = [port["hostPort"] for port in pod["spec"]["containers"][0]["ports"]]
            expect(f"ports of {name}", ports, [first, first + 1])
        if attempt == 0:
            scene.end("a-worker-1", 1)
    expect("other ports", seen[0] != seen[1], True)


def lives_on_for_a_time(scene):
    """ttlSecondsAfterFinished: then the job goes, and all that it owned."""
    scene.create(jobs.mpi(run_policy={"ttlSecondsAfterFinished": 2}))
    scene.create(jobs.mpi("now", run_policy={"ttlSecondsAfterFinished": 0, "backoffLimit": 0}))
    for name in ("a", "now"):
        scene.reach("Running", job=name)
    kinds = {kind for kind, _ in scene.children()}
    expect("children", kinds, {"Pod", "Service", "Secret", "ConfigMap"})
    scene.end("a-worker-0", 0)
    scene.end("now-worker-0", 1)
    ended = moment(status_of(scene.reach("Succeeded"))["completionTime"])
    scene.gone("TrainingJob", "now")
    scene.gone("TrainingJob", "a")
    went = scene.revisions("TrainingJob", "a")[-1].time
    if not ended + 2 <= went <= ended + 8:
        raise AssertionError(f"went {went - ended:.1f} s after its end")
    for name in ("a", "now"):
        scene.until(f"the collection of {name}", lambda name=name: not scene.children(name))


def runs_too_long(scene):
    """Counted from the first Running of a job that was not suspended since."""
    scene.create(jobs.mpi(life=[{"attempt": 0, "ready_after_ms": 2500}],
                          run_policy={"activeDeadlineSeconds": 2}))
    scene.reach("Running", 0)
    scene.run_policy("a", suspend=True)
    scene.reach("Suspended")
    time.sleep(2.5)
    expect("phase", told(scene.job())["phase"], "Suspended")
    scene.run_policy("a", suspend=False)
    job = scene.reach("Failed", 1)
    expect("Failed", conditions(job)["Failed"], "True DeadlineExceeded")
    expect("message", words_of(job, "Failed"),
           "not done 2 s after its first Running (activeDeadlineSeconds)")
    status = status_of(job)
    ran = moment(status["completionTime"]) - moment(status["startTime"])
    if not 2 <= ran <= 6:
        raise AssertionError(f"failed after {ran} s of running")
    scene.until("the end of its pods", lambda: not scene.pods())
    scene.expect_events("Started", "Running", "Suspended", "Resumed", "Running",
                        "DeadlineExceeded")


def starts_too_slowly(scene):
    scene.create(jobs.mpi(workers=3, run_policy={"startupDeadlineSeconds": 2}, life=[
        {"index": 1, "waiting": "ImagePullBackOff"}, {"index": 2, "ready_after_ms": 60000}]))
    job = scene.reach("Failed", 0)
    expect("Failed", conditions(job)["Failed"], "True StartupDeadlineExceeded")
    expect_in("message", words_of(job, "Failed"), "not Running 2 s after all pods were scheduled: ",
              "worker-1: ImagePullBackOff; worker-2: ")
    expect("startTime", status_of(job).get("startTime"), None)
    expect("restarts", restarts(job), {})
    if not status_of(job)["completionTime"]:
        raise AssertionError("no completionTime")
    scene.until("the end of its pods", lambda: not scene.pods())
    scene.expect_events("Started", "StartupDeadlineExceeded")


def queueing_is_no_starting(scene):
    scene.create(jobs.mpi(run_policy={"startupDeadlineSeconds": 1, "activeDeadlineSeconds": 1},
                          life=[{"index": 1, "unschedulable": "0/4 nodes are available"}]))
    scene.reach_condition("Ready", "False", "Unschedulable")
    time.sleep(2.5)
    expect("queued", told(scene.job()), {
        "phase": "Queued", "attempt": 0, "restarts": {},
        "conditions": {"Queued": "True Starting", "Ready": "False Unschedulable",
                       "Running": "False Starting"}})
    scene.expect_events("Started")


def tells_why_it_is_not_ready(life, reason, message, scene):
    """Within 5 s of the pod's saying so."""
    scene.create(jobs.mpi(workers=3, life=life))
    job = scene.reach_condition("Ready", "False", reason)
    expect("message", words_of(job, "Ready"), message)
    shown = next(r.time for r in scene.revisions("TrainingJob", "a")
                 if conditions(r.object).get("Ready") == f"False {reason}")
    pod = scene.pods()["a-" + message.split(":")[0]]
    since = max(moment(c["lastTransitionTime"]) for c in pod["status"]["conditions"])
    if shown > since + 6:  # its time has whole seconds
        raise AssertionError(f"told {shown - since:.1f} s later")
    expect("restarts", restarts(job), {})


# --- sizes ---

def elastic(**policy):
    return {"minReplicas": 1, "maxReplicas": 4, **policy}


def world(scene):
    """(pods, hosts of the hostfile, ranks that each pod knows of)"""
    pods = scene.pods()
    sizes = {e["value"] for pod in pods.values() for e in pod["spec"]["containers"][0]["env"]
             if e["name"] == "COXSWAIN_WORLD_SIZE"}
    maps = {s["configMap"]["name"] for pod in pods.values() for v in pod["spec"]["volumes"]
            for s in v.get("projected", {}).get("sources", []) if "configMap" in s}
    hosts = [scene.now("ConfigMap", name)["data"]["hostfile"].count("\n") for name in maps]
    return len(pods), hosts, sizes


def resized(scene):
    scene.create(jobs.mpi(elasticPolicy=elastic()))
    scene.reach("Running", 0)
    expect_in("kubectl scale", scene.kubectl("scale", "tj", "a", "--replicas=4"), "scaled")
    job = scene.reach("Running", 1)
    expect("up", told(job), {
        "phase": "Running", "attempt": 1, "restarts": {"resize": 1},
        "conditions": {"Queued": "False Scheduled", "Ready": "True AllReady",
                       "Running": "True AllReady", "Restarting": "False Running"}})
    expect("world", world(scene), (4, [4], {"4"}))
    expect_part("status", status_of(job), {"workers": 4, "ready": "4/4"})
    graces = {r.object["metadata"].get("deletionGracePeriodSeconds")
              for r in scene.revisions("Pod") if r.object["metadata"].get("deletionTimestamp")
              and r.event == "MODIFIED"}
    expect("graces", graces - {0}, {2})
    scene.kubectl("scale", "tj", "a", "--replicas=1")
    job = scene.reach("Running", 2)
    expect("down", (restarts(job), world(scene)), ({"resize": 2}, (1, [1], {"1"})))
    # Resizes wait for nothing and spend nothing.
    expect("retry times", {status_of(r.object).get("nextRetryTime")
                           for r in scene.revisions("TrainingJob")}, {None})
    scale = json.loads(scene.kubectl("get", "tj", "a", "--subresource=scale", "-o", "json"))
    expect("scale", (scale["spec"]["replicas"], scale["status"]["replicas"]), (1, 1))
    expect_in("too many", scene.kubectl("scale", "tj", "a", "--replicas=5", good=False),
              "must be at least replicaSpecs.Worker.replicas")
    expect("phases", scene.phases(), ["Queued", "Running", "Restarting", "Running", "Restarting",
                                      "Running"])
    scene.expect_events("Started", "Running", "Resizing", "Running", "Resizing", "Running")


def not_elastic(scene):
    scene.create(jobs.mpi())
    scene.reach("Running", 0)
    expect_in("kubectl scale", scene.kubectl("scale", "tj", "a", "--replicas=3", good=False),
              "fixed once the job has started: spec.replicaSpecs.Worker.replicas")
    expect("attempts", scene.attempts(), {"a-worker-0": "0", "a-worker-1": "0"})


def starts_with_fewer(scene):
    scene.create(jobs.mpi(
        workers=3, elasticPolicy=elastic(minReplicas=2, degradedStartAfterSeconds=1),
        life=[{"index": 2, "unschedulable": "0/4 nodes are available"}]))
    job = scene.reach("Running", 1)
    expect("degraded", conditions(job)["Degraded"], "True NotEnoughNodes")
    expect("message", words_of(job, "Degraded"), "from 3 to 2 workers")
    expect_part("status", status_of(job), {"workers": 2, "ready": "2/3"})
    expect("world", world(scene), (2, [2], {"2"}))
    scene.kubectl("scale", "tj", "a", "--replicas=2")
    job = scene.reach("Running", 2)
    expect("content", (conditions(job)["Degraded"], restarts(job)),
           ("False Starting", {"resize": 2}))
    scene.expect_events("Started", "Degraded", "Running", "Resizing", "Running")


def waiting(reason, index=1):
    return {"index": index, "waiting": reason}


def unready(reason, message, *life):
    return functools.partial(tells_why_it_is_not_ready, list(life), reason, message)


def clean(policy, after_success, after_failure):
    return functools.partial(cleans_up, policy, after_success, after_failure)


NO_NODE = {"index": 0, "unschedulable": "0/4 nodes are available: 4 Insufficient cpu."}
CASES = {
    "deadline-active": runs_too_long,
    "deadline-startup": starts_too_slowly,
    "deadline-queueing": queueing_is_no_starting,
    "ttl": lives_on_for_a_time,
    "host-network": is_on_the_hosts_network,
    "clean-default": clean(None, [0], [1]),
    "clean-running": clean("Running", [0], [1]),
    "clean-all": clean("All", [], []),
    "clean-none": clean("None", [0, 1], [0, 1]),
    "clean-serving": serving_pods_go_under_every_policy,
    "unready-node": unready("Unschedulable", "worker-0: Unschedulable: 0/4 nodes are available: "
                            "4 Insufficient cpu.", NO_NODE),
    "unready-image": unready("ImagePullBackOff", "worker-1: ImagePullBackOff",
                             waiting("ImagePullBackOff")),
    "unready-config": unready("CreateContainerConfigError", "worker-1: CreateContainerConfigError",
                              waiting("CreateContainerConfigError")),
    "unready-worst": unready("CreateContainerConfigError", "worker-2: CreateContainerConfigError",
                             NO_NODE, waiting("ImagePullBackOff"),
                             waiting("CreateContainerConfigError", 2)),
    "resize": resized,
    "resize-not-elastic": not_elastic,
    "resize-degraded": starts_with_fewer,
}
