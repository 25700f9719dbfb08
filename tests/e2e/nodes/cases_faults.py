"""Faults in mid-training: each ends in the weights of the undisturbed run, within a stated time, with
a status that names the first cause."""
import json
import re
import time

from node_bed import CLUSTER, SYSTEM, Failed, expect, expect_in, mlp, run

EPOCHS = 10
LONG = 150  # for faults that take a minute to be one
ORACLES = {}


def undisturbed(scene, epochs):
    """The weights that this job ends with when nothing happens; trained once."""
    if epochs not in ORACLES:
        scene.start(mlp("calm", epochs))
        scene.reach("calm", "Succeeded", 300)
        ORACLES[epochs] = scene.weights("calm")
        expect("steps", ORACLES[epochs][0], epochs * 469)
    return ORACLES[epochs]


def in_training(scene, epochs=EPOCHS, **options):
    scene.start(mlp("job", epochs, **options))
    scene.trains("job", step=300)
    scene.saved("job")


def ends_as_undisturbed(scene, epochs=EPOCHS, **restarts):
    status = scene.reach("job", "Succeeded", 300)
    counted = {key: value for key, value in status.get("restarts", {}).items()
               if value and key != "total"}
    expect("restarts", counted, restarts)
    expect("weights", scene.weights("job"), undisturbed(scene, epochs))
    return status


def again_after(scene, begin, attempt=1, seconds=60):
    """Seconds from `begin` to the first step of the next attempt."""
    scene.trains("job", step=1, attempt=attempt, seconds=seconds)
    return time.monotonic() - begin


def worker_deleted(scene):
    """The operator counts a preemption: nobody asked it."""
    in_training(scene)
    begin = time.monotonic()
    scene.kubectl("delete", "pod", "job-worker-1", "--wait=false")
    again = again_after(scene, begin)
    failure = ends_as_undisturbed(scene, preemption=1)["lastFailure"]
    expect("cause", (failure["pod"], failure["reason"]), ("job-worker-1", "PodDeleted"))
    return {"seconds to training again": again}


def server_deleted(scene):
    """Its copy is with the other one: the pod alone is made anew, and nothing is lost."""
    in_training(scene, strategy="ParameterServer")
    scene.reach("job", "Running")
    scene.kubectl("delete", "pod", "job-server-1", "--wait=false")
    status = ends_as_undisturbed(scene, preemption=1)
    failure = status["lastFailure"]
    expect("cause", (failure["pod"], failure["reason"]), ("job-server-1", "PodDeleted"))
    expect("attempt", status.get("attempt", 0), 0)


def rank_killed(scene):
    in_training(scene, launcher="Env")
    begin = time.monotonic()
    scene.execute("job-worker-1", "sh", "-c", "kill -9 $(pgrep -f '^coxswain-trainer train')")
    again = again_after(scene, begin)
    failure = ends_as_undisturbed(scene, failure=1)["lastFailure"]
    expect("cause", (failure["pod"], failure["rank"], failure["exitCode"]),
           ("job-worker-1", 1, 137))
    return {"seconds to training again": again}


def rank_killed_under_mpirun(scene):
    in_training(scene)
    scene.execute("job-worker-1", "sh", "-c", "kill -9 $(pgrep -f '^coxswain-trainer train')")
    failure = ends_as_undisturbed(scene, failure=1)["lastFailure"]
    expect("cause", (failure["pod"], failure["rank"], failure["exitCode"]),
           ("job-worker-1", 1, 137))


def first_process_killed(scene):
    """Of worker 0: mpirun and its ranks go with it."""
    in_training(scene)
    node = scene.pods("job")["job-worker-0"]["spec"]["nodeName"]
    begin = time.monotonic()
    scene.bed.node("exec", node, "sh", "-c",
                   "kill -9 $(pgrep -f '^coxswain-trainer worker' | head -1)", check=False)
    again = again_after(scene, begin)
    ends_as_undisturbed(scene, failure=1)
    return {"seconds to training again": again}


def out_of_memory(scene):
    """The kernel kills the greatest process of a full container, which is its rank: that shows on its
    own pod."""
    limit = {"requests": {"cpu": "200m", "memory": "200Mi"},
             "limits": {"cpu": "1", "memory": "400Mi"}}
    in_training(scene, resources=limit)
    scene.execute("job-worker-1", "dd", "if=/dev/zero", "of=/dev/shm/much", "bs=1M", "count=600",
                  check=False)
    status = ends_as_undisturbed(scene, failure=1)
    failure = status["lastFailure"]
    expect("cause", (failure["pod"], failure["reason"]), ("job-worker-1", "OOMKilled"))


def node_drained(scene):
    """SIGTERM to one pod: all ranks save at one step, and the next gang goes on from it. No other
    save is due in this job."""
    scene.start(mlp("job", EPOCHS, every=1_000_000))
    before = scene.trains("job", step=300)["step"]
    node = scene.pods("job")["job-worker-1"]["spec"]["nodeName"]
    begin = time.monotonic()
    try:
        scene.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force",
                      "--pod-selector", "coxswain.dev/job=job", "--timeout", "60s")
        again = again_after(scene, begin)
    finally:
        run("kubectl", "uncordon", node)
    ends_as_undisturbed(scene, preemption=1)
    resumed = re.search(r"resumed after step (\d+)", scene.kubectl("logs", "job-worker-0"))
    if not resumed or int(resumed[1]) < before:
        raise Failed(f"drained at step {before} or later, and {resumed and resumed[0]}")
    return {"seconds to training again": again}


def device_at_fault(scene):
    """A node that says 72 in our words gets no pod of the next attempt; the scheduler finds the other one."""
    said = json.dumps({"exitCode": 72, "reason": "Device", "message": "[cuda] an Xid"})
    program = f"""[ $COXSWAIN_ATTEMPT = 1 ] || [ $RANK = 0 ] || {{ echo '{said}' >/dev/termination-log; exit 72; }}
        [ $COXSWAIN_ATTEMPT = 1 ] || sleep 60"""
    container = {"name": "trainer", "image": "localhost/coxswain/trainer-cpu:0.1.0", "command": ["sh", "-c", program],
                 "resources": {"requests": {"cpu": "50m", "memory": "50Mi"}}}
    job = mlp("job", launcher="Env", runPolicy={"backoffLimit": 0, "cleanPodPolicy": "None"})
    for key in ("training", "checkpoint"):
        job["spec"].pop(key)
    job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"] = [container]
    scene.start(job)
    status = scene.reach("job", "Succeeded", 90)
    expect("restarts", status["restarts"]["node"], 1)
    expect("avoided", status["avoidNodes"], [status["lastFailure"]["node"]])
    for name, pod in scene.pods("job").items():
        expect(f"{name} elsewhere", pod["spec"]["nodeName"] in status["avoidNodes"], False)


def operator_restarted(scene):
    in_training(scene)
    run("kubectl", "-n", SYSTEM, "delete", "pod", scene.bed.operator_pod()["metadata"]["name"],
        "--grace-period", "0", "--force")
    ends_as_undisturbed(scene)


def api_server_restarted(scene):
    in_training(scene)
    run(CLUSTER / "down.sh", scene.bed.directory, "apiserver")
    time.sleep(3)
    run(CLUSTER / "up.sh", scene.bed.directory)
    ends_as_undisturbed(scene)


def network_cut(scene):
    """Two pods that no longer hear each other: noticed by the heartbeat after 10 s."""
    in_training(scene)
    addresses = [pod["status"]["podIP"] for pod in scene.pods("job").values()]
    begin = time.monotonic()
    run(CLUSTER / "network.sh", "cut", scene.bed.directory, *addresses)
    try:
        again = again_after(scene, begin, seconds=90)
    finally:
        run(CLUSTER / "network.sh", "heal", scene.bed.directory)
    ends_as_undisturbed(scene, failure=1)
    return {"seconds to training again": again}


def node_lost(scene):
    """A power cut of the node of worker 1. The rest of the gang waits for nobody: the pods of the lost
    node are given up, and the job goes on where there is room."""
    in_training(scene, runPolicy={"stuckTerminationSeconds": 20,
                                  "terminationGracePeriodSeconds": 10})
    pods = scene.pods("job")
    operator_node = scene.bed.operator_pod()["spec"]["nodeName"]
    lost = next(pod["spec"]["nodeName"] for pod in pods.values()
                if pod["spec"]["nodeName"] != operator_node)
    begin = time.monotonic()
    scene.bed.node("kill", lost)
    try:
        again = again_after(scene, begin, seconds=180)
    finally:
        scene.bed.node("up", lost)
    status = ends_as_undisturbed(scene, node=1)
    expect_in("cause", json.dumps(status["lastFailure"]), lost)
    return {"seconds to training again": again}


def kubelet_stopped(scene):
    """On the node of worker 0, whose ranks go on for nobody, with the volume in their hands: the next
    gang has it, and they leave it alone."""
    in_training(scene, epochs=LONG, runPolicy={"stuckTerminationSeconds": 10,
                                               "terminationGracePeriodSeconds": 10})
    node = scene.pods("job")["job-worker-0"]["spec"]["nodeName"]
    begin = time.monotonic()
    scene.bed.node("stop", node, "kubelet")
    try:
        again = again_after(scene, begin, seconds=180)
    finally:
        scene.bed.node("start", node, "kubelet")
    ends_as_undisturbed(scene, LONG, node=1)
    return {"seconds to training again": again}


def volume_full(scene):
    """Three saves in a row fail, and the job ends and says so; what was saved before is whole."""
    job = mlp("job", EPOCHS, every=100, checkpoint={"everySteps": 100, "keep": 50},
              runPolicy={"backoffLimit": 0})
    scene.start(job, size="6M")
    status = scene.reach("job", "Failed", 120)
    expect("exit code", status["lastFailure"]["exitCode"], 74)
    expect_in("cause", status["lastFailure"]["message"], "No space left on device", "/checkpoints")
    # What was complete before is there, and opens.
    if scene.weights("job")[0] < 100:
        raise Failed("nothing was saved before the volume was full")


QUICK = [worker_deleted, server_deleted, rank_killed, node_drained, out_of_memory]
ALL = [*QUICK, device_at_fault, rank_killed_under_mpirun, first_process_killed, operator_restarted,
       api_server_restarted, network_cut, volume_full, node_lost, kubelet_stopped]
