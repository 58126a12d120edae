#!/usr/bin/env python3
"""`tandem advise`: batches that fit and no more, a configuration that check-config accepts, and what it refuses.

    python3 tests/cli/test_advise.py /path/to/tandem

Needs only Python's standard library.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

from tones import make_dataset

PROGRAM = "./tandem"
CARD, SMALL_CARD = "memory_mb=6144", "memory_mb=2048"
LENGTHS = ("--max-text-length", "64", "--max-mel-frames", "256")


def run(command, *options):
    return subprocess.run([PROGRAM, command, *options], capture_output=True, text=True, timeout=120)


class AdviseTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tandem-advise-")
        cls.data = os.path.join(cls.folder.name, "set")
        make_dataset(cls.data, shortest=9000)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def advise(self, *options):
        done = run("advise", "--json", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def check(self, config, *options):
        path = os.path.join(self.folder.name, "advice.ini")
        with open(path, "w", encoding="utf-8") as file:
            file.write(config)
        done = run("check-config", path, "--json", "--language", "en", *options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["errors"], [])
        return report

    def test_ways_save_memory(self):
        a = self.advise("--model-size", "tiny", "--simulate-device", CARD, *LENGTHS)
        plain, bf16, checkpoint, both = (way["row_bytes"] for way in a["ways"])
        self.assertLess(bf16, 0.8 * plain)
        self.assertLess(checkpoint, 0.5 * plain)
        self.assertLessEqual(both, checkpoint)
        self.assertEqual([(w["mixed_precision"], w["gradient_checkpointing"]) for w in a["ways"]],
                         [(False, False), (True, False), (False, True), (True, True)])
        self.assertEqual((a["simulated"], a["mode"], a["batch_size"]), (True, "single-device", 16))

    def test_largest_batch_fits_and_no_more(self):
        """The answer, in eights, is from a line through two plans; here the plan of its batch is made on such a card."""
        a = self.advise("--model-size", "tiny", "--simulate-device", CARD, *LENGTHS)
        largest, limit = a["ways"][0]["largest_batch"], int(0.9 * 6144)
        self.assertGreater(largest, 8)
        for batch, code in ((largest, 0), (largest + 8, 1)):
            done = run("profile", "--simulate-device", f"gflops=1e6,gbps=1e5,latency_us=0,memory_mb={limit}", "--model-size",
                       "tiny", "--batch-size", str(batch), "--num-steps", "4", "--buffer-size", "2", *LENGTHS)
            self.assertEqual(done.returncode, code, done.stderr)

    def test_configuration_is_accepted(self):
        pair = ("--simulate-device", CARD, "--simulate-data-device", SMALL_CARD)
        for devices, mode in ((pair[:2], "single-device"), (pair, "two-device")):
            for size in ("pico", "tiny"):
                with self.subTest(mode=mode, size=size):
                    a = self.advise("--model-size", size, "--train-data", self.data, "--language", "en", *devices)
                    self.assertEqual(a["mode"], mode)
                    report = self.check(a["config"], *devices)
                    self.assertEqual(report["memory"]["largest_batch"], a["ways"][a["chosen"]]["largest_batch"])
                    self.assertTrue(all(w["key"] == "pipeline.enable_static_shapes" for w in report["warnings"]), report)

    def test_this_computers_devices(self):
        a = self.advise("--model-size", "pico", "--train-data", self.data, "--language", "en", "--data-device", "vk:0",
                        "--model-device", "cl:0.0")
        self.assertFalse(a["simulated"])
        self.assertIn("model = cl:", a["config"])
        self.check(a["config"])

    def test_small_memory(self):
        a = self.advise("--model-size", "tiny", "--simulate-device", SMALL_CARD, "--max-mel-frames", "800")
        self.assertTrue(a["ways"][a["chosen"]]["gradient_checkpointing"])
        self.assertLessEqual(a["batch_size"], a["ways"][a["chosen"]]["largest_batch"])
        self.assertGreaterEqual(a["batch_size"] * a["grad_accum"], 12)
        b = self.advise("--model-size", "pico", "--simulate-device", CARD, "--simulate-data-device", "memory_mb=256",
                        "--batch-size", "32", *LENGTHS)
        self.assertTrue(2 <= b["buffer_size"] < 25, b)
        self.assertLess(b["data_bytes"], 256 << 20)

    def test_the_whole_gpt_on_a_small_card(self):
        """XTTS-v2 at its size: moments get smaller until a row fits; and what is told fits on such a card, and no more."""
        options = ("--family", "xtts", "--model-size", "base", "--max-text-length", "60", "--max-mel-frames", "400")
        a = self.advise("--simulate-device", "memory_mb=4096", *options)
        self.assertEqual((a["optimizer_state"], a["optimizer_device"], a["batch_size"]), ("int8", "model", 3))
        self.assertIn("optimizer_state = int8", a["config"])
        b = self.advise("--simulate-device", "memory_mb=2900", *options)
        self.assertEqual((b["optimizer_state"], b["optimizer_device"]), ("int8", "host"))
        lora = self.advise("--simulate-device", "memory_mb=2900", *options, "--set", "xtts.tune=lora")
        self.assertEqual((lora["optimizer_state"], lora["batch_size"]), ("fp32", 3))
        self.assertIn("[xtts]\ntune = lora", lora["config"])
        need = a["model_bytes"] / 2**20
        path = os.path.join(self.folder.name, "xtts.ini")
        for limit, code in ((1.02 * need, 0), (0.95 * need, 1)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(re.sub(r"model_gpu_memory = \d+", f"model_gpu_memory = {int(limit)}", a["config"]))
            done = run("check-config", path, "--simulate-device", "memory_mb=4096", "--train-data", self.data, "--language", "en")
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)

    def test_text_and_file(self):
        path = os.path.join(self.folder.name, "told.ini")
        options = ("--model-size", "pico", "--simulate-device", CARD, "--set", "model.dropout=0.25")
        text = run("advise", *options)
        self.assertEqual(text.returncode, 0, text.stderr)
        for word in ("largest batch", "(simulated)", "[training]", "dropout = 0.25", "; train_data = DIR"):
            self.assertIn(word, text.stdout)
        self.assertIn(path, run("advise", *options, "-o", path).stdout)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), text.stdout)

    def test_refusals(self):
        for options, code, word in ((("--simulate-device", "memory=3"), 2, "memory_mb"),
                                    (("--simulate-data-device", CARD), 2, "--simulate-device"),
                                    (("--data-device", "cpu"), 2, "SELECTOR"),
                                    (("--model-device", "99"), 2, "SELECTOR"),
                                    (("--model-size", "big", "--simulate-device", "memory_mb=512"), 1, "--model-size"),
                                    (("--model-size", "pico", "--simulate-device", CARD, "--simulate-data-device",
                                      "memory_mb=64"), 1, "leave the data device out")):
            done = run("advise", *options)
            self.assertEqual((done.returncode, done.stdout), (code, ""), options)
            self.assertIn(word, done.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
