#!/usr/bin/env python3
"""inspect_test.py COXSWAIN    `coxswain describe`, `logs` and `top` as their user meets them

Before an API server that is just enough of one, and of a local run. Needs no cluster.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

import operator_bed as bed  # noqa: F401  # where the test tools are

import fake_api_server

JOB = "/apis/coxswain.dev/v1alpha1/namespaces/lab/trainingjobs/mnist"
PODS = "/api/v1/namespaces/lab/pods"
UID = "uid-of-the-job"


def event(second, attempt, reason, message=""):
    return {"metadata": {"name": f"e{second}", "annotations": {"coxswain.dev/attempt": str(attempt)}},
            "eventTime": f"2026-01-01T00:00:{second:02}.000000Z", "reason": reason, "message": message,
            "type": "Warning" if reason == "Restarting" else "Normal"}


def pod(index, attempt, node):
    return {"metadata": {
        "name": f"mnist-worker-{index}", "namespace": "lab", "uid": f"pod-{index}-{attempt}",
        "labels": {"coxswain.dev/job": "mnist", "coxswain.dev/attempt": str(attempt),
                   "training.kubeflow.org/replica-type": "worker",
                   "training.kubeflow.org/replica-index": str(index)},
        "ownerReferences": [{"uid": UID, "controller": True, "kind": "TrainingJob", "name": "mnist"}]},
        "spec": {"nodeName": node},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                   "containerStatuses": [{"name": "trainer", "ready": True, "state": {"running": {}}}]}}


class InspectTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fake = fake_api_server.FakeApiServer()
        objects = cls.fake.objects
        objects[JOB] = {
            "apiVersion": "coxswain.dev/v1alpha1", "kind": "TrainingJob",
            "metadata": {"name": "mnist", "namespace": "lab", "uid": UID},
            "spec": {"replicaSpecs": {"Worker": {"replicas": 2}},
                     "training": {"model": "mlp", "data": {"format": "mnist"}}},
            "status": {"phase": "Running", "attempt": 1, "workers": 2,
                       "attemptStartTime": "2026-01-01T00:00:20Z"}}
        for index in (0, 1):
            objects[f"{PODS}/mnist-worker-{index}"] = pod(index, 1, f"node-{index}")
            cls.fake.texts[f"{PODS}/mnist-worker-{index}/log"] = (
                f"2026-01-01T00:00:21.5Z hello of {index}\n2026-01-01T00:00:22.5Z again\n")
        for item in (event(1, 0, "Started", "a gang of 2 workers"), event(20, 1, "Restarting", "worker-1 exit=137")):
            objects[f"/api/v1/namespaces/lab/events/{item['metadata']['name']}"] = item
        proxy = f"{PODS}/mnist-worker-0:9400/proxy"
        ranks = [{"rank": rank, "samplesPerSecond": 250, "data": 0.1, "waiting": 0.2, "compute": 0.7,
                  "memoryBytes": 1000000, "secondsAgo": 1} for rank in (0, 1)]
        cls.fake.texts[f"{proxy}/ranks"] = json.dumps({"worldSize": 2, "ranks": ranks[:1], "next": 1})
        cls.fake.texts[f"{proxy}/ranks/1"] = json.dumps({
            "worldSize": 2, "ranks": ranks[1:],
            "slowest": {"rank": 1, "behind": 0.5, "since": "2026-01-01T00:00:30Z"}})

    @classmethod
    def tearDownClass(cls):
        cls.fake.close()

    def coxswain(self, *words, environment=None):
        """(exit code, standard output, standard error)"""
        done = subprocess.run([sys.argv[1], *words], capture_output=True, text=True, timeout=60, check=False,
                              env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **(environment or {})})
        return done.returncode, done.stdout, done.stderr

    def here(self, *words):
        return self.coxswain(*words, "--kubeconfig", self.fake.kubeconfig, "-n", "lab")

    def refused(self, code, holds, *words, **more):
        with self.subTest(words=words):
            found, output, said = self.coxswain(*words, **more)
            self.assertEqual((code, ""), (found, output), said)
            self.assertEqual(1, said.count("\n"), said)
            self.assertRegex(said, holds)

    def test_describe_tells_the_story(self):
        code, output, said = self.here("describe", "mnist")
        self.assertEqual((0, ""), (code, said))
        self.assertTrue(output.startswith("mnist (namespace lab): Running, attempt 1 with 2 workers"), output)
        self.assertIn("began: a gang of 2 workers", output)
        self.assertIn("ended after 19 s (Restarting), first cause: worker-1 exit=137", output)
        self.assertRegex(output, r"worker-1 +attempt 1 +Running +Ready +on node-1")

    def test_logs_of_all_and_of_one_rank(self):
        self.assertEqual((0, "worker-0 (attempt 1) | hello of 0\nworker-0 (attempt 1) | again\n"
                          "worker-1 (attempt 1) | hello of 1\nworker-1 (attempt 1) | again\n", ""),
                         self.here("logs", "mnist"))
        self.assertEqual((0, "worker-1 (attempt 1) | hello of 1\nworker-1 (attempt 1) | again\n", ""),
                         self.here("logs", "mnist", "--rank", "1"))

    def test_top_reads_all_pages(self):
        code, output, said = self.here("top", "mnist")
        self.assertEqual((0, ""), (code, said))
        self.assertIn("Slowest: rank 1 on node-1, busy for 50 % longer than the middle one", output)
        self.assertEqual(2, len(re.findall(r"^ +[01]  node-[01] +250 +10\.0 +70\.0 +20\.0 +1\.0 MB", output, re.M)),
                         output)

    def test_through_a_link_it_is_kubectl_s(self):
        with tempfile.TemporaryDirectory() as directory:
            link = pathlib.Path(directory, "kubectl-coxswain")
            link.symlink_to(pathlib.Path(sys.argv[1]).resolve())
            done = subprocess.run([link, "logs", "--help"], capture_output=True, text=True, check=False)
            self.assertIn("kubectl coxswain logs", done.stdout)

    def test_what_is_refused(self):
        at = ["--kubeconfig", self.fake.kubeconfig, "-n", "lab"]
        self.fake.missing += [JOB.replace("mnist", "gone")]
        self.refused(65, "gone: there is no such job in namespace lab", "logs", "gone", *at)
        self.refused(65, "--rank 2: it has 2 ranks, 0 to 1", "logs", "mnist", "--rank", "2", *at)
        self.refused(65, "before attempt 1 is left", "logs", "mnist", "--previous", *at)
        self.refused(2, "leave --follow out", "logs", "mnist", "-f", "--previous", *at)
        self.refused(65, "contexts: no not found; there are: ", "describe", "mnist", "--context", "no", *at)
        self.refused(2, "name a run of this machine", "top", "mnist", "--local", *at)
        self.refused(2, "JOB is required", "describe")
        self.refused(2, "neither a kubeconfig nor a service account found", "describe", "mnist")
        self.refused(65, "no run of this job is under way", "describe", "no-such-run", "--local")
        self.refused(65, "there is no such job in /nonexistent", "logs", "mnist", "--run-dir", "/nonexistent")
        with open(self.fake.kubeconfig, encoding="utf-8") as file:
            silent = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:1", file.read())
        with tempfile.NamedTemporaryFile("w") as other:
            other.write(silent)
            other.flush()
            self.refused(69, "127.0.0.1:1", "describe", "mnist", "--kubeconfig", other.name)


    def test_who_lacks_a_right_is_told_which_role_has_it(self):
        log = f"{PODS}/mnist-worker-1/log"
        for path, what, word in ((PODS, "pods of mnist", "logs"), (PODS, "pods of mnist", "describe"),
                                 (log, "log of mnist-worker-1", "logs"),
                                 (f"{PODS}/mnist-worker-0:9400/proxy/ranks", "ranks of mnist-worker-0", "top")):
            self.fake.forbidden = [path]
            code, _, said = self.here(word, "mnist")
            self.fake.forbidden = []
            self.assertEqual((65, 1), (code, said.count("\n")), said)
            self.assertRegex(said, f"{what}: .*403.*the chart's ClusterRole coxswain-inspect holds these rights")


class LocalRunTest(unittest.TestCase):
    """A rank that is killed: what both attempts printed is kept, and told."""

    def test_a_run_is_told_after_its_end(self):
        job = ("apiVersion: coxswain.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: digits}\nspec:\n"
               "  replicaSpecs: {Worker: {replicas: 2}}\n"
               "  training: {model: mlp, data: {format: mnist}, steps: 60}\n"
               "  volumes: {checkpoints: {emptyDir: {}}}\n")
        with tempfile.TemporaryDirectory(prefix="inspect-") as top:
            run = pathlib.Path(top, "run")
            pathlib.Path(top, "job.yaml").write_text(job)
            done = subprocess.run([sys.argv[1], "run", "-f", "job.yaml", "--run-dir", run, "--kill", "worker-1@20"],
                                  cwd=top, capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual(0, done.returncode, done.stderr)

            def look(*words):
                found = subprocess.run([sys.argv[1], *words, "--run-dir", run], capture_output=True, text=True,
                                       timeout=60, check=False)
                self.assertEqual((0, ""), (found.returncode, found.stderr), words)
                return found.stdout

            story = look("describe", "digits")
            self.assertIn(": Succeeded", story.splitlines()[0])
            self.assertRegex(story, r"Attempt 0\n.*\n(.*\n)?.*first cause: worker-1 exit=137")
            self.assertIn("Restarts: 1 by failure", story)
            self.assertIn("rank-0 | 2 ranks x 1 thread", look("logs", "digits", "--previous"))
            last = look("logs", "digits", "--rank", "0")
            self.assertRegex(last, r"rank-0 \(attempt 1\) \| Succeeded: ")
            begin = time.monotonic()
            self.assertEqual(last, look("logs", "digits", "--rank", "0", "-f"))
            self.assertLess(time.monotonic() - begin, 5)
            self.assertIn("Succeeded", look("top", "digits"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
