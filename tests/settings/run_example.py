#!/usr/bin/env python3
"""docs/examples/train.c as a user runs it: an INI file and keys on the command line, losses as they come.

    python3 tests/settings/run_example.py /path/to/train
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from tones import make_dataset  # noqa: E402

PROGRAM = "./train"


class ExampleTest(unittest.TestCase):
    def test_it_trains_and_refuses(self):
        with tempfile.TemporaryDirectory(prefix="tandem-example-") as folder:
            make_dataset(os.path.join(folder, "set"), 8, 8000, 400)
            ini = os.path.join(folder, "run.ini")
            with open(ini, "w", encoding="utf-8") as file:
                file.write(f"[data]\ntrain_data = {folder}/set\nlanguage = en\n[model]\nmodel_size = pico\n"
                           "[training]\nbatch_size = 2\nmax_steps = 100\nval_every = 0\nsample_every = 0\n"
                           "[logging]\nlog_every = 1\n[devices]\nmodel = cpu\n")
            run = [PROGRAM, ini, "training.checkpoint_dir", os.path.join(folder, "run"), "training.max_steps", "3"]
            done = subprocess.run(run, capture_output=True, text=True, timeout=240)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(re.findall(r"^step (\d+): loss \d+\.\d+$", done.stdout, re.M), ["1", "2", "3"])
            self.assertRegex(done.stdout, r"\ndone after step 3: .*/run/checkpoint-3\.safetensors\n$")
            wrong = subprocess.run([*run, "training.lrr", "1"], capture_output=True, text=True, timeout=60)
            self.assertEqual(wrong.returncode, 1)
            self.assertIn("did you mean 'lr'?", wrong.stderr)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
