"""What a worker's end is taken for, what it costs, and when a job gives up."""
import functools

import jobs
from harness import (conditions, expect, expect_in, expect_part, moment, restarts, status_of, told,
                     words_of)

RUNNING_AGAIN = {"Queued": "False Scheduled", "Ready": "True AllReady",
                 "Running": "True AllReady", "Restarting": "False Running"}
FOREIGN_CODES = (1, 2, 65, 69, 71, 75, 76, 126, 127, 134, 137, 139, 143, 255)


def restarted(scene, cause, last=None, workers=2):
    """The job runs again, in attempt 1, and tells why."""
    job = scene.reach("Running", 1)
    expect("again", told(job), {"phase": "Running", "attempt": 1, "restarts": {cause: 1},
                                "conditions": RUNNING_AGAIN})
    pods = {f"a-worker-{i}": "1" for i in range(workers)}
    scene.until(f"pods {pods}", lambda: scene.attempts() == pods)
    expect_part("lastFailure", status_of(job)["lastFailure"], {"attempt": 0, **(last or {})})
    # The first restart does not wait.
    expect("retry times", {status_of(r.object).get("nextRetryTime")
                           for r in scene.revisions("TrainingJob")}, {None})
    return job


def reasons_of_restarting(scene):
    """Those that the condition Restarting had while it was True, in order."""
    seen = []
    for revision in scene.revisions("TrainingJob", "a"):
        is_now = conditions(revision.object).get("Restarting", "")
        if is_now.startswith("True ") and seen[-1:] != [is_now[5:]]:
            seen.append(is_now[5:])
    return seen


def ends_and_restarts(index, end, cause, last, scene):
    scene.create(jobs.mpi())
    scene.reach("Running", 0)
    scene.end(f"a-worker-{index}", **end)
    restarted(scene, cause, {"pod": f"a-worker-{index}", "role": "Worker", "index": index, **last})
    expect("Restarting", reasons_of_restarting(scene), [cause.capitalize()])
    scene.expect_events("Started", "Running", "Restarting", "Running")


def ends_and_fails(code, reason, scene):
    scene.create(jobs.mpi())
    scene.reach("Running", 0)
    scene.end("a-worker-0", code, message=jobs.said(code, reason, phase="Data"))
    job = scene.reach("Failed")
    expect("restarts", restarts(job), {})
    expect_part("conditions", conditions(job), {
        "Failed": f"True {reason}", "Running": f"False {reason}", "Queued": "False Scheduled"})
    expect("message", words_of(job, "Failed"), f"worker-0 exit={code} {reason}: because")
    expect_part("lastFailure", status_of(job)["lastFailure"], {
        "exitCode": code, "reason": reason, "phase": "Data", "rank": 0, "message": "because",
        "pod": "a-worker-0"})
    scene.kubectl("wait", "--for=jsonpath={.status.completionTime}", "--timeout=10s", "tj/a")
    scene.gone("Pod", "a-worker-1")
    expect("what stays", list(scene.pods()), ["a-worker-0"])
    scene.expect_events("Started", "Running", reason)


def any_code_of_a_foreign_image(scene):
    """No code means more than another; each is its own job, which may not restart."""
    for code in FOREIGN_CODES:
        scene.create(jobs.env(f"code-{code}", 1, [{"exit": code}], {"backoffLimit": 0}))
    for code in FOREIGN_CODES:
        job = scene.reach("Failed", job=f"code-{code}")
        expect_part(f"code {code}", conditions(job), {"Failed": "True BackoffLimitExceeded"})
        expect_part(f"code {code}", status_of(job)["lastFailure"], {"exitCode": code})
        expect_in("message", words_of(job, "Failed"), "failed after 0 restarts (backoffLimit 0)",
                  f"exit={code}")


def foreign_code_restarts(scene):
    """65 without our message is a failure like any."""
    scene.create(jobs.env())
    scene.reach("Running", 0)
    scene.end("a-worker-1", 65, message="Traceback...\nKeyError: 3\n")
    restarted(scene, "failure", {"exitCode": 65, "message": "KeyError: 3", "pod": "a-worker-1"})


def init_container_fails(scene):
    init = [{"name": "fetch", "image": "example.org/fetch"}]
    scene.create(jobs.env(pod={"initContainers": init}))
    scene.reach("Running", 0)
    state = {"terminated": {"exitCode": 9, "reason": "Error", "message": "no such bucket"}}
    scene.end("a-worker-1", None, status={"initContainerStatuses": [
        {"name": "fetch", "image": "", "imageID": "", "ready": False, "restartCount": 0,
         "state": state}]})
    restarted(scene, "failure", {"exitCode": 9, "pod": "a-worker-1",
                                 "message": "init container fetch: no such bucket"})


# --- pods that go ---

def pod_is_deleted(index, grace, scene):
    scene.create(jobs.mpi())
    scene.reach("Running", 0)
    scene.delete("Pod", f"a-worker-{index}", **grace)
    restarted(scene, "preemption", {"pod": f"a-worker-{index}"})
    expect("Restarting", reasons_of_restarting(scene), ["Preemption"])


def drained_pod_saves(scene):
    """75 of a pod that someone else told to go."""
    scene.create(jobs.mpi(life=[{"attempt": 0, "index": 0, "stop_ms": 300, "stop_exit": 75,
                                 "message": jobs.said(75, "Saved")}]))
    scene.reach("Running", 0)
    scene.delete("Pod", "a-worker-0")
    restarted(scene, "preemption", {"pod": "a-worker-0"})


def deleted_before_its_gang_was_complete(scene):
    """It is made again. Whether that is a new gang depends on whether its end was seen or only that
    it is not there; in neither case is a failure counted."""
    scene.create(jobs.mpi(life=[{"index": 1, "unschedulable": "0/4 nodes are available"}]))
    scene.reach_condition("Ready", "False", "Unschedulable")
    first = scene.pods()["a-worker-1"]["metadata"]["uid"]
    scene.delete("Pod", "a-worker-1")

    def made_again():
        pod = scene.pods().get("a-worker-1")
        return pod and pod["metadata"]["uid"] != first and len(scene.pods()) == 2
    scene.until("another pod", made_again)
    job = scene.reach_condition("Ready", "False", "Unschedulable")
    expect("one gang", set(scene.attempts().values()), {str(status_of(job)["attempt"])})
    expect("restarts", restarts(job),
           {"preemption": 1} if status_of(job)["attempt"] else {})


# --- a peer's end: whose fault was it? ---

def peer_lost_and_then_its_cause(scene):
    scene.create(jobs.mpi(life=[{"attempt": 0, "index": 1, "stop_ms": 2000}]))
    scene.reach("Running", 0)
    scene.end("a-worker-0", 71, message=jobs.said(71, "PeerLost", phase="AllReduce"))
    job = scene.reach("Restarting", 1)
    expect("held", (restarts(job), conditions(job)["Restarting"]), ({}, "True Peer"))
    scene.end("a-worker-1", 137, "OOMKilled")
    restarted(scene, "failure", {"pod": "a-worker-1", "reason": "OOMKilled", "exitCode": 137})
    expect("Restarting", reasons_of_restarting(scene), ["Peer", "Failure"])


def peer_lost_and_no_cause(end, scene):
    scene.create(jobs.mpi())
    scene.reach("Running", 0)
    scene.end("a-worker-0", **end)
    restarted(scene, "failure", {"pod": "a-worker-0", "exitCode": end["code"]})
    expect("Restarting", reasons_of_restarting(scene), ["Peer", "Failure"])


def peer_lost_with_its_node(scene):
    scene.create(jobs.mpi(life=[{"attempt": 0, "index": 1, "ignore_term": True}],
                          run_policy={"terminationGracePeriodSeconds": 1,
                                      "stuckTerminationSeconds": 1}))
    scene.reach("Running", 0)
    scene.end("a-worker-0", 71, message=jobs.said(71, "PeerLost", phase="AllReduce"))
    restarted(scene, "node", {"pod": "a-worker-1", "reason": "StuckTermination"})
    expect("Restarting", reasons_of_restarting(scene), ["Peer", "Node"])


def device_at_fault(scene):
    """72: later pods require another node, and none of backoffLimit is spent; a suspension forgets it."""
    scene.create(jobs.mpi(run_policy={"backoffLimit": 0}))
    scene.reach("Running", 0)
    node = scene.pods()["a-worker-1"]["spec"]["nodeName"]
    scene.end("a-worker-1", 72, message=jobs.said(72, "Device", message="[cuda] an Xid"))
    job = restarted(scene, "node", {"pod": "a-worker-1", "reason": "Device", "exitCode": 72, "node": node})
    expect("avoided", status_of(job)["avoidNodes"], [node])
    for pod in scene.pods().values():
        terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        expect("terms", terms, [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [node]}]}])
    scene.run_policy("a", suspend=True)
    expect("forgotten", status_of(scene.reach("Suspended")).get("avoidNodes"), None)


def first_cause_of_an_avalanche(scene):
    lost = {"exit": 71, "message": jobs.said(71, "PeerLost")}
    # Long enough before its peers to be its own end, and not that of the gang being taken down.
    scene.create(jobs.mpi(workers=4, life=[
        {"attempt": 0, "index": 2, "exit_after_ms": 300, "exit": 137, "reason": "OOMKilled"},
        {"attempt": 0, "exit_after_ms": 600, **lost}]))
    restarted(scene, "failure", {"pod": "a-worker-2", "reason": "OOMKilled"}, workers=4)


def stuck_in_termination(scene):
    """SIGTERM, the grace, the wait, then force; the new gang comes when the old one is gone."""
    scene.create(jobs.mpi(life=[{"attempt": 0, "index": 0, "ignore_term": True}],
                          run_policy={"terminationGracePeriodSeconds": 1,
                                      "stuckTerminationSeconds": 1}))
    scene.reach("Running", 0)
    scene.end("a-worker-1", 1)
    restarted(scene, "failure", {"pod": "a-worker-1"})
    last = scene.revisions("Pod", "a-worker-0")
    old = [r for r in last if r.object["metadata"]["labels"]["coxswain.dev/attempt"] == "0"]
    told_at = [moment(r.object["metadata"]["deletionTimestamp"]) for r in old
               if r.object["metadata"].get("deletionTimestamp")]
    if old[-1].event != "DELETED" or old[-1].time < told_at[0] + 1:
        raise AssertionError(f"forced {old[-1].time - told_at[0]} s after its grace had passed")
    if any(r.version < old[-1].version for r in last if r not in old):
        raise AssertionError("the new one came before the old one was gone")


# --- budgets ---

def backs_off_and_gives_up(scene):
    scene.create(jobs.env(life=[{"index": 1, "exit_after_ms": 1500, "exit": 3}],
                          run_policy={"backoffLimit": 2}))
    job = scene.until("the second restart", lambda: (
        status_of(scene.job()).get("attempt") == 2 and scene.job()))
    expect("restarts", restarts(job), {"failure": 2})
    retry = moment(status_of(job)["nextRetryTime"])
    expect("back-off", retry - moment(status_of(job)["attemptStartTime"]), 10.0)
    job = scene.reach("Running", 2)
    expect("nextRetryTime", status_of(job).get("nextRetryTime"), None)
    made = [moment(pod["metadata"]["creationTimestamp"]) for pod in scene.pods().values()]
    if not retry <= min(made) <= retry + 5:
        raise AssertionError(f"made {min(made) - retry} s after nextRetryTime")
    job = scene.reach("Failed", 2)
    expect("restarts", restarts(job), {"failure": 2})
    expect_part("conditions", conditions(job), {"Failed": "True BackoffLimitExceeded",
                                                "Restarting": "False Running"})
    expect("message", words_of(job, "Failed"),
           "failed after 2 restarts (backoffLimit 2): worker-1 exit=3 Error")
    expect("phases", scene.phases(), ["Queued", "Running", "Restarting", "Running", "Restarting",
                                      "Running", "Failed"])
    scene.kubectl("wait", "--for=jsonpath={.status.completionTime}", "--timeout=10s", "tj/a")
    scene.expect_events("Started", "Running", "Restarting", "Running", "Restarting", "Running",
                        "BackoffLimitExceeded")


def other_causes_spend_nothing(scene):
    """Three preemptions with backoffLimit 0; each but the first waits longer, like failures."""
    scene.create(jobs.mpi(run_policy={"backoffLimit": 0}))
    scene.reach("Running", 0)
    scene.end("a-worker-0", 143, disruption="PreemptionByScheduler")
    scene.reach("Running", 1)
    scene.end("a-worker-1", 143, disruption="DeletionByTaintManager")
    job = scene.reach("Restarting", 2)
    expect("restarts", restarts(job), {"preemption": 1, "node": 1})
    expect("back-off", moment(status_of(job)["nextRetryTime"])
           - moment(status_of(job)["attemptStartTime"]), 10.0)
    scene.run_policy("a", suspend=True)
    expect("nextRetryTime", status_of(scene.reach("Suspended")).get("nextRetryTime"), None)
    scene.run_policy("a", suspend=False)
    job = scene.reach("Running", 3)  # a resumed job waits for nothing
    expect("restarts", restarts(job), {"preemption": 1, "node": 1})
    scene.end("a-worker-1", 1)
    expect_part("conditions", conditions(scene.reach("Failed")),
                {"Failed": "True BackoffLimitExceeded"})


def rule(action, **what):
    return {"action": action, **what}


def failure_rules(rules, end, outcome, scene):
    scene.create(jobs.mpi(failurePolicy={"rules": rules}, run_policy={"backoffLimit": 1}))
    scene.reach("Running", 0)
    scene.end("a-worker-1", **end)
    if isinstance(outcome, str):
        job = scene.reach("Failed")
        expect("Failed", conditions(job)["Failed"], f"True {outcome}")
        expect("restarts", restarts(job), {})
    else:
        expect("restarts", restarts(scene.reach("Running", 1)), outcome)


def ignored_limit(scene):
    scene.create(jobs.mpi(run_policy={"backoffLimit": 0}, failurePolicy={"rules": [
        rule("RestartIgnoringBackoffLimit", onReasons=["OOMKilled"])]}))
    scene.reach("Running", 0)
    scene.end("a-worker-1", 137, "OOMKilled")
    expect("restarts", restarts(scene.reach("Running", 1)), {"preemption": 1})
    scene.end("a-worker-1", 137)
    expect_part("conditions", conditions(scene.reach("Failed", 1)),
                {"Failed": "True BackoffLimitExceeded"})


def ends(index, cause, last=None, **end):
    return functools.partial(ends_and_restarts, index, end, cause, last or {})


def rules(*given, outcome, **end):
    return functools.partial(failure_rules, list(given), end, outcome)


OOM = {"code": 137, "reason": "OOMKilled"}
CASES = {
    "backs-off": backs_off_and_gives_up,
    "stuck": stuck_in_termination,
    "cause-peer-node": peer_lost_with_its_node,
    "cause-device": device_at_fault,
    "cause-oom": ends(1, "failure", {"reason": "OOMKilled", "exitCode": 137}, **OOM),
    "cause-code": ends(0, "failure", {"reason": "NotAWord", "exitCode": 70}, code=70,
                       message=jobs.said(70, "NotAWord")),
    "cause-serving-pod-ends": ends(1, "failure", {"exitCode": 0, "reason": "Completed"}, code=0),
    "cause-preempted": ends(1, "preemption", {"reason": "PreemptionByScheduler", "exitCode": 143},
                            code=143, disruption="PreemptionByScheduler"),
    "cause-evicted": ends(0, "preemption", {"reason": "EvictionByEvictionAPI"}, code=143,
                          disruption="EvictionByEvictionAPI"),
    "cause-tainted": ends(1, "node", {"reason": "DeletionByTaintManager"}, code=None,
                          disruption="DeletionByTaintManager"),
    "cause-collected": ends(1, "node", {"reason": "DeletionByPodGC"}, code=137,
                            disruption="DeletionByPodGC"),
    "cause-kubelet": ends(1, "node", {"reason": "TerminationByKubelet"}, code=137,
                          disruption="TerminationByKubelet"),
    "cause-no-status": ends(1, "node", {"reason": "Evicted", "message": "low on memory"},
                            code=None, status={"reason": "Evicted", "message": "low on memory"}),
    "cause-startup": ends(0, "startup", {"exitCode": 69, "reason": "PeersMissing"}, code=69,
                          message=jobs.said(69, "PeersMissing")),
    "cause-flags": functools.partial(ends_and_fails, 2, "Usage"),
    "cause-input": functools.partial(ends_and_fails, 65, "BadInput"),
    "cause-not-finite": functools.partial(ends_and_fails, 76, "NotFinite"),
    "cause-peer-found": peer_lost_and_then_its_cause,
    "cause-peer-unknown": functools.partial(peer_lost_and_no_cause, {
        "code": 71, "message": jobs.said(71, "PeerLost")}),
    "cause-aborted": functools.partial(peer_lost_and_no_cause, {
        "code": 75, "message": jobs.said(75, "Saved")}),
    "cause-first-of-many": first_cause_of_an_avalanche,
    "cause-deleted-0": functools.partial(pod_is_deleted, 0, {}),
    "cause-deleted-1": functools.partial(pod_is_deleted, 1, {}),
    "cause-vanished": functools.partial(pod_is_deleted, 1, {"gracePeriodSeconds": 0}),
    "cause-drained": drained_pod_saves,
    "cause-foreign-code": foreign_code_restarts,
    "cause-init-container": init_container_fails,
    "codes-of-a-foreign-image": any_code_of_a_foreign_image,
    "deleted-while-queued": deleted_before_its_gang_was_complete,
    "budgets-apart": other_causes_spend_nothing,
    "rule-fail": rules(rule("Fail", onExitCodes=[3]), code=3, outcome="FailurePolicy"),
    "rule-other-code": rules(rule("Fail", onExitCodes=[3]), code=4, outcome={"failure": 1}),
    "rule-restart": rules(rule("Restart", onExitCodes=[65]), code=65, outcome={"failure": 1},
                          message=jobs.said(65, "BadInput", 1)),
    "rule-reason": rules(rule("Fail", onReasons=["Evicted", "OOMKilled"]), outcome="FailurePolicy",
                         **OOM),
    "rule-disruption": rules(rule("Fail", onReasons=["PreemptionByScheduler"]), code=143,
                             disruption="PreemptionByScheduler", outcome="FailurePolicy"),
    "rule-role": rules(rule("Fail", onRoles=["Worker"]), code=1, outcome="FailurePolicy"),
    "rule-both": rules(rule("Fail", onExitCodes=[137], onReasons=["Evicted"]), **OOM,
                       outcome={"failure": 1}),
    "rule-first": rules(rule("RestartIgnoringBackoffLimit", onExitCodes=[7]),
                        rule("Fail", onExitCodes=[7]), code=7, outcome={"preemption": 1}),
    "rule-ignores-limit": ignored_limit,
}
