"""What the tests of lints share: a small good tree in which one fault at a time is planted. For test_check_*.py."""
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(sys.argv.pop()).resolve()


class Planted(unittest.TestCase):
    """Of a lint (a module with check_tree and faults), a tree that it finds nothing in, and faults to find in it:
    file, content, a part of the one line that is told."""
    lint, good, bad = None, {}, ()

    def setUp(self):
        self.root = Path(tempfile.mkdtemp()).resolve()
        self.addCleanup(shutil.rmtree, self.root)
        for path, text in self.good.items():
            self.write(path, text)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def test_a_good_tree_passes(self):
        self.lint.check_tree(self.root)
        self.assertEqual(self.lint.faults, [])

    def test_each_fault_is_found(self):
        for path, text, expected in self.bad:
            with self.subTest(path=path, text=text[:60]):
                self.write(path, text)
                self.lint.check_tree(self.root)
                self.write(path, self.good[path]) if path in self.good else (self.root / path).unlink()
                self.assertEqual(len(self.lint.faults), 1, self.lint.faults)
                self.assertIn(expected, self.lint.faults[0])
