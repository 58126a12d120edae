#!/usr/bin/env python3
"""What goes wrong while `train` runs, as users meet it: the cause is named, the program ends with 1, and the last
checkpoint is good; and roles that cannot be, which end with 2 and the list of devices.

    python3 tests/cli/test_faults.py /path/to/tandem

Needs only Python's standard library. tests/pipeline/test_run_faults.c has faults at every call.
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
N_ROWS = 12
PATIENCE_S = 100


class FaultsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-faults-")
        self.addCleanup(self.folder.cleanup)
        self.root = os.path.join(self.folder.name, "set")
        self.run_dir = os.path.join(self.folder.name, "run")
        make_dataset(self.root, N_ROWS, 8000, 400)

    def command(self, *options):
        return [PROGRAM, "train", "--train-data", self.root, "--checkpoint-dir", self.run_dir, "--model-size", "pico",
                "--batch-size", "2", "--language", "en", "--val-every", "0", "--sample-every", "0", "--save-every", "2",
                "--log-every", "1", "--mel-cache", "none", "--enable-static-shapes", "--buffer-size", "2", *options]

    def train(self, *options, code, script=None):
        variables = dict(os.environ, **({"TANDEM_SIM": script} if script else {}))
        done = subprocess.run(self.command(*options), capture_output=True, text=True, timeout=PATIENCE_S, env=variables)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def saved_steps(self):
        names = os.listdir(self.run_dir) if os.path.isdir(self.run_dir) else []
        return sorted(int(name[11:-12]) for name in names if name.startswith("checkpoint-"))

    def read_checkpoint(self, step):
        with open(os.path.join(self.run_dir, f"checkpoint-{step}.safetensors"), "rb") as file:
            return file.read()

    def check_goes_on(self):
        last = self.saved_steps()[-1]
        done = self.train("--model-device", "cl:0.0", "--max-steps", str(last + 1), code=0)
        self.assertIn(f"going on from '{self.run_dir}/checkpoint-{last}.safetensors'", done.stderr)
        self.assertEqual(self.saved_steps()[-1], last + 1)

    def last_step(self):
        with open(os.path.join(self.run_dir, "metrics.jsonl"), encoding="utf-8") as file:
            return [event["step"] for event in map(json.loads, file) if event["event"] == "step"][-1]

    def test_lost_data_device(self):
        """Found while a batch is prepared, sent, or awaited: each names the stage and the call that showed it."""
        for at in ("60", "62"):
            with self.subTest(at=at):
                shutil.rmtree(self.run_dir, ignore_errors=True)
                done = self.train("--data-device", "sim:0", "--model-device", "cl:0.0", "--max-steps", "100000",
                                  "--save-every", "10000", script=f"lose_submit={at}", code=1)
                self.assertRegex(done.stderr, r"error: (preparing|sending) batch \d+ (on|to) the (data|model) device: "
                                              r".*device simulated device 0 was lost in \w+ \(SIM_DEVICE_LOST\)")
                self.assertNotIn("could be written", done.stderr)
                self.assertEqual(self.saved_steps(), [self.last_step()])
                self.assertGreater(self.last_step(), 3)
        self.check_goes_on()

    def test_recordings_that_vanish(self):
        """The threads that load find nothing any more: what was learnt until then is kept, to the bit."""
        command = self.command("--model-device", "cl:0.0", "--max-steps", "100000", "--save-every", "10000", "--json")
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            while json.loads(process.stdout.readline()).get("step", 0) < 5:
                pass
            shutil.move(os.path.join(self.root, "wavs"), os.path.join(self.root, "away"))
            _, errors = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 1, errors)
        self.assertIn(".wav", errors)
        shutil.move(os.path.join(self.root, "away"), os.path.join(self.root, "wavs"))
        last = self.last_step()
        self.assertEqual(self.saved_steps(), [last])
        self.check_goes_on()
        broken = self.read_checkpoint(last + 1)
        self.run_dir += "-unbroken"
        self.train("--model-device", "cl:0.0", "--max-steps", str(last + 1), code=0)
        self.assertEqual(broken, self.read_checkpoint(last + 1))

    def test_data_device_without_memory(self):
        done = self.train("--data-device", "sim:0", "--model-device", "cl:0.0", "--max-steps", "4", script="memory_mb=1",
                          code=1)
        self.assertIn("simulated device 0", done.stderr)
        self.assertEqual(self.saved_steps(), [])

    def test_limit_of_the_model_role(self):
        self.train("--model-device", "cl:0.0", "--max-steps", "2", code=0)
        done = self.train("--model-device", "cl:0.0", "--max-steps", "4", "--enable-memory-isolation", "--model-gpu-memory",
                          "1", code=1)
        self.assertIn("raise --model-gpu-memory", done.stderr)
        self.check_goes_on()
        self.run_dir += "-tiny"
        done = self.train("--model-device", "cl:0.0", "--max-steps", "4", "--model-size", "tiny", "--enable-memory-isolation",
                          "--model-gpu-memory", "64", code=1)
        self.assertIn("limit of 64 MiB", done.stderr)

    def test_roles_that_cannot_be(self):
        for devices, word in ((("--data-gpu", "0", "--model-gpu", "99"), "99"),
                              (("--data-device", "cl:0.0", "--model-device", "cl:0.0"), "same device"),
                              (("--data-device", "cl:0.0"), "--model-gpu"),
                              (("--data-device", "cl:0.0", "--model-device", "name:no such card"), "no such card")):
            done = self.train(*devices, "--max-steps", "1", code=2)
            self.assertIn(word, done.stderr)
            self.assertIn("SELECTOR", done.stderr)
            self.assertFalse(os.path.exists(self.run_dir))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
