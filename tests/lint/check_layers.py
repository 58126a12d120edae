#!/usr/bin/env python3
"""Lint of the tree's shape: check_layers.py ROOT.

Checks every #include under src/ and include/ against the levels of tests/lint/layers.txt, that drivers' own headers
stay in their backend, that nothing below the program prints or ends it, and that the relative links of the
documentation lead somewhere. Prints one line per fault; exit code 1 when there is any. Tried out by
test_check_layers.py.
"""
import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.M)
SPEECH = re.compile(r"\b(?:v?printf|puts|putchar|perror|_?exit|_Exit|quick_exit|abort)\s*\(|\b(?:stdout|stderr)\b")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
LINK = re.compile(r"(?<!!)\[[^\]\[]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")

faults = []


def fault(place, text):
    faults.append(f"{place}: {text}")


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def blank(pattern, text):
    """Removes what matches, keeping line numbers."""
    return pattern.sub(lambda m: "\n" * m[0].count("\n"), text)


class Layers:
    """The rules of layers.txt."""

    def __init__(self, path):
        self.levels, self.public, self.native, self.windows, self.speakers = {}, {}, {}, set(), set()
        for line in path.read_text().splitlines():
            words = line.split("#")[0].split()
            if not words:
                continue
            if words[0] == "level":
                self.levels[words[1]] = int(words[2])
            elif words[0] == "public":
                self.public[words[1]] = int(words[2])
            elif words[0] == "native":
                self.native[words[1]] = words[2]
            elif words[0] == "window":
                self.windows.add(words[1])
            elif words[0] == "speaks":
                self.speakers.add(words[1])
            else:
                fault(path.name, f"'{words[0]}' is no rule")

    def folder_of(self, path):
        """The listed folder that a path relative to src/ lies in: the longest one, or None."""
        fits = [folder for folder in self.levels if path.startswith(folder + "/")]
        return max(fits, key=len, default=None)

    def refuse(self, folder, header):
        """Why a file of `folder` may not include `header`; None when it may."""
        level = self.levels[folder]
        if header.startswith("tandem/"):
            lowest = self.public.get(header, self.levels["device"])
            return None if level >= lowest else f"a public header for level {lowest} and above"
        target = self.folder_of(header)
        if target is None or target == folder or header in self.windows or folder.startswith(target + "/"):
            return None
        if self.levels[target] >= level:
            return f"level {self.levels[target]} ({target}) from level {level} ({folder})"
        return f"private to {target}" if "/" in target else None


def check_includes(layers, path, folder, text):
    for m in INCLUDE.finditer(text):
        quote, header = m[1], m[2]
        place = f"src/{path}:{line_of(text, m.start())}"
        for prefix, owner in layers.native.items():
            if header.startswith(prefix) and folder != owner:
                fault(place, f"includes {header}, which only src/{owner} may see")
        reason = layers.refuse(folder, header) if quote == '"' else None
        if reason:
            fault(place, f"includes {header}: {reason}")
        if quote == '"' and header.startswith("."):
            fault(place, f"includes {header}: paths start at src/ or include/")


def check_sources(root, layers):
    files = sorted(p for p in (root / "src").rglob("*") if p.suffix in (".c", ".h", ".def", ".kh"))
    for file in files:
        path = file.relative_to(root / "src").as_posix()
        folder = layers.folder_of(path)
        if folder is None:
            fault(f"src/{path}", "lies in no folder of tests/lint/layers.txt")
            continue
        text = blank(COMMENT, file.read_text())
        check_includes(layers, path, folder, text)
        if folder in layers.speakers or path in layers.speakers:
            continue
        for m in SPEECH.finditer(blank(STRING, text)):
            fault(f"src/{path}:{line_of(text, m.start())}", f"'{m[0].rstrip('( ')}' belongs in src/cli; return a status")
    return len(files)


def check_public(root):
    for file in sorted((root / "include").rglob("*.h")):
        text = blank(COMMENT, file.read_text())
        for m in INCLUDE.finditer(text):
            if (m[1] == '"') != m[2].startswith("tandem/") or "/" in m[2].removeprefix("tandem/"):
                fault(f"{file.relative_to(root)}:{line_of(text, m.start())}",
                      f"includes {m[2]}: a public header needs nothing but its like and the C library")


def anchors_of(text):
    """The anchors a page offers, as GitHub makes them."""
    heads = re.findall(r"^#+[ \t]+(.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def check_links(root):
    pages = sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])
    for page in pages:
        text = re.sub(r"^```.*?^```", lambda m: "\n" * m[0].count("\n"), page.read_text(), flags=re.M | re.S)
        for m in LINK.finditer(text):
            link = m[1] or m[2] or m[3]
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            place = f"{page.relative_to(root)}:{line_of(text, m.start())}"
            if not target.exists():
                fault(place, f"links to {path}, which does not exist")
            elif anchor and target.suffix == ".md" and anchor not in anchors_of(target.read_text()):
                fault(place, f"links to {link}, which has no such heading")
    return len(pages)


def check_tree(root):
    """Fills `faults`; returns how many sources and pages were read."""
    faults.clear()
    layers = Layers(root / "tests/lint/layers.txt")
    n_files = check_sources(root, layers)
    check_public(root)
    return n_files, check_links(root)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_layers.py ROOT")
    n_files, n_pages = check_tree(Path(sys.argv[1]).resolve())
    for line in faults:
        print(line)
    print(f"check_layers: {n_files} files, {n_pages} pages, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
