#!/usr/bin/env python3
"""A training step of the vocoder family beside PyTorch eager, in turns, so that whatever else the computer does falls on both.

    vocoder.py --tandem PROGRAM [--size small] [--batch-size 16] [--frames 32] [--rounds 5] [--steps 10]

Both do all of docs/vocoder.md: pulses and noise, their spectra, the net, the inverse transform, spectra of three lengths of
made and recorded sound, the net that tells pitch, gradients, clipping and AdamW. Values are random; what they are compared
with is tests/oracle/make_vocoder_golden.py. Needs PyTorch. Exit 1 where the bar is missed.
"""
import argparse
import json
import math
import statistics
import subprocess
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

BAR = 0.6
SIZES = {"nano": (128, 256, 3, 64), "small": (192, 384, 4, 128)}
N_FFT, HOP, RATE, BANDS, MARGIN, KERNEL = 1024, 256, 22050, 80, 2, 7
WINDOWS = {n: torch.hann_window(n) for n in (512, 1024, 2048)}


def stft(x, n_fft, hop):
    return torch.fft.rfft(x.unfold(1, n_fft, hop) * WINDOWS[n_fft])


def size_of(s):
    return torch.sqrt(s.real ** 2 + s.imag ** 2 + 1e-7)


class Block(nn.Module):
    def __init__(self, width, inside, blocks):
        super().__init__()
        self.depthwise = nn.Conv1d(width, width, KERNEL, padding=KERNEL // 2, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.inside, self.out = nn.Linear(width, inside), nn.Linear(inside, width)
        self.scale = nn.Parameter(torch.full((width,), 1.0 / blocks))

    def forward(self, x):
        y = self.norm(self.depthwise(x.transpose(1, 2)).transpose(1, 2))
        return x + self.scale * self.out(F.gelu(self.inside(y)))


class Vocoder(nn.Module):
    def __init__(self, width, inside, blocks, pitch_width):
        super().__init__()
        self.input = nn.Conv1d(BANDS + 2, width, KERNEL, padding=KERNEL // 2)
        self.pulses = nn.Linear(N_FFT // 2 + 1, width)
        self.input_norm, self.norm = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.blocks = nn.Sequential(*(Block(width, inside, blocks) for _ in range(blocks)))
        self.head = nn.Linear(width, N_FFT + 2)
        self.tell = nn.ModuleList([nn.Conv1d(BANDS, pitch_width, 5, padding=2), nn.Conv1d(pitch_width, pitch_width, 5, padding=2)])
        self.tell_norms = nn.ModuleList(nn.LayerNorm(pitch_width, eps=1e-6) for _ in range(2))
        self.told = nn.Linear(pitch_width, 2)
        self.register_buffer("inverse", torch.rand(BANDS, N_FFT // 2 + 1))
        self.register_buffer("bands", torch.rand(N_FFT // 2 + 1, BANDS))

    @staticmethod
    @torch.no_grad()
    def excite(pitch):
        """Band-limited pulses [B, (F - 1) hop]."""
        samples = (pitch.shape[1] - 1) * HOP
        hz = F.interpolate(pitch[:, None], samples, mode="linear", align_corners=True)[:, 0]
        turns = torch.cumsum(hz / RATE, 1)
        k = torch.floor(RATE / 2 / hz.clamp(min=50))
        low = torch.sin(math.pi * (turns % 1))
        return torch.where(low.abs() < 1e-4, k, torch.sin(2 * math.pi * ((k + 0.5) * turns % 1)) / (2 * low) - 0.5)

    def generate(self, mel, pitch):
        with torch.no_grad():
            pulses = self.excite(pitch)
            p, n = stft(pulses, N_FFT, HOP), stft(torch.randn_like(pulses), N_FFT, HOP)
            e = p + 0.1 * n
            unit = e / (e.abs() + 1e-5)
            mel, pitch = mel[:, MARGIN:-MARGIN], pitch[:, MARGIN:-MARGIN]
            voiced = pitch.clamp(0, 1)
            seen = torch.cat([mel, ((pitch.clamp(min=50).log() - 5) * voiced)[..., None], voiced[..., None]], -1)
            loud = torch.log(p.abs() + 0.01)
            prior = torch.log((torch.exp(mel) @ self.inverse).clamp(min=1e-5))
        x = self.input_norm(self.input(seen.transpose(1, 2)).transpose(1, 2) + self.pulses(loud))
        m, turn = self.head(self.norm(self.blocks(x))).chunk(2, -1)
        spectrum = torch.polar(torch.exp((prior + m).clamp(-30, 4.6)), turn) * unit
        frames = torch.fft.irfft(spectrum, n=N_FFT) * WINDOWS[N_FFT]
        total = (frames.shape[1] - 1) * HOP + N_FFT
        return F.fold(frames.transpose(1, 2), (1, total), (1, N_FFT), stride=(1, HOP))[:, 0, 0] / 1.5

    def loss(self, batch):
        edge = N_FFT - HOP
        made, wave = self.generate(batch["mel"], batch["pitch"])[:, edge:-edge], batch["wave"][:, edge:-edge]
        total = 0
        for n_fft in (512, 1024, 2048):
            a = size_of(stft(made, n_fft, n_fft // 4))
            with torch.no_grad():
                b = size_of(stft(wave, n_fft, n_fft // 4))
            total = total + ((a - b).flatten(1).norm(dim=1) / (b.flatten(1).norm(dim=1) + 0.01)).mean()
            total = total + (torch.log(a + 1e-3) - torch.log(b + 1e-3)).abs().mean()
        logs = torch.log((size_of(stft(made, N_FFT, HOP)) @ self.bands).clamp(min=1e-5))
        first = edge // HOP + MARGIN
        total = total / 3 + (logs - batch["mel"][:, first:first + logs.shape[1]]).abs().mean()
        x = batch["mel"]
        for conv, norm in zip(self.tell, self.tell_norms):
            x = norm(F.gelu(conv(x.transpose(1, 2)).transpose(1, 2)))
        told, voiced = self.told(x), batch["pitch"].clamp(0, 1)
        away = (told[..., 0] - (batch["pitch"].clamp(min=50).log() - 5)) * voiced
        return total + 0.1 * (F.softplus(told[..., 1]) - told[..., 1] * voiced + 10 * away ** 2).mean()


def run_torch(model, batch, optimizer, steps):
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        model.loss(batch).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def run_tandem(args):
    command = [args.tandem, "bench", "step", "--family", "vocoder", "--model-size", args.size, "--device", args.device,
               "--batch-size", str(args.batch_size), "--mel-frames", str(args.frames + 2 * MARGIN), "--steps", str(args.steps),
               "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)["ms_per_step"]["median"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tandem", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--frames", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()
    frames = args.frames + 2 * MARGIN
    model = Vocoder(*SIZES[args.size])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.8, 0.99), weight_decay=0.01)
    batch = dict(mel=torch.rand(args.batch_size, frames, BANDS), pitch=100 + 200 * torch.rand(args.batch_size, frames),
                 wave=0.1 * torch.randn(args.batch_size, (frames - 1) * HOP))
    run_torch(model, batch, optimizer, 3)
    ratios = []
    for i in range(args.rounds):
        theirs, ours = run_torch(model, batch, optimizer, args.steps), run_tandem(args)
        ratios.append(ours / theirs)
        print(f"round {i}: PyTorch {theirs:.1f} ms, Tandem {ours:.1f} ms, ratio {ours / theirs:.3f}", flush=True)
    ratio = statistics.median(ratios)
    print(f"median ratio {ratio:.3f}, bar {BAR}: {'ok' if ratio <= BAR else 'MISSED'} ({torch.get_num_threads()} threads of PyTorch)")
    return ratio > BAR


if __name__ == "__main__":
    sys.exit(main())
