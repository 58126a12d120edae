#!/usr/bin/env python3
"""Lint of families: check_families.py ROOT.

Checks that no file of src/ knows a family by its name (docs/architecture.md): names and aliases stand in
src/families/NAME/ and families.def alone, everybody else asks the table of families/family.h. What counts is code:
strings that have the name as a word, identifiers td_NAME..., td_family_NAME and TD_NAME_..., and includes of the
family's folder; comments may explain. NOUNS may stand anywhere as words. SHARED is what two families have in common by
design. Prints one line per fault; exit code 1 when there is any. Tried out by test_check_families.py.
"""
import re
import sys
from pathlib import Path

SHARED = {"src/families/acoustic.h"}  # the keys of both acoustic families, with those that only one of them has
PHRASES = re.compile(r"\bin parallel\b")  # a plain word of English
NOUNS = {"vocoder", "aligner", "dvae"}  # also what everybody calls the thing: only what asks for the family itself counts

COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|("(?:\\.|[^"\\\n])*")', re.S)
STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"')

faults = []


def list_names(root):
    """Names to the folders that may use them."""
    folders = {}
    for name in re.findall(r"^FAMILY\((\w+)\)", (root / "src/families/families.def").read_text(), re.M):
        folder = root / "src/families" / name
        folders[name] = folder
        for file in sorted(folder.glob("*.c")):
            for alias in re.findall(r'\.alias = "(\w+)"', file.read_text()):
                folders[alias] = folder
    return folders


def drop_comments(text):
    """Strings stay, and lines keep their numbers."""
    return COMMENT.sub(lambda found: found[1] or "\n" * found[0].count("\n"), text)


def find_uses(line, name):
    if name in NOUNS:
        asks = re.compile(rf'\btd_family_{name}\b|"families/{name}/[^"]*"|\b(?:td_family_find|strcmp)\([^;]*"{name}"')
        return [found[0] for found in asks.finditer(line)]
    identifier = re.compile(rf"\b(?:td_family_|td_){name}\b|\b(?:td|TD)_(?:family_)?{name}_\w*", re.I)
    uses = [found[0] for found in identifier.finditer(line)]
    uses += [found[0] for found in STRING.finditer(line)
             if re.search(rf"(?<![A-Za-z0-9_]){name}(?![A-Za-z0-9_])", PHRASES.sub("", found[1]))]
    return uses


def check_tree(root):
    """Fills `faults`; returns how many files were read."""
    faults.clear()
    folders = list_names(root)
    files = sorted(file for ending in ("c", "h", "def") for file in (root / "src").rglob(f"*.{ending}"))
    for file in files:
        place = file.relative_to(root).as_posix()
        if place in SHARED or file.name == "families.def":
            continue
        text = file.read_text()
        others = [name for name, folder in folders.items() if folder not in file.parents and name in text.lower()]
        for number, line in enumerate(drop_comments(text).splitlines() if others else [], 1):
            for name in others:
                for use in find_uses(line, name):
                    faults.append(f"{place}:{number}: {use} names the family {name}; ask its table instead")
    return len(files), len(folders)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_families.py ROOT")
    n_files, n_names = check_tree(Path(sys.argv[1]).resolve())
    for line in faults:
        print(line)
    print(f"check_families: {n_files} files, {n_names} names, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
