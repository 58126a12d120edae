#!/usr/bin/env python3
"""Times PyTorch's conv1d, forward and with its backward pass, on the CPU, and prints medians as JSON.

    conv.py [--threads N] [--rounds N] [--test-ops PROGRAM] [--device DEVICE]

With --test-ops the same shape is timed by `PROGRAM perf -o conv -d DEVICE` turn by turn, so that a noisy computer
disturbs both alike, and the ratios of the medians are printed too. PyTorch is a tool of this comparison alone:
pip install torch.
"""
import argparse
import json
import statistics
import subprocess
import tempfile
import time

import torch

BATCH, TIME, CHANNELS, TAPS = 8, 400, 192, 3
CASE = f"{BATCH} x 1x{TIME} {CHANNELS}>{CHANNELS} k1x{TAPS} "  # as `test_ops perf` labels it
OPS = {"forward": "conv", "both": "conv_and_back"}


def time_torch(layout, seconds):
    """Forward and forward + backward times in ms for about that long. Layout: how x and y lie in memory."""
    x = torch.randn(BATCH, CHANNELS, TIME)
    gradient = torch.randn(BATCH, CHANNELS, TIME)
    if layout == "channels last":  # PyTorch knows this layout of images only, so a line is one
        x, gradient = (t.unsqueeze(2).contiguous(memory_format=torch.channels_last) for t in (x, gradient))
    kernel = (1, TAPS) if layout == "channels last" else (TAPS,)
    padding = (0, TAPS // 2) if layout == "channels last" else TAPS // 2
    w = torch.randn(CHANNELS, CHANNELS, *kernel)
    bias = torch.randn(CHANNELS)
    for tensor in (x, w, bias):
        tensor.requires_grad_()
    convolve = torch.nn.functional.conv2d if layout == "channels last" else torch.nn.functional.conv1d
    forward, both = [], []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(forward) < 5:
        start = time.perf_counter()
        y = convolve(x, w, bias, padding=padding)
        middle = time.perf_counter()
        torch.autograd.grad(y, (x, w, bias), gradient)
        forward.append(1e3 * (middle - start))
        both.append(1e3 * (time.perf_counter() - start))
    return {"forward": forward[1:], "both": both[1:]}


def time_ours(program, device):
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run([program, "perf", "-o", "conv", "-d", device, "--json", file.name], check=True,
                       stdout=subprocess.DEVNULL)
        rows = json.load(open(file.name))
    return {name: [row["ms"] for row in rows if row["op"] == op and row["case"].startswith(CASE)]
            for name, op in OPS.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--test-ops", metavar="PROGRAM")
    parser.add_argument("--device", default="cl:0.0", help="of --test-ops")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    layouts = ("channels first", "channels last")
    times = {name: {op: [] for op in OPS} for name in (*layouts, "ours")}
    for _ in range(options.rounds):
        turns = {layout: time_torch(layout, 0.4) for layout in layouts}
        if options.test_ops:
            turns["ours"] = time_ours(options.test_ops, options.device)
        for name, turn in turns.items():
            for op, ms in turn.items():
                times[name][op].extend(ms)
    report = {"shape": f"batch {BATCH}, {TIME} steps, {CHANNELS} to {CHANNELS} channels, {TAPS} taps",
              "torch": torch.__version__, "threads": options.threads}
    for name, ops in times.items():
        report[name] = {f"{op}_ms": statistics.median(ms) for op, ms in ops.items() if ms}
    if options.test_ops:
        for op in OPS:
            report[f"{op}_ratio"] = report["ours"][f"{op}_ms"] / min(report[layout][f"{op}_ms"] for layout in layouts)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
