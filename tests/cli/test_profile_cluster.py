#!/usr/bin/env python3
"""`tandem profile --simulate-cluster` as users meet it: the table, what it advises, and what it refuses.

    python3 tests/cli/test_profile_cluster.py /path/to/tandem

Needs only Python's standard library.
"""

import json
import subprocess
import sys
import unittest

PROGRAM = "./tandem"
CARD = ("--model-size", "pico", "--batch-size", "16", "--max-mel-frames", "256", "--simulate-device",
        "gflops=1000,gbps=100,copy_gbps=6,memory_mb=8192")


def run(*options):
    return subprocess.run([PROGRAM, "profile", *options], capture_output=True, text=True, timeout=200)


class ProfileClusterTest(unittest.TestCase):
    def profile(self, *options):
        done = run("--json", *options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def test_many_ranks_of_a_card(self):
        found = self.profile(*CARD, "--simulate-cluster", "ranks=48,gbps=0.1,latency_us=20,drop=0")
        self.assertTrue(found["simulated"])
        self.assertNotIn("simulated_step_ms", found)  # too many to be simulated one by one
        self.assertEqual([row["ranks"] for row in found["rows"]], [2 ** i for i in range(13)])
        self.assertEqual(found["ranks"], 48)
        rows = {row["ranks"]: row for row in found["rows"]}
        self.assertEqual(rows[1]["efficiency"], 1)
        for row in found["rows"][1:]:
            self.assertAlmostEqual(row["efficiency"], rows[1]["step_ms"] / row["step_ms"])
            self.assertGreater(row["reduce_ms"], rows[row["ranks"] // 2]["reduce_ms"])
            # bytes that a rank sends, at the rate of its link, and two calls of as many messages as there are others
            least = 2 * (row["ranks"] - 1) * (found["bytes"] / row["ranks"] / 1e5 + found["buckets"] * 0.02)
            self.assertAlmostEqual(row["reduce_ms"], least + found["bytes"] / 5e6, places=6)
        self.assertTrue(rows[32]["step_ms"] < found["step_ms"] < rows[64]["step_ms"])
        self.assertGreaterEqual(rows[found["pays_to"]]["efficiency"], 0.5)
        self.assertLess(rows[2 * found["pays_to"]]["efficiency"], 0.5)
        # what it says of accumulation holds
        self.assertGreater(found["enough_grad_accum"], 1)
        more = self.profile(*CARD, "--simulate-cluster", "ranks=48,gbps=0.1,latency_us=20,drop=0", "--grad-accum",
                            str(found["enough_grad_accum"]))
        self.assertGreaterEqual(more["efficiency"], 0.88)
        self.assertEqual(more["grad_accum"], found["enough_grad_accum"])

    def test_few_ranks_are_simulated_too(self):
        done = run(*CARD, "--simulate-cluster", "ranks=2,gbps=1.25", "--reduce-format", "bf16")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("sent as bf16", done.stdout)
        self.assertIn("2 ranks, one by one", done.stdout)
        self.assertIn("Up to", done.stdout)

    def test_what_is_wrong_is_named(self):
        for text, words in (("ranks=0", ("ranks", "from 1 to 4096")), ("speed=3", ("speed=3", "gbps", "latency_us")),
                            ("drop=1", ("drop", "0.9")), ("ranks=2,gbps=", ("gbps",))):
            done = run(*CARD, "--simulate-cluster", text)
            self.assertEqual(done.returncode, 2, text)
            for word in words:
                self.assertIn(word, done.stderr)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else PROGRAM
    unittest.main(verbosity=2)
