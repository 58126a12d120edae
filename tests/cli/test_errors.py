#!/usr/bin/env python3
"""Every mistake that can be made with arguments: each option given a value it cannot have, each command given too much
or too little, each file missing, empty or of the wrong kind, each selector and pattern misspelt. The message must say
what was wrong, where (the option, the key, the file) and what to do next, the exit code must be that of a mistake, and
nothing may be started.

    python3 tests/cli/test_errors.py /path/to/tandem [--show]

--show prints every message. Needs only Python's standard library.
"""

import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import wave

from share import SHARE

PROGRAM = "./tandem"
SHOW = False

# What is to be done next: a clause of its own, a right name, what can be, or a command to run.
NEXT_STEP = re.compile(r"; \S|did you mean|`tandem [a-z]|must be |can be |needs a value: |one of|such as |a number from ", re.I)
BARE = re.compile(r"^[^:;]*\b(failed|error|invalid|wrong)\b[^:;]*$", re.I)


class ErrorTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        page = subprocess.run([PROGRAM, "help", "--markdown"], capture_output=True, text=True, check=True).stdout
        entries = re.findall(r"^- `(.+?)`: .*\n((?:  .*\n)*)", re.sub(r"\n +(?![- ])", " ", page), re.M)
        parts = [(usage, dict(re.findall(r"^  - (\w+): (.*)$", rest, re.M))) for usage, rest in entries]
        cls.commands = [usage for usage, part in parts if not part]
        cls.names = [" ".join(w for w in command.split() if w.islower()) for command in cls.commands]
        cls.options = [(usage, part.get("key", ""), part.get("values", ""), part["commands"]) for usage, part in parts
                       if part]
        cls.folder = tempfile.TemporaryDirectory(prefix="tandem-errors-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.make_files()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def write(cls, name, content=b""):
        os.makedirs(os.path.dirname(cls.path(name)), exist_ok=True)
        with open(cls.path(name), "wb") as file:
            file.write(content)
        return cls.path(name)

    @classmethod
    def make_files(cls):
        """A good dataset, and one file of every wrong kind."""
        cls.write("set/metadata.csv", b"".join(b"r%d|Say it now.\n" % i for i in range(4)))
        os.makedirs(cls.path("set/wavs"))
        for i in range(4):
            with wave.open(cls.path(f"set/wavs/r{i}.wav"), "wb") as file:
                file.setparams((1, 2, 22050, 0, "NONE", ""))
                file.writeframes(struct.pack("<9000h", *range(9000)))
        cls.write("empty")
        cls.write("noise", bytes(range(256)) * 8)
        cls.write("header", struct.pack("<Q", 2) + b"{}")
        os.mkdir(cls.path("folder"))
        cls.write("no_rows/metadata.csv", b"\n")
        cls.write("bad_rows/metadata.csv", b"a|one\nb|two\n")
        cls.wrong_files = {"missing": cls.path("missing"), "empty": cls.path("empty"), "noise": cls.path("noise"),
                           "header": cls.path("header"), "folder": cls.path("folder")}

    def setUp(self):
        self.problems = []

    def tearDown(self):
        if self.problems:
            self.fail("\n" + "\n".join(self.problems))

    def refuse(self, *arguments, place=None, code=(1, 2), environment=None, piped=None):
        """Runs it, and judges the message."""
        environment = dict(os.environ, NO_COLOR="1", **(environment or {}))
        environment.pop("TANDEM_VISIBLE_DEVICES", None)
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, env=environment, timeout=300,
                              cwd=self.folder.name, **({"input": piped} if piped else {"stdin": subprocess.DEVNULL}))
        errors = [line.removeprefix("error: ") for line in done.stderr.splitlines() if line.startswith("error: ")]
        if SHOW:
            print("\n".join([f"$ {' '.join(arguments)}", *errors]))
        faults = []
        if done.returncode not in (code if isinstance(code, tuple) else (code,)):
            faults.append(f"ended with {done.returncode}")
        if not errors:
            faults.append("no error was told")
        for error in errors:
            if BARE.search(error) or re.search(r"\(null\)|%[sduz]\b", error):
                faults.append("a bare message")
            # The list of devices there are may follow on lines of its own.
            if not NEXT_STEP.search(done.stderr[done.stderr.index(error):] if error == errors[-1] else error):
                faults.append("no next step")
        if place is not None and place not in done.stderr:
            faults.append(f"'{place}' is not named")
        if faults:
            self.problems.append(f"tandem {' '.join(arguments)}: {', '.join(faults)}\n    " + "\n    ".join(errors))
        return done

    def refuse_all(self, command, mistakes):
        """Options of one command line, all of them wrong, each with the word its message must have. All are told at once;
        what hides others goes into a line of its own."""
        done = self.refuse(*command, *(word for words, _ in mistakes for word in words), code=2)
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        for words, place in mistakes:
            if not any(place in error for error in errors):
                self.problems.append(f"tandem {' '.join(command)} {' '.join(words)}: '{place}' is not named\n    "
                                     + "\n    ".join(errors))
        if len(errors) < len(mistakes):
            self.problems.append(f"tandem {' '.join(command)}: {len(mistakes)} mistakes, {len(errors)} told")
        return len(mistakes)

    def test_values(self):
        """Every option, a value it cannot have: refused by its name, at the command line and by --set."""
        wrong = {"a whole number": "many", "a number": "fast", "one of": "nonsense", "section.key": "nonsense"}
        tried = without_value = 0
        lines = {}  # for each command, lists of mistakes that are made together
        for usage, key, values, commands in self.options:
            command = self.names[0] if commands == "all" else commands.split(", ")[0]
            line = lines.setdefault(command, {})
            bad = [text for kind, text in wrong.items() if values.startswith(kind)]
            limits = re.match(r"a (?:whole )?number(?: of MB)? from (\S+) to ([^\s,]+)", values)
            if limits:
                bad += [f"-{2 + float(limits[1]):.0f}", f"{1e3 * (1 + float(limits[2])):.0f}"]
            flag = re.search(r"--([a-z0-9-]+)", usage.replace("[no-]", ""))[0]
            key = key.strip("`")
            for i, text in enumerate(bad):
                if flag != "--set":
                    line.setdefault(i, []).append(([f"{flag}={text}"], flag))
                if key and i == 0 and not key.startswith("devices."):  # those take selectors there
                    line.setdefault("set", []).append((["--set", f"{key}={text}"], key))
            if values.startswith("true"):
                line.setdefault("set", []).append((["--set", f"{key}=perhaps"], key))
            if not values or values.startswith("true"):
                line.setdefault("truth", []).append(([f"{flag}=perhaps"], flag))
            elif flag != "--set":  # takes the next word, so it has to be the last one
                without_value += 1
                if without_value % SHARE == 0:
                    line[flag] = [([flag], flag)]
        for command, line in lines.items():
            needs = re.search(" [A-Z]", self.commands[self.names.index(command)])
            for mistakes in line.values():
                tried += self.refuse_all([*command.split(), *(["x"] if needs else [])], mistakes)
        self.assertGreater(tried + without_value * (SHARE - 1) // SHARE, 200)

    def test_arguments(self):
        for command, name in zip(self.commands, self.names):
            words = name.split()
            needs = re.findall(r" ([A-Z][A-Z_]+)", command)
            self.refuse_all(words, [(["--nonsense"], "--nonsense"), (["-Z"], "-Z"), (["--set", "nonsense.key=1"], "[nonsense]"),
                                    (["--set", "training.nonsense=1"], "nonsense' in [training]")])
            self.refuse(*words, "--config", "missing.ini", place="missing.ini", code=2)
            if name != "help" and "..." not in command:  # those take any number
                self.refuse(*words, "a", "b", "c", place="'", code=2)
            self.refuse(*words, *(["x"] if needs else []), "--quiet", "--verbose", code=2)
            if needs:
                self.refuse(*words, place=needs[0], code=2)
        self.refuse(code=2)
        self.refuse("--json", code=2)
        self.refuse("trian", place="train", code=2)
        self.refuse("bench", code=2)
        self.refuse("bench", "nonsense", place="nonsense", code=2)
        self.refuse("help", "nonsense", place="nonsense", code=2)

    def test_configuration_files(self):
        for kind, path in self.wrong_files.items():
            if kind != "empty":
                self.refuse("train", "--config", path, place=path, code=2)
        path = self.write("wrong.ini", b"[training]\nlr = fast\nlrr = 1\nlr = 2\nnothing\n[trainig]\n[data\nx\0y=1\n"
                          + b"[model]\nkernel = " + b"9" * 5000 + b"\n")
        done = self.refuse("train", "--config", path, place=f"{path}:2", code=2)
        for line in (2, 3, 4, 5, 6, 7, 8, 10):
            self.assertIn(f"{path}:{line}", done.stderr)
        document = json.loads(self.refuse("train", "--config", path, "--json", code=2).stdout)
        self.assertIn("lr", json.dumps(document))
        self.refuse("check-config", self.path("missing"), place="missing")

    def test_devices(self):
        wrong = ["99", "cl:9.9", "cl:nothing.0", "vk:77", "vk:nothing.0", "sim:9", "pci:0000:ff:00.0", "pci:x", "uuid:00",
                 "uuid:" + "0" * 32, "name:nothing", "nonsense", "cl:", "-1", "cl:0.0.0"]
        for selector in wrong:
            self.refuse("validate", f"--model-device={selector}", place=selector, code=2)
        for command in ("tune", "bench gemm", "bench mel", "bench step", "bench kernels", "bench submit"):
            self.refuse(*command.split(), "--device=nothing", place="nothing", code=2)
        train = ["train", "--train-data", self.path("set"), "--checkpoint-dir", self.path("run_devices"),
                 "--max-steps", "1"]
        for command in (train, ["profile", "--train-data", self.path("set")], ["bench", "pipeline", "--train-data", self.path("set")]):
            self.refuse(*command, "--data-device", "cl:9.9", "--model-device", "sim", place="cl:9.9", code=2)
        self.refuse(*train, "--data-device", "sim:0", place="--model-gpu", code=2)
        self.refuse(*train, "--data-device", "sim:0", "--model-device", "sim:0", place="sim:0", code=2)
        self.refuse("devices", environment={"TANDEM_SIM": "nonsense=1"}, place="nonsense")
        self.refuse("devices", environment={"TANDEM_SIM": "gflops=fast"}, place="gflops")
        self.assertFalse(os.path.exists(self.path("run_devices")))

    def test_datasets(self):
        more_of = {"train": ["--checkpoint-dir", self.path("run"), "--max-steps", "1"],
                   "bench pipeline": ["--data-device", "sim:0", "--model-device", "sim:1"]}
        for command in ("prepare", "train", "analyze", "profile", "bench load", "bench pipeline"):
            more = more_of.get(command, [])
            for name in ("missing", "empty", "folder", "no_rows", "bad_rows"):
                self.refuse(*command.split(), "--train-data", self.path(name), *more, place=name)
            self.refuse(*command.split(), *more, place="--train-data", code=2)
        self.write("piped/metadata.csv", b"r0|Say it now.\n")
        os.makedirs(self.path("piped/wavs"))
        os.mkfifo(self.path("piped/wavs/r0.wav"))
        self.refuse("prepare", "--train-data", self.path("piped"), place="It is a pipe")
        data = ["prepare", "--train-data", self.path("set")]
        self.refuse(*data, "--columns", "nonsense", place="nonsense")
        self.refuse(*data, "--columns", "id|id", place="id")
        self.refuse(*data, "--speaker-pattern", "(", place="speaker")
        self.refuse(*data, "--speaker-pattern", "x", place="speaker")
        self.refuse(*data, "--language", "xx", place="xx")
        self.refuse(*data, "--val-data", self.path("missing"), place="missing")
        for kind, path in self.wrong_files.items():
            self.refuse(*data, "--tokenizer", path, place=path)
            self.refuse("inspect", path, place=path)

    def test_training(self):
        train = ["train", "--train-data", self.path("set"), "--checkpoint-dir", self.path("run"), "--max-steps", "1",
                 "--model-size", "pico", "--batch-size", "1", "--model-device", "cpu"]
        self.refuse("train", "--train-data", self.path("set"), "--max-steps", "1", place="--checkpoint-dir", code=2)
        self.refuse(*train[:5], place="--max-steps", code=2)
        self.refuse(*train[:3], "--checkpoint-dir", self.path("empty"), "--max-steps", "1", place="empty")
        for kind, path in self.wrong_files.items():
            self.refuse(*train, "--resume", path, place=path)
            self.refuse(*train, "--init-from", path, place=path)
        self.refuse(*train, "--freeze", "nothing.*", place="nothing")
        self.refuse(*train, "--dump-step", self.path("missing/dump"), place="missing")
        self.refuse(*train, "--max-mel-frames", "2", place="--max-mel-frames")
        self.refuse(*train, "--max-text-length", "1", place="--max-text-length")
        for key in ("text_width", "ff_factor", "speaker_encoder", "postnet", "dropout", "attention_rate"):
            self.refuse(*train, "--set", f"model.{key}=nonsense", place=f"model.{key}", code=2)
        self.assertEqual([n for n in os.listdir(self.folder.name) if n.startswith("run")
                          and any(f.startswith("checkpoint-") for f in os.listdir(self.path(n)))], [])

    def test_speaking(self):
        self.refuse("synth", place="--text", code=2)
        self.refuse("synth", "--text", "a", "-o", "out.wav", place="--checkpoint", code=2)
        self.refuse("synth", "--text", "a", "--text-file", "b", "--checkpoint", "c", "-o", "d.wav", place="--text", code=2)
        self.refuse("synth", "--copy", "a", "--text", "b", "-o", "c.wav", place="--copy", code=2)
        for kind, path in self.wrong_files.items():
            self.refuse("synth", "--checkpoint", path, "--text", "a", "-o", self.path("out.wav"), place=path)
            self.refuse("synth", "--copy", path, "-o", self.path("out.wav"), "--device", "cpu", place=path)
        os.mkfifo(self.path("pipe"))  # that nobody writes to
        self.refuse("synth", "--copy", self.path("pipe"), "-o", self.path("out.wav"), "--device", "cpu", place="pipe")
        good = os.path.join(self.path("set"), "wavs", "r0.wav")
        self.refuse("synth", "--copy", "/dev/stdin", "-o", self.path("out.wav"), "--device", "cpu", place="/dev/stdin: is a pipe",
                    piped="sound")
        self.refuse("synth", "--copy", good, place="-o ", code=2)
        self.refuse("synth", "--copy", good, "-o", self.path("out.nonsense"), place="out.nonsense")
        self.refuse("synth", "--copy", good, "-o", self.path("missing/out.wav"), place="missing")
        self.assertFalse(os.path.exists(self.path("out.wav")))

    def test_measuring(self):
        for text in ("1x2", "axbxc", "0x1x1", "1x2x3x4x5", "99999999x1x1"):
            self.refuse("bench", "gemm", f"--shapes={text}", "--device", "cpu", place="shape", code=2)
        for text in ("nonsense", "0x1/1x1", "128x2", "128x2/192x", "1x1/1x1/1x1"):
            self.refuse("bench", "step", f"--sketch={text}", "--device", "cpu", place="sketch", code=2)
        self.refuse("bench", "kernels", "--ops", "nothing*", "--device", "cpu", place="nothing", code=2)
        for text in ("nonsense", "data=1", "data=x,transfer=1,train=1", "data=1,transfer=1,train=1,more=2", "data=-1,transfer=1,train=1"):
            self.refuse("profile", "--simulate", text, place="simulat", code=2)
        for option in ("--trace", "--html"):
            self.refuse("profile", "--simulate", "data=1,transfer=1,train=1", "--num-steps", "4", option,
                        self.path("missing/x"), place="missing")
        self.refuse("check-config", self.write("good.ini", b"[training]\nmax_steps = 1\n"), "--simulate-device", "nonsense=1",
                    place="nonsense")
        for kind, path in self.wrong_files.items():
            self.refuse("report", path, place=path)
        self.refuse("inspect", self.path("set"), "--slim", self.path("x"), place="--slim")


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    if "--show" in sys.argv:
        sys.argv.remove("--show")
        SHOW = True
    unittest.main()
