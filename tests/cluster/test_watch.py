#!/usr/bin/env python3
"""Watching several ranks of this computer: what each did in the events of a run and on its page, and a trace with a
process for each."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

from share import HANGS_S, TANDEM, environment, main, make_dataset, ranks

DEVICE = "cl:portable-computing-language.0"


class Watch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="tandem-watch-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        make_dataset(os.path.join(cls.folder, "set"), 24, 6000, 400)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def start(self, *command, code=0):
        done = ranks(2, TANDEM, *command, "--model-device", DEVICE, "--model-size", "pico", "--train-data", self.path("set"),
                     "--language", "en", "--batch-size", "2")
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_events_and_page(self):
        done = self.start("train", "--max-steps", "6", "--checkpoint-dir", self.path("run"), "--val-every", "0",
                          "--sample-every", "0", "--log-every", "3", "--json")
        events = [json.loads(line) for line in done.stdout.splitlines()]
        with open(self.path("run", "metrics.jsonl"), encoding="utf-8") as file:
            self.assertEqual([json.loads(line) for line in file], events)
        who = [e["per_rank"] for e in events if e["event"] == "start"][0]
        self.assertEqual([(w["rank"], w["device"]) for w in who], [(0, DEVICE), (1, DEVICE)])
        self.assertTrue(all(w["host"] == os.uname().nodename for w in who))
        steps = [e for e in events if e["event"] == "step"]
        self.assertEqual([e["step"] for e in steps], [1, 3, 6])
        for e in steps:
            self.assertEqual([r["rank"] for r in e["per_rank"]], [0, 1])
            self.assertAlmostEqual(sum(r["share"] for r in e["per_rank"]), 1)
            for r in e["per_rank"]:
                self.assertGreater(r["reduce_ms"], 0)
                self.assertGreaterEqual(r["wait_ms"], 0)
                self.assertLess(r["wait_ms"], 2 * r["step_ms"])  # a step ahead may be counted
        self.assertEqual(steps[-1]["per_rank"][0]["step_ms"], steps[-1]["ms_per_step"])
        done = subprocess.run([TANDEM, "report", self.path("run")], capture_output=True, text=True, timeout=HANGS_S,
                              env=environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("run", "report.html"), encoding="utf-8") as file:
            page = file.read()
        self.assertIn('"per_rank"', page)
        self.assertIn("waits for sums", page)
        for browser in filter(None, (shutil.which(name) for name in ("chromium", "chromium-browser"))):
            done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
                                   "file://" + self.path("run", "report.html")], capture_output=True, text=True,
                                  timeout=HANGS_S)
            self.assertIn(f"<td>0</td><td>{os.uname().nodename}</td><td>{DEVICE}</td>", done.stdout)

    def test_trace(self):
        done = self.start("profile", "--num-steps", "6", "--trace", self.path("trace.json"), "--json", "--set",
                          "cluster.shard_optimizer=true")
        self.assertEqual(json.loads(done.stdout)["mode"], "single-device")  # one rank alone prints
        with open(self.path("trace.json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        self.assertEqual(names, {1: "rank 0", 2: "rank 1"})
        of = {pid: [e for e in events if e["ph"] == "X" and e["pid"] == pid] for pid in names}
        for pid, own in of.items():
            sums, trains = ([e for e in own if e["name"] == name] for name in ("reduce", "train"))
            self.assertEqual(len(sums), len(trains))
            self.assertGreaterEqual(len(sums), 6)
            for s, t in zip(sums, trains):
                self.assertEqual(s["args"]["batch"], t["args"]["batch"])
                self.assertTrue(t["ts"] <= s["ts"] and s["ts"] + s["dur"] <= t["ts"] + t["dur"] + 1000, (pid, s, t))
            # parameters of an update come after its sums, and before those of the next step
            gathers = {e["args"]["batch"]: e for e in own if e["name"] == "gather"}
            self.assertGreaterEqual(len(gathers), 5)
            for before, s in zip(sums, sums[1:]):
                come = gathers.get(s["args"]["batch"])
                if come is not None:
                    self.assertTrue(before["ts"] + before["dur"] <= come["ts"] and come["ts"] + come["dur"] <= s["ts"],
                                    (before, come, s))
        # both are on one clock: a sum has all ranks in it, so that theirs overlap
        for a, b in zip(*([e for e in own if e["name"] == "reduce"] for own in of.values())):
            self.assertTrue(a["ts"] < b["ts"] + b["dur"] and b["ts"] < a["ts"] + a["dur"], (a, b))


main()
