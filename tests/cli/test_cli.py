#!/usr/bin/env python3
"""The program as its users meet it: help, exit codes, mistakes with their place and the nearest name, JSON,
colours, and wrong or missing devices, drivers and caches.

    python3 tests/cli/test_cli.py /path/to/tandem

Needs only Python's standard library. A run has a cache folder of its own, so that it neither uses nor touches
the user's. Tests that need a driver this computer lacks are skipped and say so. Rates are measured by `validate`
itself and depend on what else the computer does, so a slow transfer alone fails no test here.
"""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

PROGRAM = "./tandem"
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
CONFIGS = os.path.join(ROOT, "configs")
CACHE = tempfile.TemporaryDirectory(prefix="tandem-cli-cache-")
SMALL = ["--kernels", "1", "--replays", "1"]
COMMANDS = [["devices"], ["validate"], ["tune"], ["bench", "gemm"], ["bench", "kernels"], ["bench", "mel"],
            ["bench", "submit"],
            ["prepare"], ["inspect"], ["bench", "text"], ["help"]]


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __str__(self):
        return f"exit {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class CliTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-cli-")
        self.addCleanup(self.folder.cleanup)

    def environment(self, changes=None):
        """The caller's environment without what would steer the program; None takes a variable away."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("TANDEM_") and k != "NO_COLOR"}
        if "XDG_CACHE_HOME" in env:  # what PoCL compiled for other tests of the suite need not be compiled again
            env["POCL_CACHE_DIR"] = os.path.join(env["XDG_CACHE_HOME"], "pocl", "kcache")
        env["XDG_CACHE_HOME"] = CACHE.name
        for name, value in (changes or {}).items():
            env.pop(name, None)
            if value is not None:
                env[name] = value
        return env

    def run_program(self, *arguments, env=None):
        done = subprocess.run(
            [PROGRAM, *arguments], capture_output=True, text=True, env=self.environment(env), timeout=300
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def expect(self, result, code, *words):
        """The exit code, and each of `words` on stderr."""
        self.assertEqual(result.code, code, str(result))
        for word in words:
            self.assertIn(word, result.err, str(result))

    def expect_usage_error(self, result, *words):
        self.expect(result, 2, *words)
        self.assertEqual(result.out, "", str(result))

    def parse_json(self, result):
        try:
            return json.loads(result.out)
        except json.JSONDecodeError as error:
            self.fail(f"stdout is not one JSON document: {error}\n{result}")

    def devices(self, env=None):
        result = self.run_program("devices", "--json", env=env)
        self.expect(result, 0)
        return self.parse_json(result)["devices"]

    def validate(self, *arguments, env=None):
        """The document of `validate --json`; checks of rates may have failed, others not."""
        result = self.run_program("validate", "--json", *arguments, env=env)
        document = self.parse_json(result)
        self.assertIn("groups", document, str(result))
        self.assertEqual(result.code, 1 if document["failed"] else 0, str(result))
        checks = [check for group in document["groups"] for check in group["checks"]]
        failed = [c["name"] for c in checks if c["status"] == "fail" and "rate" not in c["name"]]
        self.assertEqual(failed, [], str(result))
        return document

    def need_devices(self, count):
        devices = [d for d in self.devices() if d["usable"]]
        if len(devices) < count:
            self.skipTest(f"needs {count} usable devices, there are {len(devices)}")
        return devices


class Help(CliTest):
    def test_help_of_every_command(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                result = self.run_program(*command, "--help")
                self.expect(result, 0)
                self.assertEqual(result.err, "")
                self.assertTrue(result.out.startswith(f"Usage: tandem {' '.join(command)}"), str(result))
                for option in ("--help", "--config FILE.ini", "--set SECTION.KEY=VALUE", "--json", "--color"):
                    self.assertIn(option, result.out)
                self.assertLessEqual(len(result.out.splitlines()), 50, "more than a screen")
                whole = self.run_program("help", *command, "--all").out
                flags = lambda text: set(re.findall(r"--[a-z][a-z0-9-]+", text.split("\nExamples:")[1].replace("[no-]", "")))
                self.assertLessEqual(flags(result.out) - {"--all"}, flags(whole))
                self.assertEqual({f for f in flags(whole) - flags(result.out) if not f.startswith("--disable-")}, set())
                self.assertTrue(all(len(line) <= 80 for line in result.out.splitlines()), result.out)
                self.assertEqual(self.run_program("help", *command).out, result.out)
                self.assertEqual(self.run_program(*command, "-h").out, result.out)

    def test_help_shows_only_the_options_of_the_command(self):
        self.assertIn("--data-gpu", self.run_program("validate", "--help").out)
        self.assertNotIn("--data-gpu", self.run_program("devices", "--help").out)
        words = " ".join(self.run_program("validate", "--help").out.split())
        self.assertIn("(default 8192) [pipeline.data_gpu_memory]", words)

    def test_help_wins_over_mistakes(self):
        self.expect(self.run_program("validate", "--nonsense", "--help"), 0)

    def test_overview(self):
        for arguments in (["--help"], ["-h"], ["help"]):
            result = self.run_program(*arguments)
            self.expect(result, 0)
            for command in COMMANDS:
                self.assertIn(" ".join(command), result.out)

    def test_markdown_page_has_every_option(self):
        page = self.run_program("help", "--markdown")
        self.expect(page, 0)
        for command in COMMANDS:
            for option in re.findall(r"--[a-z][a-z-]+", self.run_program(*command, "--help").out):
                self.assertIn(option, page.out.replace("[no-]", ""))

    def test_documented_options_are_up_to_date(self):
        """If this fails: tandem help --markdown > docs/options.md"""
        with open(os.path.join(ROOT, "docs", "options.md"), encoding="utf-8") as page:
            self.assertEqual(self.run_program("help", "--markdown").out, page.read())

    def test_version(self):
        result = self.run_program("--version")
        self.expect(result, 0)
        self.assertRegex(result.out, r"^tandem \d+\.\d+\.\d+ \(.+\)\n$")
        self.assertEqual(self.run_program("devices", "--version").out, result.out)
        document = self.parse_json(self.run_program("devices", "--version", "--json"))
        self.assertIn(document["version"], result.out)


class Usage(CliTest):
    def test_no_command(self):
        self.expect_usage_error(self.run_program(), "tandem --help")

    def test_unknown_command(self):
        result = self.run_program("devcies")
        self.expect_usage_error(result, "unknown command 'devcies'", "did you mean 'devices'?")
        self.expect_usage_error(self.run_program("zzz"), "unknown command 'zzz'", "tandem --help")
        self.expect_usage_error(self.run_program("help", "validat"), "did you mean 'validate'?")

    def test_unknown_member_of_a_family(self):
        self.expect_usage_error(self.run_program("bench"), "`bench` is not a command", "submit")
        self.expect_usage_error(self.run_program("bench", "sumbit"), "`bench sumbit` is not a command", "submit")

    def test_option_before_command(self):
        self.expect_usage_error(self.run_program("--quiet", "devices"), "the command comes before options")

    def test_unknown_option(self):
        self.expect_usage_error(
            self.run_program("validate", "--data-gup", "0"),
            "unknown option --data-gup",
            "did you mean --data-gpu?",
        )

    def test_option_of_another_command(self):
        self.expect_usage_error(
            self.run_program("devices", "--kernels", "3"), "`devices` does not take --kernels", "`bench submit`"
        )

    def test_bad_values(self):
        self.expect_usage_error(self.run_program("bench", "submit", "--kernels", "0"), "from 1 to 100000")
        self.expect_usage_error(self.run_program("validate", "--data-gpu", "-1"), "--data-gpu cannot be '-1'")
        wrong_color = self.run_program("devices", "--color", "alway")
        self.expect_usage_error(wrong_color, "did you mean 'always'?", "auto, always, never")
        self.expect_usage_error(self.run_program("devices", "--color"), "--color needs a value")
        self.expect_usage_error(self.run_program("devices", "left-over"), "does not take 'left-over'")

    def test_argument_without_its_option(self):
        self.expect_usage_error(self.run_program("train", "/"), "did you mean --train-data /?")
        self.expect_usage_error(self.run_program("train", "my.ini"), "did you mean --config my.ini?")
        result = self.run_program("synth", "voice.safetensors", "some text")
        self.expect_usage_error(result, "did you mean --checkpoint voice.safetensors?")
        self.assertEqual(len(result.err.splitlines()), 1, str(result))

    def test_options_that_exclude_each_other(self):
        self.expect_usage_error(self.run_program("devices", "--quiet", "--verbose"), "--quiet and --verbose")
        self.expect_usage_error(
            self.run_program("validate", "--model-gpu", "0", "--model-device", "cpu"),
            "--model-gpu and --model-device cannot both be given",
        )

    def test_all_mistakes_at_once(self):
        result = self.run_program(
            "validate", "--jsn", "--data-gpu", "x", "--set", "pipeline.prefetch=1", "--set", "oops"
        )
        self.expect_usage_error(result, "did you mean --json?", "--data-gpu cannot be 'x'", "'prefetch'", "'oops'")
        self.assertEqual(len(result.err.splitlines()), 4, str(result))


class Configuration(CliTest):
    def print_config(self, *arguments):
        """{'section.key': (value, place)} as --print-config --json tells it."""
        result = self.run_program("validate", "--print-config", "--json", *arguments)
        self.expect(result, 0)
        return {row["key"]: (row["value"], row["place"]) for row in self.parse_json(result)["config"]}

    def test_several_mistakes_of_a_file_at_once(self):
        path = self.write(
            "bad.ini",
            "[devices]\n"
            "modle = 0\n"
            "[pipelin]\n"
            "x = 1\n"
            "[pipeline]\n"
            "data_gpu_memory = lots\n"
            "enable_memory_isolation = maybe\n"
            "data_gpu_memory = 5\n"
            "rubbish\n",
        )
        result = self.run_program("validate", "--config", path)
        self.expect_usage_error(
            result,
            f"{path}:2: unknown key 'modle' in [devices]; did you mean 'model'?",
            f"{path}:3: unknown section [pipelin]; did you mean [pipeline]?",
            f"{path}:6: pipeline.data_gpu_memory cannot be 'lots'; it must be a whole number of MB from 1",
            f"{path}:7: pipeline.enable_memory_isolation cannot be 'maybe'; it must be true or false",
            f"{path}:8: 'data_gpu_memory' in [pipeline] was already given in line 6",
            f"{path}:9: 'rubbish' is neither",
        )
        self.assertEqual(len(result.err.splitlines()), 6, str(result))

    def test_over_long_line(self):
        path = self.write("long.ini", f"[devices]\nmodel = name:{'x' * 300}\n")
        result = self.run_program("validate", "--config", path)
        self.expect_usage_error(result, f"{path}:2: the line is longer than")

    def test_missing_file(self):
        self.expect_usage_error(self.run_program("devices", "--config", "/nowhere/x.ini"), "/nowhere/x.ini")

    def test_set_with_wrong_key(self):
        self.expect_usage_error(
            self.run_program("validate", "--set", "devices.modle=0"),
            "--set: unknown key 'modle'",
            "did you mean 'model'?",
        )

    def test_order_of_authority(self):
        path = self.write(
            "a.ini",
            "[pipeline]\ndata_gpu_memory = 100\nmodel_gpu_memory = 100\n"
            "[bench]\nkernels = 7\n[devices]\nmodel = vk:0\n",
        )
        settings = ["--set", "pipeline.data_gpu_memory=200", "--set", "pipeline.model_gpu_memory=200"]
        flags = ["--model-gpu-memory", "300", "--model-gpu", "1"]
        config = self.print_config("--config", path, *settings, *flags)
        self.assertEqual(config["pipeline.model_gpu_memory"], ("300", "command line (--model-gpu-memory)"))
        self.assertEqual(config["pipeline.data_gpu_memory"], ("200", "--set"))
        self.assertEqual(config["bench.kernels"], ("7", f"{path}:5"))
        self.assertEqual(config["bench.replays"], ("1000", "default"))
        self.assertEqual(config["devices.model"], ("1", "command line (--model-gpu)"))
        self.assertEqual(config["devices.data"], (None, "default"))

    def test_printed_config_reads_back(self):
        flags = ["--model-device", "sim", "--enable-memory-isolation"]
        first = self.run_program("validate", "--print-config", *flags)
        self.expect(first, 0)
        path = self.write("again.ini", first.out)
        config = self.print_config("--config", path)
        self.assertEqual(config["devices.model"][0], "sim")
        self.assertEqual(config["pipeline.enable_memory_isolation"][0], "true")

    def test_disable_overrules_the_file(self):
        path = self.write("a.ini", "[pipeline]\nenable_memory_isolation = on\n")
        config = self.print_config("--config", path, "--disable-memory-isolation")
        self.assertEqual(config["pipeline.enable_memory_isolation"][0], "false")

    def test_shipped_configs_are_valid(self):
        for name in sorted(os.listdir(CONFIGS)):
            with self.subTest(config=name):
                path = os.path.join(CONFIGS, name)
                self.expect(self.run_program("validate", "--print-config", "--config", path), 0)


class Output(CliTest):
    def test_devices_json_has_every_ability(self):
        document = self.parse_json(self.run_program("devices", "--json"))
        self.assertEqual({"devices", "simulated", "apis"}, set(document))
        self.assertEqual([a["api"] for a in document["apis"]], ["opencl", "vulkan"])
        self.assertGreater(len(document["simulated"]), 0)
        for device in document["devices"] + document["simulated"]:
            for field in ("index", "selector", "api", "name", "driver", "type", "phys_group", "usable", "reason"):
                self.assertIn(field, device)
            self.assertGreater(device["caps"]["memory_bytes"], 0)

    def test_devices_for_people(self):
        result = self.run_program("devices")
        self.expect(result, 0)
        self.assertIn("Simulated, never chosen by themselves: sim:0", result.out)
        for device in self.devices():
            self.assertIn(device["selector"], result.out)

    def test_listed_selectors_lead_back_to_their_device(self):
        for device in self.need_devices(1):
            result = self.run_program("bench", "submit", *SMALL, "--device", device["selector"], "--json")
            self.expect(result, 0)
            self.assertEqual(self.parse_json(result)["selector"], device["selector"])

    def test_failure_is_one_json_document(self):
        cases = (
            ["devices", "--json", "--nope"],
            ["nope", "--json"],
            ["--json"],
            ["validate", "--json", "--model-device", "vk:99"],
            ["validate", "--json", "--data-gpu", "0"],
            ["devices", "--json", "--config", "/nowhere.ini"],
        )
        for arguments in cases:
            with self.subTest(arguments=arguments):
                result = self.run_program(*arguments)
                self.assertEqual(result.code, 2, str(result))
                error = self.parse_json(result)["error"]
                self.assertEqual(error["status"], "TD_ERR_CONFIG")
                self.assertTrue(error["message"])
                self.assertIn("error: ", result.err)

    def test_bench_submit_json(self):
        arguments = ["--device", "sim", "--kernels", "3", "--replays", "5"]
        result = self.run_program("bench", "submit", *arguments, "--json")
        self.expect(result, 0)
        document = self.parse_json(result)
        self.assertEqual((document["kernels"], document["replays"], document["simulated"]), (3, 5, True))
        self.assertGreater(document["list_us_per_kernel"], 0)

    def test_bench_gemm_json(self):
        arguments = ["--device", "cl:0.0", "--shapes", "33x17x40,2x8x9x10", "--rounds", "2", "--json"]
        result = self.run_program("bench", "gemm", *arguments)
        self.expect(result, 0)
        rows = self.parse_json(result)["results"]
        self.assertEqual([(row["batch"], row["m"], row["n"], row["k"], row["layout"]) for row in rows],
                         [(1, 33, 17, 40, layout) for layout in ("nn", "nt", "tn")] +
                         [(2, 8, 9, 10, layout) for layout in ("nn", "nt", "tn")])
        for row in rows:
            self.assertGreater(row["gflops"], 0)
            self.assertLess(row["max_rel_err"], 1e-5)
            self.assertIn(row["provider"], ("register", "gemv", "plain"))

    def test_bench_gemm_refusals(self):
        gemm = ["bench", "gemm", "--device", "cl:0.0"]
        self.expect_usage_error(self.run_program(*gemm, "--shapes", "12x13"), "'12x13' is not a shape", "MxNxK")
        self.expect_usage_error(self.run_program(*gemm, "--layout", "tt"), "nn, nt, tn, all")
        for arguments, words in ((["--device", "cl:0.0", "--provider", "gemv", "--shapes", "9x8x7"], "more than 4 rows"),
                                 (["--device", "sim"], "computes nothing")):
            result = self.run_program("bench", "gemm", *arguments)
            self.assertEqual(result.code, 1, str(result))
            self.assertIn(words, result.err)

    def test_bench_gemm_against_openblas(self):
        arguments = ["--device", "cl:0.0", "--shapes", "64x64x64", "--layout", "nt", "--rounds", "2", "--against", "openblas"]
        result = self.run_program("bench", "gemm", *arguments, "--json")
        if result.code == 1:
            self.assertIn("install libopenblas0-pthread", result.err)
            return
        self.expect(result, 0)
        row = self.parse_json(result)["results"][0]
        self.assertAlmostEqual(row["ratio"], row["gflops"] / row["openblas_gflops"], places=6)
        self.assertTrue(row["openblas_core"])

    def test_bench_kernels_json(self):
        result = self.run_program("bench", "kernels", "--device", "vk:0", "--ops", "c*", "--rounds", "2", "--json")
        self.expect(result, 0)
        document = self.parse_json(result)
        rows = {row["op"]: row for row in document["results"]}
        self.assertEqual(list(rows), ["copy", "cast_half", "cast_float", "cross_entropy", "conv1d", "conv1d_back"])
        self.assertTrue(document["device"] and document["driver"])
        self.assertIs(document["cached"], False)
        for op, row in rows.items():
            rate, other = ("gflops", "gbps") if op.startswith("conv1d") else ("gbps", "gflops")
            self.assertEqual(row["of"], "gemm" if rate == "gflops" else "copy")
            self.assertIsNone(row[other])
            for number in (row["ms"], row[rate], row["share"]):
                self.assertGreater(number, 0)
        result = self.run_program("bench", "kernels", "--device", "vk:0", "--ops", "copy", "--rounds", "1", "--cached", "--json")
        self.expect(result, 0)
        self.assertIs(self.parse_json(result)["cached"], True)
        self.expect_usage_error(self.run_program("bench", "kernels", "--device", "vk:0", "--ops", "nope"), "'nope'")
        result = self.run_program("bench", "kernels", "--device", "sim")
        self.assertEqual(result.code, 1, str(result))
        self.assertIn("computes nothing", result.err)

    def test_bench_mel_json(self):
        result = self.run_program("bench", "mel", "--device", "cl:0.0", "--clips", "2", "--seconds", "1", "--rounds", "2", "--json")
        self.expect(result, 0)
        document = self.parse_json(result)
        self.assertEqual((document["clips"], document["seconds"], document["rounds"]), (2, 1, 2))
        self.assertGreater(document["realtime_factor"], 0)
        self.assertGreater(document["griffin_lim_factor"], 0)
        self.assertTrue(0 <= document["max_abs_err"] < 1e-3)
        self.assertEqual(self.run_program("bench", "mel", "--device", "sim").code, 1)

    def test_tune_json(self):
        result = self.run_program("tune", "--device", "cl:0.0", "--shapes", "24x16x32", "--json")
        self.expect(result, 0)
        rows = self.parse_json(result)["results"]
        self.assertEqual([row["layout"] for row in rows], ["nn", "nt", "tn"])
        for row in rows:
            self.assertGreaterEqual(row["gflops"], row["default_gflops"])
            self.assertEqual(row["rejected"], [])
        self.assertEqual(self.run_program("tune", "--device", "sim").code, 1)

    def test_validate_json(self):
        document = self.validate("--data-device", "sim", "--model-device", "sim:1")
        self.assertEqual(len(document["groups"]), 5)
        checks = [check for group in document["groups"] for check in group["checks"]]
        counts = [sum(c["status"] == status for c in checks) for status in ("pass", "fail", "skip")]
        self.assertEqual(counts, [document["passed"], document["failed"], document["skipped"]])
        self.assertEqual(sum(counts), len(checks))
        self.assertEqual((document["mode"], document["simulated"]), ("two-device", True))

    def test_validate_for_people(self):
        result = self.run_program("validate", "--model-device", "sim")
        self.assertIn(result.code, (0, 1), str(result))
        self.assertIn("model role: simulated device, sim:0", result.err)
        counts = r"(\d+) passed, (\d+) failed, (\d+) skipped; \d+ kernels built"
        last = re.fullmatch(counts, result.out.splitlines()[-1])
        self.assertTrue(last, str(result))
        shown = [len(re.findall(rf"^  {word}  ", result.out, re.M)) for word in ("pass", "fail", "skip")]
        self.assertEqual(shown, [int(n) for n in last.groups()], str(result))

    def test_failed_check_ends_with_1(self):
        env = {"TANDEM_SIM": "lose_submit=1"}
        for arguments in ([], ["--json"]):
            result = self.run_program("validate", "--model-device", "sim", *arguments, env=env)
            self.assertEqual(result.code, 1, str(result))
            self.assertIn("SIM_DEVICE_LOST", result.out)

    def test_quiet(self):
        arguments = ["bench", "submit", *SMALL, "--device", "sim"]
        hide = {"TANDEM_VISIBLE_DEVICES": "0"} if self.devices() else {}
        if hide:
            self.assertIn("info: ", self.run_program(*arguments, env=hide).err)
        self.assertEqual(self.run_program(*arguments, "--quiet", env=hide).err, "")

    def test_color(self):
        wrong = ["devices", "--nope"]
        self.assertNotIn("\033", self.run_program(*wrong).err)
        self.assertNotIn("\033", self.run_program(*wrong, "--color", "never").err)
        self.assertIn("\033[31m", self.run_program(*wrong, "--color", "always").err)
        self.assertIn("\033[31m", self.run_program(*wrong, "--color=always", env={"NO_COLOR": "1"}).err)

    def run_on_terminal(self, *arguments, env=None, columns=0):
        """What reaches a terminal that is `columns` wide."""
        master, slave = pty.openpty()
        if columns:
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen(
            [PROGRAM, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=self.environment({"TERM": "xterm", **(env or {})}),
        )
        os.close(slave)
        text = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:
                break
            if not piece:
                break
            text += piece
        os.close(master)
        process.wait(timeout=60)
        return text.decode()

    def test_color_on_a_terminal(self):
        self.assertIn("\033[31m", self.run_on_terminal("devices", "--nope"))
        self.assertNotIn("\033", self.run_on_terminal("devices", "--nope", env={"NO_COLOR": "1"}))
        self.assertNotIn("\033", self.run_on_terminal("devices", "--nope", env={"TERM": "dumb"}))

    def test_table_respects_the_terminal(self):
        self.need_devices(1)
        whole = max(len(line) for line in self.run_program("devices").out.splitlines())
        for columns in (whole, whole - 5, 80, 40):
            lines = self.run_on_terminal("devices", "--quiet", columns=columns).splitlines()
            table = [line for line in lines if "Simulated" not in line]
            self.assertTrue(all(len(line) <= columns for line in table), (columns, table))
            if columns == 40:
                self.assertTrue(any("…" in line for line in table), table)

    def test_full_disk_behind_stdout(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("this system has no /dev/full")
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run(
                [PROGRAM, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, env=self.environment()
            )
        self.assertEqual(done.returncode, 1)
        self.assertIn("stdout", done.stderr)

    def test_signals(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen(
                [PROGRAM, "bench", "submit", "--device", "sim", "--kernels", "1000", "--replays", "1000000"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=self.environment(),
            )
            time.sleep(1)
            self.assertIsNone(process.poll(), "ended before the signal came")
            process.send_signal(number)
            self.assertEqual(process.wait(timeout=60), 128 + number)


class Devices(CliTest):
    def test_bad_selector(self):
        result = self.run_program("validate", "--model-device", "cpuu")
        self.expect_usage_error(result, "model device", "cpuu", "cpu")
        self.expect_usage_error(self.run_program("bench", "submit", "--device", "vk:99"), "vk:99")

    def test_failed_choice_is_followed_by_the_list(self):
        devices = self.need_devices(1)
        self.expect_usage_error(self.run_program("validate", "--model-device", "vk:99"), devices[0]["selector"])

    def test_index_out_of_range(self):
        self.expect_usage_error(self.run_program("validate", "--model-gpu", "99"), "99", "tandem devices")

    def test_only_a_data_device(self):
        result = self.run_program("validate", "--data-device", "sim")
        self.expect_usage_error(result, "without a model device", "--model-gpu")

    def test_one_device_twice(self):
        arguments = ["validate", "--data-device", "sim", "--model-device", "sim:0"]
        self.expect_usage_error(self.run_program(*arguments), "same device", "--allow-same-device")
        self.assertEqual(self.validate(*arguments[1:], "--allow-same-device")["mode"], "two-device")

    def test_hidden_device(self):
        devices = self.need_devices(2)
        last = devices[-1]
        hide = {"TANDEM_VISIBLE_DEVICES": str(last["given_index"])}
        seen = self.devices(env=hide)
        self.assertEqual([(d["index"], d["given_index"]) for d in seen], [(0, last["given_index"])])
        result = self.run_program("validate", "--model-device", devices[0]["selector"], env=hide)
        self.expect_usage_error(result, "hidden by TANDEM_VISIBLE_DEVICES")
        result = self.run_program("validate", "--model-gpu", "1", env=hide)
        self.expect_usage_error(result, "TANDEM_VISIBLE_DEVICES")
        table = self.run_program("devices", env=hide)
        self.assertIn(f"number without TANDEM_VISIBLE_DEVICES: {last['given_index']}", table.out)

    def test_bad_visible_devices(self):
        for value, word in (("x", "TANDEM_VISIBLE_DEVICES=x"), ("999", "999")):
            self.expect_usage_error(self.run_program("devices", env={"TANDEM_VISIBLE_DEVICES": value}), word)

    def test_nothing_visible(self):
        hide = {"TANDEM_VISIBLE_DEVICES": ""}
        self.assertEqual(self.devices(env=hide), [])
        self.expect(self.run_program("validate", env=hide), 1, "no usable device", "tandem devices")

    def test_missing_loaders(self):
        both = {"TANDEM_OPENCL_LIBRARY": "/nowhere/libcl.so", "TANDEM_VULKAN_LIBRARY": "/nowhere/libvk.so"}
        result = self.run_program("devices", env=both)
        self.expect(result, 0)
        self.assertIn("No device was found.", result.out)
        self.assertRegex(result.out, r"OpenCL: .*install")
        self.assertRegex(result.out, r"Vulkan: .*install")
        document = self.parse_json(self.run_program("devices", "--json", env=both))
        self.assertEqual(document["devices"], [])
        for api in document["apis"]:
            self.assertFalse(api["loaded"])
            self.assertIn("install", api["message"])
        self.expect(self.run_program("validate", env=both), 1, "tandem devices", "OpenCL: ", "Vulkan: ")

    def expect_no_driver(self, api, env):
        """The loader is there, its driver is not or is broken: said in one line, nothing else harmed."""
        document = self.parse_json(self.run_program("devices", "--json", env=env))
        report = next(a for a in document["apis"] if a["api"] == api)
        self.assertEqual(report["devices"], 0, report)
        self.assertTrue(report["message"])
        self.assertNotIn("\n", report["message"])
        self.assertEqual([d for d in document["devices"] if d["api"] == api], [])
        self.assertGreater(len(document["simulated"]), 0)

    def test_opencl_without_or_with_broken_driver(self):
        empty = os.path.join(self.folder.name, "vendors")
        os.mkdir(empty)
        self.expect_no_driver("opencl", {"OCL_ICD_VENDORS": empty})
        with open(os.path.join(empty, "broken.icd"), "w", encoding="ascii") as file:
            file.write("/nowhere/libbroken-opencl.so\n")
        self.expect_no_driver("opencl", {"OCL_ICD_VENDORS": empty})

    def test_vulkan_without_or_with_broken_driver(self):
        self.expect_no_driver("vulkan", {"VK_ICD_FILENAMES": "/nowhere/none.json", "VK_DRIVER_FILES": None})
        driver = {"library_path": "/nowhere/libbroken.so", "api_version": "1.3.0"}
        path = self.write("broken.json", json.dumps({"file_format_version": "1.0.0", "ICD": driver}))
        self.expect_no_driver("vulkan", {"VK_ICD_FILENAMES": path, "VK_DRIVER_FILES": None})


class Caches(CliTest):
    """Whatever is wrong with a cache, the work is done, with at most one warning for each damaged thing."""

    def measure(self, cache):
        device = self.need_devices(1)[0]["selector"]
        result = self.run_program("bench", "submit", *SMALL, "--device", device, "--cache-dir", cache)
        self.expect(result, 0)
        return result

    def test_unusable_cache_folder(self):
        result = self.measure(self.write("file-in-its-place", "not a folder"))
        self.assertEqual(result.err.count("warning:"), 1, str(result))
        self.assertIn("file-in-its-place", result.err)

    def test_read_only_cache_folder(self):
        if os.geteuid() == 0:
            path = "/proc/tandem-cache"  # root may write anywhere but here
        else:
            path = os.path.join(self.folder.name, "read-only")
            os.mkdir(path, 0o555)
        result = self.measure(path)
        self.assertEqual(result.err.count("warning:"), 1, str(result))
        self.assertIn(path, result.err)

    def test_rubbish_in_the_cache(self):
        cache = os.path.join(self.folder.name, "rubbish")
        self.measure(cache)
        blobs = [os.path.join(cache, n) for n in os.listdir(cache) if n.endswith(".blob")]
        self.assertGreater(len(blobs), 0)
        for path in blobs:
            with open(path, "wb") as file:
                file.write(b"rubbish" * 100)
        result = self.measure(cache)
        self.assertIn("warning:", result.err)
        self.assertLessEqual(result.err.count("warning:"), len(blobs), str(result))
        self.assertNotIn("warning:", self.measure(cache).err)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: test_cli.py /path/to/tandem [unittest options]")
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
