#!/usr/bin/env python3
"""Ranks with unlike devices: OpenCL beside Vulkan, shares by measured speed, two devices within each rank."""
import re
import subprocess

from share import HANGS_S, MORE, InFolder, environment, launcher, main, ranks, read_tensors

OPENCL, VULKAN = "cl:portable-computing-language.0", "vk:llvmpipe.0"


class Unlike(InFolder):
    DATASET = (12, 6000, 400)

    def command(self, run, *more, device=OPENCL):
        return [MORE, "train", "--model-device", device, "--set", "model.family=toy", "--set", "model.width=24",
                "--train-data", self.path("set"), "--language", "en", "--batch-size", "2", "--max-steps", "4",
                "--checkpoint-dir", self.path(run), "--val-every", "0", "--sample-every", "0", "--lr", "0.01",
                "--warmup-steps", "1", *more]

    def check(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stderr

    def mixed(self, run, *more):
        return self.check(subprocess.run(launcher(1) + self.command(run, *more) + [":", "-n", "1"] +
                                         self.command(run, *more, device=VULKAN), capture_output=True, text=True,
                                         timeout=HANGS_S, env=environment()))

    def alone(self, run, *more):
        return self.check(subprocess.run(self.command(run, *more), capture_output=True, text=True, timeout=HANGS_S,
                                         env=environment()))

    def compare(self, one, other, tolerance):
        a, b = (read_tensors(self.path(run, "checkpoint-4.safetensors")) for run in (one, other))
        self.assertEqual(a.keys(), b.keys())
        for name, values in a.items():
            largest = max(map(abs, values), default=0)
            apart = max((abs(x - y) for x, y in zip(values, b[name])), default=0)
            self.assertLessEqual(apart, tolerance * largest + 1e-7, name)

    def test_opencl_and_vulkan_together(self):
        """What comes out is near to one rank's, and slower ranks get fewer batches where that was asked for."""
        self.alone("alone", "--grad-accum", "8")
        text = self.mixed("mixed", "--grad-accum", "4", "--balance", "measured")
        self.assertIn("devices are unlike", text)
        found = re.search(r"shares of the 8 batches of a step: rank 0: (\d+) \(([0-9.]+) ms each\), "
                          r"rank 1: (\d+) \(([0-9.]+) ms each\)", text)
        self.assertIsNotNone(found, text)
        counts, times = [int(found.group(i)) for i in (1, 3)], [float(found.group(i)) for i in (2, 4)]
        self.assertEqual(sum(counts), 8)
        # nobody could give one batch to the other and finish earlier
        latest = max(c * t for c, t in zip(counts, times))
        for giver, taker in ((0, 1), (1, 0)):
            if counts[giver] > 1:
                moved = max((counts[giver] - 1) * times[giver], (counts[taker] + 1) * times[taker])
                self.assertGreaterEqual(moved, 0.99 * latest)
        self.compare("alone", "mixed", 1e-3)

    def test_shares_need_something_to_share(self):
        done = ranks(2, *self.command("one", "--balance", "measured"))
        self.assertIn("raise --grad-accum", self.check(done))

    def test_two_devices_within_each_rank(self):
        """Data on Vulkan, the model on OpenCL, twice: the bits of one rank with the same two."""
        two = ("--data-device", VULKAN)
        self.alone("pair", "--grad-accum", "2", *two)
        self.check(ranks(2, *self.command("pairs", *two)))
        with open(self.path("pair", "checkpoint-4.safetensors"), "rb") as one:
            with open(self.path("pairs", "checkpoint-4.safetensors"), "rb") as other:
                self.assertTrue(one.read() == other.read())


main()
