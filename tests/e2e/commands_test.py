#!/usr/bin/env python3
"""Both programs against wrong commands, wrong files and output that can't be written.

Each ends at once, with one printable line that says what, where and what to do, and the exit code of README.md.
COXSWAIN_BIN names the folder of the programs.
"""
import os
import pathlib
import re
import subprocess
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ["COXSWAIN_BIN"])
GOOD = """apiVersion: coxswain.dev/v1alpha1
kind: TrainingJob
metadata: {name: mnist}
spec:
  replicaSpecs: {Worker: {replicas: 2}}
  training: {model: mlp, data: {format: mnist}}
"""
SOON = 1.0  # seconds that an answer may take
TRIES = 3  # of a measurement, on a machine that others keep busy
LONGEST = 1100  # characters of a line


class CommandsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.TemporaryDirectory(prefix="commands-")
        cls.place = pathlib.Path(cls.top.name)
        (cls.place / "job.yaml").write_text(GOOD)

    @classmethod
    def tearDownClass(cls):
        cls.top.cleanup()

    def run_program(self, *arguments, shell="", text=b"", **variables):
        """`coxswain...` with its redirections by a shell, in a directory of its own."""
        command = [BIN / arguments[0], *arguments[1:]]
        if shell:
            command = ["bash", "-c", f'exec "$@" {shell}', "bash", *command]
        environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **variables}
        for _ in range(TRIES):
            begin = time.monotonic()
            done = subprocess.run(command, input=text, capture_output=True, timeout=30, check=False,
                                  cwd=self.place, env=environment)
            took = time.monotonic() - begin
            if took < SOON:
                break
        self.assertLess(took, SOON, arguments)
        return done

    def assert_line(self, done, what):
        said = done.stderr.decode()
        self.assertEqual(said.count("\n"), 1, what + said[:500])
        self.assertLess(len(said), LONGEST, what)
        self.assertTrue(said[:-1].isprintable(), what + repr(said))
        return said

    def assert_refused(self, code, holds, *arguments, **more):
        with self.subTest(arguments=str(arguments)[:200]):
            done = self.run_program(*arguments, **more)
            self.assertEqual(done.returncode, code, done.stderr[:500])
            self.assertRegex(self.assert_line(done, str(arguments)[:200]), holds)

    def test_output_that_can_not_be_written(self):
        commands = [["coxswain", "--help"], ["coxswain", "run", "--help"], ["coxswain", "version"],
                    ["coxswain", "plan", "-f", "job.yaml"], ["coxswain", "validate", "-f", "job.yaml"],
                    ["coxswain-trainer", "--help"], ["coxswain-trainer", "models"],
                    ["coxswain-trainer", "train", "--model=mlp", "--data.format=mnist",
                     "--print-config"]]
        for command in commands:
            for output in (">/dev/full", ">&-"):
                self.assert_refused(74, "standard output can't be written", *command, shell=output)
            with self.subTest(command=command):
                self.assertEqual(self.run_program(*command, shell=">/dev/full 2>&1").returncode, 74)
                done = self.run_program(*command, shell="2>&-")
                self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_a_refusal_stays_one_without_output(self):
        for output in (">/dev/full 2>&1", ">&- 2>&-", ">/dev/full", "2>/dev/full"):
            with self.subTest(output=output):
                done = self.run_program("coxswain", "validate", "-f", "nowhere.yaml", shell=output)
                self.assertEqual(done.returncode, 65)

    def test_flags(self):
        for flag in ("--trainer-image", "--trainer-cuda-image", "--kubeconfig", "--namespaces",
                     "--lease-namespace", "--log-format", "--workers", "--progress"):
            for arguments in ([f"{flag}=", "--leader-elect"], [flag, "--leader-elect"], [flag, ""],
                              [flag]):
                self.assert_refused(2, f"{flag} needs a value", "coxswain", "operator", *arguments)
        for flag in ("--config", "--log-format"):
            for arguments in ([f"{flag}=", "--batchSize=3"], [flag, "--batchSize=3"], [flag]):
                self.assert_refused(2, f"{flag} needs a value", "coxswain-trainer", "train",
                                    *arguments)
        for command in (["eval", "--checkpoint="], ["export", "--checkpoint=", "--output=x"],
                        ["export", "--checkpoint=x", "--output="],
                        ["export", "--checkpoint=x", "--output=x", "--format="], ["bench", "--seconds="],
                        ["worker", "--launcher="]):
            self.assert_refused(2, "needs a value", "coxswain-trainer", *command)

    def test_commands(self):
        trainer = "coxswain-trainer"
        rows = [("coxswain", [], "see coxswain --help"),
                ("coxswain", ["valdate"], "did you mean validate"),
                ("coxswain", [""], 'unknown argument ""'),
                ("coxswain", ["validate", "-f", "job.yaml", "\x1b[31mred"], r"\\x1b\[31mred"),
                ("coxswain", ["version", "x" * 100000], "unknown argument xxx"),
                (trainer, [], "see coxswain-trainer --help"),
                (trainer, ["modles"], "did you mean models"),
                (trainer, ["models", "\x9b\u202ex"], "unknown argument"),
                (trainer, ["import"], "unknown argument import"),
                (trainer, ["rank", "echo"], "unknown argument echo"),
                (trainer, ["models", "--", "x"], "--"),
                (trainer, ["train", "--\x1b[31mlr=1"], r"unknown flag"),
                (trainer, ["train", "--model=" + "x" * 4000], "--model"),
                (trainer, ["export", "--checkpoint=x", "--output=y", "--format=pickle"], "--format"),
                *[(trainer, ["bench", f"--seconds={text}"], "--seconds")
                  for text in ("0", "-1", "nan", "inf", "1e9", "x")]]
        for program, arguments, holds in rows:
            self.assert_refused(2, holds, program, *arguments)
        for program in ("coxswain", trainer):
            said = self.run_program(program, "--help").stdout.decode()
            self.assertIsNone(re.search(r"^ +import\b", said, re.M), said)

    def test_commands_of_elsewhere(self):
        """What is converted is printed whole, or not at all; none of its words is taken for ours."""
        self.assert_refused(2, "takes a command after --", "coxswain", "convert")
        self.assert_refused(2, "takes a command after --", "coxswain", "convert", "-f", "job.yaml", "--", "x")
        self.assert_refused(2, "unknown argument python", "coxswain", "convert", "python", "train.py")
        self.assert_refused(65, "can't read", "coxswain", "convert", "-f", "gone.yaml")
        own = ["coxswain", "convert", "--name", "mine", "--", "run", "--partial", "-f", "job.yaml", "--help"]
        done = self.run_program(*own)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"name: mine\n", done.stdout)
        self.assertIn(b"- \"--partial\"\n", done.stdout)
        lost = ["mpirun -np 2 python train_mpi.py cnn mnist --colour | tee log"]
        done = self.run_program("coxswain", "convert", "--", *lost)
        self.assertEqual((done.returncode, done.stdout), (65, b""))
        for line in (b"--colour: no place: unknown option\n", b"|: no place: shell syntax"):
            self.assertIn(line, done.stderr)
        done = self.run_program("coxswain", "convert", "--partial", "--", *lost)
        self.assertEqual(done.returncode, 0, done.stderr)
        (self.place / "converted.yaml").write_bytes(done.stdout)
        done = self.run_program("coxswain", "validate", "-f", "converted.yaml")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_files_that_can_not_be_read(self):
        os.mkfifo(self.place / "pipe")
        for command in ("run", "plan", "validate"):
            for file, holds in (("nowhere", "No such file"), ("/tmp", "directory"),
                                ("/proc/self/mem", "Input/output error"),
                                ("/dev/zero", "above the limit"), ("/dev/null", "no document")):
                self.assert_refused(65, holds, "coxswain", command, "-f", file)
            self.assert_refused(65, "standard input: can't read", "coxswain", command, "-f", "-",
                                shell="<&-")
            self.assert_refused(65, "standard input: can't read", "coxswain", command, "-f", "-",
                                shell="</tmp")
        for file, holds in (("nowhere", "not found"), ("/tmp", "not a file"), ("pipe", "not a file"),
                            ("/dev/zero", "not a file")):
            self.assert_refused(65, holds, "coxswain-trainer", "train", "--config", file)
        (self.place / "history.jsonl").symlink_to("pipe")
        for command in (["timeline", "pipe"], ["report", "."]):
            self.assert_refused(65, "a FIFO, not a regular file", "coxswain-trainer", *command)
        done = self.run_program("coxswain", "validate", "-f", "/dev/stdin", text=GOOD.encode())
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_directories_of_a_run(self):
        (self.place / "volumes.yaml").write_text(GOOD + "  volumes: {data: {emptyDir: {}}}\n")
        run = ("coxswain", "run", "-f", "volumes.yaml")
        self.assert_refused(74, "--run-dir .*job.yaml", *run, "--run-dir", "job.yaml")
        self.assert_refused(74, "--run-dir .*job.yaml/x", *run, "--run-dir", "job.yaml/x")
        self.assert_refused(74, "something else is there|can't make", *run, "--volume=data=job.yaml")
        for arguments, holds in ((["--run-dir=a\nb"], "control characters"),
                                 (["--volume=data=a\nb"], "control characters"),
                                 (["--volume=data=a", "--volume=data=b"], "given twice"),
                                 (["--volume=checkpoints=a"], "the job has the volumes data"),
                                 (["--volume=other=a"], "the job has the volumes data"),
                                 (["--volume=data"], "NAME=DIR"), (["--volume=data="], "NAME=DIR"),
                                 (["--volume==x"], "NAME=DIR"), (["--volume", "data"], "NAME=DIR")):
            self.assert_refused(2, holds, *run, *arguments)

    def test_no_place_for_temporary_files(self):
        for command in (["run", "-f", "job.yaml"], ["estimate", "-f", "job.yaml", "--measure"]):
            for place, why in (("/nowhere", "No such file or directory"),
                               (str(self.place / "job.yaml"), "is no directory")):
                self.assert_refused(74, f"no place for temporary files in {place}: {why}: set TMPDIR",
                                    "coxswain", *command, TMPDIR=place)
        self.assert_refused(65, "job: no run of this job is under way in /tmp;",
                            "coxswain", "describe", "job", "--local", TMPDIR="")

    def test_a_limit_of_the_size_of_files(self):
        self.assert_refused(74, "x.png: cannot write: File too large", "/usr/bin/prlimit", "--fsize=100",
                            str(BIN / "coxswain-trainer"), "preview", "--out", "x.png", "--model=mlp",
                            "--data.format=synthetic")

    def test_a_limit_of_open_files(self):
        self.assert_refused(65, r"\[run\] 40 files may be open at once \(ulimit -n\), and 2 ranks take 80: raise",
                            "/usr/bin/prlimit", "--nofile=40", str(BIN / "coxswain"), "run", "-f", "job.yaml")

    def test_a_soft_limit_of_open_files_is_raised(self):
        (self.place / "short.yaml").write_text(GOOD.replace("model: mlp", "steps: 2, model: mlp"))
        done = subprocess.run(["/usr/bin/prlimit", "--nofile=20:1000", BIN / "coxswain", "run", "-f", "short.yaml"],
                              cwd=self.place, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_file_takes_the_place_of_files_alone(self):
        """Were there a link, a FIFO or a device, a rename would put the file in its place."""
        small = ("--model=mlp", "--data.format=synthetic", "--data.shape=[1,6,6]", "--data.classes=4",
                 "--data.size=8", "--batchSize=8", "--threads=1")
        run = self.place / "a run\x1b[31m"
        trained = self.run_program("coxswain-trainer", "train", *small, "--epochs=1", "--checkpoint.path=saved")
        self.assertEqual(trained.returncode, 0, trained.stderr)
        (self.place / "saved").rename(run)
        for name in ("at", "at.png", "at.rec", "at.onnx"):
            (self.place / name).symlink_to("target")
        for flag, *command in (("--output", "export", "--checkpoint", run, "--output", "at"),
                               ("--output", "export", "--checkpoint", run, "--output", "at.onnx"),
                               ("--output", "report", run, "--output", "at"),
                               ("--out", "preview", *small, "--out", "at.png"),
                               ("--to", "pack", "--from", "mnist", "--to", "at.rec")):
            self.assert_refused(2, f'{flag} "at[.a-z]*" is a link: name a new file', "coxswain-trainer", *command)
        for command in (("export", "--checkpoint", run, "--output", "weights\x1b[31m"),
                        ("eval", *small, "--checkpoint", run), ("report", run),
                        ("preview", *small, "--out", "sheet\x1b[31m.png")):
            said = self.run_program("coxswain-trainer", *command)
            self.assertEqual(said.returncode, 0, said.stderr)
            self.assertTrue(said.stdout.decode().replace("\n", "").isprintable(), said.stdout)

    @unittest.skipUnless(" avx512bw " in pathlib.Path("/proc/cpuinfo").read_text(), "oneDNN has no bf16 for this CPU")
    def test_a_cpu_without_instructions_for_bf16(self):
        train = ("train", "--model=mlp", "--data.format=synthetic", "--data.shape=[1,6,6]", "--data.classes=4",
                 "--data.size=8", "--batchSize=8", "--epochs=1", "--threads=1")
        for precision, slow in (("bf16", True), ("fp32", False)):
            done = self.run_program("coxswain-trainer", *train, "--precision", precision, ONEDNN_MAX_CPU_ISA="AVX512_CORE")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(b"this CPU has no instructions for it; fp32 is faster" in done.stdout, slow, done.stdout)

    def test_what_layers_may_be_computed_with(self):
        bench = ("bench", "--print-plan", "--data.format=synthetic", "--data.size=8", "--batchSize=8", "--threads=1")
        resnet = ("--model=cifar-resnet8", "--data.shape=[3,32,32]", "--data.classes=4")
        for flags, says in ((("--model=mlp", "--data.shape=[1,6,6]", "--data.classes=4"), "no layer of this model has"),
                            ((*resnet, "--convolution=winograd"), r"stage1.*: winograd \d+\.\d+ ms, direct \d+\.\d+ ms")):
            done = self.run_program("coxswain-trainer", *bench, *flags)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout.decode(), says)

    def test_a_checkpoint_of_another_model(self):
        small = ("--data.format=synthetic", "--data.shape=[1,6,6]", "--data.classes=4", "--data.size=8",
                 "--batchSize=8", "--threads=1")
        (self.place / "net.yaml").write_text("input: [1, 6, 6]\nlayers:\n- dense: {outputs: classes}\n")
        own = f"--modelFile={self.place / 'net.yaml'}"
        for model, place in (("--model=mlp", "named"), (own, "own")):
            done = self.run_program("coxswain-trainer", "train", *small, model, "--epochs=1",
                                    f"--checkpoint.path={place}")
            self.assertEqual(done.returncode, 0, done.stderr)
        score = ("coxswain-trainer", "eval", *small, "--checkpoint")
        self.assert_refused(2, "--model: required unless --modelFile is given: one of ", *score, "own")
        self.assert_refused(65, "is not of model mlp; give --modelFile=FILE: it holds", *score, "own", "--model=mlp")
        self.assert_refused(65, "is not of model lenet; give --model=mlp", *score, "named", "--model=lenet")
        done = self.run_program(*score, "own", own)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_names_of_data(self):
        def train(*flags):
            return ("coxswain-trainer", "train", "--model=mlp", *flags)

        (self.place / "empty").mkdir()
        self.assert_refused(65, "set data.evalPath to the directory", *train("--data.format=mnist"),
                            "--data.evalPath=empty")
        self.assert_refused(65, "set data.path to", *train("--data.format=recordio", "--data.path=nowhere"))
        for flags, key in ((["--from=nowhere", "--to=x.rec"], "--from"),
                           (["--from=mnist", "--data=nowhere", "--to=x.rec"], "--data"),
                           (["--from=mnist", "--to=nowhere"], "--to")):
            self.assert_refused(65, f"set {key} to the directory", "coxswain-trainer", "pack", *flags)

    def test_a_sheet_is_a_png(self):
        self.assert_refused(2, "x.jpg: a PNG is drawn", "coxswain-trainer", "preview", "--out", "x.jpg",
                            "--model=mlp", "--data.format=mnist")

    def test_estimates(self):
        def estimate(data, *flags):
            (self.place / "estimate.yaml").write_text(GOOD.replace("{format: mnist}", data))
            return ("coxswain", "estimate", "-f", "estimate.yaml", "--workers=1,2", *flags)

        def seconds_to_the_end(data):  # of 10 epochs on a rank of 600 images/s
            done = self.run_program(*estimate(data, "--rate=600"))
            self.assertEqual(done.returncode, 0, done.stderr)
            return " ".join(done.stdout.decode().splitlines()[2].split()[5:-1])

        self.assertEqual(seconds_to_the_end("{format: mnist}"), "16 min 40 s")
        self.assertEqual(seconds_to_the_end("{format: mnist, limit: 600}"), "10 s")
        self.assertEqual(seconds_to_the_end("{format: synthetic, size: 1200}"), "20 s")
        self.assertEqual(seconds_to_the_end("{format: recordio, path: /data}"), "-")
        for rate in ("1e308", "-1", "0", "x", "nan"):
            self.assert_refused(2, "--rate", *estimate("{format: mnist}", f"--rate={rate}"))
        self.assert_refused(2, "is --rate", *estimate("{format: mnist}", "--rate=600", "--seen=1=500"))
        self.assert_refused(2, "--volume is for --measure",
                            *estimate("{format: mnist}", "--rate=600", "--volume=data=/tmp"))
        for restart, end in (("2m", r"\d+ min"), ("20h", "never")):
            done = self.run_program(*estimate("{format: mnist}", "--rate=600", "--mtbf=1h", f"--restart={restart}"))
            self.assertRegex(done.stdout.decode().split("GETS ON")[-1], rf" 2 +\d+\.\d % +{end}", done.stderr)
        own = estimate("{format: mnist}", "--rate=600")
        (self.place / "estimate.yaml").write_text(GOOD.replace("model: mlp", "modelFile: net.yaml"))
        self.assert_refused(65, "modelFile: give its --parameters", *own)
        self.assert_refused(65, "--seen 2=9000: 2 workers reach 1[0-9]{3} at most",
                            *estimate("{format: mnist}", "--rate=600", "--seen=2=9000"))

    def test_an_estimate_knows_of_cores(self):
        def said(worker):  # of four ranks of 600 images/s for each of 60,000
            (self.place / "ranks.yaml").write_text(
                GOOD.replace("spec:\n", "spec:\n  slotsPerWorker: 4\n").replace("replicas: 2", worker)
                .replace("model: mlp", "model: mlp, epochs: 1"))
            done = self.run_program("coxswain", "estimate", "-f", "ranks.yaml", "--workers=1", "--rate=600")
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout.decode()

        own = said("replicas: 1")
        self.assertNotIn("by turns", own)
        self.assertGreater(float(own.splitlines()[2].split()[-1]), 0.02)  # hours of its four cores
        two = "template: {spec: {containers: [{name: trainer, resources: {limits: {cpu: 2}}}]}}"
        shared = said("replicas: 1, " + two)
        self.assertIn("The 4 ranks of a worker have 2 cores, and compute by turns", shared)
        self.assertLess(float(shared.splitlines()[2].split()[3]), 50)  # % of what each would reach alone


if __name__ == "__main__":
    unittest.main()
