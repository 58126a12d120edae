#!/usr/bin/env python3
"""What users met with recordings and tables that are not as expected: which rows validate, files that are pipes, any
ending, files cut short, samples that are not numbers. Each test is named by its finding.

    python3 tests/cli/test_findings_recordings.py /path/to/tandem

Needs only Python's standard library. Every test has a dataset and a cache of its own.
"""

import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import unittest

from tones import RATE, make_dataset, write_wav

PROGRAM = "./tandem"


class RecordingsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-recordings-")
        self.addCleanup(self.folder.cleanup)
        self.root = os.path.join(self.folder.name, "set")
        make_dataset(self.root, 8, 8000, 400)

    def path(self, *names):
        return os.path.join(self.root, *names)

    def run_program(self, *arguments, code=0, env=None):
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **(env or {})})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def prepare(self, *options, code=0):
        return self.run_program("prepare", "--train-data", self.root, "--language", "en", "--cache-dir",
                                os.path.join(self.folder.name, "cache"), *options, code=code)

    def train(self, *options, code=0):
        return self.run_program("train", "--model-device", "cpu", "--train-data", self.root, "--checkpoint-dir",
                                os.path.join(self.folder.name, "run"), "--model-size", "pico", "--batch-size", "2",
                                "--language", "en", "--max-steps", "1", "--sample-every", "0", *options, code=code)

    def move_rows_to_eval(self, count):
        with open(self.path("metadata.csv"), encoding="utf-8") as file:
            lines = file.readlines()
        os.remove(self.path("metadata.csv"))
        for name, part in (("train", lines[:-count]), ("eval", lines[-count:])):
            with open(self.path(f"metadata_{name}.csv"), "w", encoding="utf-8") as file:
                file.writelines(part)
        return lines

    def test_finding_01_the_eval_table_validates(self):
        lines = self.move_rows_to_eval(3)
        done = self.train("--val-every", "1")
        self.assertIn(f"3 rows of {self.path('metadata_eval.csv')} validate, "
                      f"5 of {self.path('metadata_train.csv')} train", done.stderr)
        with open(self.path("metadata_eval.csv"), "a", encoding="utf-8") as file:
            file.write(lines[1])
        done = self.train("--val-every", "1", code=2)
        self.assertIn("metadata_eval.csv:4: 'r01' validates, but is a training row too", done.stderr)
        self.assertIn("metadata_train.csv:2", done.stderr)

    def test_finding_01_training_rows_do_not_validate(self):
        done = self.train("--val-data", self.root + "/.", code=2)
        self.assertIn("both the training and the validation table", done.stderr)

    def test_finding_13_pipes_and_folders_are_not_waited_for(self):
        for name, make in (("a pipe", os.mkfifo), ("a folder", os.mkdir)):
            for table in ("metadata.csv", "metadata_train.csv"):
                if os.path.isfile(self.path("metadata.csv")):
                    os.rename(self.path("metadata.csv"), self.path("kept.csv"))
                make(self.path(table))
                self.assertIn(f"{table} is {name}", self.prepare(code=1).stderr)
                (os.rmdir if make is os.mkdir else os.remove)(self.path(table))
        os.rename(self.path("kept.csv"), self.path("metadata.csv"))
        os.remove(self.path("wavs", "r01.wav"))
        os.mkfifo(self.path("wavs", "r01.wav"))
        self.assertIn("metadata.csv:2: wavs/r01.wav cannot be opened: It is a pipe", self.prepare(code=1).stderr)

    def test_finding_10_recordings_too_long_to_train_with_are_counted(self):
        self.assertNotIn("longer than", self.prepare().stderr)
        for row in (3, 5):
            write_wav(self.path("wavs", f"r{row:02}.wav"), [row] * 10 * RATE)
        done = self.prepare()
        self.assertIn("2 recordings are longer than 9.3 s", done.stderr)
        self.assertIn("metadata.csv:4: r03; cut them at pauses", done.stderr)
        told = json.loads(self.prepare("--json").stdout)["too_long"]
        self.assertEqual((told["train"], told["val"], round(told["seconds"], 1)), (2, 0, 9.3))

    def copy(self, path, code=1):
        return self.run_program("synth", "--device", "cpu", "--copy", path, "-o",
                                os.path.join(self.folder.name, "out.wav"), code=code).stderr

    def test_finding_04_a_cut_recording_is_not_copied(self):
        path = self.path("wavs", "r00.wav")
        os.truncate(path, os.path.getsize(path) // 2)
        self.assertIn("r00.wav: cut short: it ends after", self.copy(path))
        done = self.prepare(code=1)
        self.assertIn("metadata.csv:1: wavs/r00.wav is cut short", done.stderr)

    def test_finding_18_nan_is_called_so(self):
        path = os.path.join(self.folder.name, "nan.wav")
        samples = struct.pack("<f", math.nan) * 22050
        head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(samples), b"WAVE", b"fmt ", 16, 3, 1, 22050, 88200, 4,
                           32, b"data", len(samples))
        with open(path, "wb") as file:
            file.write(head + samples)
        self.assertIn("nan.wav: 22050 samples are not finite (NaN or infinite)", self.copy(path))

    def test_finding_19_all_rows_bad_is_said_so(self):
        for name in os.listdir(self.path("wavs")):
            os.remove(self.path("wavs", name))
        done = self.prepare("--set", "data.max_bad_fraction=1", code=1)
        self.assertIn("all 8 rows are bad; the first is", done.stderr)
        self.assertIn("metadata.csv:1: wavs/r00.wav is not there", done.stderr)
        self.assertNotIn("max_bad_fraction", done.stderr)

    def test_finding_19_the_variable_that_hides_devices_is_named(self):
        env = {"TANDEM_VISIBLE_DEVICES": ""}
        done = self.run_program("bench", "mel", "--device", "cpu", code=2, env=env)
        self.assertIn("there is no usable cpu: TANDEM_VISIBLE_DEVICES hides", done.stderr)
        self.assertIn("TANDEM_VISIBLE_DEVICES is set", self.run_program("devices", env=env).stdout)

    def test_finding_21_a_batch_larger_than_the_rows_runs_with_a_warning(self):
        done = self.train("--val-every", "0", "--batch-size", "64")
        self.assertIn("7 rows train, fewer than a batch of 64", done.stderr)
        self.assertNotIn("fewer than a batch", self.train("--val-every", "0", "--max-steps", "2").stderr)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
