"""Other operators on the same cluster, as their projects publish them."""
import base64
import contextlib
import json
import os
import subprocess

from node_bed import CACHE, CLUSTER, Failed, expect, mlp, run

from kube_access import apply_crds

JOBSET = "jobset.sigs.k8s.io"  # what their labels and annotations begin with
WEBHOOK_PORT = 29443
# Their pods find each other by the names that JobSet's own Service gives them, and stay while ours come and go.
MEETS = """
for pod in theirs-workers-0-0.theirs theirs-workers-1-0.theirs; do
  until getent hosts $pod >/dev/null; do sleep 0.2; done
done
until [ -e /tmp/enough ]; do sleep 0.2; done
"""


class JobSets:
    """Resource. JobSet's controller with its webhooks, beside the cluster, as cluster-admin."""

    def __init__(self, bed):
        self.directory = bed.directory / "jobset"
        address = run(CLUSTER / "node.sh", "address", bed.directory).strip()
        if subprocess.run([CLUSTER / "build.sh", "jobset"], check=False).returncode:
            raise Failed("JobSet's controller can't be built here")
        run("bash", "-c", """
            DIR=$1; . "$2/lib.sh"; umask 077; mkdir -p "$DIR/jobset"
            cert jobset /CN=jobset serverAuth "IP:$3"
            for kind in crt key; do cp "$DIR/pki/jobset.$kind" "$DIR/jobset/tls.$kind"; done""",
            "bash", bed.directory, CLUSTER, address)
        self.url = f"https://{address}:{WEBHOOK_PORT}"
        self.authority = base64.b64encode((bed.directory / "pki/ca.crt").read_bytes()).decode()
        apply_crds(CACHE / "bin/jobsets.yaml")
        (self.directory / "config.json").write_text(json.dumps({
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1", "kind": "Configuration",
            "leaderElection": {"leaderElect": False}, "internalCertManagement": {"enable": False},
            "webhook": {"host": address, "port": WEBHOOK_PORT, "certDir": str(self.directory)},
            "metrics": {"bindAddress": "0"}, "health": {"healthProbeBindAddress": f"{address}:{WEBHOOK_PORT + 1}"}}))
        self.log = self.directory / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", CACHE / "bin/jobset", "--config", self.directory / "config.json"],
                stdout=log, stderr=log, env={**os.environ, "KUBECONFIG": str(bed.kubeconfig)})
        for kind, verb in (("Mutating", "mutate"), ("Validating", "validate")):
            run("kubectl", "apply", "-f", "-", text=json.dumps(self.webhooks(kind, verb)))

    def webhooks(self, kind, verb):
        """As their manifests have them: all JobSets, and pods that carry their label."""
        def webhook(name, path, group, version, resource, **more):
            operations = ["CREATE"] if verb == "mutate" or resource == "pods" else ["CREATE", "UPDATE"]
            return {"name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
                    "clientConfig": {"url": f"{self.url}/{verb}-{path}", "caBundle": self.authority},
                    "rules": [{"apiGroups": [group], "apiVersions": [version], "operations": operations,
                               "resources": [resource]}], **more}
        marked = {"matchExpressions": [{"key": f"{JOBSET}/jobset-name", "operator": "Exists"}]}
        return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": f"{kind}WebhookConfiguration",
                "metadata": {"name": "jobset"}, "webhooks": [
                    webhook(f"{verb[0]}jobset.kb.io", "jobset-x-k8s-io-v1alpha2-jobset", "jobset.x-k8s.io", "v1alpha2",
                            "jobsets"),
                    webhook(f"{verb[0]}pod.kb.io", "-v1-pod", "", "v1", "pods", objectSelector=marked)]}

    def close(self):
        for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
            run("kubectl", "delete", kind, "jobset", check=False)
        run("kubectl", "delete", "--wait=false", "-f", CACHE / "bin/jobsets.yaml", check=False)
        self.process.terminate()
        self.process.wait(30)


def jobset(name):
    """Two jobs of one pod each."""
    restricted = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    container = {"name": "main", "image": "localhost/base:1", "command": ["bash", "-c", MEETS],
                 "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
    pod = {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "securityContext": restricted,
                    "containers": [container]}}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name},
            "spec": {"replicatedJobs": [{"name": "workers", "replicas": 2, "template": {
                "spec": {"parallelism": 1, "completions": 1, "backoffLimit": 0, "template": pod}}}]}}


def items(scene, kinds):
    return json.loads(scene.kubectl("get", kinds, "-o", "json"))["items"]


def marks(item):
    """Names of labels and annotations."""
    about = item["metadata"]
    return [*about.get("labels", {}), *about.get("annotations", {})]


def is_theirs(item):
    return any(JOBSET in mark for mark in marks(item))


def is_ours(item):
    return any("coxswain" in mark for mark in marks(item))


def side(scene, whose):
    """uid -> kind and name of what one operator made; `Endpoints` come of themselves."""
    return {item["metadata"]["uid"]: f"{item['kind']}/{item['metadata']['name']}"
            for item in items(scene, "pods,services,jobs,secrets,configmaps") if whose(item)}


def beside_jobset(scene):
    """A job of each in one namespace: neither changes what the other made, whatever happens to its own."""
    with contextlib.closing(JobSets(scene.bed)) as others:
        try:
            both(scene)
            same_name(scene)
        except Failed as failure:
            raise Failed(f"{failure}\nJobSet's controller: {others.log.read_text()[-1500:]}") from None


def both(scene):
    # The webhooks answer once the controller has begun.
    scene.until("JobSet's webhooks", lambda: "created" in scene.kubectl(
        "apply", "-f", "-", text=json.dumps(jobset("theirs")), check=False), 60)
    scene.until("pods of the JobSet that run", lambda: [
        pod["status"]["phase"] for pod in items(scene, "pods") if is_theirs(pod)] == ["Running"] * 2, 60)
    theirs = side(scene, is_theirs)
    scene.start(mlp("ours", 40))
    scene.trains("ours", step=300)
    mixed = [item["metadata"]["name"] for item in items(scene, "pods,services,jobs,secrets,configmaps")
             if is_theirs(item) and is_ours(item)]
    expect("objects that both take for their own", mixed, [])
    scene.kubectl("delete", "pod", "ours-worker-1", "--wait=false")
    scene.trains("ours", attempt=1)
    expect("what JobSet made, after our restart", side(scene, is_theirs), theirs)
    ours = side(scene, is_ours)
    for pod in [item["metadata"]["name"] for item in items(scene, "pods") if is_theirs(item)]:
        scene.kubectl("exec", pod, "--", "touch", "/tmp/enough")
    scene.until("end of the JobSet", lambda: "Completed" in scene.kubectl(
        "get", "jobset", "theirs", "-o", "jsonpath={.status.conditions[?(@.status=='True')].type}"), 60)
    expect("what we made, after the JobSet's end", side(scene, is_ours), ours)
    scene.kubectl("delete", "jobset", "theirs")
    restarts = scene.reach("ours", "Succeeded", 120)["restarts"]
    expect("restarts", (restarts["preemption"], restarts["total"]), (1, 1))
    scene.kubectl("delete", "tj", "ours")


def same_name(scene):
    """Both want the Service of the job's name: who comes second says so, and takes nothing."""
    scene.kubectl("apply", "-f", "-", text=json.dumps(jobset("theirs")))
    scene.until("Service of the JobSet", lambda: items(scene, "services"), 30)
    service = items(scene, "services")
    scene.start(mlp("theirs", 1))
    scene.until("word of the Service", lambda: "Service theirs exists and is not this job's" in scene.condition(
        "theirs", "ResourcesRejected").get("message", ""), 30)
    expect("the Service", [item["metadata"]["uid"] for item in items(scene, "services")],
           [item["metadata"]["uid"] for item in service])
    scene.kubectl("delete", "jobset", "theirs")
    scene.reach("theirs", "Succeeded", 120)


QUICK = []
ALL = [beside_jobset]
