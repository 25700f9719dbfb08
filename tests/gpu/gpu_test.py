#!/usr/bin/env python3
"""gpu_test.py PACK: what only a GPU can prove, of the programs that run.sh packed there. Prints figures beside results."""
import glob
import hashlib
import json
import os
import pathlib
import shutil
import site
import subprocess
import sys
import tempfile
import unittest

PACK = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
TRAINER = PACK / "bin/coxswain-trainer"
CHECKS = PACK / "bin/gpu_checks"
SKIPPED = 77


def libraries():
    """Folders of CUDA's wheels, of this Python or of cmake/install-cuda.sh; an installed toolkit is found without."""
    homes = [*site.getsitepackages(), site.getusersitepackages(),
             os.path.join(os.environ.get("COXSWAIN_CUDA_HOME", os.path.expanduser("~/.cache/coxswain/cuda")), "site")]
    return [folder for home in homes for folder in sorted(glob.glob(f"{home}/nvidia/*/lib"))]


ENVIRONMENT = os.environ | {"LD_LIBRARY_PATH": ":".join(
    [str(PACK / "lib"), *libraries(), os.environ.get("LD_LIBRARY_PATH", "")]).rstrip(":")}


def run(*words, seconds=240, **variables):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=seconds,
                          env=ENVIRONMENT | variables)


def gpu():
    """Its name, or why there is none."""
    if shutil.which("nvidia-smi") is None:
        return None, "no nvidia-smi, and so no driver"
    asked = run("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    if asked.returncode != 0 or not asked.stdout.strip():
        return None, f"nvidia-smi: {asked.stdout.strip() or asked.stderr.strip()}"
    return asked.stdout.splitlines()[0], None


class Gpu(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def train(self, name, *flags, expect=0, **variables):
        done = run(TRAINER, "train", "--device=cuda", "--data.format=mnist", f"--data.path={PACK / 'data'}",
                   f"--checkpoint.path={self.folder.name}/{name}", *flags, **variables)
        self.assertEqual(done.returncode, expect, done.stdout[-3000:] + done.stderr[-3000:])
        return done

    def weights(self, name):
        newest = max(pathlib.Path(self.folder.name, name).glob("step-*/model.safetensors"))
        return hashlib.sha256(newest.read_bytes()).hexdigest()

    def test_1_every_operation_and_whole_steps_agree_with_the_reference(self):
        done = run(CHECKS, "--gtest_brief=1")
        self.assertEqual(done.returncode, 0, done.stdout[-6000:] + done.stderr[-2000:])

    def test_2_nothing_is_read_or_written_out_of_bounds(self):
        sanitizer = shutil.which("compute-sanitizer")
        if sanitizer is None:
            self.skipTest("compute-sanitizer is not installed")
        for tool in ("memcheck", "racecheck", "initcheck"):
            done = run(sanitizer, "--tool", tool, "--error-exitcode", "9", CHECKS, "--gtest_brief=1",
                       "--gtest_filter=*Operation*")
            self.assertEqual(done.returncode, 0, f"{tool}: {done.stdout[-6000:]}")

    def test_3_the_digits_are_learnt(self):
        done = self.train("digits", "--model=singa-cnn", "--epochs=10", "--batchSize=128", "--optimizer.name=sgd",
                          "--optimizer.lr=0.05", "--optimizer.momentum=0.9", "--lrSchedule.name=cosine",
                          '--data.augment=[pad-crop: {pad: 2}]', "--log-format=json")
        last = json.loads(done.stdout.splitlines()[-1])
        print(f"digits: {last}", flush=True)
        self.assertGreaterEqual(last["accuracy"], 0.994)

    def test_4_a_killed_run_goes_on_bit_for_bit(self):
        flags = ("--model=singa-cnn", "--epochs=2", "--checkpoint.everySteps=100")
        self.train("whole", *flags)
        self.train("killed", *flags, expect=-9, COXSWAIN_FAIL_POINT="0:550:update")
        self.train("killed", *flags)
        self.assertEqual(self.weights("killed"), self.weights("whole"))

    def test_5_too_little_memory_is_told_in_one_line(self):
        done = run(TRAINER, "train", "--device=cuda", "--model=resnet50", "--batchSize=4096", "--data.format=synthetic",
                   "--data.shape=[3,224,224]", "--data.size=4096", "--steps=1")
        self.assertNotEqual(done.returncode, 0, done.stdout[-3000:])
        self.assertIn("batchSize", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


def main():
    name, why = gpu()
    if name is None:
        print(f"skipped: {why}", flush=True)
        return SKIPPED
    print(f"on {name}", flush=True)
    return 0 if unittest.main(argv=["gpu_test"], verbosity=2, exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
