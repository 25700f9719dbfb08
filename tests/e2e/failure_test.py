#!/usr/bin/env python3
"""What must fail well, with the real programs: one clear line, the right exit code, nothing half-written."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import harness


class FailureTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = harness.temporary()
        cls.place = pathlib.Path(cls.top.name)
        cls.data = harness.first_digits(cls.place / "data", 6000, 500)

    @classmethod
    def tearDownClass(cls):
        cls.top.cleanup()

    def run_job(self, **job):
        return harness.Run(self.place / self.id().rsplit(".", 1)[1], job.pop("data", self.data), **job)

    def broken_data(self):
        directory = self.place / (self.id().rsplit(".", 1)[1] + "-data")
        shutil.copytree(self.data, directory)
        return directory

    def assert_refused(self, run, *words):
        run.wait(30)
        self.assertEqual(run.code, 65, run.errors())
        for word in words:
            self.assertIn(word, run.errors())
        self.assertEqual(run.finished()["result"], "Failed")
        self.assertEqual(run.finished()["restarts"], 0)
        self.assertEqual(run.checkpoints(), [])

    def assert_gone(self, pids, seconds=10):
        end = time.monotonic() + seconds
        while time.monotonic() < end and any(map(harness.alive, pids)):
            time.sleep(0.05)
        left = [f"{pid} {harness.command_of(pid)}" for pid in pids if harness.alive(pid)]
        self.assertEqual(left, [])

    def test_truncated_images(self):
        data = self.broken_data()
        images = data / "train-images-idx3-ubyte"
        images.write_bytes(images.read_bytes()[:-100])
        self.assert_refused(self.run_job(data=data), "train-images-idx3-ubyte")

    def test_swapped_files(self):
        data = self.broken_data()
        shutil.copy(data / "train-labels-idx1-ubyte", data / "train-images-idx3-ubyte")
        self.assert_refused(self.run_job(data=data), "train-images-idx3-ubyte", "magic")

    def test_label_out_of_range(self):
        data = self.broken_data()
        labels = bytearray((data / "train-labels-idx1-ubyte").read_bytes())
        labels[8 + 17] = 10
        (data / "train-labels-idx1-ubyte").write_bytes(labels)
        self.assert_refused(self.run_job(data=data), "train-labels-idx1-ubyte", "17")

    def test_missing_data(self):
        self.assert_refused(self.run_job(data=self.place / "nowhere"), "nowhere")

    def test_ranks_of_a_launcher_that_is_not_open_mpis(self):
        for claim in ({"PMI_SIZE": "2", "PMI_RANK": "0"}, {"COXSWAIN_WORLD_SIZE": "4"}):
            end = subprocess.run([harness.TRAINER, "train", "--model=mlp", "--data.format=mnist"],
                                 env={**os.environ, **claim}, capture_output=True, text=True, timeout=30)
            self.assertEqual(end.returncode, 65, end.stderr)
            self.assertIn(next(iter(claim)), end.stderr)
            self.assertIn("mpirun", end.stderr)

    def test_ranks_that_do_not_come_are_named(self):
        """One of two ranks that find each other over TCP, alone."""
        with tempfile.TemporaryDirectory() as directory:
            place = pathlib.Path(directory)
            (place / "hostfile").write_text("localhost slots=1\nno-such-host.invalid slots=1\n")
            (place / "key").write_text("0123456789abcdef" * 4)
            (place / "0/worker-0").mkdir(parents=True)
            job = {"COXSWAIN_JOB": "a", "COXSWAIN_RUN_DIR": directory, "COXSWAIN_WORLD_SIZE": "2", "RANK": "0",
                   "COXSWAIN_HOSTFILE": f"{directory}/hostfile", "COXSWAIN_KEY": f"{directory}/key",
                   "COXSWAIN_PEER_PORT": "19500", "COXSWAIN_STARTUP_SECONDS": "8"}
            command = [harness.TRAINER, "train", "--model=mlp", "--data.format=synthetic"]
            end = subprocess.run(command, env={**os.environ, **job}, capture_output=True, text=True, timeout=60)
            self.assertEqual(end.returncode, 69, end.stderr)
            self.assertIn("1 of 2 ranks is missing: rank 1 (no-such-host.invalid:19500: it has not called)",
                          end.stderr)
            (place / "key").write_text("not a key")
            end = subprocess.run(command, env={**os.environ, **job}, capture_output=True, text=True, timeout=60)
            self.assertEqual(end.returncode, 65, end.stderr)
            self.assertIn("64 hex digits", end.stderr)

    def end_of_rank(self, *flags, **limits):
        """What one rank of a job says, and the message that it leaves."""
        with tempfile.TemporaryDirectory() as directory:
            os.makedirs(f"{directory}/0/worker-0")  # its supervisor does that
            end = subprocess.run(["prlimit", *(f"--{k}={v}" for k, v in limits.items()), "--", harness.TRAINER,
                                  "train", "--model=mlp", *flags],
                                 env={**os.environ, "COXSWAIN_JOB": "a", "COXSWAIN_RUN_DIR": directory},
                                 capture_output=True, text=True, timeout=60)
            messages = [json.loads(p.read_text()) for p in pathlib.Path(directory).rglob("*.json")]
        return end, messages

    def test_out_of_memory_leaves_a_message(self):
        end, messages = self.end_of_rank("--data.format=synthetic", "--data.size=1000000000",
                                         **{"as": 4 << 30})
        self.assertEqual(end.returncode, 70, end.stderr)
        self.assertEqual([(m["exitCode"], m["reason"]) for m in messages], [(70, "OutOfMemory")])
        self.assertIn("out of memory", messages[0]["message"])

    def test_loss_that_is_not_finite(self):
        run = self.run_job(lr=1e6).wait(60)
        self.assertEqual(run.code, 76, run.errors())
        self.assertIn("not finite", run.errors())
        self.assertEqual(run.finished()["restarts"], 0)

    def test_checkpoint_of_another_model(self):
        first = self.run_job(epochs=1, model="mlp").wait()
        self.assertEqual(first.code, 0, first.errors())
        second = self.run_job(epochs=1, model="lenet").wait()
        self.assertEqual(second.code, 65, second.errors())
        self.assertIn("mlp", second.errors())
        self.assertIn("lenet", second.errors())

    def test_damaged_checkpoint_is_passed_over(self):
        run = self.run_job(model="mlp").wait()
        step, digest = run.weights()
        newest = run.checkpoints()[-1] / "model.safetensors"
        bytes_ = bytearray(newest.read_bytes())
        bytes_[-5] ^= 1
        newest.write_bytes(bytes_)
        again = self.run_job(model="mlp").wait()
        self.assertEqual(again.code, 0, again.errors())
        self.assertIn("passed over", again.output())
        self.assertEqual(again.weights(), (step, digest))

    def test_finished_run_says_so_and_changes_nothing(self):
        run = self.run_job(model="mlp").wait()
        before = run.checkpoints()
        again = self.run_job(model="mlp").wait()
        self.assertEqual(again.code, 0, again.errors())
        self.assertIn("already complete at epoch 2", again.output())
        self.assertEqual(again.checkpoints(), before)

    def test_a_run_that_does_not_resume_knows_itself_by_the_uid_of_its_job(self):
        for start in (1, 2):
            run = self.run_job(model="mlp", epochs=1, every_steps="1000, resume: false").wait()
            self.assertEqual(run.code, 0, run.errors())
            self.assertNotIn("resumed", run.output())
            marks = sorted((run.directory / "coxswain-volumes/digits").glob(".run-*"))
            self.assertEqual(len(marks), start)
            self.assertRegex(marks[-1].name, f"^.run-{start}-[0-9a-f]{{32}}$")

    def test_sigterm_saves_and_the_next_run_goes_on_to_the_same_weights(self):
        whole = harness.Run(self.place / "whole", self.data, epochs=3).wait()
        run = self.run_job(epochs=3)
        run.wait_for_step(30)
        run.process.send_signal(signal.SIGTERM)
        run.wait(20)
        self.assertEqual(run.code, 75, run.errors())
        self.assertEqual(run.finished()["result"], "Saved")
        again = self.run_job(epochs=3).wait()
        self.assertEqual(again.code, 0, again.errors())
        self.assertIn("bit for bit", again.output())
        self.assertEqual(again.weights(), whole.weights())

    def test_a_signal_while_the_ranks_start_is_heeded_at_once(self):
        """Whoever has begun leaves, and nobody waits for one that has."""
        for launcher in ("MPI", "Env"):
            for delay in range(20, 100, 8):
                with self.subTest(launcher=launcher, delay=delay):
                    run = harness.Run(self.place / f"early-{launcher}-{delay}", self.data, launcher=launcher)
                    time.sleep(delay / 1000)
                    run.process.send_signal(signal.SIGINT)
                    run.wait(20)  # seconds; the grace is 60
                    self.assertIn(run.code, (75, -signal.SIGINT), run.errors())

    def test_a_directory_of_runs_is_of_one_at_a_time_and_holds_nothing_of_the_last(self):
        place = self.place / "directory"
        place.mkdir()

        def start(name, steps):
            job = harness.JOB.format(data=self.data, **{**harness.DEFAULTS, "epochs": 50, "model": "mlp"})
            (place / name).mkdir()
            (place / name / "job.yaml").write_text(job.replace("epochs: 50", f"epochs: 50\n    steps: {steps}"))
            return subprocess.Popen([harness.COXSWAIN, "run", "-f", "job.yaml", "--run-dir", "../run"],
                                    cwd=place / name, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        for name, steps in (("first", 10), ("second", 40)):
            out, err = start(name, steps).communicate(timeout=60)
            self.assertEqual(json.loads(out.splitlines()[-1])["steps"], steps, err)
        lasting = start("third", 100_000)
        while not list(place.glob("third/coxswain-volumes/*/step-*")):
            self.assertIsNone(lasting.poll())
            time.sleep(0.05)
        beside = start("fourth", 10)
        _, err = beside.communicate(timeout=60)
        self.assertEqual(beside.returncode, 65, err)
        self.assertIn("another run is under way there", err)
        lasting.terminate()
        out, err = lasting.communicate(timeout=60)
        self.assertEqual(lasting.returncode, 75, err)

    def test_a_closed_terminal_saves_too_unless_it_is_ignored(self):
        run = self.run_job(epochs=50)
        run.wait_for_step(10)
        run.process.send_signal(signal.SIGHUP)
        self.assertEqual(run.wait(60).code, 75, run.errors())
        self.assertEqual(run.finished()["result"], "Saved")
        job = self.place / "nohup"
        job.mkdir()
        shutil.copy(run.directory / "job.yaml", job)
        kept = subprocess.Popen(["nohup", harness.COXSWAIN, "run", "-f", "job.yaml"], cwd=job,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1)
        kept.send_signal(signal.SIGHUP)
        with self.assertRaises(subprocess.TimeoutExpired):
            kept.wait(2)
        kept.send_signal(signal.SIGTERM)
        self.assertEqual(kept.wait(60), 75)

    def test_everything_ends_when_coxswain_run_is_killed(self):
        run = self.run_job(epochs=50)
        run.wait_for_step(10)
        below = harness.descendants(run.process.pid)
        self.assertGreaterEqual(len(below), 4)
        run.process.kill()
        run.wait(5)
        self.assert_gone(below)

    def test_restarts_when_the_launcher_is_killed(self):
        run = self.run_job(epochs=3)
        run.wait_for_step(10)
        mpirun = [p for p in harness.descendants(run.process.pid) 
                  if "mpirun" in harness.command_of(p).split(" ")[0]]
        os.kill(mpirun[0], signal.SIGKILL)
        run.wait()
        self.assertEqual(run.code, 0, run.errors())
        self.assertEqual(run.finished()["restarts"], 1)

    def test_a_stopped_rank_is_named_within_its_deadline(self):
        run = self.run_job(epochs=50, backoff=0)
        run.wait_for_step(10)
        stopped = harness.ranks(run)[1]
        os.kill(stopped, signal.SIGSTOP)
        start = time.monotonic()
        try:
            run.wait(40)
        finally:
            if harness.alive(stopped):
                os.kill(stopped, signal.SIGKILL)
        self.assertLess(time.monotonic() - start, 25)
        self.assertEqual(run.code, 71, run.errors())
        self.assertIn("rank 1", run.errors())

    def test_full_volume(self):
        volume = self.place / "tiny"
        volume.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", volume], capture_output=True).returncode:
            self.skipTest("cannot mount a small file system here")
        try:
            run_directory = self.place / "test_full_volume"
            (run_directory / "coxswain-volumes").mkdir(parents=True)
            (run_directory / "coxswain-volumes/digits").symlink_to(volume)
            run = self.run_job(backoff=0).wait(60)
            self.assertEqual(run.code, 74, run.errors())
            self.assertIn("No space left", run.errors())
            self.assertEqual(list(volume.glob("step-*")), [])
        finally:
            subprocess.run(["umount", volume], check=True)

    def test_bad_job_files_are_refused_at_once_with_their_line(self):
        for text, words in (("kind: [", ["job.yaml"]), ("a: 1", ["apiVersion"]),
                            (harness.JOB.format(**{**harness.DEFAULTS, "data": self.data, "model": "singa-cn"}),
                             ["job.yaml:12", "singa-cnn"]),
                            (harness.JOB.format(**{**harness.DEFAULTS, "data": self.data, "workers": 0}),
                             ["job.yaml:9", "replicas"])):
            directory = self.place / "bad"
            directory.mkdir(exist_ok=True)
            (directory / "job.yaml").write_text(text)
            done = subprocess.run([harness.COXSWAIN, "run", "-f", "job.yaml"], cwd=directory, capture_output=True,
                                  text=True, timeout=5)
            self.assertEqual(done.returncode, 65, done.stderr)
            for word in words:
                self.assertIn(word, done.stderr)

    def test_usage_errors_are_one_line_and_exit_2(self):
        for command in ([harness.COXSWAIN, "run"], [harness.COXSWAIN, "run", "--file"], [harness.TRAINER, "trian"],
                        [harness.TRAINER, "train", "--modle=mlp"], [harness.TRAINER, "train", "--batchSize=x"]):
            done = subprocess.run(command, capture_output=True, text=True, timeout=5)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
