#!/usr/bin/env python3
"""Lint of the one-body kernels (docs/kernels.md): check_kernels.py ROOT.

Checks that every row of ops.def has its body and both entries and that nothing else lies beside them, that both
preludes define the same words and the manual explains each, that bodies use no word of one dialect alone and
declare the buffers their row states, that params fit, and that clang takes every OpenCL entry in both classes,
with its own header of built-in functions and with cl/builtins.cl.h alone.
Prints one line per fault; exit code 1 when there is any.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from collections import namedtuple
from pathlib import Path

CLANG = "clang-14"
HEADER = ["-finclude-default-header", "-fdeclare-opencl-builtins"]
NO_HEADER = "-DTD_NO_HEADER"
MAX_PARAM_BYTES = 128
RAW = re.compile(r"\bget_(?:global|local|group)_(?:id|size)\b|\bget_num_groups\b|\bgl_\w+|\b__?(?:global|local|kernel)\b"
                 r"|\blayout\s*\(|\bbarrier\s*\(|\bshared\b|\bfloat(?:2|4|8|16)\b|\bvec[234]\b|\bf?(?:min|max)\s*\(|\bfma\s*\(|\bas_\w+|\bsub_?group\w*|\bcoopmat\w*")
DIALECT_FILES = {"src/kernels": {"common.kh"}, "cl": {"prelude.cl.h", "builtins.cl.h"}, "shaders": {"prelude.glsl"}}
ACCESS = {word: f"TD_ACCESS_{word}" for word in ("READ", "WRITE", "READ_WRITE")}

faults = []

Row = namedtuple("Row", "body family group options access")


def fault(path, text):
    faults.append(f"{path}: {text}")


def strip_comments(text):
    """Blanks comments, keeping line numbers."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: "\n" * m[0].count("\n"), text, flags=re.S)


def words_of(text):
    """Upper-case macros; a trailing underscore marks a private helper."""
    return {w for w in re.findall(r"^\s*#\s*define\s+([A-Z][A-Z0-9_]*)", text, re.M) if not w.endswith("_")}


def read_rows(root):
    """{kernel: Row} in the order of ops.def and its families."""
    rows = {}
    families = re.findall(r'#include "kernels/ops/(\w+)\.def"', (root / "src/kernels/ops.def").read_text())
    for path in (root / "src/kernels/ops").iterdir():
        if path.stem not in families:
            fault(f"src/kernels/ops/{path.name}", "is not included by ops.def")
    for family in families:
        place = f"src/kernels/ops/{family}.def"
        for line in strip_comments((root / place).read_text()).splitlines():
            m = re.fullmatch(r'TD_KERNEL\((\w+), (\w+), (\d+), "([^"]*)"((?:, \w+)*)\)', line.strip())
            if m:
                if m[1] in rows:
                    fault(place, f"kernel {m[1]} is listed twice")
                rows[m[1]] = Row(m[2], family, int(m[3]), m[4].split(), m[5].split(", ")[1:])
            elif line.strip():
                fault(place, f"not one TD_KERNEL(...) row: {line.strip()}")
    if not rows:
        fault("src/kernels/ops.def", "no kernel found")
    return rows


def check_files(root, bodies):
    for folder, ending, lines in (("src/kernels", ".kh", None),
                                  ("cl", ".cl", ['#include "prelude.cl.h"', '#include "kernels/{}.kh"']),
                                  ("shaders", ".comp", ["#version 450", "#extension GL_GOOGLE_include_directive : require",
                                                        '#include "prelude.glsl"', '#include "kernels/{}.kh"'])):
        for name in bodies:
            path = root / folder / (name + ending)
            if not path.is_file():
                fault(f"{folder}/{name}{ending}", "missing, though ops.def lists the kernel")
            elif lines and path.read_text().splitlines() != [line.format(name) for line in lines]:
                fault(f"{folder}/{name}{ending}", "a thin entry holds exactly its includes (docs/kernels.md)")
        known = DIALECT_FILES[folder] | {name + ending for name in bodies}
        for path in sorted((root / folder).iterdir()):
            is_text = folder != "src/kernels" or path.suffix == ".kh"
            if is_text and path.is_file() and path.name not in known and path.name not in shared_bodies(root):
                fault(f"{folder}/{path.name}", "belongs to no row of ops.def")


def shared_bodies(root):
    """Files that bodies include: src/kernels/*.kh named in an #include of another."""
    text = "".join(path.read_text() for path in (root / "src/kernels").glob("*.kh"))
    return set(re.findall(r'#include "kernels/(\w+\.kh)"', text))


def check_words(root):
    cl = words_of((root / "cl/prelude.cl.h").read_text())
    glsl = words_of((root / "shaders/prelude.glsl").read_text())
    for word in sorted(cl - glsl):
        fault("shaders/prelude.glsl", f"lacks the word {word} of cl/prelude.cl.h")
    for word in sorted(glsl - cl):
        fault("cl/prelude.cl.h", f"lacks the word {word} of shaders/prelude.glsl")
    manual = (root / "docs/kernels.md").read_text()
    for word in sorted(cl | glsl | words_of((root / "src/kernels/common.kh").read_text())):
        if not re.search(rf"`{word}\b", manual):
            fault("docs/kernels.md", f"does not explain the word {word}")


def check_body(root, name, access):
    path = root / f"src/kernels/{name}.kh"
    if not path.is_file():
        return
    text = strip_comments(path.read_text())
    for number, line in enumerate(text.splitlines(), 1):
        for m in RAW.finditer(line):
            fault(f"src/kernels/{name}.kh:{number}", f"'{m[0]}' belongs to one dialect; use a word of the preludes")
    heads = re.findall(r"^KERNEL\((\w+),(.*?)\)\s*$", text, re.M | re.S)
    if [head[0] for head in heads] != [name]:
        fault(f"src/kernels/{name}.kh", f"must hold exactly one KERNEL, named {name}")
        return
    found = re.findall(r"\b(READ_WRITE|READ|WRITE)\((\d+),", heads[0][1])
    if [int(binding) for _, binding in found] != list(range(len(found))):
        fault(f"src/kernels/{name}.kh", "bindings are not 0, 1, 2, ...")
    if [ACCESS[word] for word, _ in found] != access:
        fault(f"src/kernels/{name}.kh", f"buffers differ from its row in ops.def ({', '.join(access)})")


def check_params(root, rows):
    for family in {row.family for row in rows.values()}:
        place = f"src/kernels/params/{family}.def"
        bodies = {row.body for row in rows.values() if row.family == family}
        text = strip_comments((root / place).read_text()).replace("\\\n", " ")
        fields = {m[1]: re.findall(r"F\((\w+),\s*(\w+)\)", m[2])
                  for m in re.finditer(r"#define TD_PARAMS_(\w+)\(F\)(.*)", text)}
        listed = set(re.findall(r"X\((\w+)\)", text))
        for body in sorted(bodies ^ fields.keys()):
            fault(place, f"TD_PARAMS_{body} and a row of ops/{family}.def must exist together")
        for body in sorted(listed ^ bodies):
            fault(place, f"TD_BODIES_{family} and the rows of ops/{family}.def disagree about {body}")
        for body, list_ in fields.items():
            if 4 * len(list_) > MAX_PARAM_BYTES:
                fault(place, f"{body}: {4 * len(list_)} bytes of parameters, at most {MAX_PARAM_BYTES}")
            for type_, field in list_:
                if type_ not in ("uint", "int", "float"):
                    fault(place, f"{body}: field {field} has type {type_}, not uint, int or float")


def write_entries(root, rows, folder):
    """A file per kernel that sets its options and includes its entry, so that one run of clang takes them all."""
    for name, row in rows.items():
        options = [option.removeprefix("-D").replace("=", " ", 1) for option in row.options]
        lines = [f"#define {option}\n" for option in [f"TD_GPU_WG {row.group}u", *options]]
        (folder / f"{name}.cl").write_text("".join(lines) + f'#include "{root}/cl/{row.body}.cl"\n')
    return [str(folder / f"{name}.cl") for name in rows]


def check_syntax(root, rows):
    if not shutil.which(CLANG):
        fault(CLANG, "not found; install it (scripts/setup.sh does)")
        return
    where = subprocess.run([CLANG, "-print-resource-dir"], capture_output=True, text=True, check=True).stdout.strip()
    command = [CLANG, "-cc1", "-fsyntax-only", "-cl-std=CL1.2", "-Wall", "-Wextra", "-Wzero-length-array", "-Werror",
               "-resource-dir", where, "-internal-isystem", f"{where}/include", f"-I{root}/src", "-x", "cl"]
    with tempfile.TemporaryDirectory() as folder:
        entries = write_entries(root, rows, Path(folder))
        for options in (["-DTD_CLASS_CPU=1", "-DVW=8", *HEADER], ["-DTD_CLASS_GPU=1", *HEADER],
                        ["-DTD_CLASS_CPU=1", "-DVW=8", NO_HEADER, "-DTD_ONE_BODY"], ["-DTD_CLASS_GPU=1", NO_HEADER]):
            run = subprocess.run([*command, *options, *entries], capture_output=True, text=True)
            if run.returncode != 0:
                fault("cl", f"{CLANG} {' '.join(options)} says:\n{run.stderr.strip()}")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check_kernels.py ROOT")
    root = Path(sys.argv[1]).resolve()
    rows = read_rows(root)
    check_files(root, {row.body for row in rows.values()})
    check_words(root)
    for row in rows.values():
        check_body(root, row.body, row.access)
    check_params(root, rows)
    check_syntax(root, rows)
    for line in faults:
        print(line)
    print(f"check_kernels: {len(rows)} kernels, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
