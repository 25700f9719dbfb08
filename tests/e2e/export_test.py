#!/usr/bin/env python3
"""What `export` writes, as other programs read it: an .npz holds the tensors of the safetensors file, bit for bit."""
import ast
import json
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest
import zipfile

TRAINER = pathlib.Path(os.environ["COXSWAIN_BIN"]) / "coxswain-trainer"
MODELS = {"mlp": "1,6,6", "resnet18": "3,32,32", "cifar-resnet8": "3,8,8"}


def of_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8:8 + length]), data[8 + length:]
    return {name: (tuple(place["shape"]), body[slice(*place["data_offsets"])]) for name, place in header.items()}


def of_npy(data):
    """NEP 1, version 1.0, of float32 alone."""
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    (length,) = struct.unpack("<H", data[8:10])
    header = ast.literal_eval(data[10:10 + length].decode())
    assert header["descr"] == "<f4" and not header["fortran_order"], header
    return header["shape"], data[10 + length:]


class ExportTest(unittest.TestCase):
    def setUp(self):
        top = tempfile.TemporaryDirectory(prefix="export-")
        self.addCleanup(top.cleanup)
        self.place = pathlib.Path(top.name)

    def run_trainer(self, *arguments):
        return subprocess.run([TRAINER, *arguments], cwd=self.place, capture_output=True, text=True, timeout=60,
                              check=False)

    def train(self, model, network=None, place=None, steps=2, **flags):
        done = self.run_trainer("train", network or f"--model={model}", "--data.format=synthetic", "--data.size=8",
                                f"--data.shape=[{MODELS[model]}]", "--batchSize=4", f"--steps={steps}", "--threads=1",
                                "--evaluate.everyEpochs=0", f"--checkpoint.path={self.place / (place or model)}",
                                *(f"--optimizer.{key}={value}" for key, value in flags.items()))
        self.assertEqual(done.returncode, 0, done.stderr)

    def export(self, model, output, *flags):
        done = self.run_trainer("export", "--checkpoint", model, "--output", output, *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.place / output

    def test_formats_hold_the_same_tensors(self):
        for model in MODELS:
            with self.subTest(model=model):
                self.train(model)
                expected = of_safetensors(self.export(model, f"{model}.safetensors"))
                again = of_safetensors(self.export(model, f"{model}.also", "--format", "safetensors"))
                self.assertEqual(again, expected)
                with zipfile.ZipFile(self.export(model, f"{model}.npz", "--format", "npz")) as archive:
                    self.assertIsNone(archive.testzip())
                    found = {name.removesuffix(".npy"): of_npy(archive.read(name)) for name in archive.namelist()}
                self.assertGreater(len(found), 3)
                self.assertEqual(found, expected)

    def test_no_checkpoint_is_written_into(self):
        self.train("mlp")
        (checkpoint,) = (self.place / "mlp").glob("step-*")
        before = sorted((file.name, file.read_bytes()) for file in checkpoint.iterdir())
        for output in (f"mlp/{checkpoint.name}/model.safetensors", f"{checkpoint}/new.onnx"):
            done = self.run_trainer("export", "--checkpoint", "mlp", "--output", output)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("is within a checkpoint: name a file elsewhere", done.stderr)
        self.assertEqual(sorted((file.name, file.read_bytes()) for file in checkpoint.iterdir()), before)

    def test_files_of_a_run_and_endings_of_others_are_refused(self):
        self.train("mlp")
        latest = self.place / "mlp" / "LATEST"
        before = latest.read_bytes()
        for output, why in (("mlp/LATEST", "has a name that a run gives its own files"),
                            ("x.pt", "ends neither in .safetensors, .npz nor .onnx")):
            done = self.run_trainer("export", "--checkpoint", "mlp", "--output", output)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(why, done.stderr)
        self.assertEqual(latest.read_bytes(), before)
        self.assertFalse((self.place / "x.pt").exists())
        self.assertEqual(of_safetensors(self.export("mlp", "weights")),
                         of_safetensors(self.export("mlp", "x.pt", "--format", "safetensors")))

    def test_names_may_be_in_capitals(self):
        self.train("mlp")
        self.assertEqual(zipfile.is_zipfile(self.export("mlp", "MLP.NPZ")), True)
        network = self.export("mlp", "MLP.ONNX")
        self.assertEqual(network.read_bytes(), self.export("mlp", "mlp.onnx").read_bytes())
        listed = self.run_trainer("models", "--file", str(network))
        self.assertEqual(listed.returncode, 0, listed.stderr)

    def test_what_is_exported_as_onnx_is_a_network_with_its_weights(self):
        for model in ("mlp", "cifar-resnet8"):  # of as many outputs as the data has classes
            with self.subTest(model=model):
                self.train(model)
                network = self.export(model, f"{model}.onnx", "--format", "onnx")
                listed = self.run_trainer("models", "--file", str(network))
                self.assertEqual(listed.returncode, 0, listed.stderr)
                # A step too short to move a weight; running statistics move.
                self.train(model, network=f"--modelFile={network}", place=f"{model}-again", steps=1, lr=1e-30)
                expected = of_safetensors(self.export(model, f"{model}.safetensors"))
                found = of_safetensors(self.export(f"{model}-again", f"{model}-again.safetensors"))
                still = {name for name in expected if "running_" not in name and "moving_" not in name}
                self.assertGreater(len(still), 3)
                for name in still:
                    self.assertTrue(expected[name] in found.values(), name)


if __name__ == "__main__":
    unittest.main()
