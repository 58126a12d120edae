#!/usr/bin/env python3
"""How runs end: validated and saved whatever ended them, with the command to speak with; no alarm on the way; and what
`advise` prints trains as it is.

    python3 tests/cli/test_findings_ends.py /path/to/tandem

Needs only Python's standard library. Every test has a dataset of its own; devices keep their cache.
"""

import fcntl
import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest

from tones import make_dataset

PROGRAM = "./tandem"
TIMEOUT_S = 240


class Ends(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-ends-")
        self.addCleanup(self.folder.cleanup)
        self.root = os.path.join(self.folder.name, "set")
        self.run_dir = os.path.join(self.folder.name, "somebody's run")
        make_dataset(self.root, 12, 8000, 400)

    def command(self, *options):
        return [PROGRAM, "train", "--model-device", "cpu", "--train-data", self.root, "--checkpoint-dir", self.run_dir,
                "--model-size", "pico", "--batch-size", "2", "--language", "en", "--val-every", "100000", "--sample-every",
                "0", "--log-every", "1", *options]

    def run_program(self, command, code=0):
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def has_step(self, step):
        """Whether a run got so far."""
        path = os.path.join(self.run_dir, "metrics.jsonl")
        if not os.path.exists(path):
            return False
        with open(path, encoding="utf-8") as file:
            return f'"step": {step},' in file.read()

    def expect_whole_end(self, step):
        """The last step has its checkpoint, was validated once, and is the best there is."""
        with open(os.path.join(self.run_dir, "latest"), encoding="ascii") as file:
            self.assertEqual(file.read(), f"checkpoint-{step}.safetensors\n")
        with open(os.path.join(self.run_dir, "metrics.jsonl"), encoding="utf-8") as file:
            events = [json.loads(line) for line in file]
        self.assertEqual([e["step"] for e in events if e["event"] == "validation"], [step])
        self.assertIn("best.safetensors", os.listdir(self.run_dir))

    def test_finding_07_signals_leave_a_best(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the last: finding 11
            with self.subTest(number=number):
                self.run_dir = os.path.join(self.folder.name, number.name)
                with subprocess.Popen(self.command("--max-steps", "100000", "--json"), stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True) as process:
                    while json.loads(process.stdout.readline())["event"] != "step":
                        pass
                    process.send_signal(number)
                    rest, errors = process.communicate(timeout=TIMEOUT_S)
                self.assertEqual(process.returncode, 128 + number, errors)
                last = json.loads(rest.splitlines()[-1])
                self.assertEqual(last["event"], "end")
                self.expect_whole_end(last["step"])

    def test_finding_11_lost_terminal_leaves_a_checkpoint(self):
        ours, theirs = pty.openpty()
        process = subprocess.Popen(self.command("--max-steps", "100000"), stdin=theirs, stdout=theirs, stderr=theirs,
                                   start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        os.close(theirs)
        os.set_blocking(ours, False)
        while not self.has_step(3):
            time.sleep(0.01)
            try:
                os.read(ours, 4096)
            except BlockingIOError:
                pass
        os.close(ours)
        process.wait(timeout=TIMEOUT_S)
        with open(os.path.join(self.run_dir, "latest"), encoding="ascii") as file:
            self.expect_whole_end(int(file.read().split("-")[1].split(".")[0]))

    def test_end_prints_the_command_to_speak_with(self):
        done = self.run_program(self.command("--max-steps", "2"))
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("speak")]
        words = shlex.split(line)[1:]
        self.assertEqual(words[:3] + words[4:], ["tandem", "synth", "--checkpoint", "--text", "...", "-o", "out.wav"])
        self.assertEqual(words[3], os.path.join(self.run_dir, "best.safetensors"))
        out = os.path.join(self.folder.name, "out.wav")
        self.run_program([PROGRAM, *words[1:4], "--text", "a b", "-o", out])
        self.assertGreater(os.path.getsize(out), 44)
        self.assertNotIn("speak", self.run_program(self.command("--max-steps", "2", "--quiet")).stdout)
        self.assertNotIn("tandem synth", self.run_program(self.command("--max-steps", "2", "--json")).stdout)

    def test_end_prints_no_best_that_is_not_there(self):
        done = self.run_program(self.command("--max-steps", "1", "--val-every", "0", "--set",
                                             "model.speaker_encoder=true"))
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("speak")]
        self.assertIn(os.path.join(self.run_dir, "checkpoint-1.safetensors"), shlex.split(line))
        self.assertIn("--reference FILE.wav", line)

    def advise(self, *options):
        path = os.path.join(self.folder.name, "advice.ini")
        self.run_program([PROGRAM, "advise", "--model-device", "cpu", "--model-size", "pico", "--train-data", self.root,
                          "--language", "en", "--batch-size", "2", "-o", path, *options])
        return [PROGRAM, "train", "--config", path, "--json"]

    def test_finding_16_advice_trains_as_it_is(self):
        with subprocess.Popen(self.advise(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              cwd=self.folder.name) as process:
            event = {"event": None}
            while event["event"] != "step":
                line = process.stdout.readline()
                self.assertNotEqual(line, "", process.stderr.read() if line == "" else "")
                event = json.loads(line)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        self.assertIn("best.safetensors", os.listdir(os.path.join(self.folder.name, "run")))

    def test_finding_16_advice_keeps_what_was_chosen(self):
        command = self.advise("--set", "training.max_steps=2", "--set", f"training.checkpoint_dir={self.run_dir}", "--set",
                              "model.dropout=0.25", "--set", "data.val_fraction=0.3")
        last = json.loads(self.run_program(command).stdout.splitlines()[-1])
        self.assertEqual((last["event"], last["step"]), ("end", 2))
        with open(os.path.join(self.run_dir, "config.ini"), encoding="utf-8") as file:
            config = file.read()
        for setting in ("language = en", "val_fraction = 0.3", "dropout = 0.25", "max_steps = 2"):
            self.assertRegex(config, "(?m)^" + setting.replace(" = ", " *= *") + r"\b")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
