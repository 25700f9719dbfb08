"""Pod groups, for schedulers that start all pods of a gang or none. Their CRDs belong to the whole
cluster: they are not there when a case begins, and are taken away at its end."""
import functools
import time

import jobs
from harness import ROOT, expect, expect_part, h, words_of

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUPS = {"Volcano": ("scheduling.volcano.sh", "v1beta1", "volcano-podgroups.yaml"),
          "Coscheduling": ("scheduling.x-k8s.io", "v1alpha1", "coscheduling-podgroups.yaml")}


def without_crd(group, scene):
    path = f"{CRDS}/podgroups.{group}"
    deadline = time.monotonic() + 30
    while (code := scene.call("DELETE", path, good=None).get("code")) != 404:
        if time.monotonic() > deadline:
            raise AssertionError(f"DELETE {path}: {code}")
        time.sleep(0.1)


def has_its_pod_group(gang, policy, wanted, mark, scene):
    """`wanted`: of the group's spec; `mark`: by which a pod tells its group."""
    group, version, file = GROUPS[gang]
    path = f"/apis/{group}/{version}/namespaces/{scene.namespace}/podgroups/a"
    without_crd(group, scene)
    try:
        scene.create(jobs.mpi(workers=2, elasticPolicy={"minReplicas": 1, "maxReplicas": 4},
                              run_policy={"schedulingPolicy": {"gang": gang, **policy}}))
        job = scene.reach_condition("ResourcesRejected", "True", "NotInstalled")
        expect("message", words_of(job, "ResourcesRejected"),
               f"{group}/{version} PodGroup is not known to the API server: install its CRD")
        expect("pods", list(scene.pods()), [])
        scene.kubectl("apply", "-f", str(ROOT / "tests/cluster/crds" / file))
        scene.reach("Running", 0)
        found = scene.call("GET", path)
        expect_part("spec", found["spec"], {"minMember": 2, **wanted(2)})
        expect("controller", h.controller(found).get("uid"), scene.job()["metadata"]["uid"])
        for pod in scene.pods().values():
            expect_part(pod["metadata"]["name"], pod, mark)
        scene.kubectl("scale", "tj", "a", "--replicas=3")
        scene.reach("Running", 1)
        changed = scene.call("GET", path)
        expect_part("resized", changed["spec"], {"minMember": 3, **wanted(3)})
        expect("the same", changed["metadata"]["uid"], found["metadata"]["uid"])
        scene.run_policy("a", suspend=True)
        scene.reach("Suspended", 1)
        scene.until("the end of the group",
                    lambda: scene.call("GET", path, good=None).get("code") == 404)
        scene.delete("TrainingJob", "a")
        scene.until("the collection of the rest", lambda: not scene.children())
    finally:
        without_crd(group, scene)


def of_volcano(workers):
    return {"minResources": {"cpu": str(workers), "memory": str(workers << 31)},
            "queue": "research", "priorityClassName": "system-cluster-critical"}


def of_coscheduling(_workers):
    return {"scheduleTimeoutSeconds": 30}


CASES = {
    "gang-volcano": functools.partial(
        has_its_pod_group, "Volcano", {
            "queue": "research", "priorityClass": "system-cluster-critical"}, of_volcano,
        {"spec": {"schedulerName": "volcano"},
         "metadata": {"annotations": {"scheduling.k8s.io/group-name": "a"}}}),
    "gang-coscheduling": functools.partial(
        has_its_pod_group, "Coscheduling", {"scheduleTimeoutSeconds": 30}, of_coscheduling,
        {"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "a"}}}),
}
