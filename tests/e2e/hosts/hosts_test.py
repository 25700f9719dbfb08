#!/usr/bin/env python3
"""`coxswain run --hosts`: ranks on machines that have sshd and nothing of ours."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import COXSWAIN, JOB, DEFAULTS, Run, first_digits  # noqa: E402
from host_bed import Bed, enter, run  # noqa: E402

enter()
DIRECTORY = pathlib.Path(tempfile.mkdtemp(prefix="coxswain-hosts-test-"))
BED = Bed(DIRECTORY / "bed", 3) if not (DIRECTORY / "bed").mkdir() else None
DATA = first_digits(DIRECTORY / "data", 3200, 640)


class HostsRun(Run):
    """A run over hosts; its volume is a directory that they see under the same name."""

    def __init__(self, directory, hosts, checkpoints=None, spec="", startup=600, servers=0, flags=(), **job):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True)
        self.volume = pathlib.Path(checkpoints or self.directory / "checkpoints")
        self.flags = ["--hosts", hosts, "--volume", f"checkpoints={self.volume}", *flags]
        text = JOB.format(data=DATA, **{**DEFAULTS, **job}) + spec
        if servers:
            text = text.replace("  slotsPerWorker", f"    Server: {{replicas: {servers}}}\n  slotsPerWorker")
        text = text.replace("runPolicy: {", f"runPolicy: {{startupDeadlineSeconds: {startup}, ")
        (self.directory / "job.yaml").write_text(text)
        self.start("job.yaml")

    def start(self, job, environment=None):
        with open(self.directory / "out", "w") as out, open(self.directory / "err", "w") as err:
            self.process = subprocess.Popen([COXSWAIN, "run", "-f", str(job), "--log-format", "json", *self.flags],
                                            cwd=self.directory, stdout=out, stderr=err, start_new_session=True)

    def checkpoints(self):
        return sorted(self.volume.glob("step-*"))


def until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def trainers():
    return [line for host in BED.hosts.values() if host.process.poll() is None for line in host.trainers()]


class Hosts(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(dir=DIRECTORY))

    def assert_nothing_runs(self):
        until(lambda: not trainers(), 15, f"left running: {trainers()}")
        for host in BED.hosts.values():
            until(lambda: not host.left_behind(), 5, f"left behind on {host.name}: {host.left_behind()}")

    def test_two_hosts_of_two_ranks_give_the_bits_of_four_local_ones(self):
        far = HostsRun(self.directory / "far", "h1:2,h2:2", slots=2).wait()
        self.assertEqual(far.code, 0, far.errors() + far.output())
        near = Run(self.directory / "near", DATA, slots=2, launcher="Env").wait()
        self.assertEqual(near.code, 0, near.errors())
        self.assertEqual(far.weights(), near.weights())
        self.assertEqual(far.finished()["result"], "Succeeded")
        self.assert_nothing_runs()
        # Carried once, not for every run.
        again = HostsRun(self.directory / "again", "h1:2,h2:2", slots=2, epochs=1).wait()
        self.assertEqual(again.code, 0, again.errors())
        self.assertNotIn("carrying", again.errors())

    def test_servers_beside_the_ranks_give_the_bits_of_all_reduce(self):
        """One of three is killed, and comes back where the others look for it."""
        far = HostsRun(self.directory / "far", "h1:2,h2:2", servers=3, flags=["--kill", "server-1@15"],
                       strategy="ParameterServer", launcher="Env", slots=2).wait(120)
        self.assertEqual(far.code, 0, far.errors() + far.output())
        reasons = [event["reason"] for event in far.events("state")]
        self.assertIn("Replacing", reasons)
        self.assertNotIn("Restarting", reasons)
        near = Run(self.directory / "near", DATA, slots=2, launcher="Env").wait()
        self.assertEqual(near.code, 0, near.errors())
        self.assertEqual(far.weights(), near.weights())
        self.assert_nothing_runs()

    def test_servers_go_where_the_workers_go(self):
        """A host dies with its rank and its server: another takes both, from the newest checkpoint."""
        training = HostsRun(self.directory / "run", "h1:1,h2:1,h3:1", servers=2, strategy="ParameterServer",
                            launcher="Env", model="mlp", epochs=2000)
        training.wait_for_step(20)
        BED.hosts["h2"].kill()
        try:
            until(lambda: len(training.events("started")) > 1, 120, training.errors() + training.output())
        finally:
            BED.hosts["h2"].start()
        self.assertGreaterEqual(training.events("started")[-1]["firstStep"], 20)
        training.process.send_signal(signal.SIGINT)
        self.assertEqual(training.wait(60).code, 75, training.errors())
        self.assert_nothing_runs()

    def test_top_describe_and_logs_look_at_ranks_on_hosts(self):
        def look(*words):
            done = subprocess.run([COXSWAIN, words[0], "digits", "--local", "--run-dir", directory, *words[1:]],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        directory = str(self.directory / "known")
        training = HostsRun(self.directory / "run", "h1:1,h2:1", flags=["--run-dir", directory], model="mlp",
                            epochs=2000)
        training.wait_for_step(20)
        until(lambda: look("top", "--every", "0").count(" ago") == 2, 30, "no figures of both ranks")
        self.assertRegex(look("top", "--every", "0"), r"(?m)^ +0  h1 .*\n +1  h2 ")
        self.assertRegex(look("describe"), r"Progress: .*step [1-9]")
        self.assertIn("rank-0 | ", look("logs", "--rank", "0"))
        training.process.send_signal(signal.SIGINT)
        self.assertEqual(training.wait(60).code, 75, training.errors())
        self.assert_nothing_runs()

    def test_a_host_that_dies(self):
        """Four runs lose h2: to one another host stands in; one goes on with fewer ranks, as its job says; one waits,
        as long as it may start; and one had its checkpoints there, where nobody else sees them."""
        elastic = "\n  elasticPolicy: {minReplicas: 1, degradedStartAfterSeconds: 3}"
        long = dict(model="mlp", epochs=2000)
        stood_in = HostsRun(self.directory / "a", "h1:1,h2:1,h3:1", **long)
        smaller = HostsRun(self.directory / "b", "h1:1,h2:1", spec=elastic, **long)
        waits = HostsRun(self.directory / "c", "h2:1,h3:1", startup=8, **long)
        apart = HostsRun(self.directory / "d", "h2:1,h1:1,h3:1", checkpoints=BED.local / "checkpoints", **long)
        for each in (stood_in, smaller, waits):
            each.wait_for_step(20)
        own = BED.hosts["h2"].directory / "own/checkpoints"
        until(lambda: any(own.glob("step-*")), 60, "no checkpoint")
        BED.hosts["h2"].kill()
        for each in (waits, apart):
            each.wait(120)
        BED.hosts["h2"].start()
        self.assertEqual(waits.code, 69, waits.errors() + waits.output())
        self.assertRegex(waits.errors(), r"the ranks have waited for 8 s: h2 \(")
        self.assertEqual(apart.code, 65, apart.errors())
        self.assertIn("is not what it was on h2", apart.output())
        for each, words in ((stood_in, "HostLost: h2 answers no more"), (smaller, "from 2 to 1 workers")):
            until(lambda: words in each.output(), 30, f"{words}: {each.events('state')}")
            until(lambda: len(each.events("started")) > 1, 60, each.events("state"))
            self.assertGreaterEqual(each.events("started")[-1]["firstStep"], 20)
            each.process.send_signal(signal.SIGINT)
            self.assertEqual(each.wait(60).code, 75, each.errors())
        self.assertEqual(stood_in.finished()["restarts"], 1, stood_in.errors())
        self.assert_nothing_runs()

    def test_an_interrupt_saves_and_leaves_nothing_running(self):
        training = HostsRun(self.directory / "run", "h1:1,h2:1", epochs=50)
        training.wait_for_step(20)
        training.process.send_signal(signal.SIGINT)
        training.wait(60)
        self.assertEqual(training.code, 75, training.errors())
        self.assertEqual(training.finished()["result"], "Saved")
        self.assert_nothing_runs()

    def test_ranks_do_not_outlive_whoever_started_them(self):
        training = HostsRun(self.directory / "run", "h1:1,h2:1", epochs=50)
        training.wait_for_step(20)
        training.process.kill()
        training.wait(10)
        self.assert_nothing_runs()

    def refused(self, hosts, code, *words, **more):
        training = HostsRun(self.directory / hosts.replace("/", "-"), hosts, **more).wait(60)
        self.assertEqual(training.code, code, training.errors())
        for word in words:
            self.assertIn(word, training.errors())

    def test_hosts_that_do_not_answer_are_named(self):
        self.refused("h1:1,nowhere:1", 69, "no ranks can start on nowhere", "resolve")
        keys = BED.hosts["h2"].authorized_keys
        text = keys.read_text()
        keys.write_text("")
        try:
            self.refused("h1,h2", 69, "no ranks can start on h2 (", "Permission denied")
        finally:
            keys.write_text(text)

    def test_what_hosts_can_not_run_is_refused(self):
        self.refused("h1:1", 65, "2 workers of 1 slots each don't fit: the hosts have places for 1")
        self.refused("h1:1,localhost:1", 65, "localhost: the other hosts would look for it on themselves")
        self.refused("h1:1,-oProxyCommand=x:1", 2, "write h1:2,h2:2")


if __name__ == "__main__":
    try:
        result = unittest.main(exit=False, verbosity=2).result
    finally:
        BED.__exit__()
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    sys.exit(0 if result.wasSuccessful() else 1)
