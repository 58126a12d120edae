#!/usr/bin/env python3
"""Times PyTorch's scaled_dot_product_attention, forward and backward, on the CPU, and prints medians as JSON.

    attention.py [--threads N] [--rounds N] [--test-ops PROGRAM] [--device DEVICE]

With --test-ops the same shape is timed by `PROGRAM perf -o attention_and_back -d DEVICE` turn by turn, so that
a noisy computer disturbs both alike, and the ratio of the medians is printed too. PyTorch is a tool of this
comparison alone: pip install torch.
"""
import argparse
import json
import statistics
import subprocess
import tempfile
import time

import torch

BATCH, HEADS, TIME, HEAD_SIZE = 8, 4, 400, 64


def time_torch(layout, seconds):
    """Forward and backward times in ms for about that long. Layout: how q, k and v lie in memory."""
    steps = {"heads first": (BATCH, HEADS, TIME, HEAD_SIZE), "time first": (BATCH, TIME, HEADS, HEAD_SIZE)}[layout]
    tensors = [torch.randn(steps, requires_grad=True) for _ in range(3)]
    gradient = torch.randn(steps)

    def view(x):
        return x if layout == "heads first" else x.transpose(1, 2)

    forward, back = [], []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(forward) < 5:
        start = time.perf_counter()
        y = torch.nn.functional.scaled_dot_product_attention(*map(view, tensors), is_causal=True)
        middle = time.perf_counter()
        torch.autograd.grad(y, tensors, view(gradient))
        forward.append(1e3 * (middle - start))
        back.append(1e3 * (time.perf_counter() - middle))
    return forward[1:], back[1:]


def time_ours(program, device):
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run([program, "perf", "-o", "attention_and_back", "-d", device, "--json", file.name], check=True,
                       stdout=subprocess.DEVNULL)
        return [row["ms"] for row in json.load(open(file.name))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--test-ops", metavar="PROGRAM")
    parser.add_argument("--device", default="cl:0.0", help="of --test-ops")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    times = {layout: ([], [], []) for layout in ("heads first", "time first")}
    ours = []
    for _ in range(options.rounds):
        for layout, (forward, back, both) in times.items():
            f, b = time_torch(layout, 0.4)
            forward.extend(f)
            back.extend(b)
            both.extend(x + y for x, y in zip(f, b))
        if options.test_ops:
            ours.extend(time_ours(options.test_ops, options.device))
    report = {"shape": f"batch {BATCH}, {HEADS} heads of {HEAD_SIZE}, {TIME} steps, causal", "torch": torch.__version__,
              "threads": options.threads}
    for layout, (forward, back, both) in times.items():
        report[layout] = {"forward_ms": statistics.median(forward), "back_ms": statistics.median(back),
                          "both_ms": statistics.median(both)}
    if ours:
        report["ours_both_ms"] = statistics.median(ours)
        report["ratio"] = report["ours_both_ms"] / min(report[layout]["both_ms"] for layout in times)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
