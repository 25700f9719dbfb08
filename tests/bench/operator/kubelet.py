"""Plays the pods' lives: kwok makes those of its nodes Running and Ready, and lets them go."""
import pathlib
import zlib

from api import path_of, wait_for
from processes import start, stop

NODES = 40
STAGES = pathlib.Path(__file__).resolve().parents[2] / "cluster/kwok"


def node_for(job):
    """Jobs name the node of their pods: a scheduler would only take from what both sides share."""
    return f"kwok-{zlib.crc32(job.encode()) % NODES}"


class Kubelet:
    """Resource. May be stopped and started again; its nodes stay."""

    def __init__(self, cluster, load, program):
        self._cluster, self._load, self._program = pathlib.Path(cluster), load, program
        self._process = None
        amounts = {"cpu": "1k", "memory": "4Ti", "pods": "10k"}
        for index in range(NODES):
            load.must("POST", "/api/v1/nodes", {
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": f"kwok-{index}",
                             "annotations": {"kwok.x-k8s.io/node": "fake"}},
                "status": {"allocatable": amounts, "capacity": amounts}})

    def start(self):
        if self._process:
            return
        # No leases: a second kwok would wait for the end of the first one's.
        stages = [word for file in sorted(STAGES.glob("*.yaml")) for word in ("--config", file)]
        self._process = start(
            [self._program, "--kubeconfig", self._cluster / "bench-kubelet.kubeconfig",
             "--manage-all-nodes=false", "--manage-nodes-with-annotation-selector",
             "kwok.x-k8s.io/node=fake", "--node-lease-duration-seconds", "0", *stages],
            self._cluster / "kwok.log")
        wait_for("the nodes' readiness", 60, self._nodes_ready, 0.5)

    def _nodes_ready(self):
        nodes = self._load.must("GET", path_of("v1", "", "nodes"))["items"]
        return all(any(c["type"] == "Ready" and c["status"] == "True"
                       for c in node["status"].get("conditions", [])) for node in nodes)

    def stop(self):
        if self._process:
            stop(self._process)
            self._process = None
