"""ratchet.tsv: the figures recorded for each kernel and target, and the rule that they get no worse.

Figures of one compiler version say nothing of another's, so the file's head records the versions of each family, and
a family found in another version is held to limits.tsv alone. A worse figure is recorded with a reason only.
"""

FIGURES = ("registers", "local", "occupancy", "simd", "ffma")
MORE_IS_BETTER = ("occupancy", "simd", "ffma")
# Compilers shift these a little for reasons far from the kernel: what is lost before it counts.
SLACK = {"registers": lambda old: max(4.0, old / 10), "occupancy": lambda old: old / 10, "ffma": lambda old: 1.0}


def value_of(figures, figure):
    """A figure, or None if the target has no such; occupancy is in percent."""
    if figure == "occupancy":
        return 100.0 * figures["waves"] / figures["waves_max"] if "waves" in figures else None
    return figures.get(figure)


def better_of(figure, old, new):
    """The one to record: what was lost within the slack is not given away, or a ratchet would turn back bit by bit."""
    if old is None or new is None:
        return new
    return max(old, new) if figure in MORE_IS_BETTER else min(old, new)


def cell_text(figures):
    if "error" in figures:
        return "does not compile"
    last = f"S{figures['simd']}" if "simd" in figures else f"{figures['waves']}of{figures['waves_max']}"
    share = f"/{figures['ffma']:g}%" if figures.get("ffma") is not None else ""
    return f"{figures['registers']}/{figures['spills']}/{figures['stack']}/{figures['local']}/{last}{share}"


class Ratchet:
    def __init__(self, path):
        self.path, self.versions, self.rows = path, {}, {}
        for line in path.read_text().splitlines() if path.exists() else []:
            columns = line.split("\t")
            if columns[0] == "version":
                self.versions[columns[1]] = columns[2]
            elif columns[0] == "figures":
                _, kernel, target, *values, reason = columns
                self.rows[kernel, target] = [float(value) if value != "-" else None for value in values], reason

    def comparable(self, family):
        return self.versions.get(family.name) == family.version

    def changes(self, kernel, target, figures):
        """(figure, recorded, now, how much worse, or better if negative) where the difference counts."""
        for figure, old in zip(FIGURES, self.rows.get((kernel, target), ([],))[0]):
            new = value_of(figures, figure)
            if old is None or new is None:
                continue
            loss = old - new if figure in MORE_IS_BETTER else new - old
            if abs(loss) > SLACK.get(figure, lambda _: 0.0)(old):
                yield figure, old, new, loss

    def worse(self, kernel, target, figures):
        """What is worse than recorded, in words."""
        return [f"{figure} was {old:g}, now {new:g} (improve it, or --full --update --reason)"
                for figure, old, new, loss in self.changes(kernel, target, figures) if loss > 0]

    def notes(self, families, cells):
        """What the reader may want to do about the file."""
        for family, targets in families:
            here = [(key, figures) for key, figures in cells.items() if key[1] in targets and "error" not in figures]
            recorded = self.versions.get(family.name)
            if recorded and not self.comparable(family):
                yield f"{family.name}: ratchet.tsv was recorded with {recorded}, this is {family.version}: limits only"
                continue
            new = sum(key not in self.rows for key, _ in here)
            better = sum(any(change[3] < 0 for change in self.changes(*key, figures)) for key, figures in here)
            if new or better:
                yield f"{family.name}: {new} cells new and {better} better than in ratchet.tsv (--full --update records them)"

    def update(self, kernels, families, cells, refused, reason):
        """Records the cells that keep the limits; one that got worse only with a reason, which stays in its row."""
        for family, targets in families:
            if not self.comparable(family):
                self.rows = {key: row for key, row in self.rows.items() if key[1] not in family.targets}
            self.versions[family.name] = family.version
            for key in ((kernel.name, target) for kernel in kernels for target in targets):
                is_worse = key in self.rows and bool(self.worse(*key, cells[key]))
                if key in refused or (is_worse and not reason):
                    continue
                values = [value_of(cells[key], figure) for figure in FIGURES]
                old, why = self.rows.get(key, ([None] * len(FIGURES), ""))
                if is_worse:
                    why = reason
                else:
                    values = [better_of(*figure) for figure in zip(FIGURES, old, values)]
                self.rows[key] = values, why
        self.write()

    def keep(self, names):
        """Forgets kernels that are no more."""
        self.rows = {key: row for key, row in self.rows.items() if key[0] in names}

    def write(self):
        lines = ["# Written by scripts/gpu_gate.sh --full --update; the rule is in ratchet.py.",
                 "# figures\tkernel\ttarget\t" + "\t".join(FIGURES) + "\treason for a figure worse than before"]
        lines += [f"version\t{name}\t{version}" for name, version in sorted(self.versions.items())]
        for (kernel, target), (values, reason) in sorted(self.rows.items()):
            texts = ["-" if value is None else f"{value:.4g}" if value < 1e4 else f"{value:.0f}" for value in values]
            lines.append("\t".join(["figures", kernel, target, *texts, reason]))
        self.path.write_text("\n".join(lines) + "\n")
