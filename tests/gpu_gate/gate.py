#!/usr/bin/env python3
"""The GPU gate: compiles every kernel of class GPU for graphics processors that are not here, and judges the result.

gate.py [--full] [--kernels PATTERN] [--targets PATTERN] [--update [--reason TEXT]] ...; --help names all options

Figures are held against limits.tsv (per class of kernel) and ratchet.tsv (no worse than recorded). Two faulty kernels
of planted/ must be refused and their sound twins accepted on every target, each run, before anything else counts.
A target without its compiler is skipped, with the reason and how to get it; families named in GATE_REQUIRE
(nvidia,amd,radv,intel,anv) must not be. Ends with 0, with 1 if anything failed, with 77 if nothing could run.
docs/gpu_portability.md tells what the figures mean and what they cannot say.
"""
import argparse
import hashlib
import json
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "lint"))
import check_kernels  # noqa: E402
import ratchet  # noqa: E402
import tools  # noqa: E402
from targets import FAMILIES, Missing, call, refusal  # noqa: E402

# The cheapest target of each family stands first in it: the ordinary test command takes that one.
SOUND, FAULTY = "accepted", "refused"
PLANTED = [("sound_tile", "wide_tile", ["-DTILE=2u"], 3, SOUND), ("wide_tile", "wide_tile", ["-DTILE=16u"], 3, FAULTY),
           ("sound_array", "empty_array", ["-DCOUNT=WG"], 2, SOUND), ("empty_array", "empty_array", ["-DCOUNT=0"], 2, FAULTY)]


class Kernel:
    """One row of ops.def (or a planted kernel), preprocessed for the OpenCL compilers and as SPIR-V."""

    def __init__(self, name, body, group, options, buffers):
        self.name, self.body, self.group, self.options, self.buffers = name, body, group, options, buffers
        self.cl, self.glsl = ROOT / f"cl/{body}.cl", ROOT / f"shaders/{body}.comp"
        self.flat = self.spirv = self.flat_error = self.spirv_error = None

    def prepare(self, work, built=None):
        """built: the folder in which the build left its SPIR-V, or None."""
        defines = ["-DTD_CLASS_GPU=1", f"-DTD_GPU_WG={self.group}u", *self.options, f"-I{ROOT}/src", f"-I{HERE}/planted"]
        self.flat, self.spirv = work / f"{self.name}.flat.cl", work / f"{self.name}.spv"
        code, output = call(["cc", "-E", "-P", "-undef", "-nostdinc", "-x", "c", f"-I{ROOT}/cl", *defines, self.cl, "-o", self.flat])
        if code:
            self.flat_error = refusal(output, code)
        if built and (Path(built) / f"{self.name}.gpu.spv").exists():
            self.spirv = Path(built) / f"{self.name}.gpu.spv"
            return
        code, output = call(["glslc", "-O", "--target-env=vulkan1.1", f"-I{ROOT}/shaders", *defines, self.glsl, "-o", self.spirv])
        if code:
            self.spirv_error = refusal(output, code)


def plant(name, body, options, buffers, work):
    """A kernel of planted/, with entries like those of cl/ and shaders/."""
    kernel = Kernel(name, body, 128, options, buffers)
    kernel.cl, kernel.glsl = work / f"{name}.cl", work / f"{name}.comp"
    kernel.cl.write_text(f'#include "prelude.cl.h"\n#include "{body}.kh"\n')
    kernel.glsl.write_text('#version 450\n#extension GL_GOOGLE_include_directive : require\n'
                           f'#include "prelude.glsl"\n#include "{body}.kh"\n')
    kernel.prepare(work)
    return kernel


def read_kernels(pattern):
    rows = check_kernels.read_rows(ROOT)
    if check_kernels.faults:
        sys.exit("\n".join(check_kernels.faults))
    return [Kernel(name, row.body, row.group, row.options, len(row.access)) for name, row in rows.items()
            if any(fnmatchcase(name, part) for part in pattern.split(","))]


class Limits:
    """limits.tsv. The last line that speaks of a kernel, a target and a figure is the one that holds."""

    def __init__(self, path):
        self.classes, self.rows, self.unlaunched = [], [], []
        for line in path.read_text().splitlines():
            columns = line.split("\t")
            if columns[0] == "class":
                self.classes.append((columns[1], columns[2].split()))
            elif columns[0] == "limit":
                _, who, target, figure, bound, reason = columns
                self.rows.append((who.split(), target.split(), figure, *bound.split(), reason))
            elif columns[0] == "never":
                self.unlaunched.append((columns[1].split(), columns[2].split(), *columns[3:]))

    def class_of(self, body):
        return [name for name, bodies in self.classes if any(fnmatchcase(body, part) for part in bodies)][-1]

    def never(self, kernel, target):
        """Why the kernel never runs on the target, or None."""
        return next((f"{reason} ({function})" for who, where, function, reason in self.unlaunched
                     if any(fnmatchcase(kernel.name, part) for part in who)
                     and any(fnmatchcase(target, part) for part in where)), None)

    def faults(self):
        """Lines that rest on a function of the launcher which is no more."""
        code = "".join(path.read_text() for path in (ROOT / "src").rglob("*.c"))
        return [f"limits.tsv: no function {function} keeps {' '.join(who)} from {' '.join(where)}"
                for who, where, function, _ in self.unlaunched if f"{function}(" not in code]

    def judge(self, kernel, target, figures):
        """What breaks a limit, in words."""
        names, bounds = ("class:" + self.class_of(kernel.body), kernel.name), {}
        for who, where, figure, relation, bound, _ in self.rows:
            if any(fnmatchcase(name, part) for name in names for part in who) and any(fnmatchcase(target, part) for part in where):
                bounds[figure] = relation, float(bound)
        broken = []
        for figure, (relation, bound) in bounds.items():
            value = ratchet.value_of(figures, figure)
            if value is not None and not (value <= bound if relation == "<=" else value >= bound):
                broken.append(f"{figure} {value:g}, must be {relation} {bound:g}")
        return broken


def open_families(work, wanted, full):
    """([(family, its targets)], [(family name, targets, why it is skipped)])"""
    opened, skipped = [], []
    for family in FAMILIES:
        targets = [target for target in (family.targets if full else family.targets[:1])
                   if any(fnmatchcase(target, part) for part in wanted.split(","))]
        if not targets or (family.optional and not full):
            continue
        try:
            opened.append((family(work), targets))
        except Missing as missing:
            skipped.append((family.name, targets, str(missing)))
    return opened, skipped


class Results:
    """What a kernel's text gave with a compiler before, kept beside the tools: only what changed is compiled again."""

    def __init__(self, folder):
        self.folder, self.reader = folder, (HERE / "targets.py").read_bytes()

    def key(self, family, kernel, target):
        head = f"{family.version} {target} {kernel.group} {kernel.buffers} ".encode()
        return hashlib.sha256(head + family.text(kernel).read_bytes() + self.reader).hexdigest()

    def recall(self, family, kernel, target):
        """Its figures, or None if this text is new here."""
        try:
            old = json.loads((self.folder / f"{kernel.name}.{target}.json").read_text())
            return old["figures"] if old["key"] == self.key(family, kernel, target) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None  # not there or not whole: measured anew

    def keep(self, family, kernel, target, figures):
        place = self.folder / f"{kernel.name}.{target}.json"
        whole = place.with_suffix(f".{os.getpid()}")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            whole.write_text(json.dumps({"key": self.key(family, kernel, target), "figures": figures}))
            whole.replace(place)
        except OSError:
            pass  # the next run takes as long as this one


def measure(kernels, families, pool, results=None):
    """{(kernel name, target): figures}"""
    cells, jobs = {}, []
    for family, targets in families:
        left = {}
        for target, kernel in ((target, kernel) for target in targets for kernel in kernels):
            known = family.error(kernel) or (results and results.recall(family, kernel, target))
            if known:
                cells[kernel.name, target] = known
            else:
                left.setdefault(target if family.takes_many else kernel.name, []).append((kernel, target))
        for group in left.values():
            jobs.append((family, group, pool.submit(family.measure, group)))
    for family, group, job in jobs:
        for kernel, target in group:
            figures = cells[kernel.name, target] = job.result()[kernel.name, target]
            if results and "error" not in figures:
                results.keep(family, kernel, target, figures)
    return cells


def probe(families, skipped, pool, work):
    """The families whose compilers really work: a few lines that owe nothing to this project must compile."""
    kernel = Kernel("probe", "probe", 64, [], 1)
    kernel.cl, kernel.glsl = HERE / "planted/probe.cl", HERE / "planted/probe.comp"
    kernel.prepare(work)
    cells, usable = measure([kernel], families, pool), []
    for family, targets in families:
        errors = [f"{target}: {cells['probe', target]['error']}" for target in targets if "error" in cells["probe", target]]
        if errors:
            skipped.append((family.name, targets, f"{family.version} compiles nothing ({errors[0]})"))
        else:
            usable.append((family, targets))
    return usable


def try_out(families, limits, pool, work):
    """Sends the planted kernels through every target and returns the faults of the gate itself, in words."""
    planted = [plant(name, body, options, buffers, work) for name, body, options, buffers, _ in PLANTED]
    cells, faults = measure(planted, families, pool), []
    for kernel, (name, _, _, _, verdict) in zip(planted, PLANTED):
        for target in (target for _, targets in families for target in targets):
            figures = cells[name, target]
            error = figures.get("error")
            broken = [] if error else limits.judge(kernel, target, figures)
            # The wide tile must be refused for its figures: an error would say nothing of the limits.
            wrong_reason = name == "wide_tile" and error
            if bool(error or broken) != (verdict == FAULTY) or wrong_reason:
                faults.append(f"planted kernel {name} on {target} is not {verdict} as it should be: "
                              f"{error or '; '.join(broken) or ratchet.cell_text(figures)}")
    return faults


def judge(kernels, families, cells, limits, records):
    """({cell: what breaks a limit}, {cell: what is worse than recorded}, {cell: why it is not judged})"""
    refused, worse, unjudged = {}, {}, {}
    for family, targets in families:
        for key, kernel in (((kernel.name, target), kernel) for kernel in kernels for target in targets):
            figures = cells[key]
            if "error" in figures:
                refused[key] = [figures["error"]]
            elif reason := limits.never(kernel, key[1]):
                unjudged[key] = reason
            elif broken := limits.judge(kernel, key[1], figures):
                refused[key] = broken
            elif records.comparable(family) and (lost := records.worse(*key, figures)):
                worse[key] = lost
    return refused, worse, unjudged


def table(kernels, families, cells, markdown=False):
    """One table per family; kernels are rows."""
    text = []
    for family, targets in families:
        rows = [["kernel", *targets]]
        for kernel in kernels:
            rows.append([kernel.name, *(ratchet.cell_text(cells[kernel.name, target]) for target in targets)])
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        text.append(f"### {family.name}: {family.version}\n" if markdown else f"{family.name}: {family.version}")
        for i, row in enumerate(rows):
            line = (" | " if markdown else "  ").join(part.ljust(width) for part, width in zip(row, widths)).rstrip()
            text.append(f"| {line} |" if markdown else line)
            if markdown and i == 0:
                text.append("|---" * len(row) + "|")
        text.append("")
    return "\n".join(text)


def options():
    parser = argparse.ArgumentParser(description="Compiles every kernel for GPUs that are not here and judges the result.")
    parser.add_argument("--full", action="store_true", help="all targets, not one per family")
    parser.add_argument("--kernels", default="*", metavar="PATTERN", help="only these, shell patterns, comma-separated")
    parser.add_argument("--targets", default="*", metavar="PATTERN", help="only these")
    parser.add_argument("--spirv", metavar="DIR", help="take the shaders the build left here instead of compiling them again")
    parser.add_argument("--markdown", metavar="FILE", help="write the table as Markdown too")
    parser.add_argument("--update", action="store_true", help="record the figures in ratchet.tsv")
    parser.add_argument("--reason", default="", help="why recorded figures may get worse; needed by --update then")
    parser.add_argument("--install", nargs="?", const="all", choices=["debian", "nvidia", "all"],
                        help="fetch compilers into the user's cache directory, and end")
    return parser.parse_args()


def run(asked, work):
    required = {name for name in os.environ.get("GATE_REQUIRE", "").split(",") if name}
    unknown = required - {family.name for family in FAMILIES}
    if unknown:
        sys.exit(f"gpu_gate: GATE_REQUIRE names no family: {', '.join(sorted(unknown))}")
    limits, records = Limits(HERE / "limits.tsv"), ratchet.Ratchet(HERE / "ratchet.tsv")
    kernels = read_kernels(asked.kernels)
    pool = ThreadPoolExecutor(os.cpu_count())
    families, skipped = open_families(work, asked.targets, asked.full)
    families = probe(families, skipped, pool, work)
    faults = limits.faults() + try_out(families, limits, pool, work)
    list(pool.map(lambda kernel: kernel.prepare(work, asked.spirv), kernels))
    cells = measure(kernels, families, pool, Results(tools.HOME / "results"))

    print("registers / spills / stack bytes / local bytes / resident waves of most, or SIMD width / FFMA share\n")
    print(table(kernels, families, cells))
    refused, worse, unjudged = judge(kernels, families, cells, limits, records)
    for fault in faults + [f"{kernel} on {target}: {'; '.join(told)}" for (kernel, target), told in {**refused, **worse}.items()]:
        print(f"FAIL {fault}")
    for reason in dict.fromkeys(unjudged.values()):
        names, targets = (dict.fromkeys(part) for part in zip(*(key for key, why in unjudged.items() if why == reason)))
        print(f"SKIP {', '.join(names)} ({', '.join(targets)}): never launched there: {reason}")
    n_failed = len(faults) + len(refused) + len(worse)
    n_skipped = len(unjudged)
    n_passed = len(cells) - len(refused) - len(worse) - n_skipped
    for name, targets, why in skipped:
        print(f"{'FAIL' if name in required else 'SKIP'} {name} ({', '.join(targets)}): {why}")
        n_cells = len(kernels) * len(targets)
        n_failed, n_skipped = (n_failed + n_cells, n_skipped) if name in required else (n_failed, n_skipped + n_cells)
    uncounted = [name for (name, _), figures in cells.items() if figures.get("ffma", 0) is None]
    if uncounted:
        print(f"SKIP share of FFMA on sm_86 ({', '.join(uncounted)}): no nvdisasm; {tools.FETCH_NVIDIA}")
        n_skipped += len(uncounted)
    for note in records.notes(families, {key: figures for key, figures in cells.items() if key not in unjudged}):
        print(f"NOTE {note}")
    if asked.markdown:
        Path(asked.markdown).write_text(table(kernels, families, cells, markdown=True))
    if asked.update:
        records.keep({kernel.name for kernel in read_kernels("*")})
        records.update(kernels, families, cells, {**refused, **unjudged}, asked.reason)
    print(f"gpu_gate: {n_passed} pass, {n_failed} fail, {n_skipped} skip")
    return 1 if n_failed else 0 if n_passed else 77


def main():
    asked = options()
    if asked.install:
        return tools.install(asked.install)
    with tempfile.TemporaryDirectory(prefix="gpu_gate.") as work:
        return run(asked, Path(work))


if __name__ == "__main__":
    sys.exit(main())
