#!/usr/bin/env python3
"""The vocoder of XTTS-v2 at full size, `tandem bench vocoder --family xtts`, beside PyTorch eager.

    hifigan.py --tandem PROGRAM [--device SEL] [--seconds 3] [--turns 3] [--rounds 3]

Both take turns, so that whatever else the computer does falls on both. PyTorch has the same layers with weights that
are folded already, which is less work than coqui-tts does: that folds its weight norm at every call. Prints JSON.

Needs PyTorch, which nothing else in Tandem does. Exit 1 where the bar is missed.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

BAR = 0.6  # of PyTorch's time
RATE, HOP, FEATURES, SPEAKER, CHANNELS = 24000, 256, 1024, 512, 512
RATES, TAPS, KERNELS, DILATIONS = (8, 8, 2, 2), (16, 16, 4, 4), (3, 7, 11), (1, 3, 5)


def weight(*shape):
    fan_in = shape[1] * shape[2]
    return (2 * torch.rand(shape) - 1) / fan_in**0.5


class Generator:
    def __init__(self):
        self.pre = (weight(CHANNELS, FEATURES, 7), torch.zeros(CHANNELS))
        self.speaker = [weight(CHANNELS >> s, SPEAKER, 1) for s in range(len(RATES) + 1)]
        self.ups, self.blocks = [], []
        for s, taps in enumerate(TAPS):
            width = CHANNELS >> (s + 1)
            self.ups.append((weight(2 * width, width, taps), torch.zeros(width)))
            self.blocks.append([[(weight(width, width, k), torch.zeros(width)) for _ in range(2 * len(DILATIONS))]
                                for k in KERNELS])
        self.post = weight(1, CHANNELS >> len(RATES), 7)

    @staticmethod
    def refine(x, layers, taps):
        for i, dilation in enumerate(DILATIONS):
            w, b = layers[2 * i]
            y = F.conv1d(F.leaky_relu(x, 0.1), w, b, dilation=dilation, padding=(taps - 1) * dilation // 2)
            w, b = layers[2 * i + 1]
            x = x + F.conv1d(F.leaky_relu(y, 0.1), w, b, padding=(taps - 1) // 2)
        return x

    def __call__(self, frames, speaker):
        x = F.conv1d(frames, *self.pre, padding=3) + F.conv1d(speaker, self.speaker[0])
        for s, rate in enumerate(RATES):
            x = F.conv_transpose1d(F.leaky_relu(x, 0.1), *self.ups[s], stride=rate, padding=(TAPS[s] - rate) // 2)
            x = x + F.conv1d(speaker, self.speaker[s + 1])
            x = sum(self.refine(x, layers, k) for layers, k in zip(self.blocks[s], KERNELS)) / len(KERNELS)
        return torch.tanh(F.conv1d(F.leaky_relu(x, 0.01), self.post, padding=3))


def run_torch(model, frames, rounds):
    x, g = torch.randn(1, FEATURES, frames), torch.randn(1, SPEAKER, 1)
    model(x, g)
    ms = []
    for _ in range(rounds):
        start = time.perf_counter()
        model(x, g)
        ms.append(1e3 * (time.perf_counter() - start))
    return ms


def run_tandem(args):
    command = [args.tandem, "bench", "vocoder", "--family", "xtts", "--seconds", str(args.seconds),
               "--rounds", str(args.rounds), "--json"]
    if args.device:
        command += ["--device", args.device]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", required=True)
    parser.add_argument("--device")
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    model, ours, theirs, ratios = Generator(), [], [], []
    for _ in range(args.turns):
        result = run_tandem(args)
        ms = run_torch(model, result["frames"], args.rounds)
        ours.append(result["ms"]["median"])
        theirs.append(statistics.median(ms))
        ratios.append(ours[-1] / theirs[-1])
    ratio = statistics.median(ratios)
    print(json.dumps({"device": result["device"], "seconds": result["seconds"], "threads": torch.get_num_threads(),
                      "tandem_ms": ours, "torch_ms": theirs, "ratios": ratios, "ratio": ratio, "bar": BAR,
                      "first_audio_ms": result["first_audio_ms"]}))
    return 0 if ratio <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
