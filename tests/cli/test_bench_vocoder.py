#!/usr/bin/env python3
"""`tandem bench vocoder`: fields, families, explanation, mistakes."""
import json
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)
DEVICE = "cl:portable-computing-language.0"


def run(*args):
    return subprocess.run([PROGRAM, "bench", "vocoder", "--device", DEVICE, "--model-size", "pico", "--seconds", "1",
                           "--rounds", "2", *args], capture_output=True, text=True, timeout=240)


def measure(*args):
    done = run("--json", *args)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def count_hifigan(features, channels, speaker):
    total = 7 * features * channels + channels + (speaker + 1) * channels
    for taps in (16, 16, 4, 4):
        half = channels // 2
        total += taps * channels * half + half + (speaker + 1) * half
        total += sum(6 * (k * half * half + half) for k in (3, 7, 11))
        channels = half
    return total + 7 * channels


class Vocoder(unittest.TestCase):
    def test_xtts(self):
        r = measure("--family", "xtts")
        for key in ("device", "driver", "build", "gflops", "launches"):
            self.assertIn(key, r)
        self.assertEqual(r["parameters"], count_hifigan(64, 32, 512))
        self.assertEqual(r["frames"], 94)  # of 256 samples, 24,000 a second
        self.assertAlmostEqual(r["realtime_factor"], 1e3 * r["seconds"] / r["ms"]["median"], delta=1e-3)
        self.assertGreater(r["first_audio_ms"], 0)

    def test_vocoder(self):
        r = measure("--family", "vocoder")
        self.assertEqual(r["family"], "vocoder")
        self.assertGreater(r["realtime_factor"], 0)
        self.assertGreater(r["first_audio_ms"], 0)

    def test_explanation(self):
        done = run("--family", "xtts", "--explain")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"times real time")
        self.assertRegex(done.stdout, r"conv_pre.weight")
        self.assertRegex(done.stdout, r"nodes one by one took \d")

    def test_mistakes(self):
        done = run("--family", "parallel")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("make no samples", done.stderr)


if __name__ == "__main__":
    unittest.main()
