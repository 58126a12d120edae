"""What the scripts of this folder share: a small dataset, the program with a fault in its way, and comparing runs.

A moment is the n-th call of the program that touches a file of the workshop (preload/fault.c). How many are tried:
TANDEM_FAULT_MOMENTS (a number, or "all" in test_files.py), else a few; which: by TANDEM_FAULT_SEED. Needs only Python's
standard library.
"""

import glob
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from tones import make_dataset  # noqa: E402

N_ROWS = 8
TIMEOUT_S = 400
COMPARED = ("loss", "loss.mel", "loss.prior", "loss.duration", "lr", "grad_norm", "free_running_distance", "best")

PROGRAM, PRELOAD = (os.path.abspath(path) for path in sys.argv[1:3]) if len(sys.argv) > 2 else (None, None)
MOMENTS = int(os.environ.get("TANDEM_FAULT_MOMENTS", "0").replace("all", str(sys.maxsize)))
SEED = int(os.environ.get("TANDEM_FAULT_SEED", "1"))


def read(path):
    with open(path, "rb") as file:
        return file.read()


def forget(path):
    if os.path.exists(path):
        os.unlink(path)


class Workshop:
    """A folder with a dataset, a run and caches. Kernels that were built before are borrowed, not built again."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="tandem-faults-")
        self.root, self.run, self.cache = (self.path(name) for name in ("set", "run", "cache"))
        os.makedirs(self.cache)
        make_dataset(self.root, N_ROWS, 8000, 0)
        self.log = tempfile.mktemp(prefix="tandem-faults-log-")
        self.more = ()  # options of `train` beside those of train_command()
        self.borrow_kernels()

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        forget(self.log)

    def borrow_kernels(self):
        """Those that a failing call made the program throw away too."""
        lent = os.environ.get("TANDEM_CACHE_DIR", "")
        for blob in glob.glob(os.path.join(lent, "*.blob")) if lent else ():
            link = os.path.join(self.cache, os.path.basename(blob))
            if not os.path.lexists(link):
                os.symlink(blob, link)

    def path(self, name):
        return os.path.join(self.folder, name)

    def train_command(self, *options, steps=6):
        return [PROGRAM, "train", "--model-device", "cpu", "--train-data", self.root, "--checkpoint-dir", self.run,
                "--cache-dir", self.cache, "--model-size", "pico", "--batch-size", "2", "--language", "en",
                "--num-workers", "1", "--max-steps", str(steps), "--save-every", "2", "--val-every", "3",
                "--sample-every", "0", "--log-every", "1", *self.more, *options]

    def prepare_command(self):
        return [PROGRAM, "prepare", "--train-data", self.root, "--cache-dir", self.cache, "--language", "en"]

    def environment(self, fault=None, under=None, **more):
        env = dict(os.environ, TANDEM_FAULT_UNDER=under or self.folder, TANDEM_FAULT_LOG=self.log, **more)
        env["LD_PRELOAD"] = PRELOAD + (":" + env["LD_PRELOAD"] if env.get("LD_PRELOAD") else "")
        if fault:
            env["TANDEM_FAULT"] = fault
        return env

    def do(self, command, fault=None, **more):
        """Runs to its end, whatever that is."""
        forget(self.log)
        return subprocess.run(command, env=self.environment(fault, **more), capture_output=True, text=True,
                              errors="replace", timeout=TIMEOUT_S)

    def list_calls(self, command):
        """The names of all the calls that `command` makes on files of the workshop, in their order."""
        done = self.do(command, "list:0")
        assert done.returncode == 0, done.stderr
        return [line.split(" ")[0] for line in read(self.log).decode().splitlines()]

    def count_calls_to(self, name):
        """How many of the calls that were listed last came before the last one on a file whose path has this in it."""
        calls = read(self.log).decode().splitlines()
        return max(i for i, line in enumerate(calls) if name in line)

    def fired(self):
        """(call, path) of the fault that the last command met, or None."""
        for line in read(self.log).decode().splitlines() if os.path.exists(self.log) else ():
            _, call, path = line.split(" ", 2)
            return call, os.path.relpath(path, self.folder)
        return None

    def forget_run(self):
        shutil.rmtree(self.run, ignore_errors=True)

    def forget_data(self):
        for name in ("data", "mel"):
            shutil.rmtree(os.path.join(self.cache, name), ignore_errors=True)

    def outcome(self):
        """All of a finished run that must not depend on how it came about. A run whose data failed has one checkpoint
        more, of the step where it ended: those are every second here, the others odd."""
        extra = re.compile(r"events\.out.*|checkpoint-\d*[13579]\.safetensors|.*\.tmp-.*")
        names = sorted(name for name in os.listdir(self.run) if not extra.fullmatch(name))
        files = {name: read(os.path.join(self.run, name)) for name in names if name.endswith((".safetensors", "latest"))}
        told = []
        for line in read(os.path.join(self.run, "metrics.jsonl")).decode().splitlines():
            event = json.loads(line)
            if event["event"] in ("step", "validation"):
                told.append((event["event"], event["step"], *(event.get(key) for key in COMPARED)))
        return {"names": names, **files, "told": told}

    def problem(self, wanted):
        """What is wrong with a run that went on to its end without a fault, or None. What a writer that failed left
        over is gone by then."""
        left = [name for name in os.listdir(self.run) if ".tmp-" in name]
        return f"left over: {left}" if left else differ(wanted, self.outcome())


def choose(count, among, salt=""):
    """`count` of these, one of each equal share; all where there are no more."""
    if count >= len(among):
        return among
    rng = random.Random(f"{SEED} {salt}")
    return [among[int((i + rng.random()) * len(among) / count)] for i in range(count)]


def differ(wanted, got):
    """The first thing that is not as it was, or None."""
    for key in wanted:
        if wanted[key] != got.get(key):
            return f"{key}: {wanted[key] if key in ('names', 'told') else '...'} became {got.get(key) if key in ('names', 'told') else '...'}"
    return None
