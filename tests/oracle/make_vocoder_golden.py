#!/usr/bin/env python3
"""Golden losses and gradients of the vocoder family, by PyTorch in double precision, written from docs/vocoder.md.

    python3 make_vocoder_golden.py OUT_DIR        (needs torch and numpy; the suite reads the files and needs neither)

Writes OUT_DIR/model_CASE.safetensors for each of CASES, as make_model_golden.py does, and state.constant.noise: the noise that
takes the place of what training draws.
"""
import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from make_model_golden import first_values, save_case

CONFIG = dict(family="vocoder", width=8, inside=12, blocks=2, kernel=3, pitch_width=8, pitch_layers=2, n_mels=10, rate=22050,
              n_fft=512, hop=128, win=512, fmin=0, fmax=8000, floor=1e-5, mean=-5.6, scale=3, mel_scale="slaney",
              area_norm=True, power=False, crop=20, loss_spectral=1, loss_mel=1, loss_pitch=0.1)
ADVERSARIAL = dict(discriminators=True, discriminator_width=2, loss_adversarial=0.2, loss_features=0.5)
CASES = {"vocoder": {},
         "vocoder_gan": dict(ADVERSARIAL, learner=0),
         "vocoder_discriminator": dict(ADVERSARIAL, learner=1),
         "vocoder_hifigan": dict(generator="hifigan", width=16)}
RAMP = 0.75  # share of their full weight that discriminators have
N_FFT, HOP, RATE, BANDS = CONFIG["n_fft"], CONFIG["hop"], CONFIG["rate"], CONFIG["n_mels"]
MARGIN = N_FFT // 2 // HOP
FRAMES = CONFIG["crop"] + 2 * MARGIN
PARAMS = {}


def get(name, *shape):
    if name not in PARAMS:
        PARAMS[name] = torch.tensor(first_values(name, shape), dtype=torch.float64, requires_grad=True)
    return PARAMS[name]


def linear(name, x, out):
    return x @ get(name + ".weight", x.shape[-1], out) + get(name + ".bias", out)


def norm(name, x):
    d = x.shape[-1]
    return F.layer_norm(x, (d,), get(name + ".gamma", d), get(name + ".beta", d), 1e-6)


def conv(name, x, taps, out):
    w = get(name + ".weight", taps, x.shape[-1], out)
    return F.conv1d(x.transpose(1, 2), w.permute(2, 1, 0), get(name + ".bias", out), padding=taps // 2).transpose(1, 2)


def depthwise(name, x, taps):
    d = x.shape[-1]
    w = get(name + ".weight", taps, d)
    return F.conv1d(x.transpose(1, 2), w.T[:, None], get(name + ".bias", d), padding=taps // 2, groups=d).transpose(1, 2)


def stft(x, n_fft, hop):
    return torch.fft.rfft(x.unfold(1, n_fft, hop) * torch.hann_window(n_fft))


def istft(s):
    frames = torch.fft.irfft(s, n=N_FFT) * torch.hann_window(N_FFT)
    total = (s.shape[1] - 1) * HOP + N_FFT
    out, power = torch.zeros(s.shape[0], total), torch.zeros(total)
    for t in range(s.shape[1]):
        out = out + F.pad(frames[:, t], (t * HOP, total - N_FFT - t * HOP))
        power[t * HOP:t * HOP + N_FFT] += torch.hann_window(N_FFT) ** 2
    return out / power.clamp(min=1e-3)


def filterbank():
    """[bins, bands]: triangles of area 1 over Hz between points equally far apart on Slaney's scale."""
    def to_hz(m):
        return m * 200 / 3 if m < 15 else 1000 * math.exp((m - 15) * math.log(6.4) / 27)
    top = 15 + math.log(CONFIG["fmax"] / 1000) * 27 / math.log(6.4)
    corners = [to_hz(top * i / (BANDS + 1)) for i in range(BANDS + 2)]
    hz = np.arange(N_FFT // 2 + 1) * RATE / N_FFT
    bank = np.zeros((len(hz), BANDS))
    for m in range(BANDS):
        a, b, c = corners[m:m + 3]
        bank[:, m] = np.maximum(0, np.minimum((hz - a) / (b - a), (c - hz) / (c - b))) * 2 / (c - a)
    return bank


def pulses(pitch):
    """A sum of cosines of all harmonics below half the rate, sample by sample."""
    out = np.zeros((pitch.shape[0], (FRAMES - 1) * HOP))
    for b, track in enumerate(pitch):
        turns = 0.0
        for t in range(FRAMES - 1):
            f0, f1 = float(track[t]), float(track[t + 1])
            low, high = f0 or f1, f1 or f0
            for n in range(HOP if low else 0):
                hz = low + (high - low) * n / HOP
                at = turns + n * (low + hz) / 2 / RATE
                loud = (f0 > 0) + ((f1 > 0) - (f0 > 0)) * n / HOP
                k = np.arange(1, math.floor(RATE / 2 / hz) + 1)
                out[b, t * HOP + n] = loud * np.cos(2 * np.pi * (k * at % 1)).sum()
            turns += HOP * (low + high) / 2 / RATE
    return torch.tensor(out)


def generate(mel, pitch, noise):
    h, n = stft(pulses(pitch.numpy()), N_FFT, HOP), stft(noise, N_FFT, HOP)
    e = h + 0.1 * n
    unit = e / (e.abs() + 1e-5)
    mel, pitch = mel[:, MARGIN:-MARGIN], pitch[:, MARGIN:-MARGIN]
    voiced = pitch.clamp(0, 1)
    seen = torch.cat([mel, ((pitch.clamp(min=50).log() - 5) * voiced)[..., None], voiced[..., None]], -1)
    x = conv("net.input", seen, CONFIG["kernel"], CONFIG["width"])
    x = norm("net.input_norm", x + linear("net.pulses", torch.log(h.abs() + 0.01), CONFIG["width"]))
    for i in range(CONFIG["blocks"]):
        p = f"net.block.{i}"
        y = norm(p + ".norm", depthwise(p + ".depthwise", x, CONFIG["kernel"]))
        y = linear(p + ".out", F.gelu(linear(p + ".inside", y, CONFIG["inside"])), CONFIG["width"])
        x = x + y * get(p + ".scale", CONFIG["width"]) / CONFIG["blocks"]
    m, turn = linear("net.head", norm("net.norm", x), N_FFT + 2).chunk(2, -1)
    bands = torch.exp(mel * CONFIG["scale"] + CONFIG["mean"])
    prior = torch.log((bands @ torch.tensor(np.linalg.pinv(filterbank()))).clamp(min=1e-5))
    size = torch.exp((prior + m).clamp(-30, 4.60517019))
    return istft(size * unit * torch.exp(1j * turn))


def normed(name, *shape):
    """A weight of given lengths over its last axis."""
    v = get(name + ".weight_v", *shape)
    return v * get(name + ".weight_g", shape[-1]) / torch.sqrt((v ** 2).sum((0, 1)))


def hifigan_conv(name, x, taps, dilation, out):
    w = normed(name, taps, x.shape[1], out)
    return F.conv1d(x, w.permute(2, 1, 0), get(name + ".bias", out), padding=(taps - 1) * dilation // 2, dilation=dilation)


def upsample(mel, width):
    """HiFi-GAN's generator; a hop of 128 is made by 8, 8 and 2."""
    x = hifigan_conv("net.conv_pre", mel.transpose(1, 2), 7, 1, width)
    for s, rate in enumerate((8, 8, 2)):
        inside, width = x.shape[1], x.shape[1] // 2
        w = normed(f"net.ups.{s}", 2 * rate, width, inside)
        x = F.conv_transpose1d(F.leaky_relu(x, 0.1), w.permute(2, 1, 0), get(f"net.ups.{s}.bias", width), rate, rate // 2)
        total = 0
        for j, taps in enumerate((3, 7, 11)):
            y = x
            for i, dilation in enumerate((1, 3, 5)):
                p = f"net.resblocks.{3 * s + j}"
                z = hifigan_conv(f"{p}.convs1.{i}", F.leaky_relu(y, 0.1), taps, dilation, width)
                y = y + hifigan_conv(f"{p}.convs2.{i}", F.leaky_relu(z, 0.1), taps, 1, width)
            total = total + y
        x = total / 3
    return torch.tanh(hifigan_conv("net.conv_post", F.leaky_relu(x, 0.01), 7, 1, 1))[:, 0, :(FRAMES - 1) * HOP]


def judge(wave, width):
    """Answers and values of layers of six discriminators."""
    answers, features = [], []

    def convolve(name, x, shape, stride, pads, is_last):
        w, bias = get(name + ".weight", *shape), get(name + ".bias", shape[-1])
        y = (F.conv2d(x, w.permute(3, 2, 1, 0), bias, stride, pads) if len(shape) == 4 else
             F.conv1d(x, w.permute(2, 1, 0), bias, stride, pads))
        if is_last:
            answers.append(y)
        else:
            features.append(F.leaky_relu(y, 0.1))
        return y if is_last else features[-1]

    for k, n_fft in enumerate((512, 1024, 2048)):
        x = ((torch.log(size_of(stft(wave, n_fft, n_fft // 4)) + 1e-3) + 3) / 2)[:, None]
        before = 1
        for i, (rows, columns, row_step, column_step, widths) in enumerate(
                ((3, 9, 1, 2, 1), (3, 5, 2, 2, 2), (3, 5, 2, 2, 4), (3, 3, 1, 2, 4), (3, 3, 1, 1, 0))):
            out = widths * width or 1
            x = convolve(f"discriminator.spectrum.{k}.conv.{i}", x, (columns, rows, before, out), (row_step, column_step),
                         (rows // 2, columns // 2), i == 4)
            before = out
    for k, period in enumerate((2, 3, 5)):
        rows = wave.shape[1] // period
        x = 3 * wave[:, :rows * period].reshape(-1, rows, period).transpose(1, 2).reshape(-1, 1, rows)
        before = 1
        for i in range(5):
            taps, out = (3, 1) if i == 4 else (5, width << i)
            x = convolve(f"discriminator.period.{k}.conv.{i}", x, (taps, before, out), 1 if i == 4 else 3, taps // 2, i == 4)
            before = out
    return answers, features


def hinge(answers, wanted):
    return sum(F.relu(1 - wanted * a).mean() for a in answers) / len(answers)


def tell_pitch(mel):
    x = mel
    for i in range(CONFIG["pitch_layers"]):
        x = norm(f"pitch.norm.{i}", F.gelu(conv(f"pitch.conv.{i}", x, 5, CONFIG["pitch_width"])))
    return linear("pitch.out", x, 2)


def size_of(s):
    return torch.sqrt(s.real ** 2 + s.imag ** 2 + 1e-7)


def norm_of(x):
    return torch.sqrt((x ** 2).sum((1, 2)) + 1e-8)


def discriminator_losses(batch, noise, config):
    edge = N_FFT - HOP
    made = generate(batch["mel"], batch["pitch"], noise)[:, edge:-edge].detach()
    terms = dict(recorded=hinge(judge(batch["wave"][:, edge:-edge], config["discriminator_width"])[0], 1),
                 made=hinge(judge(made, config["discriminator_width"])[0], -1))
    return terms, sum(terms.values())


def generator_losses(batch, noise, config):
    mel, pitch = batch["mel"], batch["pitch"]
    edge = N_FFT - HOP
    whole = upsample(mel, config["width"]) if config.get("generator") == "hifigan" else generate(mel, pitch, noise)
    made, wave = whole[:, edge:-edge], batch["wave"][:, edge:-edge]
    spectral = 0
    for n_fft, hop in ((512, 128), (1024, 256), (2048, 512)):
        a, b = size_of(stft(made, n_fft, hop)), size_of(stft(wave, n_fft, hop))
        spectral += (norm_of(a - b) / (norm_of(b) + 0.01)).mean() / 3
        spectral += (torch.log(a + 1e-3) - torch.log(b + 1e-3)).abs().mean() / 3
    logs = torch.log((size_of(stft(made, N_FFT, HOP)) @ torch.tensor(filterbank())).clamp(min=CONFIG["floor"]))
    first = edge // HOP + MARGIN
    wanted = mel[:, first:first + logs.shape[1]] * CONFIG["scale"] + CONFIG["mean"]
    terms = dict(spectral=spectral, mel=(logs - wanted).abs().mean())
    if config.get("generator") != "hifigan":
        told, voiced = tell_pitch(mel), pitch.clamp(0, 1)
        away = (told[..., 0] - (pitch.clamp(min=50).log() - 5)) * voiced
        doubt = F.softplus(told[..., 1]) - told[..., 1] * voiced
        terms["pitch"] = (doubt + 10 * away ** 2).mean()
    if config.get("discriminators"):
        answers, mine = judge(made, config["discriminator_width"])
        other = judge(wave, config["discriminator_width"])[1]
        terms["adversarial"] = hinge(answers, 1)
        terms["features"] = sum((a - b).abs().mean() / (b.abs().mean() + 1e-3) for a, b in zip(mine, other)) / len(mine)
    weights = {"adversarial": RAMP * config.get("loss_adversarial", 0), "features": RAMP * config.get("loss_features", 0)}
    return terms, sum(weights.get(k, config.get("loss_" + k)) * v for k, v in terms.items())


def write_case(out, case, change, raw, noise):
    PARAMS.clear()
    config = dict(CONFIG, **change)
    batch = {k: torch.tensor(v.astype(np.float64)) for k, v in raw.items()}
    is_discriminator = config.get("learner") == 1
    losses = discriminator_losses if is_discriminator else generator_losses
    terms, total = losses(batch, torch.tensor(noise.astype(np.float64)), config)
    total.backward()
    learnt = {k: p for k, p in PARAMS.items() if k.startswith("discriminator.") == is_discriminator}
    given = dict(raw)
    if config.get("generator") == "hifigan":
        del given["pitch"]
    if config.get("discriminators") and not is_discriminator:
        given["adversarial_ramp"] = np.array([RAMP], np.float32)
    save_case(out / f"model_{case}.safetensors", config, learnt, given, terms, total, {"state.constant.noise": noise})
    print(case, total.item(), {k: round(v.item(), 5) for k, v in terms.items()}, sum(p.numel() for p in learnt.values()),
          "parameters")


def main():
    torch.set_default_dtype(torch.float64)
    rng = np.random.default_rng(7)
    samples = (FRAMES - 1) * HOP
    # pitches whose turns in a hop are exact in float, so that both sides have the same phases
    steps = rng.choice([0, 3, 5, 7], (2, FRAMES))
    raw = dict(mel=rng.uniform(-1, 1, (2, FRAMES, BANDS)).astype(np.float32), pitch=(steps * RATE / 512).astype(np.float32),
               wave=(0.2 * rng.normal(size=(2, samples))).astype(np.float32))
    noise = rng.normal(size=(1, samples)).astype(np.float32)
    for case, change in CASES.items():
        write_case(Path(sys.argv[1]), case, change, raw, noise)


if __name__ == "__main__":
    main()
