#!/usr/bin/env python3
"""`bench decode`: what it measures on a device, and what it foretells for one that is not here.

    test_bench_decode.py PROGRAM
"""
import json
import subprocess
import sys
import unittest

PROGRAM = "build/release/tandem"
SIZE = ["--layers", "2", "--width", "256", "--prompt", "8", "--codes", "12"]


def run(*arguments):
    return json.loads(subprocess.run([PROGRAM, "bench", "decode", *SIZE, *arguments, "--json"], check=True, timeout=240,
                                     stdout=subprocess.PIPE).stdout)


class DecodeTest(unittest.TestCase):
    def test_a_device_that_is_here(self):
        r = run("--device", "cpu")
        self.assertFalse(r["simulated"])
        self.assertEqual(r["launches_per_code"], 3 * 2 + 2)
        self.assertGreater(r["codes_per_s"], 0)
        self.assertEqual(r["weights"], "fp32")

    def test_rates_decide_on_one_that_is_not(self):
        """At 0.5 GB/s and without latency the bytes of a step are all; they are those of its weights."""
        weights = 2 * 12 * 256 * 256
        for name, size in (("fp32", 4), ("bf16", 2), ("int8", 1)):
            r = run("--simulate-device", "gbps=0.5,gflops=1000,latency_us=0", "--weights", name)
            self.assertTrue(r["simulated"])
            self.assertEqual(r["launches_per_code"], 3 * 2 + 2)
            least = (size * weights + 4 * 1026 * 256) / 0.5e9  # seconds; the head is fp32
            self.assertTrue(0.9 * least < 1 / r["codes_per_s"] < 1.5 * least + 0.001, (name, least, r["codes_per_s"]))

    def test_launches_cost_their_latency(self):
        r = run("--simulate-device", "gbps=1000,gflops=100000,latency_us=2000")
        self.assertGreater(r["ms_per_code"], 2 * (3 * 2 + 2))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = sys.argv.pop(1)
    unittest.main()
