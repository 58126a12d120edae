#!/usr/bin/env python3
"""`tandem bench cluster` alone and on two ranks of this computer."""
import json
import subprocess
import unittest

from share import HANGS_S, TANDEM, environment, main, ranks

COMMAND = (TANDEM, "bench", "cluster", "--device", "cl:portable-computing-language.0", "--model-size", "pico", "--batch-size",
           "2", "--mel-frames", "64", "--text-length", "32", "--steps", "2")


class Bench(unittest.TestCase):
    def check(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = json.loads(done.stdout)  # one rank alone prints
        self.assertEqual(len(found["per_rank"]), found["ranks"])
        rates = sum(1 / rank["alone_ms"] for rank in found["per_rank"])
        self.assertAlmostEqual(found["efficiency"], found["ranks"] / found["step_ms"] / rates)
        self.assertEqual(found["step_ms"], max(rank["step_ms"] for rank in found["per_rank"]))
        return found

    def test_alone(self):
        done = subprocess.run([*COMMAND, "--json"], capture_output=True, text=True, timeout=HANGS_S, env=environment())
        found = self.check(done)
        self.assertEqual(found["ranks"], 1)
        self.assertEqual(found["cluster"], "alone")
        self.assertEqual(found["efficiency"], 1)
        self.assertIsNone(found["reduce_gbps"])
        self.assertIsNone(found["overlap"])

    def test_two_ranks(self):
        found = self.check(ranks(2, *COMMAND, "--json"))
        self.assertEqual(found["ranks"], 2)
        self.assertGreater(found["bytes"], 200000)  # of the parameters of a pico
        self.assertGreater(found["reduce_gbps"], 0)
        self.assertGreater(found["latency_us"], 0)
        self.assertTrue(0 <= found["overlap"] <= 1)
        waits, reduces = ([rank[key] for rank in found["per_rank"]] for key in ("wait_ms", "reduce_ms"))
        self.assertAlmostEqual(found["overlap"], max(0, 1 - sum(waits) / sum(reduces)))
        self.assertIsNone(found["gather_overlap"])
        done = ranks(2, *COMMAND, "--set", "cluster.shard_optimizer=true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("efficiency"), 1)
        self.assertEqual(done.stdout.count("of it behind the next forward pass"), 1)

    def test_what_ranks_cannot_do_is_refused(self):
        done = ranks(2, *COMMAND[:3], "--device", "sim:0")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("profile --simulate-cluster", done.stderr)


main()
