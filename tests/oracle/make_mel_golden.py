#!/usr/bin/env python3
"""Makes tests/oracle/golden/mel_*.bin: signals and their log-mel spectrograms, computed in double with numpy alone.

    make_mel_golden.py OUT_DIR [--librosa]

The formulas are those librosa documents (periodic Hann, centred frames, reflect padding, Slaney or HTK filterbank), written
out here; --librosa compares with librosa itself (pip install librosa) and prints the largest difference.
A file: "TDMEL1\\n", the settings as key=value lines, an empty line, then little-endian: uint32 samples, frames, bands; int16
samples (a float sample is the integer / 32767); float32 ln(max(mel, floor)) [frames, bands].
"""
import argparse
import struct
from pathlib import Path

import numpy as np

RATE = 22050
DEFAULT = dict(rate=RATE, n_fft=1024, hop_samples=256, win_samples=1024, n_mels=80, fmin_hz=0, fmax_hz=8000,
               mel_scale="slaney", area_norm="true", power="false", floor=1e-5, mean=0, scale=1, pitch_min_hz=60,
               pitch_max_hz=500)


def hz_to_mel(hz, scale):
    hz = np.asarray(hz, float)
    if scale == "htk":
        return 2595 * np.log10(1 + hz / 700)
    return np.where(hz < 1000, hz * 3 / 200, 15 + 27 * np.log(np.maximum(hz, 1e-9) / 1000) / np.log(6.4))


def mel_to_hz(mel, scale):
    if scale == "htk":
        return 700 * (10 ** (mel / 2595) - 1)
    return np.where(mel < 15, mel * 200 / 3, 1000 * 6.4 ** ((mel - 15) / 27))


def filterbank(c):
    ends = hz_to_mel([c["fmin_hz"], c["fmax_hz"]], c["mel_scale"])
    corners = mel_to_hz(np.linspace(ends[0], ends[1], c["n_mels"] + 2), c["mel_scale"])
    hz = np.arange(c["n_fft"] // 2 + 1) * c["rate"] / c["n_fft"]
    up = (hz - corners[:-2, None]) / (corners[1:-1] - corners[:-2])[:, None]
    down = (corners[2:, None] - hz) / (corners[2:] - corners[1:-1])[:, None]
    bank = np.maximum(0, np.minimum(up, down))
    return bank * (2 / (corners[2:] - corners[:-2]))[:, None] if c["area_norm"] == "true" else bank


def log_mel(x, c):
    n_fft, win, hop = c["n_fft"], c["win_samples"], c["hop_samples"]
    window = np.zeros(n_fft)
    first = (n_fft - win) // 2
    window[first:first + win] = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(win) / win)
    padded = np.pad(x, n_fft // 2, mode="reflect")
    frames = 1 + len(x) // hop
    at = np.arange(frames)[:, None] * hop + np.arange(n_fft)
    size = np.abs(np.fft.rfft(padded[at] * window, axis=1))
    if c["power"] == "true":
        size = size ** 2
    return np.log(np.maximum(size @ filterbank(c).T, c["floor"]))


def speech(n, rng):
    """Something with the build of speech: a gliding buzz through moving resonances, fricatives, pauses."""
    t = np.arange(n) / RATE
    phase = np.cumsum(110 + 40 * np.sin(2 * np.pi * 1.3 * t)) / RATE
    buzz = sum(np.sin(2 * np.pi * h * phase) / h for h in range(1, 40))
    hiss = rng.standard_normal(n)
    spectrum = np.fft.rfft(np.where((t * 3 % 1) < 0.7, buzz, 0.3 * hiss))
    hz = np.fft.rfftfreq(n, 1 / RATE)
    shape = sum(1 / (1 + ((hz - f) / 90) ** 2) for f in (600, 1300, 2500, 3600)) + 0.003
    x = np.fft.irfft(spectrum * shape, n) * (0.5 - 0.5 * np.cos(2 * np.pi * np.minimum(t * 2 % 1, 0.9) / 0.9))
    return 0.5 * x / np.abs(x).max()


def signals():
    rng = np.random.default_rng(1)
    t = np.arange(RATE // 3) / RATE
    click = np.zeros(RATE // 4)
    click[[0, 3000, 3001, len(click) - 1]] = [1, -1, 0.5, 0.7]
    yield "speech", speech(RATE, rng), {}
    yield "noise", 0.5 * rng.uniform(-1, 1, RATE // 4), {}
    yield "silence", np.zeros(2000), {}
    yield "clicks", click, {}
    yield "sine_997", np.sin(2 * np.pi * 997 * t), {}
    yield "sine_60", np.sin(2 * np.pi * 60 * t + 0.4), {}
    yield "sine_7321", np.sin(2 * np.pi * 7321.5 * t), {}
    yield "quiet", 1e-3 * rng.uniform(-1, 1, 3000), {}
    yield "one", np.array([0.8]), {}
    yield "short", rng.uniform(-1, 1, 300), {}
    yield "htk_2048", speech(RATE // 2, rng), dict(n_fft=2048, win_samples=1200, hop_samples=300, mel_scale="htk",
                                                   area_norm="false", power="true", n_mels=64, fmin_hz=50, fmax_hz=11025)
    yield "slaney_512", speech(RATE // 2, rng), dict(n_fft=512, win_samples=400, hop_samples=160, n_mels=40)


def librosa_log_mel(x, c):
    import librosa
    size = np.abs(librosa.stft(x, n_fft=c["n_fft"], hop_length=c["hop_samples"], win_length=c["win_samples"],
                               window="hann", center=True, pad_mode="reflect", dtype=np.complex128))
    if c["power"] == "true":
        size = size ** 2
    bank = librosa.filters.mel(sr=c["rate"], n_fft=c["n_fft"], n_mels=c["n_mels"], fmin=c["fmin_hz"], fmax=c["fmax_hz"],
                               htk=c["mel_scale"] == "htk", norm="slaney" if c["area_norm"] == "true" else None,
                               dtype=np.float64)
    return np.log(np.maximum(bank @ size, c["floor"])).T


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--librosa", action="store_true")
    args = parser.parse_args()
    for name, x, changes in signals():
        c = DEFAULT | changes
        pcm = np.round(np.clip(x, -1, 1) * 32767).astype("<i2")
        # What the device gets: the integers over 32767, rounded to float.
        exact = (pcm.astype(np.float32) / np.float32(32767)).astype(float)
        mel = log_mel(exact, c)
        if args.librosa and len(x) > c["n_fft"] // 2:
            print(f"{name}: librosa differs by {np.abs(librosa_log_mel(exact, c) - mel).max():.2e}")
        settings = "".join(f"{key}={value}\n" for key, value in c.items())
        data = b"TDMEL1\n" + settings.encode() + b"\n" + struct.pack("<3I", len(pcm), *mel.shape)
        (args.out / f"mel_{name}.bin").write_bytes(data + pcm.tobytes() + mel.astype("<f4").tobytes())


if __name__ == "__main__":
    main()
