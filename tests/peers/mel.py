#!/usr/bin/env python3
"""Times PyTorch's stft and filterbank product beside `tandem bench mel` on the same cores, turn by turn, as JSON.

    mel.py --tandem PROGRAM [--device SEL] [--threads N] [--turns N]

A batch of 32 six-second clips, 22050 Hz, n_fft 1024, hop 256, 80 bands, ln(max(x, 1e-5)). PyTorch is a tool of this
comparison alone: pip install torch.
"""
import argparse
import json
import statistics
import subprocess
import time

import torch

CLIPS, SECONDS, RATE, N_FFT, HOP, BANDS = 32, 6, 22050, 1024, 256, 80


def time_torch(rounds):
    """Seconds of each round."""
    x = torch.rand(CLIPS, SECONDS * RATE) - 0.5
    window = torch.hann_window(N_FFT)
    bank = torch.rand(BANDS, N_FFT // 2 + 1)
    seconds = []
    for _ in range(rounds + 2):
        start = time.perf_counter()
        size = torch.stft(x, N_FFT, HOP, window=window, center=True, pad_mode="reflect", return_complex=True).abs()
        torch.log(torch.clamp(bank @ size, min=1e-5))
        seconds.append(time.perf_counter() - start)
    return seconds[2:]


def time_ours(program, device, rounds):
    out = subprocess.run([program, "bench", "mel", "--device", device, "--clips", str(CLIPS), "--seconds", str(SECONDS),
                          "--rounds", str(rounds), "--json"], check=True, stdout=subprocess.PIPE).stdout
    return json.loads(out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tandem", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    theirs, ours, errors = [], [], []
    for _ in range(args.turns):
        theirs.append(CLIPS * SECONDS / statistics.median(time_torch(5)))
        result = time_ours(args.tandem, args.device, 15)
        ours.append(result["realtime_factor"])
        errors.append(result["max_abs_err"])
    ratios = [a / b for a, b in zip(ours, theirs)]
    print(json.dumps({"torch": torch.__version__, "threads": args.threads, "realtime_torch": statistics.median(theirs),
                      "realtime_tandem": statistics.median(ours), "ratio": statistics.median(ratios),
                      "ratios": [round(r, 2) for r in ratios], "max_abs_err": max(errors)}, indent=2))


if __name__ == "__main__":
    main()
