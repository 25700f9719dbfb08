"""What can't work ends as its policy says, and the status says which, in words to act on."""
import json
import time

from node_bed import CLUSTER, expect, expect_in, mlp, run


def template(job, container=None, **spec):
    """Adds to the job's pod template."""
    pod = job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]
    pod["containers"][0].update(container or {})
    pod.update(spec)
    return job


def waits_for(scene, kind, reason, *words, seconds=20):
    condition = scene.until(
        f"{kind} {reason}", lambda: next(
            (c for c in scene.status("job").get("conditions", [])
             if c["type"] == kind and c["reason"] == reason), None), seconds)
    expect_in(kind, condition["message"], *words)


def missing_volume(scene):
    job = mlp("job")
    job["spec"]["volumes"]["checkpoints"]["persistentVolumeClaim"]["claimName"] = "nothing"
    scene.start(job)
    waits_for(scene, "Ready", "Unschedulable", 'persistentvolumeclaim "nothing" not found')


def missing_image(scene):
    scene.start(template(mlp("job", runPolicy={"startupDeadlineSeconds": 15}),
                         {"image": "localhost/none:1"}))
    scene.reach("job", "Failed", 60)
    failed = scene.condition("job", "Failed")
    expect("reason", failed["reason"], "StartupDeadlineExceeded")
    expect_in("message", failed["message"], "localhost/none:1", "worker-0", "worker-1")


def quota(scene):
    scene.kubectl("create", "quota", "small", "--hard", "pods=1")
    time.sleep(1)  # the controller has to see it
    scene.start(mlp("job"))
    waits_for(scene, "ResourcesRejected", "Forbidden", "exceeded quota: small", "pods=1")
    scene.kubectl("delete", "quota", "small")
    scene.reach("job", "Running", 40)


def limit_range(scene):
    scene.kubectl("apply", "-f", "-", text=json.dumps(
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"},
         "spec": {"limits": [{"type": "Container", "max": {"cpu": "500m"}}]}}))
    scene.start(mlp("job"))
    waits_for(scene, "ResourcesRejected", "Forbidden",
              "maximum cpu usage per Container is 500m, but limit is 1")


def pod_security(scene):
    scene.start(template(mlp("job"), hostNetwork=True))
    waits_for(scene, "Invalid", "Invalid", "hostNetwork: true is outside Pod Security")
    expect("pods", scene.pods("job"), {})


def unschedulable(scene):
    scene.start(template(mlp("job"), nodeSelector={"disk": "fast"}))
    waits_for(scene, "Ready", "Unschedulable", "0/2 nodes are available", "selector")


def silent_host(scene):
    """Worker 1 is not heard of: its host is named, and the next attempt starts, at no cost."""
    job = mlp("job", epochs=1, runPolicy={"startupDeadlineSeconds": 20, "backoffLimit": 0,
                                          "terminationGracePeriodSeconds": 5})
    scene.start(job)
    address = scene.until("address of worker 1", lambda: scene.pods("job").get(
        "job-worker-1", {}).get("status", {}).get("podIP"), 20)
    run(CLUSTER / "network.sh", "cut", scene.bed.directory, address)
    failure = scene.until("last failure", lambda: scene.status("job").get("lastFailure"), 60)
    run(CLUSTER / "network.sh", "heal", scene.bed.directory)
    expect("exit code", failure["exitCode"], 69)
    expect_in("message", failure["message"], "did not answer over SSH",
              f"job-worker-1.job.{scene.namespace}.svc")
    status = scene.reach("job", "Succeeded", 90)
    expect("restarts", status["restarts"]["startup"], 1)


def tampered_keys(scene, change, *words):
    """Keys that don't fit: no node takes the pods until they are in place. One start that fails is
    forgiven, the next spends the job's retries. A launcher gives up after three quarters of the
    deadline; in the rest, 6 s, a busy node has to start its container."""
    nodes = run("kubectl", "get", "nodes", "-o", "name").split()
    run("kubectl", "cordon", *nodes)
    try:
        scene.start(mlp("job", runPolicy={"startupDeadlineSeconds": 24, "backoffLimit": 0}))
        secrets = scene.until("secret", lambda: [
            item for item in json.loads(scene.kubectl("get", "secrets", "-o", "json"))["items"]
            if item["metadata"]["name"].startswith("job-keys-")], 20)
        scene.until("pods", lambda: len(scene.pods("job")) == 2, 20)
        secret = secrets[0]
        change(secret["data"])
        scene.kubectl("replace", "--force", "-f", "-", text=json.dumps(secret))
    finally:
        run("kubectl", "uncordon", *nodes)
    failure = scene.until("last failure", lambda: scene.status("job").get("lastFailure"), 120)
    expect("exit code", failure.get("exitCode"), 69)
    expect_in("message", failure["message"], *words)
    status = scene.reach("job", "Failed", 90)
    failed = scene.condition("job", "Failed")
    expect("reason", failed["reason"], "BackoffLimitExceeded")
    expect_in("message", failed["message"], *words)
    expect("restarts", status["restarts"], {**status["restarts"], "startup": 1, "failure": 0})


def wrong_host_key(scene):
    tampered_keys(scene, lambda data: data.update(known_hosts=""), "Host key verification failed")


def ssh_refused(scene):
    tampered_keys(scene, lambda data: data.update(authorized_keys=""), "Permission denied")


QUICK = [wrong_host_key]
ALL = [missing_volume, missing_image, quota, limit_range, pod_security, unschedulable, silent_host,
       wrong_host_key, ssh_refused]
