#!/usr/bin/env python3
"""What a run leaves for people to look at: curves that TensorBoard's own package reads, and a page."""
import os
import pathlib
import subprocess
import tempfile
import unittest

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    EventAccumulator = None

TRAINER = pathlib.Path(os.environ["COXSWAIN_BIN"]) / "coxswain-trainer"
COXSWAIN = TRAINER.with_name("coxswain")
STEPS = 12
JOB = ["train", "--model=mlp", "--data.format=synthetic", "--data.size=12", "--data.shape=[1,6,6]", "--batchSize=4",
       f"--steps={STEPS}", "--threads=1", "--report.logEverySteps=1", "--checkpoint.everyEpochs=1"]


class ReportTest(unittest.TestCase):
    def setUp(self):
        top = tempfile.TemporaryDirectory(prefix="report-")
        self.addCleanup(top.cleanup)
        self.saved = pathlib.Path(top.name) / "saved"

    def run_trainer(self, *arguments, fail_point=None):
        environment = os.environ | ({"COXSWAIN_FAIL_POINT": fail_point} if fail_point else {})
        return subprocess.run([TRAINER, *arguments], env=environment, capture_output=True, text=True, timeout=60,
                              check=False)

    def train(self, *flags, fail_point=None):
        return self.run_trainer(*JOB, f"--checkpoint.path={self.saved}", *flags, fail_point=fail_point)

    def die_and_go_on(self, *flags):
        """Killed in step 11; the save of epoch 3 at step 9 may be under way, that of epoch 2 at step 6 is done."""
        self.assertEqual(self.train(*flags, fail_point="0:10:update").returncode, -9)
        done = self.train(*flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("resumed after step", done.stdout)

    @unittest.skipIf(EventAccumulator is None, "the Python package tensorboard is not installed")
    def test_tensorboard_reads_one_curve_over_a_restart(self):
        self.die_and_go_on("--report.tensorboard=curves", "--report.histograms=true")
        curves = EventAccumulator(str(self.saved / "curves"), size_guidance={"histograms": 0})
        curves.Reload()
        tags = {"Loss/train", "Accuracy/train", "lr", "images/s", "Loss/Val", "Accuracy/Val", "Top5/Val"}
        self.assertEqual(set(curves.Tags()["scalars"]), tags)
        for tag in ("Loss/train", "Accuracy/train", "lr", "images/s"):
            self.assertEqual([point.step for point in curves.Scalars(tag)], list(range(1, STEPS + 1)), tag)
        self.assertEqual([point.step for point in curves.Scalars("Loss/Val")], [3, 6, 9, 12])
        weights = curves.Histograms("Weights/fc1.weight")
        self.assertEqual([point.step for point in weights], [3, 6, 9, 12])
        for point in curves.Scalars("Accuracy/Val"):
            self.assertTrue(0 <= point.value <= 1, point)

    def test_a_place_that_can_not_be_written_is_no_success(self):
        self.saved.mkdir()
        (self.saved / "curves").write_text("in the way")
        done = self.train("--report.tensorboard=curves")
        self.assertEqual(done.returncode, 74, done.stdout)
        self.assertIn("report.tensorboard", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_a_page_takes_the_place_of_files_alone(self):
        self.assertEqual(self.train().returncode, 0)
        pipe = self.saved / "pipe"
        os.mkfifo(pipe)
        done = self.run_trainer("report", str(self.saved), "--output", str(pipe))
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("is a FIFO: name a new file", done.stderr)
        self.assertTrue(pipe.is_fifo())

    def test_a_timeline_is_told_in_words(self):
        done = self.train("--report.timeline=steps.json", "--report.timelineSteps=4-6")
        self.assertEqual(done.returncode, 0, done.stderr)
        file = self.saved / "steps.json"
        words = self.run_trainer("timeline", str(file))
        self.assertEqual(words.returncode, 0, words.stderr)
        self.assertTrue(words.stdout.startswith("3 steps, 4 to 6, of 1 rank: a step takes "), words.stdout)
        for word in ("forward", "backward", "update", "the longest layers: "):
            self.assertIn(word, words.stdout)
        file.write_text("{}")
        self.assertEqual(self.run_trainer("timeline", str(file)).returncode, 65)
        file.unlink()
        file.mkdir()
        done = self.train("--report.timeline=steps.json", "--checkpoint.resume=false")
        self.assertEqual(done.returncode, 74, done.stdout)
        self.assertIn("report.timeline", done.stderr)

    def test_without_checkpoints_there_is_no_place(self):
        for flag in ("--report.tensorboard=curves", "--report.html=true", "--report.timeline=t.json"):
            done = self.run_trainer(*JOB, flag)
            self.assertEqual(done.returncode, 65, done.stdout)
            self.assertIn("give checkpoint.path", done.stderr)

    def test_files_of_the_run_are_no_places(self):
        for flag in ("--report.tensorboard=LATEST", "--report.timeline=./history.jsonl"):
            done = self.train(flag)
            self.assertEqual(done.returncode, 65, done.stdout)
            self.assertIn("is a name that a run gives its own files: give another", done.stderr)

    def test_a_page_tells_how_an_attempt_ended(self):
        self.die_and_go_on("--report.html=true", "--report.oneRankRate=measure", "--report.timeline=steps.json",
                           "--report.timelineSteps=10-12")
        page = (self.saved / "report.html").read_text()
        self.assertIn("What a step is made of</h2>\n<pre class=\"wrap\">3 steps, 10 to 12, of 1 rank", page)
        self.assertIn("fell silent", page)
        self.assertIn("Succeeded", page)
        self.assertLess(len(page), 500_000)
        other = self.saved.parent / "page.html"
        done = self.run_trainer("report", str(self.saved), "--output", str(other))
        self.assertEqual((done.returncode, done.stdout), (0, f"{other}\n"), done.stderr)
        self.assertEqual(other.read_text(), page)

    def test_a_page_tells_what_the_supervisor_knew_of_an_end(self):
        """Rank 1 is killed: rank 0 sees a peer that is gone, `coxswain run` how it ended."""
        job = self.saved.parent / "job.yaml"
        job.write_text(f"""apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {{name: told}}
spec:
  launcher: Env
  replicaSpecs: {{Worker: {{replicas: 2}}}}
  volumes: {{checkpoints: {{hostPath: {{path: {self.saved}}}}}}}
  checkpoint: {{everySteps: 5}}
  training: {{model: mlp, data: {{format: synthetic, size: 24, shape: [1, 6, 6]}}, batchSize: 4, steps: {STEPS},
    threads: 1, report: {{html: true}}}}
""")
        done = subprocess.run([COXSWAIN, "run", "-f", job, "--kill", "worker-1@8"], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        page = (self.saved / "report.html").read_text()
        self.assertIn("Failure: worker-1 exit=137", page)
        self.assertIn("Succeeded", page)

    def test_a_run_that_fails_leaves_a_page(self):
        done = self.train("--report.html=true", "--optimizer.lr=1000000", "--optimizer.momentum=0.99")
        self.assertEqual(done.returncode, 76, done.stderr)
        self.assertIn("NotFinite (76)", (self.saved / "report.html").read_text())

    def test_a_directory_without_a_run_is_refused(self):
        self.saved.mkdir()
        done = self.run_trainer("report", str(self.saved))
        self.assertEqual(done.returncode, 65)
        self.assertIn("history.jsonl", done.stderr)
        self.assertEqual(list(self.saved.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
