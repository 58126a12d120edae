#!/usr/bin/env python3
"""Runs the command blocks of README.md and docs/getting_started.md, in their order, in a small copy of the tree.

What differs there from a clone, so that it takes seconds: scripts/setup.sh and cmake do nothing, since program and
packages are there; the demo has a few sentences; configs/quickstart.ini trains pico for a few steps; and the program
is called through a script that bounds --max-steps and --num-steps. scripts/quickstart.sh itself is the real one.
scripts/test.sh is not run, for it runs this test: only its grammar is checked.

    python3 tests/cli/test_docs_run.py /path/to/tandem

Needs Python's standard library, bash and espeak-ng; without the last it ends with 77, skipped.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from test_docs import BLOCK, ROOT

PROGRAM = "./tandem"
PAGES = ("README.md", "docs/getting_started.md")
COMMAND = re.compile(r"^(tandem|build/release/tandem|scripts/|echo )", re.M)
TIMEOUT_S = 300
SENTENCES = 8
BOUNDS = {"--max-steps": 6, "--num-steps": 8}
SHORTER = {"model_size": "pico", "batch_size": "2", "max_steps": "4", "save_every": "4", "val_every": "4", "sample_every": "4",
           "warmup_steps": "1"}

CALLER = """#!/usr/bin/env bash
arguments=() bound=
for word; do
    [[ -z $bound ]] || { ((word <= bound)) || word=$bound; }
    bound=
    case $word in
%s
    esac
    arguments+=("$word")
done
exec %s "${arguments[@]}"
"""


class Blocks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tandem-docs-")
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        shutil.copytree(os.path.join(ROOT, "configs"), self.path("configs"))
        for name in ("quickstart.sh", "make_demo_data.sh", "train_vocoder.sh", "listening_page.sh"):
            self.write(f"scripts/{name}", self.read(f"scripts/{name}"), True)
        sentences = self.read("scripts/demo_sentences.txt").splitlines(keepends=True)
        self.write("scripts/demo_sentences.txt", "".join(sentences[:SENTENCES]))
        for name in ("scripts/setup.sh", "scripts/test.sh", "bin/cmake"):
            self.write(name, "#!/bin/sh\n", True)
        text = self.read("configs/quickstart.ini")
        for key, value in SHORTER.items():
            text, count = re.subn(rf"(?m)^{key} *= *\S+", f"{key} = {value}", text)
            self.assertEqual(count, 1, key)
        self.write("configs/quickstart.ini", text)
        bounds = "\n".join(f"    {option}) bound={most} ;;" for option, most in BOUNDS.items())
        self.write("build/release/tandem", CALLER % (bounds, PROGRAM), True)
        self.write("build/release/build.ninja", "")

    def path(self, name):
        return os.path.join(self.root, name)

    def read(self, name):
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            return file.read()

    def write(self, name, text, is_program=False):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        if is_program:
            os.chmod(self.path(name), 0o755)

    def test_blocks_run(self):
        variables = dict(os.environ, PATH=f"{self.path('bin')}:{self.path('build/release')}:{os.environ['PATH']}")
        count = 0
        for page in PAGES:
            for block in filter(COMMAND.search, BLOCK.findall(self.read(page))):
                done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=self.root, env=variables, text=True,
                                      capture_output=True, timeout=TIMEOUT_S, check=False)
                self.assertEqual(done.returncode, 0, f"{page}:\n{block}{done.stdout}{done.stderr}")
                count += 1
        print(f"{count} blocks of {' and '.join(PAGES)} run")
        self.assertGreaterEqual(count, 11)
        for name in ("camera.wav", "copy.wav", "slower.flac", "story.ogg", "fog.raw", "voice.safetensors", "timeline.html",
                     "build/quickstart/report.html", "build/quickstart/sentence-3.wav", "build/quickstart/listen.html",
                     "build/pair/latest"):
            self.assertGreater(os.path.getsize(self.path(name)), 0, name)

    def test_grammar_of_scripts(self):
        for name in sorted(os.listdir(os.path.join(ROOT, "scripts"))):
            if name.endswith(".sh"):
                done = subprocess.run(["bash", "-n", os.path.join(ROOT, "scripts", name)], capture_output=True, text=True,
                                      check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), name)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    if shutil.which("espeak-ng") is None:
        print("espeak-ng is missing, which speaks the demo")
        sys.exit(77)
    unittest.main()
