#!/usr/bin/env python3
"""What can happen to a run besides its disk: signals, a second trainer, jumping clocks, data that changes, numbers that
are none, a full disk ahead, flipped bits; and what it writes down of it.

    python3 tests/faults/test_events.py TANDEM FAULT_PRELOAD
    (TANDEM_FAULT_MOMENTS=1000: so many flipped bits, and as many files cut short)
"""

import contextlib
import fcntl
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import unittest

from common import MOMENTS, PROGRAM, SEED, TIMEOUT_S, Workshop, read
from tones import make_tone, write_wav

FLIPS = MOMENTS or 12


class Events(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shop = Workshop()
        cls.addClassCleanup(cls.shop.close)
        cls.train()
        cls.wanted = cls.shop.outcome()
        shutil.copytree(cls.shop.run, cls.shop.path("finished"))

    def setUp(self):
        self.shop.forget_run()

    @classmethod
    def train(cls, *options, code=0, steps=6, **more):
        done = cls.shop.do(cls.shop.train_command(*options, steps=steps), **more)
        if done.returncode != code:
            raise AssertionError(f"ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def take_finished(self):
        shutil.copytree(self.shop.path("finished"), self.shop.run)

    def told(self, kind):
        lines = read(os.path.join(self.shop.run, "metrics.jsonl")).decode().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == kind]

    def start(self, until=3):
        """A long run, after its step `until`."""
        command = self.shop.train_command("--json", steps=100000)
        process = subprocess.Popen(command, env=self.shop.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "step" and event["step"] >= until:
                return process
        self.fail(process.stderr.read())

    # ---------------------------------------------------------------- signals

    def test_second_trainer_and_one_signal(self):
        process = self.start()
        self.assertIn(f"process {process.pid}", self.train(code=2).stderr)
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, errors)
        step = json.loads(rest.splitlines()[-1])["step"]
        self.assertEqual(read(os.path.join(self.shop.run, "latest")).decode(), f"checkpoint-{step}.safetensors\n")

    def test_two_signals_end_at_once(self):
        process = self.start(until=5)
        process.send_signal(signal.SIGSTOP)  # both are there before it can look
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=TIMEOUT_S)
        self.assertIn(process.returncode, (128 + signal.SIGINT, 128 + signal.SIGTERM))
        newest = os.path.join(self.shop.run, read(os.path.join(self.shop.run, "latest")).decode().strip())
        shown = subprocess.run([PROGRAM, "inspect", newest], capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertIn("whole", shown.stdout)

    # ---------------------------------------------------------------- clocks, disks

    def test_jumping_clock_changes_nothing(self):
        self.train("--max-minutes", "30", TANDEM_FAULT_CLOCK="100000")
        self.assertIsNone(self.shop.problem(self.wanted))

    def test_full_disk_is_foreseen(self):
        done = self.train(code=1, TANDEM_FAULT_FREE="3000000")
        self.assertRegex(done.stderr, r"error: '.*run' has room for .*, but this run needs .*--keep-checkpoints")
        self.assertEqual([name for name in os.listdir(self.shop.run) if name.startswith("checkpoint")], [])

    def test_read_only_folder(self):
        os.makedirs(self.shop.run)
        done = self.train(code=1, fault="EROFS:1:ever", under=self.shop.run)
        self.assertRegex(done.stderr, r"error: .*run.*Read-only file system")

    def test_permission_lost_on_the_way(self):
        os.makedirs(self.shop.run)
        done = self.train(code=1, fault="EACCES:1000:ever", under=self.shop.run)  # in a checkpoint
        self.assertRegex(done.stderr, r"error: .*Permission denied")
        self.train()
        self.assertIsNone(self.shop.problem(self.wanted))

    # ---------------------------------------------------------------- data

    @contextlib.contextmanager
    def recording(self):
        """A recording to spoil: afterwards it is as it was, and nothing is known of it."""
        path = os.path.join(self.shop.root, "wavs", "r03.wav")
        before = read(path)
        try:
            yield path
        finally:
            with open(path, "wb") as file:
                file.write(before)
            self.shop.forget_data()

    def test_recording_changed_between_runs_is_seen(self):
        self.take_finished()
        with self.recording() as path:
            write_wav(path, make_tone(9, 20000))
            done = self.train(steps=7, code=2)
            self.assertRegex(done.stderr, "trained with other data: 0 rows were added, 0 removed, 1 changed, the first .*r03")

    def test_recording_changed_during_a_run_is_named(self):
        with self.recording() as path:
            command = self.shop.train_command("--json", "--mel-cache", "none", steps=100000)
            process = subprocess.Popen(command, env=self.shop.environment(), stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
            self.addCleanup(process.communicate)
            self.addCleanup(process.kill)
            warned = None
            for line in process.stdout:
                event = json.loads(line)
                if event["event"] == "step" and event["step"] == 3:
                    write_wav(path + ".new", make_tone(9, 20000))
                    os.replace(path + ".new", path)
                if event["event"] == "warning":
                    warned = event["text"]
                if warned or event["step"] > 400:
                    break
            self.assertIn("r03.wav", warned or "nothing was said")

    def test_numbers_that_are_none_in_data(self):
        with self.recording() as path:
            samples = struct.pack("<8000f", *([0.25, float("nan")] * 4000))
            form = struct.pack("<HHIIHH", 3, 1, 22050, 88200, 4, 32)
            body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(samples)) + samples
            with open(path, "wb") as file:
                file.write(b"RIFF" + struct.pack("<I", len(body)) + body)
            done = self.train("--max-bad-fraction", "0.5")
            self.assertRegex(done.stderr, r"r03.wav.*not finite")

    # ---------------------------------------------------------------- weights

    def test_numbers_that_are_none_in_steps(self):
        done = self.train("--lr", "1e9", "--warmup-steps", "1", "--set", "training.max_bad_steps=3", steps=40, code=1)
        self.assertRegex(done.stderr, r"at step \d+, after 3 bad steps in a row, .*(first broken|largest parameter)")
        self.assertRegex(self.told("skipped")[0]["text"], "first broken|largest parameter")

    # ---------------------------------------------------------------- flipped bits

    def test_flipped_bits_are_found(self):
        rng = random.Random(SEED)
        original = read(os.path.join(self.shop.path("finished"), "checkpoint-6.safetensors"))
        header = 8 + struct.unpack("<Q", original[:8])[0]
        path = self.shop.path("flipped.safetensors")
        missed = 0
        for i in range(FLIPS):
            content = bytearray(original)
            end = header if i % 3 == 0 else len(content)
            at, bit = rng.randrange(header if i % 3 == 1 else 0, end), rng.randrange(8)
            if i == 0:  # a digit of the loss: valid in every way but that it was not written so
                at, bit = original.index(b'"train.loss"') + len('"train.loss": "1.2'), 0
            elif i == 1:  # the hash of the header itself
                at = len(content) - 1
            content[at] ^= 1 << bit
            with open(path, "wb") as file:
                file.write(content)
            done = subprocess.run([PROGRAM, "inspect", path], capture_output=True, text=True, errors="replace",
                                  timeout=TIMEOUT_S)
            if done.returncode != 1 or "flipped.safetensors" not in done.stderr:
                missed += 1
                print(f"MISSED bit {bit} of byte {at} (header {header}): {done.returncode} {done.stderr.strip()}")
        print(f"flips: {FLIPS} bits tried, {missed} missed")
        self.assertEqual(missed, 0)

    def test_flipped_checkpoint_is_passed_over(self):
        self.take_finished()
        path = os.path.join(self.shop.run, "checkpoint-6.safetensors")
        content = bytearray(read(path))
        content[len(content) // 2] ^= 16
        with open(path, "wb") as file:
            file.write(content)
        named = self.train("--resume", path, code=1).stderr
        self.assertIn("checkpoint-6.safetensors' is damaged", named)
        self.assertIn(f"--resume {self.shop.run}/checkpoint-4.safetensors", named)
        done = self.train()
        self.assertRegex(done.stderr, "checkpoint-6.safetensors' is damaged.*going on from the one before it")
        self.assertIsNone(self.shop.problem(self.wanted))

    # ---------------------------------------------------------------- what is written down

    def test_devices_are_written_down(self):
        self.take_finished()
        devices = self.told("start")[0]["devices"]
        self.assertEqual([device["role"] for device in devices], ["data", "model"])
        for device in devices:
            self.assertEqual(set(device), {"role", "selector", "name", "driver", "api", "memory_bytes"})
            self.assertGreater(device["memory_bytes"], 0)
            self.assertEqual(device["api"], "opencl")

    def test_finished_run_again(self):
        self.take_finished()
        done = self.train()
        self.assertNotIn("nan", done.stdout)
        self.assertRegex(done.stdout, r"loss +\d")
        self.assertIsNone(self.shop.problem(self.wanted))

    def test_one_time_left(self):
        master, terminal = os.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, 250, 0, 0))
        command = self.shop.train_command("--val-every", "0", steps=60)
        with subprocess.Popen(command, env=self.shop.environment(), stdout=subprocess.DEVNULL, stderr=terminal) as process:
            os.close(terminal)
            shown = b""
            try:
                while piece := os.read(master, 65536):
                    shown += piece
            except OSError:  # how a terminal's other end tells that it is closed
                pass
            self.assertEqual(process.wait(TIMEOUT_S), 0, shown)
        os.close(master)
        lines = [line for line in re.split(r"[\r\n]+", shown.decode()) if line.startswith("step")]
        self.assertTrue(any("ETA" in line for line in lines), lines)
        for line in lines:
            self.assertLessEqual(line.count("ETA") + line.count(" left"), 1, line)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
