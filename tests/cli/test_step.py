#!/usr/bin/env python3
"""`tandem bench step`: fields, memory of the ways of planning, explanation, picture, dump, mistakes."""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)
DEVICE = "cl:portable-computing-language.0"
SMALL = ["--sketch", "64x1/64x2", "--batch-size", "2", "--text-length", "12", "--mel-frames", "40", "--steps", "2"]


def run(*args):
    return subprocess.run([PROGRAM, "bench", "step", *args], capture_output=True, text=True, timeout=240)


def measure(*more):
    done = run("--device", DEVICE, "--json", *SMALL, *more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Step(unittest.TestCase):
    def test_fields(self):
        r = measure()
        for key in ("device", "driver", "build", "parameters", "flops_per_step", "gflops", "audio_s_per_s",
                    "peak_device_bytes", "host_share", "plan_ms", "launches"):
            self.assertIn(key, r)
        for key in ("median", "min", "p95"):
            self.assertGreater(r["ms_per_step"][key], 0)
        # embedding, positions, layers: qkv, out, feed-forward, norms; cross-attention in the decoder; heads
        d, ff = 64, 64 * 256 * 2 + 256 + 64 + 2 * 64
        self_attention = d * 3 * d + 3 * d + d * d + d + 2 * d
        cross = 2 * d + d * d + d + d * 2 * d + 2 * d + d * d + d
        text = 256 * d + 12 * d + self_attention + ff + 2 * d
        decoder = 80 * d + d + 40 * d + 2 * (self_attention + cross + ff) + 2 * d + (d + 1) * 81
        self.assertEqual(r["parameters"], text + decoder)
        self.assertLess(r["last_loss"], r["first_loss"])
        self.assertGreater(r["peak_device_bytes"], r["arena_bytes"] + r["store_bytes"] - 1)

    def test_memory(self):
        plain, half, again = measure(), measure("--precision", "bf16"), measure("--checkpointing")
        self.assertLess(half["kept_bytes"], 0.55 * plain["kept_bytes"])
        self.assertLess(again["arena_bytes"], plain["arena_bytes"])
        self.assertGreater(again["launches"], plain["launches"])
        self.assertEqual(again["flops_per_step"], plain["flops_per_step"])
        self.assertAlmostEqual(again["last_loss"], plain["last_loss"], delta=1e-4)
        self.assertAlmostEqual(half["last_loss"], plain["last_loss"], delta=2e-2)

    def test_explanation(self):
        done = run("--device", DEVICE, *SMALL, "--explain")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"matmul nn 80x256x64 \+ bias \+ gelu")
        self.assertRegex(done.stdout, r"attention_back")
        self.assertRegex(done.stdout, r"nodes one by one took \d")
        self.assertIn("took us", measure("--explain")["explain"])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.dot")
            measure("--explain-dot", path)
            with open(path) as f:
                self.assertTrue(re.match(r"digraph plan \{", f.read()))

    def test_dump(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "step.safetensors")
            measure("--ragged", "--dump", path)
            with open(path, "rb") as f:
                (n,) = struct.unpack("<Q", f.read(8))
                header = json.loads(f.read(n))
            self.assertEqual(header["batch.mel"]["shape"], [2, 40, 80])
            for group in ("param", "grad", "updated"):
                self.assertEqual(header[f"{group}.decoder.layers.1.cross.kv.weight"]["shape"], [64, 128])

    def test_mistakes(self):
        for args, word in ((["--sketch", "100x2/64x1"], "multiples of 64"), (["--sketch", "64x1"], "128x2/192x3"),
                           (["--precision", "fp8"], "bf16"), (["--explain-dot", "/no/where"], "/no/where")):
            done = run("--device", DEVICE, *SMALL, *args)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(word, done.stderr)
        self.assertEqual(run("--sketch", "64x1").returncode, 2)


if __name__ == "__main__":
    unittest.main()
