#!/usr/bin/env python3
"""The texts that the option table makes for other programs: the man page and the completion of shells.

    python3 tests/cli/test_help.py /path/to/tandem

Needs only Python's standard library. bash completes in earnest; zsh and fish read the text where they are installed.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = "./tandem"
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def made(*arguments):
    return subprocess.run([PROGRAM, "help", *arguments], capture_output=True, text=True, check=True).stdout


class HelpTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        rows = re.findall(r"^- `(.+?)`: ", made("--markdown"), re.M)
        cls.flags = {f for row in rows for f in re.findall(r"--[a-z0-9-]+", row.replace("[no-]", ""))}
        cls.commands = [row for row in rows if not row.startswith("-")]
        cls.names = [" ".join(w for w in row.split() if w.islower()) for row in cls.commands]

    def test_man_page_names_everything(self):
        text = made("--man")
        plain = re.sub(r"\\f.", "", text).replace("\\-", "-")
        for word in self.flags | set(self.names):
            self.assertRegex(plain, rf"(?m)(^|[ ,]){re.escape(word)}([ ,=.:]|$)")
        for part in ("NAME", "SYNOPSIS", "COMMANDS", "OPTIONS", "EXIT STATUS", "ENVIRONMENT"):
            self.assertIn(f".SH {part}\n", text)
        self.assertNotRegex(text, r"(?m)^\.(?!TH|SH|SS|TP|PP|B |I |nh|ad|nf|fi)")

    @unittest.skipUnless(shutil.which("groff"), "no groff to read the page with")
    def test_man_page_reads_without_warnings(self):
        done = subprocess.run(["groff", "-man", "-ww", "-Tutf8"], input=made("--man"), capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_examples_can_be_typed(self):
        for name in self.names:
            text = re.search(r"\nExamples:\n((?:  .*\n)+)", made(*name.split()))
            self.assertTrue(text, name)
            for line in text[1].replace("\\\n", "").splitlines():
                words = shlex.split(re.split(r"[|>]", line)[0])
                self.assertEqual(words[:1 + len(name.split())], ["tandem", *name.split()])
                done = subprocess.run([PROGRAM, *words[1:], "--print-config"], capture_output=True, text=True, cwd=ROOT)
                self.assertEqual(done.returncode, 0, line + done.stderr)

    def complete(self, *words):
        """What bash offers for the last word."""
        script = ('compopt() { :; }\neval "$(cat)"\nCOMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _tandem; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script, "bash", "tandem", *words], input=self.text, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_bash(self):
        self.text = made("--completion", "bash")
        self.assertEqual(set(self.complete("")), {name.split()[0] for name in self.names})
        self.assertEqual(set(self.complete("bench", "")), {n.split()[1] for n in self.names if n.startswith("bench ")})
        self.assertEqual(self.complete("bench", "gemm", "--lay"), ["--layout"])
        self.assertEqual(self.complete("bench", "gemm", "--layout", "n"), ["nn", "nt"])
        self.assertEqual(self.complete("prepare", "--layout", "l"), ["ljspeech", "libritts"])
        self.assertEqual(self.complete("devices", "--data-g"), [])
        self.assertIn("--data-gpu", self.complete("train", "--data-g"))
        self.assertIn("--no-cache", self.complete("train", "--no-"))
        self.assertEqual(self.complete("train", "--lr", ""), [])
        with tempfile.TemporaryDirectory(prefix="tandem-help-") as folder:
            path = os.path.join(folder, "run one")
            os.mkdir(path)
            for words in (["report"], ["train", "--train-data"], ["synth", "-o"]):
                self.assertEqual(" ".join(self.complete(*words, folder + "/ru")), path)
        for name in self.names:
            self.assertIn("--help", self.complete(*name.split(), "--he"), name)

    def test_zsh_and_fish_name_everything(self):
        for shell in ("zsh", "fish"):
            text = made("--completion", shell)
            for flag in self.flags:
                pattern = rf"'\*?{flag}\[" if shell == "zsh" else rf" -l {flag[2:]} "
                self.assertRegex(text, pattern, shell)
            for name in self.names:
                self.assertRegex(text, rf"'{name}'\)" if shell == "zsh" else rf" -a {name.split()[-1]} -d ", shell)
            self.assertEqual(text.replace("'\\''", "").count("'") % 2, 0, shell)
            if shutil.which(shell):
                done = subprocess.run([shell, "-n"], input=text, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), shell)

    def test_unknown_shell(self):
        done = subprocess.run([PROGRAM, "help", "--completion", "csh"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("bash, zsh, fish", done.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
