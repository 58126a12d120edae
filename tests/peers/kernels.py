#!/usr/bin/env python3
"""Times ops of Tandem beside PyTorch's on the CPU, turn by turn, and prints medians and their ratio as JSON.

    kernels.py PROGRAM [--device DEVICE] [--threads N] [--rounds N] [--only PART]

PROGRAM is `tandem`, whose `bench kernels` does our half; DEVICE must compute on the same cores, with as many threads.
Both sides work on the same tensors again and again, which caches hold as far as they can.
Each op is measured in turns of some tenths of a second, so that a noisy computer disturbs both alike; `ratio` is that of
the medians, `ratio_of_least` that of the fastest runs, which says more where others compute too. Where PyTorch may choose
how tensors lie in memory, its fastest way counts. A ratio below 1 means that we take less time. PyTorch is a tool of this
comparison alone: pip install torch.
"""
import argparse
import json
import os
import statistics
import subprocess
import time

import torch
from torch.nn import functional

ITEMS, FRAMES, CHANNELS, HIDDEN, CONV_CHANNELS, HEADS, HEAD_SIZE = 8, 400, 384, 1536, 192, 4, 64
ROWS, PARAMETERS = ITEMS * FRAMES, 4_000_000


def leaf(*shape):
    return torch.randn(*shape).requires_grad_()


def both_ways(forward, leaves, gradient):
    """A pass forward and one back; autograd remembers in between what ours leaves in buffers."""
    return lambda: torch.autograd.grad(forward(), leaves, gradient)


def layer_norm():
    x, gamma, beta = leaf(ROWS, CHANNELS), leaf(CHANNELS), leaf(CHANNELS)
    return both_ways(lambda: functional.layer_norm(x, (CHANNELS,), gamma, beta), (x, gamma, beta),
                     torch.randn(ROWS, CHANNELS))


def layer_norm_forward():
    x, gamma, beta = torch.randn(ROWS, CHANNELS), torch.randn(CHANNELS), torch.randn(CHANNELS)
    return lambda: functional.layer_norm(x, (CHANNELS,), gamma, beta)


def bias_gelu():
    x, bias = torch.randn(ROWS, HIDDEN), torch.randn(HIDDEN)
    return lambda: functional.gelu(x + bias, approximate="tanh")


def gelu_back():
    """As autograd does it: from x + bias, which its forward pass kept; ours adds the bias again."""
    x, dy = torch.randn(ROWS, HIDDEN), torch.randn(ROWS, HIDDEN)
    return lambda: torch.ops.aten.gelu_backward(dy, x, approximate="tanh")


def residual_add():
    x, y = torch.randn(ROWS, CHANNELS), torch.randn(ROWS, CHANNELS)
    return lambda: x + y


def adamw(fused):
    w = torch.randn(PARAMETERS).requires_grad_()
    w.grad = torch.randn(PARAMETERS)
    return torch.optim.AdamW([w], lr=1e-4, betas=(0.9, 0.99), weight_decay=0.01, fused=fused, foreach=not fused).step


def convolution(channels_last, with_back):
    x, gradient = torch.randn(ITEMS, CONV_CHANNELS, FRAMES), torch.randn(ITEMS, CONV_CHANNELS, FRAMES)
    kernel, padding, convolve = (3,), 1, functional.conv1d
    if channels_last:  # PyTorch knows this layout of images only, so a line is one
        x, gradient = (t.unsqueeze(2).contiguous(memory_format=torch.channels_last) for t in (x, gradient))
        kernel, padding, convolve = (1, 3), (0, 1), functional.conv2d
    w, bias = torch.randn(CONV_CHANNELS, CONV_CHANNELS, *kernel), torch.randn(CONV_CHANNELS)
    leaves = [t.requires_grad_(with_back) for t in (x, w, bias)]

    def forward():
        return convolve(x, w, bias, padding=padding)
    return both_ways(forward, leaves, gradient) if with_back else forward


def attention(time_first, with_back):
    shape = (ITEMS, FRAMES, HEADS, HEAD_SIZE) if time_first else (ITEMS, HEADS, FRAMES, HEAD_SIZE)
    tensors = [torch.randn(shape).requires_grad_(with_back) for _ in range(3)]

    def view(x):
        return x.transpose(1, 2) if time_first else x

    def forward():
        return functional.scaled_dot_product_attention(*map(view, tensors), is_causal=True)
    return both_ways(forward, tensors, view(torch.randn(shape))) if with_back else forward


# name, greatest ratio that is good, PyTorch's ways, ours: pattern of `--ops`
COMPARISONS = [
    ("layer norm", 1.0, {"": layer_norm_forward}, "layer_norm"),
    ("layer norm, forward and back", 1.0, {"": layer_norm}, "layer_norm*"),
    ("bias and gelu", 1.0, {"": bias_gelu}, "bias_gelu"),
    ("gelu, back", 1.0, {"": gelu_back}, "bias_gelu_back"),
    ("residual add", 1.0, {"": residual_add}, "add"),
    ("adamw", 1.0, {"fused": lambda: adamw(True), "for each": lambda: adamw(False)}, "adamw"),
    ("conv1d", 1.0, {"channels first": lambda: convolution(False, False),
                     "channels last": lambda: convolution(True, False)}, "conv1d"),
    ("conv1d, forward and back", 1.0, {"channels first": lambda: convolution(False, True),
                                       "channels last": lambda: convolution(True, True)}, "conv1d*"),
    ("attention", 1.0, {"heads first": lambda: attention(False, False),
                        "time first": lambda: attention(True, False)}, "attention"),
    ("attention, forward and back", 0.8, {"heads first": lambda: attention(False, True),
                                          "time first": lambda: attention(True, True)}, "attention*"),
]


def time_torch(run, seconds=0.2):
    """Times of runs in ms, of as many as fit into that long."""
    run()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    return times


def time_ours(program, device, threads, pattern):
    """The rows of the ops that the pattern names."""
    command = [program, "bench", "kernels", "--device", device, "--ops", pattern, "--rounds", "15", "--cached", "--json"]
    environment = {**os.environ, "POCL_MAX_PTHREAD_COUNT": str(threads)}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    return json.loads(done.stdout)["results"]


def compare(options, name, good, ways, pattern):
    runs = {way: make() for way, make in ways.items()}
    medians, least = {way: [] for way in ways}, {way: [] for way in ways}
    ours, our_least = [], []
    for _ in range(options.rounds):
        for way, run in runs.items():
            times = time_torch(run)
            medians[way].append(statistics.median(times))
            least[way].append(min(times))
        rows = time_ours(options.program, options.device, options.threads, pattern)
        ours.append(sum(row["ms"] for row in rows))
        our_least.append(sum(row["least_ms"] for row in rows))
    best = min(ways, key=lambda way: statistics.median(medians[way]))
    ours_ms, torch_ms = statistics.median(ours), statistics.median(medians[best])
    return {"op": name, "shape": rows[0]["shape"], "ours_ms": ours_ms, "torch_ms": torch_ms, "torch_way": best,
            "ratio": ours_ms / torch_ms, "ratio_of_least": min(our_least) / min(min(times) for times in least.values()),
            "bar": good}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", metavar="PROGRAM")
    parser.add_argument("--device", default="cl:0.0")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", metavar="PART", help="of the comparisons' names")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results = [compare(options, *row) for row in COMPARISONS if options.only in row[0]]
    print(json.dumps({"torch": torch.__version__, "threads": options.threads, "rounds": options.rounds,
                      "results": results}, indent=2))


if __name__ == "__main__":
    main()
