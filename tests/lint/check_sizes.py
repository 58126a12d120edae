#!/usr/bin/env python3
"""Lint of sizes: check_sizes.py ROOT.

Checks that no file and no function is too long, that no *_internal.h of src/ has a single user (its declarations would
stand in that file), and that no line of docs/ is wider than 120 columns. Targets of links and images do not count, nor
does a line that has no space to break it at; a row of a table counts in full: what does not fit into one makes a list.
Files of tests/lint/wide_pages.txt may still have wide lines; one that has none any more must leave that list. Prints
one line per fault; exit code 1 when there is any. Tried out by test_check_sizes.py.
"""
import re
import sys
from pathlib import Path

DATA = {".tsv", ".safetensors", ".bin", ".pth"}  # tables and golden files have no lines to read
MAX_LINES = {"src": 700, "include": 700, "tests": 800, "cl": 800, "shaders": 800, "scripts": 800, "docs/examples": 800}
MAX_FUNCTION = 60
MAX_COLUMNS = 120
TARGET = re.compile(r"\]\([^)]*\)|\b(?:src|srcset|href)=\"[^\"]*\"")

faults = []


def fault(place, text):
    faults.append(f"{place}: {text}")


def check_lengths(root):
    for top, limit in MAX_LINES.items():
        for file in sorted((root / top).rglob("*")):
            if not file.is_file() or "__pycache__" in file.parts or file.suffix in DATA:
                continue
            lines = file.read_bytes().count(b"\n")
            if lines > limit:
                fault(file.relative_to(root), f"{lines} lines, at most {limit}; split it by task")


def check_functions(root):
    """A body lies between braces in the first column, as clang-format sets them; its signature counts as one line."""
    n_functions = 0
    for file in sorted((root / "src").rglob("*.[ch]")):
        begin = None
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if line == "{":
                begin = number
            elif line == "}" and begin:
                n_functions += 1
                if number - begin + 2 > MAX_FUNCTION:
                    fault(f"{file.relative_to(root)}:{begin}", f"a function of {number - begin + 2} lines, at most {MAX_FUNCTION}")
                begin = None
    return n_functions


def check_internals(root):
    sources = {file: file.read_text() for top in ("src", "tests") for file in sorted((root / top).rglob("*.[ch]"))}
    for header in sources:
        if not header.name.endswith("_internal.h") or header.parent.parts[:len(root.parts) + 1] != (*root.parts, "src"):
            continue
        name = header.relative_to(root / "src").as_posix()
        users = [file for file, text in sources.items() if f'#include "{name}"' in text]
        if len(users) < 2:
            user = f"{users[0].relative_to(root)} alone" if users else "nobody"
            fault(header.relative_to(root), f"is included by {user}; an internal header is for several files")


def is_wide(line):
    return len(TARGET.sub("", line)) > MAX_COLUMNS and " " in line.strip()


def check_pages(root):
    spared = set((root / "tests/lint/wide_pages.txt").read_text().split())
    pages = sorted((root / "docs").rglob("*.md"))
    for page in pages:
        place = page.relative_to(root).as_posix()
        wide = [number for number, line in enumerate(page.read_text().splitlines(), 1) if is_wide(line)]
        if place in spared and not wide:
            fault("tests/lint/wide_pages.txt", f"{place} has no wide line any more; take it off the list")
        for number in wide if place not in spared else []:
            fault(f"{place}:{number}", f"wider than {MAX_COLUMNS} columns")
    for place in sorted(spared - {page.relative_to(root).as_posix() for page in pages}):
        fault("tests/lint/wide_pages.txt", f"{place} does not exist")
    return len(pages)


def check_tree(root):
    """Fills `faults`; returns how many functions and pages were read."""
    faults.clear()
    check_lengths(root)
    check_internals(root)
    return check_functions(root), check_pages(root)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_sizes.py ROOT")
    n_functions, n_pages = check_tree(Path(sys.argv[1]).resolve())
    for line in faults:
        print(line)
    print(f"check_sizes: {n_functions} functions, {n_pages} pages, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
