#!/usr/bin/env python3
"""`report` as users meet it: what the page holds, what it tolerates and says, how large it may get, two runs.

    python3 tests/cli/test_report.py /path/to/tandem

Needs only Python's standard library: the runs are made here, file by file. Where Chromium is installed the page is
opened in it too.
"""

import base64
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

PROGRAM = "./tandem"

CONFIG = """[devices]
; data is not set
model = cpu              ; my.ini:6

[training]
batch_size = 4                ; my.ini:18
grad_clip = 1.0              ; my.ini:29
; command line (--checkpoint-dir)
checkpoint_dir = /a/long/path
epochs = 0                ; default

[model]
text_width = 128              ; preset nano
"""


def png(shade):
    """A picture of one pixel."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(bytes([0, shade]))) + chunk(b"IEND", b""))


def wav(n_samples):
    data = b"\1\0" * n_samples
    return (b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " +
            struct.pack("<IHHIIHH", 16, 1, 1, 22050, 44100, 2, 16) + b"data" + struct.pack("<I", len(data)) + data)


def step(number, loss=1.0):
    return {"event": "step", "step": number, "epoch": 0, "loss": loss, "loss.mel": loss / 2, "lr": 0.001, "grad_norm": 2.5,
            "ms_per_step": 10.0, "eta_s": 5.0, "utilisation": {"model": 0.9}, "waits_for": "load"}


class ReportTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-report-")
        self.addCleanup(self.folder.cleanup)
        self.page = os.path.join(self.folder.name, "page.html")

    def make_run(self, name="run", n_steps=5, config=CONFIG, sample_steps=(100, 200), wav_samples=50, tail=""):
        path = os.path.join(self.folder.name, name)
        os.makedirs(os.path.join(path, "samples"))
        events = [{"event": "start", "step": 0, "parameters": 7, "max_step": n_steps,
                   "devices": [{"role": "model", "name": "a device", "driver": "1.2"}]}]
        events += [step(i + 1, 3 / (i + 1)) for i in range(n_steps)]
        events.append({"event": "validation", "step": n_steps, "loss": 0.5, "best": True})
        events.append({"event": "skipped", "step": n_steps, "text": "not finite </script><b>"})
        with open(os.path.join(path, "metrics.jsonl"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(e) + "\n" for e in events)
            file.write(tail)
        if config is not None:
            self.write(path, "config.ini", config.encode())
        for number in sample_steps:
            self.write(path, f"samples/step-{number}-0.wav", wav(wav_samples))
            for kind in ("target", "spectrogram", "alignment"):
                self.write(path, f"samples/step-{number}-0-{kind}.png", png(number % 256))
        return path

    @staticmethod
    def write(folder, name, content):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)

    def report(self, *arguments, code=0):
        done = subprocess.run([PROGRAM, "report", *arguments], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def make(self, *runs):
        """The text of the page, its data, and what --json told."""
        told = json.loads(self.report(*runs, "-o", self.page, "--json").stdout)
        with open(self.page, encoding="utf-8") as file:
            text = file.read()
        data = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)[1])
        self.assertEqual(told["bytes"], os.path.getsize(self.page))
        return text, data, told

    def expect_note(self, data, words):
        self.assertTrue(any(words in note for note in data["runs"][0]["notes"]), data["runs"][0]["notes"])

    def test_holds_everything(self):
        run = self.make_run()
        _, data, told = self.make(run)
        (shown,) = data["runs"]
        self.assertEqual(shown["notes"], ["There is no checkpoint yet."])
        self.assertEqual([e["event"] for e in shown["events"]], ["start"] + 5 * ["step"] + ["validation", "skipped"])
        self.assertEqual(shown["events"][2], step(2, 1.5))
        self.assertEqual(shown["events"][0]["devices"][0]["driver"], "1.2")
        self.assertEqual(shown["events"][-1]["text"], "not finite </script><b>")
        self.assertEqual(told["runs"][0]["last_step"], 5)
        kinds = sorted((s["step"], s["kind"]) for s in shown["samples"])
        self.assertEqual(kinds, [(100, "alignment"), (100, "audio"), (100, "spectrogram"), (200, "alignment"),
                                 (200, "audio"), (200, "spectrogram"), (200, "target")])
        for s in shown["samples"]:
            head, body = s["data"].split(",")
            name = f"samples/step-{s['step']}-0" + (".wav" if s["kind"] == "audio" else f"-{s['kind']}.png")
            self.assertEqual(head, "data:audio/wav;base64" if s["kind"] == "audio" else "data:image/png;base64")
            with open(os.path.join(run, name), "rb") as file:
                self.assertEqual(base64.b64decode(body, validate=True), file.read(), name)

    def test_finding_23_sentence_and_recording(self):
        run = self.make_run()
        for number in (100, 200):
            self.write(run, f"samples/step-{number}-0.txt", "Grüße </script>".encode())
            self.write(run, f"samples/step-{number}-0-target.wav", wav(number))
        text, data, _ = self.make(run)
        samples = data["runs"][0]["samples"]
        (said,) = [s for s in samples if s["kind"] == "text"]  # once, as it is the same at each step
        self.assertEqual((said["step"], said["item"], said["data"]), (200, 0, "Grüße </script>"))
        (sound,) = [s for s in samples if s["kind"] == "target_audio"]
        self.assertEqual(sound["data"], "data:audio/wav;base64," + base64.b64encode(wav(200)).decode())
        self.assertEqual(len(samples), 9)
        self.assertNotIn('"Run " +', text)  # "Run run": the folder above tells more
        self.assertIn("slice(-2)", text)

    def test_base64_of_every_length(self):
        for n_bytes in (0, 1, 2, 3, 4):
            run = self.make_run(f"run{n_bytes}", sample_steps=())
            content = bytes(range(250, 250 + n_bytes))
            self.write(run, "samples/step-1-0.wav", content)
            (sample,) = self.make(run)[1]["runs"][0]["samples"]
            self.assertEqual(base64.b64decode(sample["data"].split(",")[1], validate=True), content)

    def test_configuration(self):
        config = {c["key"]: c for c in self.make(self.make_run())[1]["runs"][0]["config"]}
        self.assertEqual(len(config), 7)
        self.assertEqual((config["devices.data"]["value"], config["devices.data"]["place"]), (None, "default"))
        self.assertEqual(config["training.batch_size"]["value"], "4")
        self.assertEqual(config["training.batch_size"]["default"], "32")
        self.assertEqual(config["training.batch_size"]["place"], "my.ini:18")
        self.assertIn("batch", config["training.batch_size"]["help"])
        self.assertEqual(config["training.checkpoint_dir"]["value"], "/a/long/path")
        self.assertEqual(config["training.checkpoint_dir"]["place"], "command line (--checkpoint-dir)")
        self.assertEqual(config["training.epochs"]["place"], "default")
        self.assertEqual(config["model.text_width"]["place"], "preset nano")

    def test_needs_no_network(self):
        text, _, _ = self.make(self.make_run())
        text = text.replace("http://www.w3.org/2000/svg", "")  # a name, never fetched
        self.assertNotRegex(text, r"(?i)https?:|//[a-z]|@import|url\(|<link|src=\"")
        self.assertIn("prefers-color-scheme: dark", text)
        self.assertEqual(text.count("</script>"), 2)

    def test_cut_and_broken_lines(self):
        run = self.make_run(tail='no json\n[1]\n{"step": 3}\n{"event": "step", "st')
        _, data, told = self.make(run)
        self.expect_note(data, "The last line of metrics.jsonl is cut off")
        self.expect_note(data, "3 lines of metrics.jsonl are no events")
        self.assertEqual((told["runs"][0]["bad_lines"], told["runs"][0]["steps"]), (3, 5))

    def test_last_line_without_its_end_counts_if_whole(self):
        _, data, told = self.make(self.make_run(tail=json.dumps(step(6))))
        self.assertEqual(told["runs"][0]["steps"], 6)
        self.assertEqual(data["runs"][0]["notes"], ["There is no checkpoint yet."])

    def test_missing_pieces_are_said(self):
        run = self.make_run(config=None, sample_steps=())
        self.write(run, "best.safetensors", b"\xff" * 20)
        _, data, _ = self.make(run)
        self.expect_note(data, "The configuration is not known")
        self.expect_note(data, "There are no pictures and sounds yet")
        self.expect_note(data, "best.safetensors cannot be read")
        os.remove(os.path.join(run, "metrics.jsonl"))
        self.write(run, "config.ini", CONFIG.encode())
        shutil.rmtree(os.path.join(run, "samples"))
        self.expect_note(self.make(run)[1], "There are no curves")

    def test_checkpoints(self):
        run = self.make_run()
        header = json.dumps({"__metadata__": {"train.step": "20", "hash.x": "no"}}).encode()
        header += b" " * (-len(header) % 8)
        for name in ("best", "checkpoint-3", "checkpoint-20"):
            self.write(run, name + ".safetensors", struct.pack("<Q", len(header)) + header)
        self.write(run, "other.safetensors", b"")
        checkpoints = self.make(run)[1]["runs"][0]["checkpoints"]
        self.assertEqual([c["name"] for c in checkpoints],
                         ["best.safetensors", "checkpoint-3.safetensors", "checkpoint-20.safetensors"])
        self.assertEqual(checkpoints[2]["metadata"], {"train.step": "20"})
        self.assertEqual(checkpoints[2]["bytes"], 8 + len(header))

    def test_long_runs_are_thinned_out(self):
        _, data, told = self.make(self.make_run(n_steps=4500))
        steps = [e["step"] for e in data["runs"][0]["events"] if e["event"] == "step"]
        self.assertEqual(told["runs"][0]["points_every"], 3)
        self.assertEqual((steps[0], steps[1], steps[-1]), (1, 4, 4500))
        self.assertLessEqual(len(steps), 2001)
        self.expect_note(data, "Curves show one of each 3 of the 4500")

    def test_media_are_bounded(self):
        run = self.make_run(sample_steps=range(1, 31), wav_samples=1 << 20)  # 2 MiB each
        _, data, told = self.make(run)
        steps = sorted({s["step"] for s in data["runs"][0]["samples"]})
        self.assertEqual(steps, [1, 15, 30])  # evenly spread
        self.assertEqual((told["runs"][0]["sample_steps"], told["runs"][0]["sample_steps_shown"]), (30, 3))
        self.assertLessEqual(told["runs"][0]["media_bytes"], data["media_limit_bytes"])
        self.assertLess(told["bytes"], 4 / 3 * data["media_limit_bytes"] + 200000)

    def test_a_file_past_the_limit_is_left_out(self):
        _, data, _ = self.make(self.make_run(sample_steps=[1], wav_samples=5 << 20))
        self.expect_note(data, "samples/step-1-0.wav is left out")
        self.assertEqual({s["kind"] for s in data["runs"][0]["samples"]}, {"alignment", "spectrogram", "target"})

    def test_foreign_files_are_not_taken(self):
        run = self.make_run(sample_steps=())
        for name in ("step-1.wav", "step-x-0.wav", "step-1-0.wav.bak", "step-1-0-a.html", "notes.txt", "step-1-0-..png"):
            self.write(run, "samples/" + name, b"x")
        os.mkdir(os.path.join(run, "samples", "step-1-0.wav"))
        data = self.make(run)[1]
        self.assertEqual(data["runs"][0]["samples"], [])
        self.expect_note(data, "There are no pictures and sounds yet")

    def test_two_runs(self):
        first, second = self.make_run("first"), self.make_run("second", n_steps=9)
        _, data, told = self.make(first, second)
        self.assertEqual([r["dir"] for r in data["runs"]], [first, second])
        self.assertEqual([r["steps"] for r in told["runs"]], [5, 9])

    def test_default_place_and_text(self):
        run = self.make_run()
        out = self.report(run).stdout
        self.assertIn(os.path.join(run, "report.html"), out)
        self.assertTrue(os.path.exists(os.path.join(run, "report.html")))

    def test_refusals(self):
        done = self.report(self.folder.name, code=2)
        self.assertIn("is not a run", done.stderr)
        self.assertEqual(os.listdir(self.folder.name), [])
        self.report(code=2)
        run = self.make_run()
        self.assertIn("is not a run", self.report(run, self.folder.name, "-o", self.page, code=2).stderr)
        self.assertFalse(os.path.exists(self.page))
        self.assertIn("nowhere", self.report(run, "-o", "/nowhere/page.html", code=1).stderr)

    @unittest.skipUnless(shutil.which("chromium"), "no Chromium to open the page in")
    def test_opens_in_a_browser(self):
        run, other = self.make_run(), self.make_run("other", config=None, sample_steps=(), n_steps=0)
        for runs, n_curves in (([run], 6), ([run, other], 6), ([other], 1)):
            self.make(*runs)
            done = subprocess.run(
                ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder.name}/browser",
                 "--enable-logging=stderr", "--dump-dom", "file://" + self.page],
                capture_output=True, text=True, timeout=120)
            self.assertNotIn("CONSOLE", done.stderr)
            self.assertEqual(done.stdout.count("<figure>"), n_curves, runs)
            self.assertGreaterEqual(done.stdout.count('<path class="line'), n_curves, runs)
            self.assertIn("updates were left out", done.stdout)
            self.assertRegex(done.stdout, "<h1[^>]*>(Training of|Two runs: ).*/(run|other)")
            if runs == [run]:
                for words in ("<audio", 'alt="alignment, sentence 1, step 200"', "a device", "my.ini:18", "most: load (5 of 5"):
                    self.assertIn(words, done.stdout)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
