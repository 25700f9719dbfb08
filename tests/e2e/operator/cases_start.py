"""How jobs begin and end when nothing goes wrong, and what is made for them."""
import functools
import http.server
import json
import re
import subprocess
import threading

import jobs
from harness import ROOT, conditions, expect, expect_in, expect_part, moment, status_of, told

ENDED_WELL = {"Queued": "False Scheduled", "Ready": "False Succeeded",
              "Running": "False Succeeded", "Succeeded": "True Succeeded"}
PROGRESS = {"epoch": 3, "epochs": 3, "step": 30, "steps": 30, "samplesPerSecond": 1234.5,
            "loss": 0.25, "accuracy": 0.75, "worldSize": 2, "time": "2026-01-01T00:00:00Z"}
CHECKPOINT = {"step": 30, "time": "2026-01-01T00:00:00Z", "path": "checkpoints/step-00000030.g1",
              "bytes": 4096}


def from_creation_to_success(scene):
    scene.create(jobs.mpi())
    job = scene.reach("Running")
    expect("running", told(job), {
        "phase": "Running", "attempt": 0, "restarts": {},
        "conditions": {"Queued": "False Scheduled", "Ready": "True AllReady",
                       "Running": "True AllReady"}})
    expect_part("running", status_of(job), {
        "attempt": 0, "restarts": {"total": 0, "failure": 0, "preemption": 0, "node": 0,
                                   "startup": 0, "resize": 0},
        "workers": 2, "image": "coxswain/trainer-cpu", "observedGeneration": 1, "ready": "2/2",
        "selector": "coxswain.dev/job=a,training.kubeflow.org/replica-type=worker",
        "replicaStatuses": {"Worker": {"desired": 2, "ready": 2, "active": 2, "succeeded": 0,
                                       "failed": 0}}})
    expect("no completionTime yet", status_of(job).get("completionTime"), None)
    scene.end("a-worker-0", 0, message=json.dumps(
        {"exitCode": 0, "rank": 0, "progress": PROGRESS, "checkpoint": CHECKPOINT}))
    job = scene.reach("Succeeded")
    expect("succeeded", told(job), {"phase": "Succeeded", "attempt": 0, "restarts": {},
                                    "conditions": ENDED_WELL})
    expect_part("progress", status_of(job), {"progress": PROGRESS, "checkpoint": CHECKPOINT})
    scene.kubectl("wait", "--for=jsonpath={.status.completionTime}", "--timeout=10s", "tj/a")
    if not moment(status_of(job)["startTime"]) <= moment(status_of(job)["completionTime"]):
        raise AssertionError("completed before it started")
    scene.gone("Pod", "a-worker-1")
    expect("what stays", list(scene.pods()), ["a-worker-0"])
    expect("phases", scene.phases(), ["Queued", "Running", "Succeeded"])
    scene.expect_events("Started", "Running", "Succeeded")


class Rank0(http.server.BaseHTTPRequestHandler):
    """The endpoint of a rank that has done three epochs."""

    def do_GET(self):
        body = json.dumps({"progress": PROGRESS, "checkpoint": CHECKPOINT}).encode()
        self.send_response(200 if self.path == "/progress" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        pass


def rank_0_is_asked_for_progress(scene):
    address = "127.0.0.9"
    with http.server.ThreadingHTTPServer((address, 9400), Rank0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        scene.create(jobs.mpi(life=[{"index": 0, "ip": address}]))
        scene.reach("Running")
        scene.until("progress in the status", lambda: "progress" in status_of(scene.job()))
        expect_part("status", status_of(scene.job()), {
            "phase": "Running", "progress": PROGRESS, "checkpoint": CHECKPOINT})
        server.shutdown()


def every_rank_must_end_well(scene):
    """launcher Env: AllWorkers, and an end with 0 is no loss."""
    scene.create(jobs.env(workers=3))
    scene.reach("Running")
    scene.end("a-worker-1", 0)
    scene.until("its success in the status", lambda: status_of(scene.job()).get(
        "succeededRanks") == "1")
    # What a pod says of its past does not unmake it.
    scene.patch("a-worker-1/status", {"status": {"phase": "Failed"}}, "Pod")
    scene.end("a-worker-0", 0)
    scene.until("two successes", lambda: status_of(scene.job()).get("succeededRanks") == "0-1")
    expect("still", told(scene.job())["phase"], "Running")
    scene.end("a-worker-2", 0)
    job = scene.reach("Succeeded")
    expect("succeeded", told(job), {"phase": "Succeeded", "attempt": 0, "restarts": {},
                                    "conditions": ENDED_WELL})
    expect("ranks", status_of(job)["succeededRanks"], "0-2")
    scene.expect_events("Started", "Running", "Succeeded")


# --- what is made for a job is what `coxswain plan` prints ---

def planned(scene, manifest):
    """The objects that plan prints, by (kind, name)."""
    text = subprocess.run([scene.bed.coxswain, "plan", "-f", "-"], input=manifest, text=True,
                          capture_output=True, timeout=30, check=True).stdout
    text = scene.kubectl("create", "--dry-run=client", "--validate=false", "-o", "json", "-f", "-",
                         text=text)
    decoder, objects, at = json.JSONDecoder(), [], 0
    while at < len(text):
        item, at = decoder.raw_decode(text, at)
        objects += item.get("items", [item]) if item["kind"] == "List" else [item]
        at = len(text) - len(text[at:].lstrip())
    return objects


def compare_with_plan(scene, name, manifest):
    job = scene.reach("Running", job=name)
    uid = job["metadata"]["uid"]
    drawn = "-keys-" + 16 * "0"
    keys = job["status"].get("keysSecret", drawn)[-len(drawn):]
    objects = planned(scene, manifest)
    expect("kinds", sorted((o["kind"], o["metadata"]["name"].replace(drawn, keys))
                           for o in objects), scene.children(name))
    for item in objects:
        text = json.dumps(item).replace("00000000-0000-0000-0000-000000000000", uid)
        item = json.loads(text.replace(drawn, keys))
        item["metadata"].pop("creationTimestamp", None)
        item.pop("status", None)
        there = scene.now(item["kind"], item["metadata"]["name"])
        if item["kind"] == "Secret":
            planned_data, data = item.pop("data"), there["data"]
            expect("keys", sorted(data), sorted(planned_data))
            if not all(data.values()):
                raise AssertionError(f"an empty key: {sorted(data)}")
        expect_part(f"{item['kind']} {item['metadata']['name']}", there, item)


def in_namespace(scene, manifest):
    return manifest.replace("metadata: {name", f"metadata: {{namespace: {scene.namespace}, name")


def objects_are_as_planned(job, scene):
    manifest = json.dumps({**job, "metadata": {**job["metadata"], "namespace": scene.namespace}})
    scene.kubectl("apply", "-f", "-", text=manifest)
    compare_with_plan(scene, job["metadata"]["name"], manifest)


def examples(scene):
    """All at once, as they are, but those whose PodGroup is unknown here; the suspended one makes
    no pod."""
    files = {file.stem: file for file in sorted((ROOT / "examples").glob("*.yaml"))}
    for scheduler in ("coscheduling", "volcano"):
        del files[f"gang-{scheduler}"]
    manifests = {name: in_namespace(scene, file.read_text()) for name, file in files.items()}
    scene.kubectl("apply", "-f", "-", text="\n---\n".join(manifests.values()))
    scene.reach("Suspended", job="suspended")
    del manifests["suspended"]
    for name, manifest in manifests.items():
        compare_with_plan(scene, name, manifest)
    made = {pod["metadata"]["labels"]["coxswain.dev/job"] for pod in scene.objects("Pod").values()}
    expect("jobs with pods", made, set(manifests))
    hosts = [item["data"]["hostfile"] for item in scene.objects("ConfigMap").values()
             if "mlp-" in item["metadata"]["name"]]
    expect("hostfile", hosts, ["".join(
        f"mlp-worker-{i}.mlp.{scene.namespace}.svc slots=1\n" for i in range(2))])


def reads_like_a_dashboard(scene):
    scene.create(jobs.mpi())
    scene.reach("Running")
    scene.end("a-worker-1", 137, "OOMKilled")
    scene.reach("Running", 1)
    scene.end("a-worker-0", 0, message=json.dumps(
        {"exitCode": 0, "rank": 0, "progress": PROGRESS, "checkpoint": CHECKPOINT}))
    scene.reach("Succeeded")
    scene.until("the counts after the end", lambda: status_of(scene.job())["ready"] == "0/2")
    rows = [re.split(r" {2,}", line) for line in scene.kubectl("get", "tj").splitlines()]
    expect("header", rows[0], ["NAME", "PHASE", "WORKERS", "EPOCH", "ACCURACY", "IMAGES/S",
                               "CHECKPOINT", "RESTARTS", "AGE"])
    expect("row", rows[1][:-1], ["a", "Succeeded", "0/2", "3", "0.75", "1234", "30", "1"])
    wide = re.split(r" {2,}", scene.kubectl("get", "tj", "-o", "wide").splitlines()[1])
    expect("wide", wide[9:], ["Succeeded", "0.25", "30", "OOMKilled"])
    described = scene.kubectl("describe", "tj", "a")
    expect_in("kubectl describe", described, "Started", "Running", "Restarting", "Succeeded",
              "worker-1 exit=137 OOMKilled")


def two_names_that_begin_alike(scene):
    for name in ("a", "a-worker", "a-worker-0"):
        scene.create(jobs.mpi(name))
    for name in ("a", "a-worker", "a-worker-0"):
        scene.reach("Running", job=name)
        expect("its pods", list(scene.pods(name)), [f"{name}-worker-0", f"{name}-worker-1"])


def managed_by_another(scene):
    scene.create(jobs.mpi(run_policy={"managedBy": "example.org/other"}))
    scene.create(jobs.mpi("mine", run_policy={"managedBy": "coxswain.dev/operator"}))
    scene.reach("Running", job="mine")
    expect("status", scene.job().get("status"), None)
    expect("children", scene.children(), [])
    expect("events", scene.events(), [])


# --- suspending ---

def suspended_at_creation(scene):
    scene.create(jobs.mpi(run_policy={"suspend": True}))
    job = scene.reach("Suspended")
    expect("suspended", told(job), {"phase": "Suspended", "attempt": 0, "restarts": {},
                                    "conditions": {"Suspended": "True Suspended"}})
    # Every field is free.
    scene.patch("a", {"spec": {"replicaSpecs": {"Worker": {"replicas": 3}},
                               "image": "example.org/other:2"}})
    scene.until("the new generation", lambda: status_of(scene.job())["observedGeneration"] == 2)
    expect("children", scene.children(), [])
    scene.run_policy("a", suspend=False)
    job = scene.reach("Running")
    expect("resumed", told(job), {
        "phase": "Running", "attempt": 1, "restarts": {},
        "conditions": {"Suspended": "False Resumed", "Queued": "False Scheduled",
                       "Ready": "True AllReady", "Running": "True AllReady"}})
    expect("pods", scene.attempts(), {f"a-worker-{i}": "1" for i in range(3)})
    expect("image", scene.pods()["a-worker-0"]["spec"]["containers"][0]["image"],
           "example.org/other:2")
    scene.expect_events("Suspended", "Resumed", "Running")


def suspended_while_running(scene):
    life = [{"stop_ms": 500, "stop_exit": 75,
             "message": jobs.said(75, "Saved", checkpoint=CHECKPOINT)}]
    scene.create(jobs.mpi(life=life, run_policy={"terminationGracePeriodSeconds": 17}))
    first = status_of(scene.reach("Running"))["startTime"]
    scene.run_policy("a", suspend=True)
    job = scene.reach("Suspended")
    expect("suspended", conditions(job), {
        "Suspended": "True Suspended", "Queued": "False Scheduled", "Ready": "False Suspended",
        "Running": "False Suspended"})
    scene.until("no pods", lambda: not scene.pods())
    told_to_end = [r.object["metadata"]["deletionGracePeriodSeconds"]
                   for r in scene.revisions("Pod", "a-worker-0")
                   if r.event == "MODIFIED" and r.object["metadata"].get("deletionTimestamp")]
    expect("grace", told_to_end[:1], [17])
    expect("what stays", {kind for kind, _ in scene.children()}, {"Service", "Secret", "ConfigMap"})
    expect_part("status", status_of(scene.job()), {
        "attempt": 0, "image": "coxswain/trainer-cpu", "workers": 0,
        "restarts": {"failure": 0, "preemption": 0, "startup": 0}})
    # The template is free, and the resumed gang follows it.
    change = jobs.template({"name": "trainer", "env": [{"name": "COLOUR", "value": "green"}]})
    change["metadata"] = {"annotations": {jobs.LIFE: None}}
    scene.patch("a", {"spec": {"replicaSpecs": {"Worker": {"replicas": 1, "template": change}}}})
    scene.run_policy("a", suspend=False)
    job = scene.reach("Running")
    expect("resumed", told(job), {
        "phase": "Running", "attempt": 1, "restarts": {},
        "conditions": {"Suspended": "False Resumed", "Queued": "False Scheduled",
                       "Ready": "True AllReady", "Running": "True AllReady"}})
    if moment(status_of(job)["startTime"]) < moment(first):
        raise AssertionError("startTime went back")
    pod = scene.pods()["a-worker-0"]
    expect("the new template", [e["value"] for e in pod["spec"]["containers"][0]["env"]
                                if e["name"] == "COLOUR"], ["green"])
    expect("pods", scene.attempts(), {"a-worker-0": "1"})
    scene.expect_events("Started", "Running", "Suspended", "Resumed", "Running")


def with_plan(*args, make=jobs.mpi, **kwargs):
    return functools.partial(objects_are_as_planned, make(*args, **kwargs))


CASES = {
    "success-rank-zero": from_creation_to_success,
    "success-all-workers": every_rank_must_end_well,
    "progress": rank_0_is_asked_for_progress,
    "examples": examples,
    "plan-env": with_plan(make=jobs.env, workers=3),
    "plan-slots": with_plan(workers=3, slotsPerWorker=4, image="example.org/ours:3"),
    "plan-volumes": with_plan(
        volumes={"data": {"emptyDir": {}}, "checkpoints": {"emptyDir": {"sizeLimit": "1Gi"}}},
        checkpoint={"everySteps": 10, "keep": 5}),
    "plan-template": with_plan(make=jobs.env, container={
        "name": "trainer", "env": [{"name": "ME", "value": "$(COXSWAIN_INDEX)"}],
        "resources": {"limits": {"cpu": "2"}}}, pod={"tolerations": [
            {"key": "gpu", "operator": "Exists"}]}),
    "plan-frameworks": with_plan(make=jobs.env, slotsPerWorker=2, rendezvous=["PyTorch"]),
    "dashboard": reads_like_a_dashboard,
    "names-alike": two_names_that_begin_alike,
    "managed-by-another": managed_by_another,
    "suspended-at-creation": suspended_at_creation,
    "suspended-while-running": suspended_while_running,
}
