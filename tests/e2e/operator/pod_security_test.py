#!/usr/bin/env python3
"""pod_security_test.py COXSWAIN    a template is accepted at a Pod Security level exactly where the
API server accepts its pod in a namespace of that level"""
import concurrent.futures
import json
import subprocess
import sys
import time

LEVELS = "privileged", "baseline", "restricted"
RUN = f"levels-{int(time.time()) % 100000}"


def context(**fields):
    return {"containers": [{"name": "trainer", "securityContext": fields}]}


def pod(**fields):
    return {"containers": [{"name": "trainer"}], **fields}


def container(**fields):
    return {"containers": [{"name": "trainer", **fields}]}


# (what a template asks for, the strictest level that takes it)
TEMPLATES = {
    "nothing": (pod(), "restricted"),
    "service account": (pod(serviceAccountName="robot", automountServiceAccountToken=True),
                        "restricted"),
    "user": (pod(securityContext={"runAsUser": 1000, "fsGroup": 2000}), "restricted"),
    "root": (pod(securityContext={"runAsUser": 0}), "baseline"),
    "root container": (context(runAsUser=0), "baseline"),
    "maybe root": (pod(securityContext={"runAsNonRoot": False}), "baseline"),
    "host network": (pod(hostNetwork=True), "privileged"),
    "host PID": (pod(hostPID=True), "privileged"),
    "host IPC": (pod(hostIPC=True), "privileged"),
    "host port": (container(ports=[{"containerPort": 80, "hostPort": 80}]), "privileged"),
    "probe of a host": (container(livenessProbe={"tcpSocket": {"host": "a", "port": 80}}),
                        "privileged"),
    "privileged": (context(privileged=True), "privileged"),
    "escalation": (context(allowPrivilegeEscalation=True), "baseline"),
    "capability of RDMA": (context(capabilities={"add": ["IPC_LOCK"]}), "privileged"),
    "capability": (context(capabilities={"add": ["CHOWN"]}), "baseline"),
    "port capability": (context(capabilities={"add": ["NET_BIND_SERVICE"]}), "restricted"),
    "drops little": (context(capabilities={"drop": ["KILL"]}), "baseline"),
    "device": (container(resources={"limits": {"rdma/hca": 1}}), "restricted"),
    "no seccomp": (context(seccompProfile={"type": "Unconfined"}), "privileged"),
    "no AppArmor": (context(appArmorProfile={"type": "Unconfined"}), "privileged"),
    "SELinux type": (context(seLinuxOptions={"type": "spc_t"}), "privileged"),
    "unsafe sysctl": (pod(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}),
                      "privileged"),
    "safe sysctl": (pod(securityContext={"sysctls": [
        {"name": "net.ipv4.tcp_syncookies", "value": "1"}]}), "restricted"),
    "host path": (pod(volumes=[{"name": "v", "hostPath": {"path": "/dev/infiniband"}}]),
                  "privileged"),
    "NFS": (pod(volumes=[{"name": "v", "nfs": {"server": "a", "path": "/"}}]), "baseline"),
    "image volume": (pod(volumes=[{"name": "v", "image": {"reference": "a"}}]), "restricted"),
    "ephemeral volume": (pod(volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}}]),
                         "restricted"),
}


def run(*command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60,
                          check=False)


def kubectl(*arguments, text=None):
    return run("kubectl", *arguments, text=text)


def coxswain(command, level, job):
    return run(sys.argv[1], command, "--pod-security", level, "-f", "-", text=job)


def check(what, level):
    """What is wrong; None: nothing."""
    template, strictest = TEMPLATES[what]
    wanted = LEVELS.index(level) <= LEVELS.index(strictest)
    namespace = f"{RUN}-{level}"
    job = json.dumps({
        "apiVersion": "coxswain.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {"training": {"model": "mlp", "data": {"format": "mnist"}},
                 "replicaSpecs": {"Worker": {"replicas": 1, "template": {"spec": template}}}}})
    ours = coxswain("validate", level, job)
    objects = coxswain("plan", "privileged", job).stdout
    theirs = kubectl("-n", namespace, "create", "--dry-run=server", "-f", "-", text=objects)
    if (ours.returncode == 0) != wanted:
        return f"{what} at {level}: validate says {ours.stdout}{ours.stderr}"
    if (theirs.returncode == 0) != wanted:
        return f"{what} at {level}: the API server says {theirs.stdout}{theirs.stderr}"
    if not wanted and f'violates PodSecurity "{level}' not in theirs.stderr:
        return f"{what} at {level}: refused for another reason: {theirs.stderr}"
    return None


def main():
    for level in LEVELS:
        namespace = f"{RUN}-{level}"
        kubectl("create", "namespace", namespace).check_returncode()
        kubectl("label", "namespace", namespace,
                f"pod-security.kubernetes.io/enforce={level}").check_returncode()
        for account in "default", "robot":  # the controller manager may have made the first
            kubectl("-n", namespace, "create", "serviceaccount", account)
    try:
        cases = [(what, level) for what in TEMPLATES for level in LEVELS]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            failures = [found for found in pool.map(lambda case: check(*case), cases) if found]
    finally:
        kubectl("delete", "namespace", "--wait=false", *(f"{RUN}-{level}" for level in LEVELS))
    print(*failures, sep="\n", end="\n" * bool(failures))
    print(f"{len(cases)} cases, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
