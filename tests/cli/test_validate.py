#!/usr/bin/env python3
"""`tandem validate`: all five groups do their work on real devices; a simulated model device computes nothing.

    python3 tests/cli/test_validate.py /path/to/tandem

Needs only Python's standard library. Every ordered pair of devices is tried by tests/device/test_validate.c.
"""

import json
import os
import subprocess
import sys
import unittest

PROGRAM = "./tandem"


class ValidateTest(unittest.TestCase):
    def validate(self, *options):
        done = subprocess.run([PROGRAM, "validate", "--json", *options], capture_output=True, text=True, timeout=240)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual(done.returncode, 1 if document["failed"] else 0)
        return {group["name"]: {check["name"]: check for check in group["checks"]} for group in document["groups"]}

    def test_two_devices(self):
        groups = self.validate("--data-device", "vk:0", "--model-device", "cl:0.0")
        self.assertEqual(list(groups), ["prerequisites", "placement", "model", "transfer", "pipeline"])
        for name in ("build", "forward", "backward"):
            self.assertEqual(groups["model"][name]["status"], "pass", groups["model"])
        self.assertIn("69 gradients", groups["model"]["backward"]["detail"])
        self.assertEqual(groups["pipeline"]["batches through all stages"]["status"], "pass")
        self.assertIn("equal checksums", groups["pipeline"]["batches through all stages"]["detail"])
        self.assertEqual(groups["pipeline"]["overlap"]["status"], "pass", groups["pipeline"])

    def test_simulated_model_device(self):
        groups = self.validate("--data-device", "cl:0.0", "--model-device", "sim")
        self.assertEqual(groups["model"]["build"]["status"], "pass")
        self.assertEqual(groups["model"]["forward and backward"]["status"], "skip")
        self.assertIn("computes nothing", groups["model"]["forward and backward"]["detail"])
        self.assertIn("simulated", groups["pipeline"]["overlap"]["detail"])

    def test_one_device(self):
        groups = self.validate("--model-device", "cl:0.0")
        self.assertIn("one device", groups["pipeline"]["overlap"]["detail"])
        self.assertEqual(groups["model"]["backward"]["status"], "pass")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
