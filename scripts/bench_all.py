#!/usr/bin/env python3
"""Runs the comparisons of tests/peers one after the other and gathers their ratios; see scripts/bench_all.sh.

A ratio is Tandem's time over the peer's: below 1 Tandem is faster. Each comparison takes turns by itself; here its
rounds become a median and a spread (least and greatest). The last ten commits' medians are kept in the user's cache.
"""
import argparse
import datetime
import html
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEERS = ROOT / "tests" / "peers"
HISTORY_COMMITS = 10
LIMIT_S = 1800  # of one comparison


def lines_of_ratios(text):
    """Of step.py, model.py and vocoder.py: a line for each round."""
    return [float(x) for x in re.findall(r"^.*PyTorch .* ms.*ratio ([0-9.]+)", text, re.M)]


def json_ratios(text):
    return json.loads(text)["ratios"]


def json_speeds(text):
    """Where the peer's script tells how many times as fast Tandem is."""
    return [1 / x for x in json_ratios(text)]


def decode_speeds(text):
    """A comparison for each way the weights lie in memory: name, ratios and bar."""
    return {name: ([1 / x for x in row["ratios"]], 1.0) for name, row in json.loads(text).items() if isinstance(row, dict)}


def kernel_ratios(text):
    return {row["op"]: ([row["ratio"]], row["bar"]) for row in json.loads(text)["results"]}


# name, what it is, bar, words of the command, those of the short mode, how ratios are read
def comparisons(tandem):
    step = lambda sketch: [str(PEERS / "step.py"), "--tandem", tandem, "--sketch", sketch]
    return [
        ("step 128x2/192x3", "training step of a transformer sketch", 0.60, [*step("128x2/192x3"), "--rounds", "7", "speed"],
         [*step("128x2/192x3"), "--rounds", "3", "--steps", "3", "speed"], lines_of_ratios),
        ("step 192x3/256x4", "the same, larger", 0.65, [*step("192x3/256x4"), "--rounds", "7", "speed"], None, lines_of_ratios),
        ("step 256x4/512x6", "the same, larger still", 0.75, [*step("256x4/512x6"), "--rounds", "7", "speed"], None,
         lines_of_ratios),
        ("voice nano", "training step of the voice `nano`", 0.35,
         [str(PEERS / "model.py"), "--tandem", tandem, "--rounds", "7"],
         [str(PEERS / "model.py"), "--tandem", tandem, "--rounds", "3"], lines_of_ratios),
        ("vocoder step", "training step of the vocoder", 0.6, [str(PEERS / "vocoder.py"), "--tandem", tandem, "--rounds", "7"],
         None, lines_of_ratios),
        ("mel", "log-mel spectrograms", 1.0, [str(PEERS / "mel.py"), "--tandem", tandem, "--turns", "7"],
         [str(PEERS / "mel.py"), "--tandem", tandem, "--turns", "3"], json_speeds),
        ("decode", "XTTS's GPT, a code at a time", None, [str(PEERS / "decode.py"), "--tandem", tandem, "--turns", "5"], None,
         decode_speeds),
        ("hifigan", "XTTS's vocoder", 0.6, [str(PEERS / "hifigan.py"), "--tandem", tandem, "--turns", "5"], None, json_ratios),
        ("kernels", "single operations", None, [str(PEERS / "kernels.py"), tandem], None, kernel_ratios),
    ]


def run_one(words):
    """Text of stdout, or why there is none. A missed bar ends with 1 and has its text all the same."""
    try:
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return None, f"took longer than {LIMIT_S} s"
    if done.returncode not in (0, 1) or "Traceback" in done.stderr:
        lines = done.stderr.strip().splitlines()
        return None, lines[-1] if lines else f"ended with {done.returncode}"
    return done.stdout, None


def summarize(name, what, bar, ratios, seconds):
    middle = statistics.median(ratios)
    return {"name": name, "what": what, "ratio": round(middle, 4), "least": round(min(ratios), 4),
            "greatest": round(max(ratios), 4), "rounds": len(ratios), "bar": bar,
            "ok": None if bar is None else middle <= bar, "seconds": round(seconds, 1)}


def measure(row, short):
    name, what, bar, words, short_words, read = row
    started = time.monotonic()
    text, why = run_one(short_words if short else words)
    seconds = time.monotonic() - started
    if why is None:
        try:
            ratios = read(text)
        except (ValueError, KeyError, StopIteration, ZeroDivisionError) as error:
            ratios, why = None, f"its words cannot be read: {error!r}"
    if why is None and not ratios:
        why = "it told no ratio"
    if why is not None:
        return [{"name": name, "what": what, "failed": why, "seconds": round(seconds, 1)}]
    if isinstance(ratios, dict):
        return [summarize(f"{name}: {part}", what, part_bar, those, seconds) for part, (those, part_bar) in ratios.items()]
    return [summarize(name, what, bar, ratios, seconds)]


def first_line(path, key):
    try:
        with open(path) as f:
            return next((line.split(":", 1)[1].strip() for line in f if line.startswith(key)), "unknown")
    except OSError:
        return "unknown"


def say(*words):
    try:
        return subprocess.run(words, capture_output=True, text=True, cwd=ROOT).stdout.strip() or "unknown"
    except OSError:
        return "unknown"


def describe(tandem):
    flags = first_line("/proc/cpuinfo", "flags").split()
    vectors = next((v for v in ("avx512f", "avx2", "avx", "sse4_2") if v in flags), "unknown")
    devices = json.loads(say(tandem, "devices", "--json") or "{}")
    driver = next((d.get("driver", "") for d in devices.get("devices", []) if d.get("type") == "cpu"), "unknown")
    import torch
    return {"cpu": first_line("/proc/cpuinfo", "model name"), "vectors": vectors, "cores": os.cpu_count(),
            "memory": first_line("/proc/meminfo", "MemTotal"), "kernel": platform.release(),
            "load": os.getloadavg()[0], "tandem": say(tandem, "--version"), "driver": driver, "torch": torch.__version__,
            "python": platform.python_version()}


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(base) / "tandem"


def remember(result):
    """Adds the medians to those of earlier commits; a commit measured again replaces itself row by row."""
    path = cache_folder() / "bench_history.json"
    try:
        history = json.loads(path.read_text())
    except (OSError, ValueError):
        history = []
    mine = next((h for h in history if h["commit"] == result["commit"]), {"commit": result["commit"], "ratios": {}})
    history = [h for h in history if h is not mine] + [mine]
    mine["date"] = result["date"]
    mine["ratios"].update({row["name"]: row["ratio"] for row in result["rows"] if "ratio" in row})
    history = history[-HISTORY_COMMITS:]
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(history, indent=1))
    part.replace(path)
    return history


def sparkline(values, bar):
    """Medians of the commits, oldest first, with the bar as a line."""
    if len(values) < 2:
        return ""
    top = max([*values, bar or 0]) or 1
    x = lambda i: 2 + 96 * i / (len(values) - 1)
    y = lambda v: 22 - 20 * v / top
    points = " ".join(f"{x(i):.1f},{y(v):.1f}" for i, v in enumerate(values))
    line = f'<line x1="0" x2="100" y1="{y(bar):.1f}" y2="{y(bar):.1f}" stroke="#c33" stroke-dasharray="3"/>' if bar else ""
    return (f'<svg width="100" height="24" role="img" aria-label="last {len(values)} commits">{line}'
            f'<polyline points="{points}" fill="none" stroke="#246" stroke-width="1.5"/></svg>')


def write_page(result, history, path):
    rows = []
    for row in result["rows"]:
        name = html.escape(row["name"])
        if "failed" in row:
            rows.append(f'<tr><td>{name}<td colspan="5">not measured: {html.escape(row["failed"])}')
            continue
        past = [h["ratios"][row["name"]] for h in history if row["name"] in h["ratios"]]
        mark = "" if row["ok"] is None else (" class=good" if row["ok"] else " class=bad")
        bar = "" if row["bar"] is None else f'{row["bar"]:g}'
        rows.append(f'<tr><td title="{html.escape(row["what"])}">{name}<td{mark}>{row["ratio"]:.3f}<td>{row["least"]:.3f} to '
                    f'{row["greatest"]:.3f}<td>{row["rounds"]}<td>{bar}<td>{sparkline(past, row["bar"])}')
    facts = "".join(f"<tr><td>{html.escape(k)}<td>{html.escape(str(v))}" for k, v in result["machine"].items())
    path.write_text(f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Tandem beside its peers</title>
<style>body{{font:16px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}}table{{border-collapse:collapse}}
td,th{{padding:.2em .8em;text-align:left;border-bottom:1px solid #ddd}}.good{{color:#063}}.bad{{color:#a00}}</style>
<h1>Tandem beside its peers</h1><p>Tandem's time over the peer's: below 1 Tandem is faster. {result["date"]},
commit {html.escape(result["commit"])}, {"short" if result["short"] else "full"} run, {result["seconds"]:.0f} s.</p>
<table><tr><th>comparison<th>ratio<th>spread<th>rounds<th>bar<th>last commits
{chr(10).join(rows)}</table><h2>Machine and versions</h2><table>{facts}</table></html>
""")


def write_docs(result, path):
    machine = result["machine"]
    lines = ["# Performance", "",
             "Tandem's time over the peer's, each in alternating runs on the same cores: below 1 Tandem is faster. This page is",
             "written by `scripts/bench_all.sh --write-docs`, which also makes a page with the history of the last ten commits.",
             "", f"- {result['date']}, commit {result['commit']}, {'short' if result['short'] else 'full'} run of "
             f"{result['seconds']:.0f} s, load {machine['load']:.1f} at its start",
             f"- {machine['cpu']}, {machine['cores']} cores, {machine['vectors']}, {machine['memory']} of memory",
             f"- PyTorch {machine['torch']}, driver {machine['driver']}", "",
             "| comparison | ratio | spread | rounds | bar |", "|---|---|---|---|---|"]
    for row in result["rows"]:
        if "failed" in row:
            lines.append(f"| {row['name']} | not measured: {row['failed'][:80]} | | | |")
        else:
            bar = "" if row["bar"] is None else f"{row['bar']:g}, {'met' if row['ok'] else 'missed'}"
            lines.append(f"| {row['name']} | {row['ratio']:.3f} | {row['least']:.3f} to {row['greatest']:.3f} | "
                         f"{row['rounds']} | {bar} |")
    lines += ["", "What each comparison does stands at the head of its script in `tests/peers`; how kernels compare with a plain",
              "copy, [kernels.md](kernels.md).", ""]
    path.write_text("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", default=str(ROOT / "build" / "release" / "tandem"))
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", default="", help="names or their beginnings, separated by commas")
    parser.add_argument("--out", default=str(ROOT / "build" / "bench"))
    parser.add_argument("--write-docs", action="store_true")
    args = parser.parse_args()
    only = [x for x in args.only.split(",") if x]
    chosen = [row for row in comparisons(args.tandem) if (row[4] is not None or not args.short)
              and (not only or any(row[0].startswith(x) for x in only))]
    if not chosen:
        sys.exit("bench_all: no comparison has such a name" + ("; some are not in the short mode" if args.short else ""))
    started = time.monotonic()
    result = {"date": datetime.date.today().isoformat(), "commit": say("git", "describe", "--always", "--dirty"),
              "short": args.short, "machine": describe(args.tandem), "rows": []}
    for row in chosen:
        for told in measure(row, args.short):
            result["rows"].append(told)
            print(f"{told['name']:28} " + (f"not measured: {told['failed']}" if "failed" in told else
                  f"{told['ratio']:.3f}  ({told['least']:.3f} to {told['greatest']:.3f}, {told['rounds']} rounds)"), flush=True)
    result["seconds"] = round(time.monotonic() - started, 1)
    history = remember(result)
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "bench.json").write_text(json.dumps({**result, "history": history}, indent=1))
    write_page(result, history, out / "bench.html")
    if args.write_docs:
        write_docs(result, ROOT / "docs" / "performance.md")
    print(f"{out / 'bench.html'} and bench.json; {result['seconds']:.0f} s")
    return 1 if any("failed" in row or row["ok"] is False for row in result["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
