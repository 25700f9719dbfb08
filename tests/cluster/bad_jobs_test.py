#!/usr/bin/env python3
"""Wrong jobs are refused, with what to write instead; the examples are taken without a warning.

A row is a change of a good job. The API server answers it, or, where it lets the job pass, the
operator's own check (`coxswain validate`) does: tests/golden/admission.txt holds who answered what.
Whatever the API server refuses, `coxswain validate` refuses too, without one: of a job, and of the
pods that are made of its template, at which the API server looks only then.
Then: which changes a job takes before, during and after its run.

    tests/cluster/in_cluster.sh DIR tests/cluster/bad_jobs_test.py COXSWAIN [--rewrite]
"""
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys

import template_rows

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden/admission.txt"
NAMESPACE = "bad-jobs"
PODS = "bad-pods"  # a namespace that takes any pod
HEAD = "apiVersion: coxswain.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: mnist}\n"
TRAINING = "  training: {model: mlp, data: {format: mnist}}\n"
WORKERS = "  replicaSpecs: {Worker: {replicas: 2}}\n"
GOOD = HEAD + "spec:\n" + WORKERS + TRAINING


def plus(rest):
    return GOOD + "  " + rest + "\n"


def workers(replicas):
    return GOOD.replace("replicas: 2", f"replicas: {replicas}")


def named(name):
    return GOOD.replace("name: mnist", f"name: {name}", 1)


def training(text):
    return HEAD + "spec:\n" + WORKERS + "  training: {" + text + "}\n"


def roles(text, rest=""):
    return HEAD + "spec:\n  replicaSpecs: {" + text + "}\n" + TRAINING + rest


def pod(text):
    return roles("Worker: {replicas: 2, template: {spec: {" + text + "}}}")


def container(text):
    return pod("containers: [{name: trainer, " + text + "}]")


# What users get wrong (B...), and what docs/contract.md, "The TrainingJob", refuses (C...).
ROWS = {
    "B001 spec missing": HEAD,
    "B002 spec null": HEAD + "spec: null\n",
    "B003 empty file": "",
    "B005 tabs": GOOD.replace("  training", "\ttraining"),
    "B006 duplicate key": plus("image: a\n  image: b"),
    "B007 unknown field": plus("worker: 3"),
    "B009 unknown kind": GOOD.replace("TrainingJob", "TrainingJobs"),
    "B010 name missing": GOOD.replace("name: mnist", "labels: {a: b}", 1),
    "B011 name with capitals": named("MNIST"),
    "B013 name ending in -": named("mnist-"),
    "B015 namespace that does not exist": GOOD.replace(
        "name: mnist", "name: mnist, namespace: nowhere", 1),
    "B017 workers -1": workers("-1"),
    "B018 workers 4097": workers("4097"),
    "B019 workers 1000000": workers("1000000"),
    "B021 workers a text": workers('"2"'),
    "B022 workers beyond 64 bits": workers("9223372036854775808"),
    "B023 workers true": workers("true"),
    "B025 servers with AllReduce": roles("Worker: {replicas: 2}, Server: {replicas: 3}"),
    "B026 no servers with ParameterServer": roles(
        "Worker: {replicas: 2}, Server: {replicas: 0}", "  strategy: ParameterServer\n"),
    "B027 strategy unknown": plus("strategy: ring-allreduce"),
    "B029 template without containers": pod(""),
    "B029 template with an empty list of containers": pod("containers: []"),
    "B030 two containers of one name": pod(
        "containers: [{name: trainer}, {name: trainer, image: a}]"),
    "B031 no trainer among the containers": pod(
        "containers: [{name: a, image: a}, {name: b, image: b}]"),
    "B033 image malformed": plus('image: ":latest:"'),
    "B034 image with a newline": plus('image: "a\\nb"'),
    "B035 command a text": container("command: python train.py"),
    "B037 LD_PRELOAD": container("env: [{name: LD_PRELOAD, value: x}]"),
    "B038 NCCL_COMM_ID": container("env: [{name: NCCL_COMM_ID, value: x}]"),
    "B039 name of a variable": container('env: [{name: "A=B", value: x}]'),
    "B041 environment too large": container(
        "env: [{name: A, value: " + "x" * 200000 + "}]"),
    "B042 secret of another namespace": container(
        "envFrom: [{secretRef: {name: other/secret}}]"),
    "B042 namespace in an affinity": pod(
        "containers: [{name: trainer}], affinity: {podAffinity: "
        "{requiredDuringSchedulingIgnoredDuringExecution: "
        "[{topologyKey: zone, namespaces: [kube-system]}]}}"),
    "B043 restartPolicy Always": pod("restartPolicy: Always, containers: [{name: trainer}]"),
    "B045 backoffLimit too large": plus("runPolicy: {backoffLimit: 2147483648}"),
    "B046 activeDeadlineSeconds 0": plus("runPolicy: {activeDeadlineSeconds: 0}"),
    "B047 ttlSecondsAfterFinished a text": plus('runPolicy: {ttlSecondsAfterFinished: "1h"}'),
    "B049 cleanPodPolicy unknown": plus("runPolicy: {cleanPodPolicy: Everything}"),
    "B050 successPolicy unknown": plus("successPolicy: Launcher"),
    "B050 failure rule for an unknown role": plus(
        "failurePolicy: {rules: [{action: Fail, onRoles: [Launcher]}]}"),
    "B051 minReplicas above replicas": plus("elasticPolicy: {minReplicas: 3}"),
    "B053 cpu no quantity": container("resources: {limits: {cpu: 1 core}}"),
    "B054 memory out of range": container("resources: {limits: {memory: 1e999999999Gi}}"),
    "B055 limit below request": container(
        "resources: {requests: {memory: 2Gi}, limits: {memory: 512Mi}}"),
    "B061 checkpoint interval a text": plus("checkpoint: {everySeconds: abc}"),
    "B062 checkpoint keep 0": plus("checkpoint: {keep: 0}"),
    "B065 mount of no volume": container("volumeMounts: [{name: nothing, mountPath: /x}]"),
    "B066 hostPath": pod(
        "containers: [{name: trainer}], volumes: [{name: x, hostPath: {path: /}}]"),
    "B067 privileged": container("securityContext: {privileged: true}"),
    "B069 capability": container("securityContext: {capabilities: {add: [SYS_ADMIN]}}"),
    "B070 root": container("securityContext: {runAsUser: 0}"),
    "B071 seccomp Unconfined": container(
        "securityContext: {seccompProfile: {type: Unconfined}}"),
    "B073 processes of the node": pod("hostPID: true, containers: [{name: trainer}]"),
    "B074 nodeSelector a number": pod("nodeSelector: {disk: 3}, containers: [{name: trainer}]"),
    "B075 toleration operator": pod(
        "tolerations: [{operator: Like}], containers: [{name: trainer}]"),
    "B077 annotations too large": GOOD.replace(
        "name: mnist", "name: mnist, annotations: {a: " + "x" * 300000 + "}", 1),
    "B085 port 0": container("ports: [{containerPort: 0}]"),
    "B085 port 70000": container("ports: [{containerPort: 70000}]"),
    "B085 port -1": container("ports: [{containerPort: -1}]"),
    "B085 port a text": container("ports: [{containerPort: http}]"),
    "B089 nested 10,000 deep": HEAD + "spec: {training: " + "[" * 10000 + "]" * 10000 + "}\n",
    "B091 invalid UTF-8": GOOD.encode().replace(b"mlp", b"\xff\xfe"),
    "B093 alias within itself": HEAD + "spec: &a {training: *a}\n",
    "B094 JSON with a trailing comma": '{"apiVersion": "coxswain.dev/v1alpha1", "kind": 1,}',
    "B094 JSON with NaN": '{"a": NaN}',
    "C01 ParameterServer by mpirun": plus("strategy: ParameterServer\n  launcher: MPI"),
    "C05 maxReplicas below replicas": plus("elasticPolicy: {maxReplicas: 1}"),
    "C06 startupDeadlineSeconds negative": plus("runPolicy: {startupDeadlineSeconds: -1}"),
    "C07 name of 52 characters": named("a" * 52),
    "C08 name that begins with a digit": named("1st"),
    "C09 name with a dot": named("a.b"),
    "C10 slots 0": plus("slotsPerWorker: 0"),
    "C11 slots many": plus("slotsPerWorker: many"),
    "C12 model unknown": training("model: alexnet, data: {format: mnist}"),
    "C13 model missing": training("data: {format: mnist}"),
    "C14 optimizer of a later version": training(
        "model: mlp, data: {format: mnist}, communication: {backend: nccl}"),
    "C15 key of training unknown": training("model: mlp, data: {format: mnist}, epoch: 3"),
    "C16 batchSize 0": training("model: mlp, data: {format: mnist}, batchSize: 0"),
    "C17 nothing to run": HEAD + "spec:\n" + WORKERS,
    "C18 role unknown": roles("Worker: {replicas: 2}, Launcher: {replicas: 1}"),
    "C19 no Worker": roles(""),
    "C20 our environment": container('env: [{name: COXSWAIN_ATTEMPT, value: "0"}]'),
    "C21 volume of two sources": plus("volumes: {data: {emptyDir: {}, secret: {secretName: x}}}"),
    "C22 volume of a node": plus("volumes: {data: {hostPath: {path: /}}}"),
    "C23 claim of another namespace": plus(
        "volumes: {data: {ephemeral: {volumeClaimTemplate: {spec: {dataSourceRef: "
        "{kind: A, name: b, namespace: other}}}}}}"),
    "C24 exit codes of a rule": plus(
        "failurePolicy: {rules: [{action: Fail, onExitCodes: [0, 256]}]}"),
    "C25 rule without action": plus("failurePolicy: {rules: [{onExitCodes: [1]}]}"),
    "C26 framework unknown": plus("rendezvous: [JAX]"),
    "C27 suspend a text": plus('runPolicy: {suspend: "yes"}'),
    "C28 MPI without a command": HEAD + "spec:\n  launcher: MPI\n  replicaSpecs: {Worker: "
        "{replicas: 2, template: {spec: {containers: [{name: a, image: b}]}}}}\n",
    "D01 quote left open": GOOD + '  image: "abc\n',
    "D02 octal number": plus("slotsPerWorker: 012"),
    "D03 twin of a variable": container("env: [{name: A, value: a}, {name: A, value: b}]"),
    "D04 twin of a mount": pod(
        "containers: [{name: trainer, volumeMounts: [{name: x, mountPath: /x}, "
        "{name: x, mountPath: /x}]}], volumes: [{name: x, emptyDir: {}}]"),
    "D05 twin of a port": container("ports: [{containerPort: 80}, {containerPort: 80, "
                                    "protocol: TCP}]"),
    "D06 NUL in a value": container('env: [{name: A, value: "a\\0b"}]'),
    "D07 value a number": container("env: [{name: A, value: 5}]"),
    "D08 value a flag": container("env: [{name: A, value: yes}]"),
    "D09 value an object": container("env: [{name: A, value: {b: c}}]"),
    "D10 quantity a fraction": container("resources: {limits: {cpu: 0.5}}"),
    "D11 unknown field of a container": container("comand: [x]"),
    "D12 unknown field of a pod": pod("containers: [{name: trainer}], hostnetwork: true"),
    "D13 unknown field of the metadata": GOOD.replace(
        "name: mnist", "name: mnist, lables: {a: b}", 1),
    "D14 template with a name": roles(
        "Worker: {replicas: 2, template: {metadata: {name: x}, spec: "
        "{containers: [{name: trainer}]}}}"),
    "D15 label a number": GOOD.replace("name: mnist", "name: mnist, labels: {a: 5}", 1),
    "D16 label's value": GOOD.replace("name: mnist", 'name: mnist, labels: {a: "b c"}', 1),
    "D17 label's name": GOOD.replace("name: mnist", 'name: mnist, labels: {"a b": c}', 1),
    "D18 annotation's name": GOOD.replace("name: mnist", 'name: mnist, annotations: {"/a": c}', 1),
    "D19 label of a template a number": roles(
        "Worker: {replicas: 2, template: {metadata: {labels: {a: 5}}, spec: "
        "{containers: [{name: trainer}]}}}"),
    "D20 command of numbers": container("command: [sleep, 5]"),
    "D21 grace of a pod a text": pod(
        'terminationGracePeriodSeconds: "5", containers: [{name: trainer}]'),
    "D22 port beyond 32 bits": container("ports: [{containerPort: 4294967296}]"),
    "D23 null in a list": container("args: [null]"),
    "D24 label null": GOOD.replace("name: mnist", "name: mnist, labels: {a: null}", 1),
    "D25 our label": roles(
        "Worker: {replicas: 2, template: {metadata: {labels: {coxswain.dev/job: x}}, spec: "
        "{containers: [{name: trainer}]}}}"),
    "D26 source of a volume unknown": plus("volumes: {data: {emptydir: {}}}"),
    "D27 claim without a name": plus("volumes: {data: {persistentVolumeClaim: {}}}"),
    "D28 image too long": plus("image: " + "a" * 513),
    "D29 spec a list": HEAD + "spec: []\n",
    "D30 metadata a text": GOOD.replace("{name: mnist}", "mnist", 1),
    "D31 reasons too many": plus(
        "failurePolicy: {rules: [{action: Fail, onReasons: [" + "x, " * 65 + "]}]}"),
    "D32 frameworks too many": plus(f"rendezvous: [{', '.join(['PyTorch'] * 5)}]"),
    "D33 container that restarts": container("restartPolicy: Always"),
    "C29 more ranks than shards": workers(9).replace(
        "data: {format: mnist}", "data: {format: mnist}, batchSemantics: global, "
        "reproducible: anyWorldSize"),
    "C30 queue of coscheduling": plus(
        "runPolicy: {schedulingPolicy: {gang: Coscheduling, queue: q}}"),
    "C31 scheduleTimeoutSeconds of Volcano": plus(
        "runPolicy: {schedulingPolicy: {gang: Volcano, scheduleTimeoutSeconds: 9}}"),
    "C32 minAvailable without a gang": plus("runPolicy: {schedulingPolicy: {minAvailable: 1}}"),
    "C33 minResources without a gang": plus(
        "runPolicy: {schedulingPolicy: {minResources: {cpu: 1}}}"),
    "C33 Kueue without a queue": plus("runPolicy: {schedulingPolicy: {gang: Kueue}}"),
    "C34 minAvailable above the gang": plus(
        "runPolicy: {schedulingPolicy: {gang: Volcano, minAvailable: 3}}"),
    "C35 rendezvous that mpirun does not make": plus("rendezvous: [PyTorch]"),
    "C36 rendezvous that only mpirun makes": plus("launcher: Env\n  rendezvous: [Horovod]"),
    "C37 a command beside training": container("command: [python, train.py]"),
    "C38 checkpoint without a volume": plus("checkpoint: {everySteps: 5}"),
    "C39 checkpoint without training": HEAD + "spec:\n  checkpoint: {keep: 5}\n  replicaSpecs: "
        "{Worker: {replicas: 2, template: {spec: {containers: [{name: a, image: b}]}}}}\n",
    "C40 grace period in the template": pod(
        "terminationGracePeriodSeconds: 30, containers: [{name: trainer}]"),
}

# A second opinion on these is of no use: the file itself is fine.
ELSEWHERE = {"B015 namespace that does not exist"}

STARTED = {"attempt": 1, "phase": "Running", "attemptStartTime": "2026-01-01T00:00:00Z"}
ENDED = {**STARTED, "phase": "Succeeded", "completionTime": "2026-01-01T01:00:00Z"}
INVALID = {**STARTED, "conditions": [{
    "type": "Invalid", "status": "True", "reason": "Invalid", "message": "x",
    "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}]}
VALID = {**STARTED, "conditions": [{**INVALID["conditions"][0], "status": "False"}]}
TEMPLATE = {"spec": {"containers": [{"name": "trainer"}]}}
ELASTIC = "elasticPolicy: {minReplicas: 1, maxReplicas: 4}"
SUSPENDED = "runPolicy: {suspend: true}"
FIXED = {
    "launcher": "Env", "slotsPerWorker": 2, "image": "x", "training": {"epochs": 7},
    "volumes": {"data": {"emptyDir": {}}, "checkpoints": {"emptyDir": {}}},
    "checkpoint": {"keep": 9},
    "elasticPolicy": {"minReplicas": 1}, "runPolicy": {"schedulingPolicy": {"gang": "Volcano"}},
    "failurePolicy": {"rules": []}, "successPolicy": "AllWorkers", "rendezvous": [],
    "replicaSpecs": {"Worker": {"template": TEMPLATE}},
}
LIMITS = {
    "suspend": True, "backoffLimit": 9, "activeDeadlineSeconds": 9, "startupDeadlineSeconds": 9,
    "terminationGracePeriodSeconds": 9, "stuckTerminationSeconds": 9, "cleanPodPolicy": "All",
    "ttlSecondsAfterFinished": 9,
}


def resized(replicas):
    return {"replicaSpecs": {"Worker": {"replicas": replicas}}}


# What, the job, its status, the change of its spec, and how the refusal begins (None: taken).
SERVERS = {"strategy": "ParameterServer",
           "replicaSpecs": {"Server": {"replicas": 1}}}
CHANGES = [
    *[(f"{key} of a started job", GOOD, STARTED, {key: value}, "fixed once the job has started:")
      for key, value in FIXED.items()],
    ("strategy of a started job", GOOD, STARTED, SERVERS,
     "fixed once the job has started: spec.strategy spec.replicaSpecs.Server;"),
    ("two fields of a started job", GOOD, STARTED, {"image": "x", "training": {"epochs": 7}},
     "fixed once the job has started: spec.image spec.training;"),
    *[(f"runPolicy.{key} of a started job", GOOD, STARTED, {"runPolicy": {key: value}}, None)
      for key, value in LIMITS.items()],
    ("all at once before the first gang", GOOD, {"phase": "Queued"}, FIXED, None),
    ("all at once with suspend", GOOD, STARTED,
     {**FIXED, "runPolicy": {"suspend": True}}, None),
    ("all at once with resume", plus(SUSPENDED), STARTED,
     {**FIXED, "runPolicy": {"suspend": False}}, None),
    ("all at once in an Invalid job", GOOD, INVALID, FIXED, None),
    ("image of a job that is Invalid no more", GOOD, VALID, {"image": "x"},
     "fixed once the job has started: spec.image;"),
    ("image of a job that has ended", GOOD, ENDED, {"image": "x"},
     "fixed once the job has started: spec.image; it has ended: delete it and create it anew"),
    ("suspend of a job that has ended", GOOD, ENDED, {"runPolicy": {"suspend": True}},
     "the job has ended: delete it and create it anew"),
    ("ttl of a job that has ended", GOOD, ENDED, {"runPolicy": {"ttlSecondsAfterFinished": 9}},
     None),
    ("replicas of a started job", GOOD, STARTED, resized(3),
     "fixed once the job has started: spec.replicaSpecs.Worker.replicas;"),
    ("replicas of an elastic job", plus(ELASTIC), STARTED, resized(3), None),
    ("replicas of an elastic job beyond its limits", plus(ELASTIC), STARTED, resized(5),
     "must be at least replicaSpecs.Worker.replicas"),
    ("limits of an elastic job", plus(ELASTIC), STARTED, {"elasticPolicy": {"maxReplicas": 5}},
     "fixed once the job has started: spec.elasticPolicy;"),
    ("managedBy, new, while suspended", plus(SUSPENDED), None,
     {"runPolicy": {"managedBy": "a.b/c"}}, "runPolicy.managedBy can't be changed"),
    ("managedBy, changed", plus("runPolicy: {managedBy: a.b/c}"), None,
     {"runPolicy": {"managedBy": "coxswain.dev/operator"}}, "runPolicy.managedBy can't be changed"),
]


def as_bytes(text):
    return text.encode() if isinstance(text, str) else text


def run(*command, text=None):
    done = subprocess.run(command, input=as_bytes(text or ""), capture_output=True, timeout=60,
                          check=False)
    return done.returncode, (done.stdout + done.stderr).decode(errors="replace").strip()


def kubectl(*arguments, text=None):
    return run("kubectl", "--request-timeout=20s", "-n", NAMESPACE, *arguments, text=text)


def cut(text):
    """What stays the same in every run: the API server lists its causes in no order."""
    text = re.sub(r"x{100,}", "xxx...", re.sub(r"a{40,}", "aaa...", text))
    lines = text.replace("STDIN", "job.yaml").split("\n")
    causes = [line for line in lines if line.startswith("* ")]
    lines = [line for line in lines if not line.startswith("* ")] + sorted(causes)
    return "\n".join("  " + line[:400] for line in lines)


def answer(coxswain, manifest):
    """Who refuses the job, and with what words; None if nobody does."""
    elsewhere = [] if b"namespace: nowhere" in as_bytes(manifest) else ["-n", NAMESPACE]
    code, said = run("kubectl", "create", "--dry-run=server", *elsewhere, "-f", "-", text=manifest)
    if code != 0:
        return "API server", said
    code, said = run(coxswain, "validate", "-f", "-", text=manifest)
    return ("operator", said) if code != 0 else None


def check_rows(coxswain, rewrite, failures):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = dict(zip(ROWS, pool.map(lambda text: answer(coxswain, text), ROWS.values())))
    text = ""
    for name, text_of_job in ROWS.items():
        code, said = run(coxswain, "validate", "-f", "-", text=text_of_job)
        if code != 65 and name not in ELSEWHERE:
            failures.append(f"{name}: validate takes it: {said}")
    for name, said in answers.items():
        if said is None:
            failures.append(f"{name}: nobody refuses it")
            continue
        text += f"{name}\n {said[0]}:\n{cut(said[1])}\n"
    if rewrite:
        GOLDEN.write_text(text)
    elif GOLDEN.read_text() != text:
        other = GOLDEN.with_name("admission.txt.new")
        other.write_text(text)
        failures.append(f"{GOLDEN} differs from {other}: read the difference; --rewrite takes it")


def check_examples(failures):
    files = sorted(file for file in (ROOT / "examples").rglob("*.yaml") if file.parent.name != "networks")
    if not files:
        failures.append("no examples found")
    for file in files:
        code, said = kubectl("create", "--dry-run=server", "-f", str(file))
        taken = all(line.endswith("created (server dry run)") for line in said.split("\n"))
        if code != 0 or not taken:
            failures.append(f"{file.name}: {said}")


def check_change(index, failures):
    what, _, status, change, refusal = CHANGES[index]
    name = f"change-{index}"
    if status:
        code, said = kubectl("patch", "tj", name, "--subresource=status", "--type=merge", "-p",
                             json.dumps({"status": status}))
        if code != 0:
            failures.append(f"{what}: the status is refused: {said}")
            return
    code, said = kubectl("patch", "tj", name, "--type=merge", "-p", json.dumps({"spec": change}))
    if refusal is None and code != 0:
        failures.append(f"{what}: should be taken: {said}")
    if refusal is not None and (code == 0 or refusal not in said):
        failures.append(f"{what}: should be refused with '{refusal}': {said}")


def check_changes(failures):
    jobs = [row[1].replace("name: mnist", f"name: change-{index}")
            for index, row in enumerate(CHANGES)]
    code, said = kubectl("create", "-f", "-", text="---\n".join(jobs))
    if code != 0:
        failures.append(f"the jobs to change are refused: {said}")
        return
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda index: check_change(index, failures), range(len(CHANGES))))


def check_view(failures):
    """The scale subresource, and what `kubectl get` shows."""
    status = {**STARTED, "ready": "1/2", "workers": 2, "selector": "coxswain.dev/job=view",
              "restarts": {"total": 1}, "checkpoint": {"step": 1200},
              "progress": {"epoch": 3, "accuracy": 0.9912, "samplesPerSecond": 15200.7,
                           "loss": 0.031, "step": 1234}, "lastFailure": {"reason": "OOMKilled"},
              "conditions": [{"type": "Ready", "status": "False", "reason": "Unschedulable",
                              "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    manifest = plus(ELASTIC).replace("name: mnist", "name: view")
    steps = [("create", "-f", "-"),
             ("patch", "tj", "view", "--subresource=status", "--type=merge", "-p",
              json.dumps({"status": status})),
             ("scale", "tj", "view", "--replicas=3")]
    for step in steps:
        code, said = kubectl(*step, text=manifest)
        if code != 0:
            failures.append(f"kubectl {step[0]}: {said}")
    _, said = kubectl("get", "tj", "view", "-o", "wide")
    cells = [re.split(r" {2,}", line.strip()) for line in said.split("\n")]
    names = ["NAME", "PHASE", "WORKERS", "EPOCH", "ACCURACY", "IMAGES/S", "CHECKPOINT", "RESTARTS",
             "AGE", "REASON", "SERVERS", "LOSS", "STEP", "LAST FAILURE"]  # an empty cell is none
    values = ["view", "Running", "1/2", "3", "0.9912", "15200", "1200", "1", None, "Unschedulable",
              "0.031", "1234", "OOMKilled"]
    if cells[0] != names or [v and c for c, v in zip(cells[1], values)] != values:
        failures.append(f"kubectl get -o wide shows:\n{said}")
    _, said = kubectl("get", "tj", "view", "--subresource=scale", "-o", "json")
    scale = json.loads(said)
    if scale["spec"] != {"replicas": 3} or scale["status"] != {
            "replicas": 2, "selector": "coxswain.dev/job=view"}:
        failures.append(f"scale: {said}")
    for path in ("all", "tj.spec.runPolicy.backoffLimit"):
        verb = "get" if path == "all" else "explain"
        code, said = kubectl(verb, path)
        wanted = "trainingjob.coxswain.dev/view" if path == "all" else "Restarts spent"
        if code != 0 or wanted not in said:
            failures.append(f"kubectl {verb} {path}: {said}")


def main():
    coxswain, rewrite = sys.argv[1], "--rewrite" in sys.argv[2:]
    failures = []
    for namespace in (NAMESPACE, PODS):
        run("kubectl", "create", "namespace", namespace)
    # For the pod among the examples.
    run("kubectl", "label", "namespace", NAMESPACE,
        "pod-security.kubernetes.io/enforce=restricted", "--overwrite")
    kubectl("delete", "tj", "--all", "--timeout=30s")
    try:
        check_rows(coxswain, rewrite, failures)
        rows = template_rows.check(coxswain, PODS, failures)
        check_examples(failures)
        check_changes(failures)
        check_view(failures)
    finally:
        run("kubectl", "delete", "namespace", NAMESPACE, PODS, "--wait=false")
    for failure in failures:
        print("FAILED:", failure)
    print(f"{len(ROWS)} bad jobs, {rows} templates, {len(CHANGES)} changes, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
