#!/usr/bin/env python3
"""What the documentation promises is there: every command line of the program in a code block is understood (it is
given --print-config, so nothing is computed), and every link between pages leads somewhere.

    python3 tests/cli/test_docs.py /path/to/tandem

Needs only Python's standard library.
"""

import os
import re
import shlex
import subprocess
import sys
import unittest

PROGRAM = "./tandem"
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def read_pages():
    """Paths from the root to texts: the pages in the root and in docs."""
    pages = {}
    for folder in (".", "docs", "docs/adr"):
        for name in sorted(os.listdir(os.path.join(ROOT, folder))):
            if name.endswith(".md"):
                path = os.path.normpath(os.path.join(folder, name))
                with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                    pages[path] = file.read()
    return pages


def find_calls(text):
    """The arguments of each call of the program in a page's code blocks."""
    for block in BLOCK.findall(text):
        for line in block.splitlines():
            lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars="|&;<>")
            lexer.whitespace_split = True
            try:
                words = list(lexer)
            except ValueError:
                continue  # prose or a drawing with a single quotation mark
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words.pop(0)
            for i, word in enumerate(words):
                if not re.fullmatch(r"(build/release/)?tandem", word):
                    continue
                if i > 0 and not set(words[i - 1]) <= set("|&;"):
                    continue
                ends = [k for k in range(i + 1, len(words)) if set(words[k]) <= set("|&;<>")]
                arguments = words[i + 1:ends[0] if ends else None]
                if arguments and re.fullmatch("[a-z-]+", arguments[0]):
                    yield arguments


def anchors(text):
    """The names that headings of a page have."""
    text = BLOCK.sub("", text)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in re.findall(r"^#+ (.*)$", text, re.M)}


class Documentation(unittest.TestCase):
    def test_commands_are_understood(self):
        count = 0
        for path, text in read_pages().items():
            for arguments in find_calls(text):
                with self.subTest(page=path, arguments=arguments):
                    result = subprocess.run([PROGRAM, *arguments, "--print-config"], cwd=ROOT, capture_output=True,
                                            text=True, timeout=60, stdin=subprocess.DEVNULL, check=False)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    count += 1
        self.assertGreater(count, 20)

    def test_links_lead_somewhere(self):
        pages = read_pages()
        count = 0
        for path, text in pages.items():
            for link in LINK.findall(BLOCK.sub("", text)):
                if re.match(r"[a-z]+:", link):
                    continue
                name, _, anchor = link.partition("#")
                target = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
                with self.subTest(page=path, link=link):
                    self.assertTrue(os.path.exists(os.path.join(ROOT, target)), "no such file")
                    if anchor:
                        self.assertIn(anchor, anchors(pages[target]))
                    count += 1
        self.assertGreater(count, 30)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
