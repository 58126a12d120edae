#!/usr/bin/env python3
"""`bench load` and `analyze` as users meet them: the fields they promise, what they refuse, and the mel cache.

    python3 tests/cli/test_load.py /path/to/tandem

Needs only Python's standard library. Every test has a dataset of its own; devices keep their cache.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import wave

PROGRAM = "./tandem"
N_ROWS = 24


class LoadTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-load-")
        self.addCleanup(self.folder.cleanup)
        self.root = os.path.join(self.folder.name, "set")
        os.makedirs(os.path.join(self.root, "wavs"))
        with open(os.path.join(self.root, "metadata.csv"), "w", encoding="utf-8") as file:
            for i in range(N_ROWS):
                file.write(f"r{i:02}|It is number {i}.\n")
        for i in range(N_ROWS):
            with wave.open(self.wav(i), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(22050)
                file.writeframes(b"\1\2\3\4" * (3000 + 500 * i))

    def wav(self, i):
        return os.path.join(self.root, "wavs", f"r{i:02}.wav")

    def run_program(self, *arguments, code=0):
        done = subprocess.run([PROGRAM, *arguments, "--device", "cpu"], capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def load(self, *options, code=0):
        return self.run_program("bench", "load", "--train-data", self.root, "--language", "en", "--val-fraction", "0",
                                "--rounds", "2", "--set", "training.batch_size=8", *options, code=code)

    def test_bench_load_json(self):
        document = json.loads(self.load("--workers", "2", "--json").stdout)
        for key in ("samples_per_s", "audio_s_per_s", "cached_samples_per_s"):
            self.assertGreater(document[key], 0)
        self.assertEqual((document["workers"], document["samples"], document["batches"]), (2, N_ROWS, 3))
        self.assertEqual((document["mel_cache"], document["cache_hits"]), ("ram", 1))
        seconds = sum(2 * (3000 + 500 * i) for i in range(N_ROWS)) / 22050 / N_ROWS
        self.assertAlmostEqual(document["audio_s_per_s"] / document["samples_per_s"], seconds, places=6)

    def test_kinds_of_mel_cache(self):
        done = self.load("--mel-cache", "none", "--json")
        self.assertEqual(json.loads(done.stdout)["cached_samples_per_s"], 0)
        self.assertNotIn("mel cache", done.stderr)
        cache = os.path.join(self.folder.name, "cache")
        done = self.load("--mel-cache", "disk", "--cache-dir", cache, "--reference-seconds", "1")
        self.assertIn("mel cache: disk, up to", done.stderr)
        self.assertIn("disk, 100 % hits", done.stdout)
        files = [name for _, _, names in os.walk(os.path.join(cache, "mel")) for name in names]
        self.assertEqual(len(files), N_ROWS)
        self.assertIn("--mel-cache disk needs", self.load("--mel-cache", "disk", "--no-cache", code=2).stderr)

    def test_limits_leave_rows_out(self):
        self.assertIn("left out", self.load("--max-mel-frames", "60").stdout)
        self.assertIn("--max-mel-frames", self.load("--max-mel-frames", "3", code=1).stderr)

    def test_wrong_usage_is_refused(self):
        self.assertIn("--train-data", self.run_program("bench", "load", code=2).stderr)
        self.assertIn("--train-data", self.run_program("analyze", code=2).stderr)
        self.load("--mel-cache", "tape", code=2)

    def test_analyze(self):
        options = ["analyze", "--train-data", self.root, "--language", "en", "--set", "training.batch_size=8",
                   "--step-ms", "1", "--num-workers", "1"]
        for _ in range(4):  # a busy computer can hide what a cache gains
            document = json.loads(self.run_program(*options, "--json").stdout)
            if any("--mel-cache" in item["option"] for item in document["recommendations"]):
                break
        self.assertGreater(document["text"]["cold_s"], 0)
        self.assertGreater(document["text"]["cached_s"], 0)
        self.assertGreater(document["audio"]["load_ms"]["mean"], 0)
        self.assertIn("cv", document["audio"]["load_ms"])
        slowest = [file["ms"] for file in document["audio"]["slowest"]]
        self.assertEqual((len(slowest), slowest), (10, sorted(slowest, reverse=True)))
        self.assertGreater(document["mel"]["ms_per_batch"], 0)
        self.assertGreater(document["batches"]["wait_ms"]["mean"], 0)
        self.assertTrue(0 < document["model_idle"] < 1)
        self.assertEqual([point["workers"] for point in document["workers_sweep"]][:2], [1, 2])
        gains = [item["gain"] for item in document["recommendations"]]
        self.assertTrue(gains and gains == sorted(gains, reverse=True), gains)
        self.assertIn("--mel-cache", " ".join(item["option"] for item in document["recommendations"]))
        text = self.run_program(*options).stdout
        for words in ("cold", "CV", "model device idles", "workers", "advice"):
            self.assertIn(words, text)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
