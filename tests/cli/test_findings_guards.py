#!/usr/bin/env python3
"""Guards that users rely on without seeing them: names and files cannot steer a terminal, a hostile checkpoint costs
nothing, what changes nothing is said.

    python3 tests/cli/test_findings_guards.py /path/to/tandem

Needs only Python's standard library. Findings are numbered as in the review that met them.
"""

import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest

from tones import make_dataset

PROGRAM = "./tandem"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CODES = "\x1b]0;owned\x07\x7f\x9b2J\u202e"
SHOWN = "\\x1b]0;owned\\x07\\x7fU+009B2JU+202E"


def change_metadata(path, out, **changes):
    """A copy of a checkpoint with other metadata, in the format that has no hash of its header."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header, body = json.loads(file.read(size)), file.read()
    header["__metadata__"].update({key.replace("__", "."): value for key, value in changes.items()})
    header["__metadata__"]["format"] = "tandem checkpoint 1"
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(out, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


class GuardsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="tandem-guards-")
        cls.data = cls.path("set")
        make_dataset(cls.data)
        cls.run_program("train", "--train-data", cls.data, "--checkpoint-dir", cls.path("run"), "--model-size", "pico",
                        "--model-device", "cpu", "--batch-size", "2", "--language", "en", "--max-steps", "1", "--val-every",
                        "0", "--sample-every", "0", "--mel-cache", "none", code=0)
        cls.voice = cls.path("run", "checkpoint-1.safetensors")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.folder.name, *names)

    @staticmethod
    def run_program(*arguments, code=None, **more):
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120, **more)
        if code is not None and done.returncode != code:
            raise AssertionError(f"{arguments} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def check_harmless(self, text):
        for code in CODES:
            if not code.isprintable():
                self.assertNotIn(code, text)

    def test_finding_14_names_and_files_do_not_steer_a_terminal(self):
        voice = self.path("steers.safetensors")
        change_metadata(self.voice, voice, language=CODES, note=CODES)
        ini = self.write("steers.ini", f"[training]\nlr{CODES} = 1\nbatch_size = {CODES}\n")
        for arguments in (("inspect", voice), ("inspect", self.path(CODES)), ("check-config", ini),
                          ("train", "--config", ini), ("synth", "--checkpoint", voice, "--text", "a", "-o", self.path("a.wav")),
                          ("prepare", "--train-data", self.path(CODES)), (CODES,), ("train", "--lr", CODES),
                          ("train", "--language", CODES, "--print-config")):
            with self.subTest(arguments[:2]):
                done = self.run_program(*arguments)
                self.check_harmless(done.stdout + done.stderr)
                self.assertIn("\\x1b", done.stdout + done.stderr)
                done = self.run_program(*arguments, "--json")
                self.check_harmless(done.stdout + done.stderr)
        self.assertIn(SHOWN, self.run_program("inspect", voice, code=0).stdout)
        kept = json.loads(self.run_program("inspect", voice, "--json", code=0).stdout)
        self.assertEqual(kept["metadata"]["note"], CODES)

    def test_finding_08_small_file_cannot_ask_for_a_large_model(self):
        voice = self.path("large.safetensors")
        _, plain, _ = self.measure("--version")
        for changes in ({"model__text_width": "8192", "model__text_heads": "64"}, {"model__text_layers": "64"},
                        {"model__decoder_width": "8192", "model__decoder_heads": "64"}, {"model__n_symbols": "60000"}):
            change_metadata(self.voice, voice, **changes)
            for arguments in (("inspect", voice), ("synth", "--checkpoint", voice, "--text", "a", "-o", self.path("a.wav"))):
                with self.subTest(arguments[0], **changes):
                    code, usage, errors = self.measure(*arguments)
                    self.assertRegex(errors, r"tensor param\.[a-z0-9_.]+.* metadata tells")
                    self.assertEqual(code, 1)
                    # Was 47 s and 11 GB. Refused before a driver is opened: little more than the program itself takes,
                    # which with sanitizers is much.
                    self.assertLess(usage.ru_utime + usage.ru_stime, 1 + plain.ru_utime + plain.ru_stime)
                    self.assertLess(usage.ru_maxrss, (60 << 10) + plain.ru_maxrss)

    def measure(self, *arguments):
        """Exit code, what it used, what it said of errors."""
        with open(self.path("errors.txt"), "w+", encoding="utf-8") as errors:
            child = subprocess.Popen([PROGRAM, *arguments], stdout=subprocess.DEVNULL, stderr=errors)
            _, code, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(code)
            errors.seek(0)
            return child.returncode, usage, errors.read()

    def test_finding_08_long_lengths_cost_a_voice_no_memory(self):
        voice = self.path("long.safetensors")
        used = []
        for changes in ({}, {"model__max_frames": "1000000", "model__max_tokens": "60000"}):
            change_metadata(self.voice, voice, **changes)
            code, usage, _ = self.measure("synth", "--device", "cpu", "--checkpoint", voice, "--text", "Say a now.", "-o",
                                           self.path("a.wav"))
            self.assertEqual(code, 0)
            used.append(usage.ru_maxrss / 1024)
        self.assertLess(used[1] - used[0], 100)  # was 350

    def test_finding_23_a_checkpoint_is_summed_up_first(self):
        shown = self.run_program("inspect", self.voice, code=0).stdout.splitlines()
        self.assertIn(": whole, ", shown[0])
        self.assertRegex(shown[1], r"^voice +family parallel, language en, 1 speaker, \d+ characters, 22050 Hz$")
        self.assertRegex(shown[2], r"^training +step 1")
        self.assertNotIn("param.", "".join(shown))
        self.assertIn("param.", self.run_program("inspect", self.voice, "--verbose", code=0).stdout)

    def test_finding_15_shipped_configs_have_no_warnings(self):
        memory = {"devices": 24576, "dual_gpu": 16384, "single_gpu": 12288, "small_gpu": 6144, "large_gpu": 24576,
                  "ljspeech": 12288, "xtts_finetune_4gb": 4096, "xtts_finetune_8gb": 8192, "xtts_finetune_12gb": 12288,
                  "xtts_finetune_24gb": 24576}  # the others compute on the processor, which is here
        names = sorted(name[:-4] for name in os.listdir(os.path.join(ROOT, "configs")))
        self.assertEqual(len(names), 15)
        for name in names:
            with self.subTest(name):
                card = ["--simulate-device", f"memory_mb={memory[name]}"] if name in memory else []
                done = self.run_program("check-config", os.path.join(ROOT, "configs", name + ".ini"), "--language", "en",
                                        "--train-data", self.data, "--json", *card, code=0)
                report = json.loads(done.stdout)
                self.assertEqual((report["errors"], report["warnings"]), ([], []))

    def test_finding_15_no_copy_where_nothing_can_be_corrected(self):
        whole = self.write("whole.ini", "[training]\nlr = 0.001\n")
        for path, options, code, words in ((whole, ("--train-data", self.data), 0, "nothing to correct"),
                                           (whole, (), 1, "none of the errors can be corrected")):
            done = self.run_program("check-config", path, "--language", "en", "--fix", *options, code=code)
            self.assertIn(words, done.stdout)
            self.assertNotIn("corrected copy: /", done.stdout)
            self.assertFalse(os.path.exists(self.path("whole.fixed.ini")))

    def test_finding_09_program_alone_can_be_installed(self):
        """What cmake installs is made by the one target that the quick start builds."""
        build = os.path.dirname(PROGRAM)
        if not os.path.exists(os.path.join(build, "build.ninja")):
            self.skipTest("not a build folder of ninja")
        made = subprocess.run(["ninja", "-C", build, "-t", "commands", "tandem_program"], capture_output=True, text=True,
                              check=True).stdout
        with open(os.path.join(build, "src", "cmake_install.cmake"), encoding="utf-8") as file:
            files = set(re.findall(rf'"({re.escape(build)}/[^"$]*)"', file.read()))
        files = {name for name in files if not os.path.isdir(name) and not name.endswith((".cmake", ".pc", "_local.txt"))}
        self.assertGreaterEqual(len(files), 7, files)
        for name in files:
            self.assertIn(os.path.relpath(name, build), made)

    def test_finding_12_pocl_without_a_cache_is_explained(self):
        variables = {k: v for k, v in os.environ.items() if k not in ("POCL_CACHE_DIR", "XDG_CACHE_HOME")}
        if "Portable Computing" not in self.run_program("devices", "--json", code=0).stdout:
            self.skipTest("no PoCL here")
        shown = self.run_program("devices", env=dict(variables, HOME="/proc")).stdout
        for words in ("PoCL is installed but has no device", "HOME (/proc)", "POCL_CACHE_DIR"):
            self.assertIn(words, shown)
        self.assertNotIn("install pocl-opencl-icd", shown)
        told = json.loads(self.run_program("doctor", "--json", env=dict(variables, HOME="/proc")).stdout)
        found = [c for c in told["checks"] if (c["group"], c["name"]) == ("opencl", "devices")]
        self.assertEqual(len(found), 1, told)
        self.assertIn("XDG_CACHE_HOME", found[0]["advice"])

    def test_finding_20_what_changes_nothing_is_said(self):
        config = self.write("plain.ini", "[model]\nmodel_size = pico\n")
        for options, words in ((("--set", "model.max_frames=1"), "model.max_frames = 1 changes nothing"),
                               (("--set", "model.n_mels=1"), "model.n_mels = 1 changes nothing"),
                               (("--reference-seconds", "3"), "--reference-seconds changes nothing")):
            with self.subTest(words):
                self.assertIn(words, self.run_program("check-config", config, "--train-data", self.data, "--language", "en",
                                                      *options, code=0).stderr)
        for options in (("--set", "model.text_layers=1"), ("--set", "model.speaker_encoder=true", "--reference-seconds", "3"),
                        ("--config", self.path("run", "config.ini"))):
            with self.subTest(options):
                done = self.run_program("check-config", config, "--train-data", self.data, "--language", "en", *options, code=0)
                self.assertNotIn("changes nothing", done.stderr)
        speak = ("synth", "--device", "cpu", "--checkpoint", self.voice, "--text", "a", "-o", self.path("a.wav"))
        for command in (speak, ("serve", "--voice", f"a={self.voice}")):
            done = self.run_program(*command, "--set", "model.text_layers=9", code=2)
            self.assertIn("model.text_layers is part of the checkpoint", done.stderr)
        self.run_program(*speak, "--config", self.path("run", "config.ini"), code=0)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
