#!/usr/bin/env python3
"""`tandem check-config`: the broken configurations of tests/configs, each with the finding its first line expects; the
shipped ones on the hardware they name; the corrected copy.

    python3 tests/cli/test_check_config.py /path/to/tandem

Needs only Python's standard library.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from tones import make_dataset

PROGRAM = "./tandem"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BROKEN = os.path.join(ROOT, "tests", "configs")
CARD = "memory_mb=24576"
ON_THIS_COMPUTER = ("unknown_device", "same_device", "only_data_device")
SHIPPED = {"dual_gpu": 16384, "single_gpu": 12288, "small_gpu": 6144, "large_gpu": 24576, "ljspeech": 12288,
           "quickstart": 8192, "cpu_test": 4096}


class CheckConfigTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tandem-check-")
        cls.data = os.path.join(cls.folder.name, "set")
        make_dataset(cls.data)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_check(self, path, *options, code=None):
        done = subprocess.run([PROGRAM, "check-config", path, "--language", "en", *options], capture_output=True, text=True,
                              timeout=120)
        if code is not None:
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def check(self, path, *options, code=None, data=True):
        named = ["--train-data", self.data] if data else []
        return json.loads(self.run_check(path, "--json", *named, *options, code=code).stdout)

    def test_broken_configs(self):
        names = sorted(os.listdir(BROKEN))
        self.assertGreaterEqual(len(names), 12)
        for name in names:
            stem, path = name[:-4], os.path.join(BROKEN, name)
            with self.subTest(stem), open(path, encoding="utf-8") as file:
                expected = [item.split() for item in file.readline().split("expect:")[1].split(",")]
                is_wrong = expected[0][0] == "error"
                options = [] if stem in ON_THIS_COMPUTER else ["--simulate-device", CARD]
                report = self.check(path, *options, code=1 if is_wrong else 0, data=stem != "missing_data")
                for kind, key, line in expected:
                    found = [f for f in report[kind + "s"] if (f["key"], f["line"]) == (key, int(line))]
                    self.assertEqual(len(found), 1, report)
                    self.assertTrue(found[0]["message"])
                if is_wrong:
                    self.assertEqual(len(report["errors"]), 1, report["errors"])

    def test_shipped_configs(self):
        for name, memory in SHIPPED.items():
            with self.subTest(name):
                report = self.check(os.path.join(ROOT, "configs", name + ".ini"), "--simulate-device", f"memory_mb={memory}",
                                    code=0)
                self.assertEqual(report["errors"], [])
                self.assertTrue(0 < report["memory"]["model_bytes"] <= report["memory"]["limit_bytes"])

    def test_memory_follows_the_settings(self):
        path = os.path.join(BROKEN, "batch_past_memory.ini")
        plain, saving = (self.check(path, "--simulate-device", CARD, "--set", "pipeline.enable_static_shapes=true",
                                    *more)["memory"]["model_bytes"]
                         for more in ((), ("--set", "model.gradient_checkpointing=true", "--set",
                                          "training.mixed_precision=true")))
        self.assertLess(saving, 0.6 * plain)

    def test_corrected_copy(self):
        for name in ("batch_past_memory", "zero_rate", "unknown_key", "static_too_short", "limit_past_memory"):
            with self.subTest(name):
                path = os.path.join(self.folder.name, name + ".ini")
                shutil.copy(os.path.join(BROKEN, name + ".ini"), path)
                copy = self.check(path, "--simulate-device", CARD, "--fix")["fixed"]
                self.assertEqual(copy, os.path.join(self.folder.name, name + ".fixed.ini"))
                self.assertEqual(self.check(copy, "--simulate-device", CARD, code=0)["errors"], [])

    def test_text(self):
        done = self.run_check(os.path.join(BROKEN, "zero_rate.ini"), "--train-data", self.data, "--simulate-device", CARD, code=1)
        for word in ("zero_rate.ini:4: training.lr", "put training.lr = 0.001", "1 errors", "the model role needs"):
            self.assertIn(word, done.stdout)

    def test_wrong_usage(self):
        self.assertIn("none.ini", self.run_check(os.path.join(self.folder.name, "none.ini"), code=2).stderr)
        done = self.run_check(os.path.join(BROKEN, "zero_rate.ini"), "--simulate-device", "memory=3", code=2)
        self.assertIn("memory_mb", done.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
