#!/usr/bin/env python3
"""Workers that train apart, with parameter servers that hold the weights: the processes of one job, started by hand.
Workers and servers die and come back, a checkpoint goes on under all-reduce; and a job that the operator runs, which
replaces a server alone."""
import contextlib
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from harness import COXSWAIN, TRAINER, first_digits

PATIENCE = 240  # seconds
IMAGES, BATCH = 12800, 64
EPOCH = IMAGES // BATCH  # steps


def free_ports(count):
    """Ports that nobody has, and nobody's calls leave from: those come from 32768 on."""
    ports = set()
    while len(ports) < count:
        port = random.randrange(20000, 30000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            ports.add(port)
    return list(ports)


JOB = """
apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {{name: apart}}
spec:
  strategy: ParameterServer
  launcher: Env
  replicaSpecs: {{Worker: {{replicas: 2}}, Server: {{replicas: 2}}}}
  training:
    model: singa-cnn
    data: {{format: mnist, path: {data}}}
    steps: 60
    batchSize: 32
    optimizer: {{name: adam, lr: 0.001}}
    evaluate: {{everyEpochs: 0}}
    threads: 1
    parameterServer: {{mode: {mode}}}
  volumes:
    checkpoints: {{persistentVolumeClaim: {{claimName: apart}}}}
"""


class Job:
    """`workers` workers and `servers` servers in a directory; what was given to it before is there still.
    `dies`: (worker, step), the first one of its own from there on."""

    def __init__(self, directory, workers=2, servers=2, dies=None, **keys):
        self.directory = pathlib.Path(directory)
        (self.directory / "saved").mkdir(parents=True, exist_ok=True)
        (self.directory / "key").write_text("ab" * 32)
        (self.directory / "hostfile").write_text("localhost slots=1\n" * workers)
        digits = self.directory / "digits"
        if not digits.exists():
            first_digits(digits, IMAGES, 2000)
        given = {"model": "singa-cnn", "data.format": "mnist", "data.path": digits, "batchSize": BATCH, "seed": 3,
                 "threads": 1, "optimizer.momentum": 0.9, **{k.replace("__", "."): v for k, v in keys.items()}}
        self.flags = [f"--{key}={value}" for key, value in given.items()]
        ports = free_ports(servers + 1)
        self.environment = {
            **os.environ, "COXSWAIN_JOB": "apart", "COXSWAIN_JOB_UID": "u", "COXSWAIN_ATTEMPT": "0",
            "COXSWAIN_WORLD_SIZE": str(workers), "COXSWAIN_SLOTS": "1", "COXSWAIN_KEY": str(self.directory / "key"),
            "COXSWAIN_HOSTFILE": str(self.directory / "hostfile"), "COXSWAIN_RUN_DIR": str(self.directory),
            "COXSWAIN_PEER_PORT": str(ports[0]), "COXSWAIN_STARTUP_SECONDS": "60", "COXSWAIN_LOG_FORMAT": "json",
            "COXSWAIN_SERVERS": ",".join(f"127.0.0.1:{port}" for port in ports[1:])}
        self.dies = dies
        self.servers = [self.start("server", i) for i in range(servers)]
        self.workers = [self.start("worker", i) for i in range(workers)]

    def start(self, role, index, incarnation=0):
        environment = {**self.environment, "COXSWAIN_ROLE": role, "COXSWAIN_INDEX": str(index), "RANK": str(index),
                       "LOCAL_RANK": "0", "WORLD_SIZE": self.environment["COXSWAIN_WORLD_SIZE"]}
        if incarnation:
            environment["COXSWAIN_INCARNATION"] = str(incarnation)
        if role == "worker" and self.dies and self.dies[0] == index:
            environment["COXSWAIN_FAIL_POINT"] = f"{index}:{self.dies[1]}:reduce"
        if role == "worker" and index == 0:
            environment["COXSWAIN_CHECKPOINTS"] = str(self.directory / "saved")
        (self.directory / "0" / f"{role}-{index}").mkdir(parents=True, exist_ok=True)
        command = {"worker": "train", "server": "server"}[role]
        with open(self.directory / f"{role}-{index}.out", "a") as out:
            return subprocess.Popen([TRAINER, command, *self.flags], env=environment, stdout=out, stderr=out)

    def output(self, role="worker", index=0):
        return (self.directory / f"{role}-{index}.out").read_text()

    def events(self, kind):
        lines = [line for line in self.output().splitlines() if line.startswith("{")]
        return [event for event in map(json.loads, lines) if event.get("event") == kind]

    def wait_for_step(self, step):
        end = time.monotonic() + PATIENCE
        while not any(event["step"] >= step for event in self.events("step")):
            if time.monotonic() > end or self.workers[0].poll() is not None:
                raise AssertionError(f"no step {step}: {self.output()}")
            time.sleep(0.05)

    def replace(self, worker):
        """Once it has died."""
        assert self.workers[worker].wait(timeout=PATIENCE) == -signal.SIGKILL, self.output("worker", worker)
        self.workers[worker] = self.start("worker", worker, incarnation=1)

    def replace_server(self, server):
        """It dies here and now."""
        self.servers[server].kill()
        self.servers[server].wait()
        self.servers[server] = self.start("server", server, incarnation=1)

    def finish(self):
        """The workers' exit codes; the servers end when they are told to."""
        codes = [worker.wait(timeout=PATIENCE) for worker in self.workers]
        for server in self.servers:
            server.send_signal(signal.SIGTERM)
        for server in self.servers:
            assert server.wait(timeout=30) == 0, self.output("server", self.servers.index(server))
        return codes

    def stop(self):
        for process in self.servers + self.workers:
            if process.poll() is None:
                process.kill()
                process.wait()

    def checkpoint(self):
        """state.json of the newest one."""
        newest = max((self.directory / "saved").glob("step-*"),
                     key=lambda path: [int(part[1:] if part[0] == "g" else part.split("-")[1])
                                       for part in path.name.split(".")[:2]][::-1])
        return json.loads((newest / "state.json").read_text())


class Apart(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)

    def job(self, **keys):
        job = Job(self.place.name, **keys)
        self.addCleanup(job.stop)
        return job

    def accuracy(self, job):
        self.assertEqual(job.finish(), [0] * len(job.workers), job.output())
        return job.events("epoch")[-1]["accuracy"]

    def test_learns_and_goes_on_under_all_reduce(self):
        job = self.job(parameterServer__mode="async", epochs=2)
        self.assertGreater(self.accuracy(job), 0.9)
        self.assertEqual(job.checkpoint()["step"], 2 * EPOCH)
        self.assertEqual(job.checkpoint()["world_size"], 2)
        self.assertGreater(job.events("epoch")[-1]["staleness"], 0)
        job = self.job(parameterServer__mode="sync", epochs=3, servers=1)
        self.assertGreater(self.accuracy(job), 0.9)
        self.assertEqual(job.checkpoint()["step"], 2 * EPOCH + EPOCH // 2)

    def test_learns_within_a_bound(self):
        job = self.job(parameterServer__mode="ssp", parameterServer__staleness=1, workers=3, epochs=1)
        self.assertGreater(self.accuracy(job), 0.8)
        self.assertLessEqual(job.events("epoch")[-1]["mostStaleness"], 8)  # four of each of the two others

    def test_goes_on_without_a_worker(self):
        job = self.job(parameterServer__mode="async", epochs=1, dies=(1, EPOCH // 4))
        self.assertEqual(job.finish(), [0, -signal.SIGKILL], job.output())
        self.assertGreater(job.events("epoch")[-1]["accuracy"], 0.8)
        self.assertEqual(job.checkpoint()["step"], EPOCH)

    def test_any_worker_comes_back(self):
        for worker in (0, 1):
            with self.subTest(worker=worker):
                job = self.job(parameterServer__mode="async", epochs=worker + 1, checkpoint__resume="true",
                               dies=(worker, EPOCH * worker + EPOCH // 4))
                job.replace(worker)
                self.assertGreater(self.accuracy(job), 0.8)
                self.assertEqual(job.checkpoint()["step"], EPOCH * (worker + 1))

    def test_any_server_comes_back(self):
        for mode, server in (("async", 0), ("ssp", 1)):
            with self.subTest(server=server):
                job = self.job(parameterServer__mode=mode, epochs=2 * server + 2, checkpoint__resume="true")
                job.wait_for_step(EPOCH * (2 * server) + EPOCH // 2)
                job.replace_server(server)
                self.assertGreater(self.accuracy(job), 0.8)
                self.assertEqual(job.checkpoint()["step"], EPOCH * (2 * server + 2))
                self.assertEqual(job.checkpoint()["update_count"], EPOCH * (2 * server + 2))

    def test_the_operator_replaces_a_server_alone(self):
        for mode in ("async", "ssp"):
            with self.subTest(mode=mode):
                place = pathlib.Path(self.place.name) / mode
                first_digits(place / "digits", 2000, 200)
                (place / "job.yaml").write_text(JOB.format(mode=mode, data=place / "digits"))
                run = subprocess.run([COXSWAIN, "run", "-f", "job.yaml", "--log-format", "json", "--kill", "server-1@15"],
                                     cwd=place, capture_output=True, text=True, check=False, timeout=PATIENCE)
                said = run.stdout + run.stderr
                self.assertEqual(run.returncode, 0, said)
                self.assertIn('"reason":"Replacing","message":"server-1 exit=137', said)
                self.assertNotIn('"reason":"Restarting"', said)
                self.assertIn('"result":"Succeeded"', said)

    def test_stops_where_any_worker_is_asked_to(self):
        job = self.job(parameterServer__mode="async", epochs=8)
        job.wait_for_step(50)
        job.workers[1].send_signal(signal.SIGUSR1)
        self.assertEqual(job.finish(), [75, 75])
        stopped = job.checkpoint()
        self.assertLess(stopped["step"], 8 * EPOCH)
        self.assertEqual(stopped["epoch"] * IMAGES + stopped["samples_in_epoch"], BATCH * stopped["step"])
        job = self.job(parameterServer__mode="async", epochs=8)
        self.assertGreater(self.accuracy(job), 0.9)
        self.assertEqual(job.checkpoint()["step"], 8 * EPOCH)


if __name__ == "__main__":
    unittest.main(verbosity=2)
