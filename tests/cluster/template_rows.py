"""What the API server refuses of a pod, `coxswain validate` refuses of its template; and no more.

The rows are in tests/golden/templates/rows.json. Of each the API server is asked for a pod, which
it does not keep, and `coxswain validate` for a job.
"""
import concurrent.futures
import copy
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from kube_access import Access  # noqa: E402

ROWS = json.loads((ROOT / "tests/golden/templates/rows.json").read_text())
GRACE = 60  # of a job that says none
# Too long for a table.
LONG = {"annotation's size": ("refused", {"metadata": {"annotations": {"a": "b" * 300000}}})}


def placed(place, fields):
    """The place's template with these fields beside its $."""
    if isinstance(place, dict):
        if "$" in place:
            return {**{key: value for key, value in place.items() if key != "$"}, **fields}
        return {key: placed(value, fields) for key, value in place.items()}
    return [placed(value, fields) for value in place] if isinstance(place, list) else place


def templates():
    """(name, verdict, template) of all rows."""
    base = {"spec": {"containers": [{"name": "trainer", "image": "x"}]}}
    for verdict in ("refused", "taken"):
        for place, rows in ROWS[verdict].items():
            for name, fields in rows.items():
                yield f"{place}: {name}", verdict, placed(ROWS["places"][place], fields)
    for name, (verdict, fields) in LONG.items():
        yield name, verdict, {**base, **fields}


def pod_of(template):
    """As operator/cluster/pod.cc makes it, as far as a refusal depends on it."""
    pod = {"apiVersion": "v1", "kind": "Pod", **copy.deepcopy(template)}
    pod["metadata"] = {**template.get("metadata", {}), "name": "mnist-worker-0"}
    pod["spec"].setdefault("restartPolicy", "Never")
    if pod["spec"].get("terminationGracePeriodSeconds") is None:
        pod["spec"]["terminationGracePeriodSeconds"] = GRACE
    return pod


def job_of(template):
    return {
        "apiVersion": "coxswain.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "mnist"},
        "spec": {"training": {"model": "mlp", "data": {"format": "mnist"}},
                 "replicaSpecs": {"Worker": {"replicas": 2, "template": template}}}}


def ask_server(access, path, what):
    """Whether it takes this, and its words. What depends on other objects (403) is no answer."""
    status, answer = access.call("POST", path + "?dryRun=All&fieldValidation=Strict", what)
    said = answer.get("message", "") if isinstance(answer, dict) else str(answer)
    return {201: "taken", 400: "refused", 422: "refused"}.get(status, f"status {status}"), said


def ask_validate(coxswain, template):
    done = subprocess.run([coxswain, "validate", "--pod-security", "privileged", "-f", "-"],
                          input=json.dumps(job_of(template)).encode(), capture_output=True, timeout=60,
                          check=False)
    said = (done.stdout + done.stderr).decode(errors="replace").strip()
    return {0: "taken", 65: "refused"}.get(done.returncode, f"exit {done.returncode}"), said


def check_row(access, coxswain, namespace, row, failures):
    name, verdict, template = row
    differs = name in ROWS["exceptions"]  # of validate alone
    other = {"refused": "taken", "taken": "refused"}[verdict]
    pods = f"/api/v1/namespaces/{namespace}/pods"
    answers = [("the API server", verdict, ask_server(access, pods, pod_of(template))),
               ("validate", other if differs else verdict, ask_validate(coxswain, template))]
    if verdict == "taken" and not differs:
        jobs = f"/apis/coxswain.dev/v1alpha1/namespaces/{namespace}/trainingjobs"
        answers.append(("the CRD", verdict, ask_server(access, jobs, job_of(template))))
    for who, wanted, (found, said) in answers:
        if found != wanted:
            failures.append(f"template, {name}: {who}: {found}, not {wanted}: {said}")


def check(coxswain, namespace, failures):
    """Asks both about every row; how many there are."""
    done = subprocess.run(["kubectl", "-n", namespace, "wait", "--for=create",
                           "serviceaccount/default", "--timeout=30s"], capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        failures.append(f"no pods can be made: {done.stderr}")
        return 0
    access = Access(os.environ["KUBECONFIG"])
    rows = list(templates())
    unknown = set(ROWS["exceptions"]) - {name for name, _, _ in rows}
    failures += [f"template, {name}: an exception of no row" for name in sorted(unknown)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda row: check_row(access, coxswain, namespace, row, failures), rows))
    return len(rows)
