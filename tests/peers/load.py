#!/usr/bin/env python3
"""Times a PyTorch DataLoader beside `tandem bench load` on the same dataset and cores, turn by turn, as JSON.

    load.py --tandem PROGRAM --train-data DIR [--device SEL] [--workers N] [--turns N]

Both go from the wavs of an LJSpeech folder to padded batches of 32 log-mels (22050 Hz, n_fft 1024, hop 256, 80 bands,
ln(max(x, 1e-5))) without pitch: PyTorch with soundfile and torch.stft in its workers, batches of similar length,
persistent workers. Tandem runs without its mel cache for the ratio; `ratio_cached` is with it, from the second epoch
on. PyTorch and soundfile are tools of this comparison alone: pip install torch soundfile.
scripts/make_demo_data.sh makes a dataset.
"""
import argparse
import json
import os
import statistics
import subprocess
import time

import soundfile
import torch

BATCH, RATE, N_FFT, HOP, BANDS = 32, 22050, 1024, 256, 80


class Clips(torch.utils.data.Dataset):
    def __init__(self, folder):
        with open(os.path.join(folder, "metadata.csv"), encoding="utf-8") as file:
            names = [line.split("|")[0] for line in file if "|" in line]
        self.paths = [os.path.join(folder, "wavs", name + ".wav") for name in names]
        self.window = torch.hann_window(N_FFT)
        self.bank = torch.rand(BANDS, N_FFT // 2 + 1)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        samples, rate = soundfile.read(self.paths[index], dtype="float32")
        assert rate == RATE and samples.ndim == 1
        size = torch.stft(torch.from_numpy(samples), N_FFT, HOP, window=self.window, center=True, pad_mode="reflect",
                          return_complex=True).abs()
        return torch.log(torch.clamp(self.bank @ size, min=1e-5)).T


class Buckets(torch.utils.data.Sampler):
    """Batches of neighbours in length, in a new order each epoch."""

    def __init__(self, clips):
        order = sorted(range(len(clips)), key=lambda i: os.path.getsize(clips.paths[i]))
        self.batches = [order[i:i + BATCH] for i in range(0, len(order), BATCH)]

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        for i in torch.randperm(len(self.batches)).tolist():
            yield self.batches[i]


def collate(items):
    return torch.nn.utils.rnn.pad_sequence(items, batch_first=True), torch.tensor([len(item) for item in items])


def start_worker(_):
    torch.set_num_threads(1)


def run_epoch(loader):
    """Samples per second."""
    start, count = time.perf_counter(), 0
    for mels, lengths in loader:
        count += len(lengths)
    return count / (time.perf_counter() - start)


def run_tandem(args):
    command = [args.tandem, "bench", "load", "--train-data", args.train_data, "--workers", str(args.workers), "--device",
               args.device, "--set", f"training.batch_size={BATCH}", "--no-pitch", "--val-fraction", "0", "--mel-cache",
               "ram", "--rounds", "3", "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tandem", required=True)
    parser.add_argument("--train-data", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    args = parser.parse_args()
    clips = Clips(args.train_data)
    loader = torch.utils.data.DataLoader(clips, batch_sampler=Buckets(clips), num_workers=args.workers,
                                         collate_fn=collate, persistent_workers=True, worker_init_fn=start_worker)
    run_epoch(loader)
    theirs, ours, cached = [], [], []
    for _ in range(args.turns):
        theirs.append(statistics.median(run_epoch(loader) for _ in range(3)))
        result = run_tandem(args)
        ours.append(result["samples_per_s"])
        cached.append(result["cached_samples_per_s"])
    ratios = [a / b for a, b in zip(ours, theirs)]
    print(json.dumps({
        "torch": torch.__version__, "workers": args.workers, "samples": len(clips),
        "samples_per_s_torch": statistics.median(theirs), "samples_per_s_tandem": statistics.median(ours),
        "samples_per_s_cached": statistics.median(cached), "ratio": statistics.median(ratios),
        "ratios": [round(r, 2) for r in ratios],
        "ratio_cached": statistics.median(a / b for a, b in zip(cached, theirs))}, indent=2))


if __name__ == "__main__":
    main()
