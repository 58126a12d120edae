#!/usr/bin/env python3
"""Adds up what gcov counted: the statements of src/ that ran, in total, by folder, and in the worst files. A line counts
once, wherever it was compiled; it ran if it ran anywhere.

    python3 tests/coverage/summarize.py BUILD_DIR LEAST_PERCENT

Needs only Python's standard library and gcov. Ends with 1 below LEAST_PERCENT.
"""

import collections
import json
import os
import subprocess
import sys

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
WORST = 15
AT_ONCE = 40


def read_counts(build):
    """File under src/ -> line -> whether it ran. Notes without counts are of programs that never ran: 0 everywhere."""
    notes = [os.path.join(folder, name) for folder, _, names in os.walk(build) for name in names
             if name.endswith(".gcno") and ("tandem_objects" in folder or "tandem_program" in folder)]
    lines = collections.defaultdict(dict)
    for i in range(0, len(notes), AT_ONCE):
        done = subprocess.run(["gcov", "--json-format", "--stdout", *notes[i:i + AT_ONCE]], cwd=build, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        for document in done.stdout.splitlines():
            for file in json.loads(document)["files"]:
                path = os.path.relpath(os.path.realpath(os.path.join(ROOT, file["file"])), ROOT)
                if not path.startswith("src/") or not path.endswith((".c", ".h")):
                    continue
                for line in file["lines"]:
                    known = lines[path].get(line["line_number"], False)
                    lines[path][line["line_number"]] = known or line["count"] > 0
    return lines


def show(name, ran):
    print(f"{100 * sum(ran) / len(ran):6.1f} %  {sum(ran):6d} of {len(ran):6d}  {name}")


def main(build, least):
    lines = {path: list(counts.values()) for path, counts in read_counts(os.path.realpath(build)).items() if counts}
    if not lines:
        sys.exit(f"summarize: {build} holds no counts; run scripts/coverage.sh")
    folders = collections.defaultdict(list)
    for path, ran in lines.items():
        folders["/".join(os.path.dirname(path).split("/")[:2])] += ran
    print("by folder:")
    for folder in sorted(folders):
        show(folder, folders[folder])
    print("worst files:")
    for path in sorted(lines, key=lambda p: sum(lines[p]) / len(lines[p]))[:WORST]:
        show(path, lines[path])
    total = [ran for counts in lines.values() for ran in counts]
    print("statements of src/:")
    show("src", total)
    if 100 * sum(total) < least * len(total):
        sys.exit(f"summarize: less than {least:g} %; add tests for the worst files")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], float(sys.argv[2]))
