#!/usr/bin/env python3
"""A training step of the voice, `tandem bench step --model-size`, beside the PyTorch model of tests/oracle in fp32.

    model.py --tandem PROGRAM [--model-size nano] [--batch-size 8] [--text-length 100] [--mel-frames 400] [--rounds 3]

Forward, losses, backward, clip and AdamW of both in turns, so that whatever else the computer does falls on both.
PyTorch is given what favours it: attention by its own fused function, no dropout, and for nothing the alignment, which
it has no operation for (durations, places and means per token are made before its clock starts).
Needs PyTorch, which nothing else in Tandem does. Exit 1 where a bar is missed.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oracle"))
import make_model_golden as oracle  # noqa: E402

TIME_BAR, HOST_BAR = 0.8, 0.03
REFERENCE_FRAMES = 258
# text, audio and decoder: width, layers, heads
SIZES = {
    "nano": dict(text=(128, 3, 0), audio=(128, 2, 0), decoder=(128, 3, 0), ff_factor=3, audio_channels=32,
                 speaker_width=128, rich=False),
    "tiny": dict(text=(256, 4, 4), audio=(256, 4, 4), decoder=(768, 8, 12), ff_factor=4, audio_channels=64,
                 speaker_width=256, rich=True),
}


class Model(oracle.Model):
    def attention(self, name, x, heads, valid):
        b, t, d = x.shape
        qkv = self.linear(name + ".qkv", self.norm(name + ".norm", x), 3 * d)
        q, k, v = (z.reshape(b, t, heads, d // heads).transpose(1, 2) for z in qkv.split(d, -1))
        o = F.scaled_dot_product_attention(q, k, v)  # all items have the same length
        return x + self.linear(name + ".out", o.transpose(1, 2).reshape(b, t, d), d)

    def linear(self, name, x, out):
        w, b = self.get(name + ".weight", x.shape[-1], out), self.get(name + ".bias", out)
        return torch.addmm(b, x.reshape(-1, x.shape[-1]), w).view(*x.shape[:-1], out)


def config_of(size):
    c = dict(oracle.BASE, decoder_strategy="non_autoregressive", n_symbols=64, n_mels=80, decoder_kernel=3)
    for part in ("text", "audio", "decoder"):
        c |= dict(zip((part + "_width", part + "_layers", part + "_heads"), size[part]))
    return c | dict(ff_factor=size["ff_factor"], audio_channels=size["audio_channels"],
                    speaker_width=size["speaker_width"], speaker_encoder=size["rich"],
                    pitch_predictor=size["rich"], energy_predictor=size["rich"])


def make_batch(c, items, length, frames):
    rng = np.random.default_rng(1)
    floats = lambda *shape: torch.tensor(rng.normal(size=shape).astype(np.float32))
    full = lambda n: torch.full((items,), n)
    return dict(token_ids=torch.tensor(rng.integers(0, c["n_symbols"], (items, length))), token_counts=full(length),
                frame_counts=full(frames), mel=floats(items, frames, c["n_mels"]), pitch=floats(items, frames).abs(),
                energy=floats(items, frames).abs(), reference_mel=floats(items, REFERENCE_FRAMES, c["n_mels"]),
                reference_counts=full(REFERENCE_FRAMES))


def make_alignment_free(items, length, frames):
    """Puts answers in place of what the oracle works out in loops."""
    dur = torch.full((items, length), frames // length)
    place = torch.rand(items, frames, 3)
    means = torch.rand(items, length)
    oracle.durations_of = lambda *_: dur
    oracle.places_of = lambda *_: place
    oracle.token_means = lambda *_: means


def make_step(c, batch):
    model = Model(c)
    oracle.losses_of(model, batch)  # makes the parameters
    weights = [p for k, p in model.p.items() if k.endswith(".weight")]
    others = [p for k, p in model.p.items() if not k.endswith(".weight")]
    optimizer = torch.optim.AdamW([dict(params=weights, weight_decay=0.01), dict(params=others, weight_decay=0)], lr=1e-4)

    def step():
        optimizer.zero_grad(set_to_none=True)
        _, total = oracle.losses_of(model, batch)
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.p.values(), 1.0)
        optimizer.step()

    return step, sum(p.numel() for p in model.p.values())


def tandem(args):
    command = [args.tandem, "bench", "step", "--device", args.device, "--model-size", args.model_size, "--batch-size",
               str(args.batch_size), "--text-length", str(args.text_length), "--mel-frames", str(args.mel_frames),
               "--steps", str(args.steps), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tandem", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model-size", default="nano", choices=SIZES)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--text-length", type=int, default=100)
    parser.add_argument("--mel-frames", type=int, default=400)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    c = config_of(SIZES[args.model_size])
    shape = args.batch_size, args.text_length, args.mel_frames
    make_alignment_free(*shape)
    step, parameters = make_step(c, make_batch(c, *shape))
    step()
    tandem(args)
    print(f"{args.model_size}, {shape[0]} items of {shape[1]} tokens and {shape[2]} frames; PyTorch {torch.__version__} "
          f"on {torch.get_num_threads()} threads, {parameters * 1e-6:.2f} M parameters")
    ratios, ours = [], None
    for _ in range(args.rounds):
        times = []
        for _ in range(args.steps):
            start = time.perf_counter()
            step()
            times.append(1e3 * (time.perf_counter() - start))
        ours = tandem(args)
        theirs, mine = statistics.median(times), ours["ms_per_step"]["median"]
        ratios.append(mine / theirs)
        print(f"  PyTorch {theirs:7.1f} ms   Tandem {mine:7.1f} ms {ours['gflops']:6.1f} GF   ratio {ratios[-1]:.3f}", flush=True)
    print(f"  {ours['parameters'] * 1e-6:.2f} M parameters of ours")
    good = True
    for name, value, bar in (("time, median of ratios", statistics.median(ratios), TIME_BAR),
                             ("host share", ours["host_share"], HOST_BAR)):
        print(f"  {name:30} {value:8.4g}  bar {bar:g}  {'ok' if value <= bar else 'MISSED'}")
        good = good and value <= bar
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
