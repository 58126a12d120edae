#!/usr/bin/env python3
"""The program with a family that only the tests have: every command that has to do with models asks its table.

    python3 tests/families/test_program.py /path/to/tandem_more
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from tones import make_dataset

PROGRAM = "./tandem_more"


class ToyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tandem-toy-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        make_dataset(self.path("set"), 8, 6000, 400)
        with open(self.path("toy.ini"), "w", encoding="utf-8") as file:
            file.write(f"[devices]\nmodel = cpu\n[model]\nfamily = toy\nmodel_size = pico\nwidth = 24\n"
                       f"[data]\ntrain_data = {self.path('set')}\nlanguage = en\n"
                       f"[training]\nbatch_size = 2\nmax_steps = 4\ncheckpoint_dir = {self.path('run')}\n"
                       f"val_every = 2\nsample_every = 4\n")

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_program(self, *arguments, code=0):
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_before_training(self):
        self.assertIn("|toy", self.run_program("help", "train", "--all").replace("\n", "").replace(" ", ""))
        self.assertIn("0 errors", self.run_program("check-config", self.path("toy.ini")))
        self.assertIn("family = toy", self.run_program("advise", "--train-data", self.path("set"), "--language", "en",
                                                       "--set", "model.family=toy"))
        text = self.run_program("check-config", self.path("toy.ini"), "--set", "model.width=0", code=1)
        self.assertIn("model.width is 0, but can be from 1 to 4096", text)

    def test_all_are_planned(self):
        for family in ("toy", "gan", "content"):
            with self.subTest(family=family):
                chosen = ("--set", f"model.family={family}", "--set", "model.width=24")
                self.assertIn("0 errors", self.run_program("check-config", self.path("toy.ini"), *chosen))
                text = self.run_program("profile", "--config", self.path("toy.ini"), "--num-steps", "5", *chosen,
                                        "--simulate-device", "gflops=1000,gbps=100,memory_mb=8000")
                self.assertIn("model role", text)

    def test_from_training_to_the_report(self):
        self.run_program("train", "--config", self.path("toy.ini"))
        checkpoint = self.path("run/checkpoint-4.safetensors")
        facts = json.loads(self.run_program("inspect", checkpoint, "--json"))
        self.assertEqual(facts["metadata"]["family"], "toy")
        self.assertEqual(facts["metadata"]["model.width"], "24")
        self.assertEqual(facts["parameters"], 80 * 24 + 24 + 24 * 80 + 80)
        self.run_program("report", self.path("run"))
        with open(self.path("run/report.html"), encoding="utf-8") as page:
            self.assertIn("toy", page.read())
        text = self.run_program("synth", "--checkpoint", checkpoint, "--text", "no", "--output", self.path("x.wav"), code=2)
        self.assertIn("a model of family toy does not speak", text)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop())
    unittest.main()
