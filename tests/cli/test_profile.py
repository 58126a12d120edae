#!/usr/bin/env python3
"""`tandem profile` as users meet it: simulated stages, real training on one device and on two, the trace, the page,
and what it refuses.

    python3 tests/cli/test_profile.py /path/to/tandem

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
PHASES = ("load", "preprocess", "transfer", "train", "idle")
STAGES = "data=30,transfer=5,train=40"  # ms; a busy computer is off by some


def run(*options, temporary=None):
    variables = dict(os.environ, TMPDIR=temporary) if temporary else None
    return subprocess.run([PROGRAM, "profile", *options], capture_output=True, text=True, timeout=400, env=variables)


class ProfileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tandem-profile-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def profile(self, *options, temporary=None):
        done = run("--json", *options, temporary=temporary)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def simulate(self, stages, *options):
        return self.profile("--simulate", stages, "--num-steps", "40", "--buffer-size", "8", *options)

    def make_data(self):
        root = self.path("set")
        make_dataset(root)
        return root

    def check_fields(self, p):
        self.assertLessEqual({"simulated", "steps", "step_ms", "phases", "utilisation", "overlap", "throughput", "memory",
                              "verdicts"}, set(p))
        for key in ("mean", "std", "min", "max", "p95", "cv"):
            self.assertGreaterEqual(p["step_ms"][key], 0, key)
        self.assertLess(p["step_ms"]["min"], p["step_ms"]["mean"] + 1e-9)
        self.assertLess(p["step_ms"]["mean"], p["step_ms"]["max"] + 1e-9)
        self.assertEqual(set(p["phases"]), set(PHASES))
        for phase in p["phases"].values():
            for key in ("mean_ms", "std_ms", "min_ms", "max_ms", "p95_ms", "share"):
                self.assertGreaterEqual(phase[key], 0)
            self.assertAlmostEqual(phase["share"], phase["mean_ms"] / p["step_ms"]["mean"], places=6)
        for key in ("data", "model"):
            self.assertTrue(0 <= p["utilisation"][key] <= 1.000001, p["utilisation"])
        self.assertTrue(0 <= p["overlap"] <= 1.000001)
        self.assertAlmostEqual(p["throughput"]["steps_per_s"], 1000 / p["step_ms"]["mean"], places=6)
        for verdict in p["verdicts"]:
            self.assertTrue(verdict["code"] and verdict["message"] and verdict["advice"])

    def codes(self, p):
        return [verdict["code"] for verdict in p["verdicts"]]

    def test_simulated_pair(self):
        p = self.simulate(STAGES)
        self.check_fields(p)
        self.assertEqual((p["simulated"], p["mode"], p["steps"]), (True, "two-device", 40))
        self.assertLess(p["step_ms"]["mean"], 40 * 1.1)
        self.assertGreater(p["utilisation"]["model"], 0.9)
        serial = self.simulate(STAGES, "--serial")
        self.assertGreater(serial["step_ms"]["mean"], 1.6 * p["step_ms"]["mean"])
        self.assertIn("model_starved", self.codes(serial))
        self.assertNotIn("model_starved", self.codes(p))

    def test_simulated_slow_data_is_named(self):
        p = self.simulate("data=60,transfer=5,train=40")
        self.assertLess(p["step_ms"]["mean"], 60 * 1.1)
        self.assertIn("data_busy", self.codes(p))
        self.assertTrue(any("preprocess stage" in v["message"] for v in p["verdicts"]), p["verdicts"])

    def test_simulated_single_device(self):
        p = self.simulate(STAGES, "--model-device", "sim")
        self.assertEqual(p["mode"], "single-device")
        self.assertLess(p["step_ms"]["mean"], 70 * 1.1)
        self.assertEqual(p["phases"]["transfer"]["mean_ms"], 0)

    def forecast(self, model, *options):
        return self.profile("--simulate-device", model, "--model-size", "pico", "--batch-size", "4", "--max-text-length", "32",
                            "--max-mel-frames", "64", "--num-steps", "12", "--buffer-size", "2", *options)

    def test_forecast_follows_the_rates(self):
        fast = self.forecast("gflops=20,gbps=1000,latency_us=0")
        self.check_fields(fast)
        self.assertEqual((fast["simulated"], fast["mode"]), (True, "single-device"))
        f = fast["forecast"]
        self.assertEqual((f["batch_size"], f["text_length"], f["mel_frames"], f["transfer_ms"]), (4, 32, 64, 0))
        self.assertGreater(f["train_ms"], f["flops_per_step"] / 20e6)  # nothing is faster than its arithmetic
        self.assertLess(fast["step_ms"]["mean"], 1.3 * (f["train_ms"] + f["data_ms"]))
        slow = self.forecast("gflops=10,gbps=500,latency_us=0", "--simulate-data-device", "gflops=5,gbps=100,copy_gbps=0.01")
        self.assertEqual(slow["mode"], "two-device")
        s = slow["forecast"]
        self.assertEqual(s["flops_per_step"], f["flops_per_step"])
        self.assertAlmostEqual(s["train_ms"] / f["train_ms"], 2, delta=0.3)
        self.assertAlmostEqual(s["transfer_ms"], s["batch_bytes"] / 0.01 * 1e-6, places=6)
        saving = self.forecast("gflops=20,gbps=1000,latency_us=0", "--gradient-checkpointing")
        self.assertGreater(saving["forecast"]["train_ms"], f["train_ms"])
        self.assertLess(saving["memory"]["model_peak_bytes"], fast["memory"]["model_peak_bytes"])

    def test_forecast_of_long_steps_is_not_waited_for(self):
        p = self.forecast("gflops=0.5,gbps=1000,latency_us=0")  # a step of many times 40 ms
        f = p["forecast"]
        self.assertGreater(f["train_ms"], 100)
        self.assertAlmostEqual(p["step_ms"]["mean"] / (f["train_ms"] + f["data_ms"]), 1, delta=0.3)

    def test_forecast_refusals(self):
        for options, code, word in ((["--simulate-device", "gflop=1"], 2, "gflops"),
                                    (["--simulate-data-device", "gflops=1"], 2, "--simulate-device"),
                                    (["--simulate-device", "gflops=1", "--simulate", "train=4"], 2, "leave one out"),
                                    (["--simulate-device", "gflops=1", "--batch-size", "auto"], 2, "advise"),
                                    (["--simulate-device", "memory_mb=1024", "--batch-size", "64"], 1, "make the batch smaller")):
            done = run(*options)
            self.assertEqual((done.returncode, done.stdout), (code, ""), options)
            self.assertIn(word, done.stderr)

    def check_trace(self, path, tracks):
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        names = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
        self.assertEqual(len(names), 4)
        bars = [e for e in events if e["ph"] == "X"]
        self.assertEqual({names[e["tid"]] for e in bars}, set(tracks))
        self.assertTrue(all(e["dur"] >= 0 and e["ts"] >= 0 for e in bars))
        flows = {}
        for e in events:
            if e["ph"] in "stf":
                flows.setdefault(e["id"], []).append(e)
        trained = {e["args"]["batch"] for e in bars if e["name"] == "train"}
        self.assertEqual(set(flows), trained)
        for arrow in flows.values():  # from preparing, over the transfer, to training, forward in time
            arrow.sort(key=lambda e: e["tid"])
            self.assertEqual("".join(e["ph"] for e in arrow), "stf" if "copy queues: transfer" in tracks else "sf")
            self.assertEqual([e["ts"] for e in arrow], sorted(e["ts"] for e in arrow))
        return bars

    def check_page(self, path):
        with open(path, encoding="utf-8") as file:
            page = file.read()
        self.assertNotRegex(page, r"https?://(?!www\.w3\.org/)")
        self.assertNotRegex(page, r"(?i)<(script|img|iframe)[^>]* src=|<link")
        self.assertNotIn("@DATA@", page)
        data = re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page, re.S)
        self.assertTrue(data, "the page has no data")
        return json.loads(data.group(1))

    def test_trace_and_page(self):
        p = self.simulate(STAGES, "--trace", self.path("t.json"), "--html", self.path("t.html"))
        bars = self.check_trace(self.path("t.json"),
                                ["data device: preprocess", "copy queues: transfer", "model device: train"])
        data = self.check_page(self.path("t.html"))
        self.assertEqual(data["profile"], p)
        self.assertEqual(len(data["bars"]), len(bars))
        trained = [bar for bar in data["bars"] if data["tracks"][bar[0]] == "model device: train"]
        self.assertEqual(len(trained), 40)

    def test_text(self):
        done = run("--simulate", "data=60,transfer=5,train=40", "--num-steps", "40", "--buffer-size", "8")
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("(simulated)", "preprocess", "idle", "model device", "preprocess stage", "--mel-cache"):
            self.assertIn(word, done.stdout)

    def test_wrong_usage_is_refused(self):
        for stages, word in (("speed=3,train=5", "'speed=3'"), ("data=x,train=5", "'data=x'"), ("data=3", "train=MS"),
                             ("data=3,train=-1", "'train=-1'"), ("train=5,jitter=2", "jitter")):
            done = run("--simulate", stages)
            self.assertEqual((done.returncode, done.stdout), (2, ""), stages)
            self.assertIn(word, done.stderr)
            self.assertNotIn("SELECTOR", done.stderr)
        self.assertEqual(run("--simulate", STAGES, "--num-steps", "1").returncode, 2)
        done = run("--model-device", "cpu")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--train-data", done.stderr)
        self.assertNotIn("SELECTOR", done.stderr)
        done = run("--data-device", "cpu", "--train-data", self.folder)
        self.assertEqual(done.returncode, 2)
        self.assertIn("SELECTOR", done.stderr)
        missing = run("--simulate", STAGES, "--num-steps", "10", "--trace", self.path("none/t.json"))
        self.assertEqual(missing.returncode, 1)
        self.assertIn("none", missing.stderr)

    def check_training(self, mode, tracks, *devices):
        temporary = self.path("temporary")
        os.mkdir(temporary)
        p = self.profile("--train-data", self.make_data(), "--model-size", "pico", "--batch-size", "2", "--num-steps", "6",
                         "--language", "en", "--enable-static-shapes", "--mel-cache", "none",
                         "--trace", self.path("t.json"), *devices, temporary=temporary)
        self.check_fields(p)
        self.assertEqual((p["simulated"], p["mode"]), (False, mode))
        self.assertGreater(p["throughput"]["audio_s_per_s"], 0)
        self.assertAlmostEqual(p["throughput"]["samples_per_s"], 2 * p["throughput"]["steps_per_s"], places=6)
        for key in ("data_peak_bytes", "model_peak_bytes"):
            self.assertGreater(p["memory"][key], 0)
        for phase in ("load", "preprocess", "train"):
            self.assertGreater(p["phases"][phase]["mean_ms"], 0, phase)
        self.check_trace(self.path("t.json"), tracks)
        self.assertEqual(os.listdir(temporary), [])
        return p

    def test_training_on_one_device(self):
        self.check_training("single-device", ["host: load", "data device: preprocess", "model device: train"],
                            "--model-device", "cl:0.0")

    def test_training_on_two_devices(self):
        p = self.check_training("two-device", ["host: load", "data device: preprocess", "copy queues: transfer",
                                               "model device: train"], "--data-device", "cl:0.0", "--model-device", "vk:0",
                                "--buffer-size", "2", "--prefetch-buffer-size", "1")
        self.assertGreater(p["overlap"], 0)

    def test_bench_pipeline(self):
        command = [PROGRAM, "bench", "pipeline", "--json", "--train-data", self.make_data(), "--model-size", "pico",
                   "--batch-size", "2", "--num-steps", "4", "--language", "en", "--enable-static-shapes",
                   "--model-device", "cl:0.0"]
        alone = subprocess.run(command, capture_output=True, text=True, timeout=100)
        self.assertEqual(alone.returncode, 2)
        self.assertIn("--data-gpu", alone.stderr)
        done = subprocess.run(command + ["--data-device", "vk:0"], capture_output=True, text=True, timeout=400)
        self.assertEqual(done.returncode, 0, done.stderr)
        r = json.loads(done.stdout)
        for way, mode in (("single_device", "single-device"), ("unoverlapped", "two-device"), ("two_device", "two-device")):
            self.assertEqual(r[way]["profile"]["mode"], mode)
            self.assertGreater(r[way]["median_ms"], 0)
            self.check_fields(r[way]["profile"])
        for way, ratio in r["ratios"].items():
            self.assertAlmostEqual(ratio, r[way]["median_ms"] / r["two_device"]["median_ms"], places=6)
        self.assertEqual(r["watching"], {"on_ms": 0, "off_ms": 0})  # too few steps to tell
        done = subprocess.run([word if word != "4" else "40" for word in command] + ["--data-device", "sim:0"],
                              capture_output=True, text=True, timeout=400)
        self.assertEqual(done.returncode, 0, done.stderr)
        r = json.loads(done.stdout)
        for way in ("single_device", "unoverlapped", "two_device"):
            self.assertGreater(r[way]["profile"]["host_ms"], 0)
            self.assertLess(r[way]["profile"]["host_ms"], r[way]["profile"]["step_ms"]["max"])
        self.assertGreater(r["watching"]["on_ms"], 0)
        self.assertGreater(r["watching"]["off_ms"], 0)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
