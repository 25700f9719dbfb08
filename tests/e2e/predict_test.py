"""What a checkpoint says of pictures: a network trained on the first digits, asked about PNG files of others, one by
one, answers as `eval --per-class` counts."""
import json
import pathlib
import struct
import subprocess
import tempfile
import unittest
import zlib

import harness

CLASSES = 10
ASKED = 60


def png(pixels, width, height):
    """Grey, 8 bits, without a filter."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + pixels[y * width:(y + 1) * width] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def trainer(*arguments):
    return subprocess.run([harness.TRAINER, *map(str, arguments)], capture_output=True, text=True, timeout=300)


class PredictTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.directory = pathlib.Path(cls.holder.name)
        cls.data = harness.first_digits(cls.directory / "data", 2000, ASKED)
        cls.saved = cls.directory / "saved"
        cls.keys = ["--model=mlp", "--data.format=mnist", f"--data.path={cls.data}",
                    '--data.augment=[{"normalise":{"mean":[0.13],"std":[0.3]}}]']
        done = trainer("train", *cls.keys, "--epochs=3", "--optimizer.lr=0.1", f"--checkpoint.path={cls.saved}")
        assert done.returncode == 0, done.stderr
        images = (cls.data / "t10k-images-idx3-ubyte").read_bytes()[16:]
        cls.labels = (cls.data / "t10k-labels-idx1-ubyte").read_bytes()[8:]
        cls.pictures = []
        for i in range(ASKED):
            path = cls.directory / f"{i}.png"
            path.write_bytes(png(images[784 * i:784 * (i + 1)], 28, 28))
            cls.pictures.append(path)

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def test_answers_as_eval_counts(self):
        done = trainer("predict", "--checkpoint", self.saved, "--format", "json", "--top", CLASSES, *self.pictures)
        self.assertEqual(done.returncode, 0, done.stderr)
        matrix = [[0] * CLASSES for _ in range(CLASSES)]
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), ASKED)
        for picture, label, line in zip(self.pictures, self.labels, lines):
            answer = json.loads(line)
            self.assertEqual(answer["image"], str(picture))
            shares = [entry["probability"] for entry in answer["classes"]]
            self.assertEqual(shares, sorted(shares, reverse=True))
            self.assertAlmostEqual(sum(shares), 1, places=6)
            matrix[label][answer["classes"][0]["class"]] += 1
        scored = trainer("eval", *self.keys, "--checkpoint", self.saved, "--per-class", "--log-format=json")
        self.assertEqual(scored.returncode, 0, scored.stderr)
        scores = json.loads(scored.stdout)
        self.assertEqual(scores["confusion"], matrix)
        right = sum(matrix[i][i] for i in range(CLASSES))
        self.assertAlmostEqual(scores["accuracy"], right / ASKED)
        self.assertGreater(right, ASKED // 2)
        for entry, row in zip(scores["perClass"], matrix):
            self.assertEqual(entry["samples"], sum(row))

    def test_says_it_in_words(self):
        done = trainer("predict", "--checkpoint", self.saved, "--top", 2, self.pictures[0])
        self.assertRegex(done.stdout, r"0\.png: class \d \d+\.\d\d %, class \d \d+\.\d\d %\n$")
        scored = trainer("eval", *self.keys, "--checkpoint", self.saved, "--per-class")
        self.assertRegex(scored.stdout, r"class +images +accuracy +mostly mistaken for\n0 ")

    def test_names_of_a_folders_classes(self):
        folder = self.directory / "folder"
        for part in ("train", "val"):
            for i, picture in enumerate(self.pictures):
                place = folder / part / ("odd one" if self.labels[i] % 2 else "even")
                place.mkdir(parents=True, exist_ok=True)
                (place / picture.name).write_bytes(picture.read_bytes())
        saved = self.directory / "saved-folder"
        done = trainer("train", "--model=mlp", "--data.format=imagefolder", f"--data.path={folder}",
                       "--data.channels=1", "--epochs=2", "--optimizer.lr=0.1", f"--checkpoint.path={saved}")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = trainer("predict", "--checkpoint", saved, self.pictures[0])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("odd one", done.stdout)
        self.assertIn("even", done.stdout)
        # Under other names they are other classes, to whoever scores or goes on.
        for part in ("train", "val"):
            (folder / part / "odd one").rename(folder / part / "a third")
        for command in (["eval", "--checkpoint", saved], ["train", "--epochs=3", f"--checkpoint.path={saved}"]):
            done = trainer(*command, "--model=mlp", "--data.format=imagefolder", f"--data.path={folder}",
                           "--data.channels=1", "--optimizer.lr=0.1")
            self.assertEqual(done.returncode, 65, done.stdout)
            self.assertIn("class 0 was even when it was saved and is a third now", done.stderr)

    def test_bad_input_is_one_line(self):
        other = self.directory / "other.png"
        other.write_bytes(png(bytes(30 * 30), 30, 30))
        words = self.directory / "words.png"
        words.write_text("no picture")
        for code, holds, arguments in (
                (65, "words.png: is neither JPEG nor PNG", [self.saved, words]),
                (65, r"other\.png: of 30x30 .*: resize it to 28x28", [self.saved, other]),
                (65, "nowhere.png", [self.saved, self.directory / "nowhere.png"]),
                (65, "holds no checkpoint", [self.directory / "data", self.pictures[0]]),
                (2, "IMAGES", [self.saved])):
            with self.subTest(holds=holds):
                done = trainer("predict", "--checkpoint", *arguments)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertRegex(done.stderr, holds)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main()
