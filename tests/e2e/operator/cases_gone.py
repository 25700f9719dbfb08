"""Jobs that are deleted, at once followed by others of their name, and namespaces that end."""
import functools
import time

import jobs
from harness import conditions, expect, h, restarts, status_of


def all_collected(scene, job="a"):
    scene.until(f"the collection of {job}", lambda: not scene.children(job))


def deleted_while_running(policy, scene):
    scene.create(jobs.mpi(life=[{"stop_ms": 300}]))
    scene.reach("Running")
    expect("children", {kind for kind, _ in scene.children()},
           {"Pod", "Service", "Secret", "ConfigMap"})
    scene.delete("TrainingJob", "a", policy)
    scene.gone("TrainingJob", "a")
    all_collected(scene)
    scene.expect_events("Started", "Running")


def deleted_while_queued(scene):
    scene.create(jobs.mpi(life=[{"index": 1, "unschedulable": "0/4 nodes are available"}]))
    scene.reach_condition("Ready", "False", "Unschedulable")
    scene.delete("TrainingJob", "a")
    all_collected(scene)


def deleted_while_restarting(scene):
    """Its old gang is still leaving."""
    scene.create(jobs.mpi(life=[{"attempt": 0, "index": 0, "stop_ms": 1500}]))
    scene.reach("Running", 0)
    scene.end("a-worker-1", 1)
    scene.reach("Restarting", 1)
    scene.delete("TrainingJob", "a")
    all_collected(scene)
    expect("attempts", {r.object["metadata"]["labels"]["coxswain.dev/attempt"]
                        for r in scene.revisions("Pod")}, {"0"})


def orphaned(scene):
    """Whoever asks for it keeps the pods; they are nobody's then."""
    scene.create(jobs.mpi())
    scene.reach("Running")
    uids = {name: pod["metadata"]["uid"] for name, pod in scene.pods().items()}
    scene.delete("TrainingJob", "a", "Orphan")
    scene.gone("TrainingJob", "a")
    scene.until("orphans", lambda: not scene.children())
    time.sleep(1)
    left = {name: pod["metadata"] for name, pod in scene.objects("Pod").items()}
    expect("pods", {name: meta["uid"] for name, meta in left.items()}, uids)
    expect("told to go", [m for m in left.values() if m.get("deletionTimestamp")], [])


def made_again_at_once(scene):
    """Twice the same name, while pods and objects of the one before are on their way out."""
    uids = []
    for round_number in range(3):
        uids.append(scene.create(jobs.mpi(workers=2, life=[{"stop_ms": 700}]))["metadata"]["uid"])

        def runs(uid=uids[-1]):
            job = scene.job()
            return job and job["metadata"]["uid"] == uid and status_of(job).get(
                "phase") == "Running"
        scene.until(f"job {round_number} running", runs)
        if round_number < 2:
            scene.delete("TrainingJob", "a")
    owners = {h.job_uid(item) for (kind, _), item in scene.objects().items()
              if kind in h.CHILD_KINDS and h.job_uid(item)}
    expect("owners", owners, {uids[-1]})
    for revision in scene.revisions("TrainingJob", "a"):
        expect("ResourcesRejected", conditions(revision.object).get("ResourcesRejected"), None)
    job = scene.job()
    expect("again", (status_of(job)["attempt"], restarts(job)), (0, {}))


def namespace_ends(scene):
    """Everything goes, and nobody fights it."""
    scene.create(jobs.mpi())
    scene.create(jobs.mpi("b", life=[{"index": 1, "unschedulable": "0/4 nodes are available"}]))
    scene.reach("Running")
    scene.reach_condition("Ready", "False", "Unschedulable", job="b")
    scene.call("DELETE", f"/api/v1/namespaces/{scene.namespace}")
    for job in ("a", "b"):
        scene.gone("TrainingJob", job)
        all_collected(scene, job)
    lines = len(scene.bed.log(scene.namespace))
    time.sleep(1)
    expect("lines logged since", len(scene.bed.log(scene.namespace)) - lines, 0)
    if lines > 20:
        raise AssertionError(f"{lines} lines logged")


CASES = {
    "made-again-at-once": made_again_at_once,
    "deleted-background": functools.partial(deleted_while_running, "Background"),
    "deleted-foreground": functools.partial(deleted_while_running, "Foreground"),
    "deleted-queued": deleted_while_queued,
    "deleted-restarting": deleted_while_restarting,
    "deleted-orphaning": orphaned,
    "namespace-ends": namespace_ends,
}
