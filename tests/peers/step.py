#!/usr/bin/env python3
"""A training step of `tandem bench step --sketch` beside PyTorch eager, and its loss, gradients and updates.

    step.py --tandem PROGRAM speed  [--sketch 128x2/192x3] [--batch-size 8] [--text-length 100] [--mel-frames 400]
    step.py --tandem PROGRAM parity [the same]

speed: both in turns, so that whatever else the computer does falls on both; then the memory of Tandem's plan,
without and with checkpointing, beside the growth of PyTorch's peak resident memory over its first steps.
parity: the same weights and batch (ragged lengths) in PyTorch in double and in fp32. Loss and gradients of ours
within 1e-5 relative L2 of double, parameters after ten AdamW steps within 1e-4; where fp32 itself does not allow
that, at least as near as PyTorch's own fp32. Left out are biases of keys: softmax does not depend on them, their
gradient is rounding alone, and AdamW makes steps of full length of it.

Needs PyTorch, which nothing else in Tandem does. Exit 1 where a bar is missed.
"""
import argparse
import ctypes
import gc
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F

BARS = {"128x2/192x3": 0.7, "192x3/256x4": 0.8, "256x4/512x6": 0.9}
MEMORY_BAR, CHECKPOINT_BAR, HOST_BAR = 0.7, 0.35, 0.02
BANDS, SYMBOLS, HEAD = 80, 256, 64


class Sketch:
    """The same model; parameters by Tandem's names, weights [in, out]."""

    def __init__(self, size, params, dtype):
        (self.text, self.text_layers), (self.dec, self.dec_layers) = size
        self.p = {k: torch.tensor(v, dtype=dtype).requires_grad_() for k, v in params.items()}

    def linear(self, name, x):
        return torch.addmm(self.p[name + ".bias"], x.reshape(-1, x.shape[-1]), self.p[name + ".weight"]).view(
            *x.shape[:-1], -1)

    def norm(self, name, x):
        return F.layer_norm(x, x.shape[-1:], self.p[name + ".gamma"], self.p[name + ".beta"], 1e-5)

    @staticmethod
    def attend(q, k, v, mask, causal):
        heads = lambda z: z.view(z.shape[0], z.shape[1], -1, HEAD).transpose(1, 2)
        o = F.scaled_dot_product_attention(heads(q), heads(k), heads(v), attn_mask=mask,
                                           is_causal=causal and mask is None)
        return o.transpose(1, 2).reshape(q.shape)

    def self_attention(self, name, h, mask, causal):
        q, k, v = self.linear(name + ".qkv", self.norm(name + ".norm", h)).chunk(3, -1)
        return h + self.linear(name + ".out", self.attend(q, k, v, mask, causal))

    def cross_attention(self, name, h, text, mask):
        q = self.linear(name + ".q", self.norm(name + ".norm", h))
        k, v = self.linear(name + ".kv", text).chunk(2, -1)
        return h + self.linear(name + ".out", self.attend(q, k, v, mask, False))

    def feed_forward(self, name, h):
        inner = self.linear(name + ".in", self.norm(name + ".norm", h))
        return h + self.linear(name + ".out", F.gelu(inner, approximate="tanh"))

    def loss(self, batch):
        e = F.embedding(batch["token_ids"], self.p["text.embedding"]) + self.p["text.positions"]
        for i in range(self.text_layers):
            e = self.self_attention(f"text.layers.{i}.self", e, batch["text_mask"], False)
            e = self.feed_forward(f"text.layers.{i}.ff", e)
        e = self.norm("text.norm", e)
        h = self.linear("decoder.in", batch["previous"]) + self.p["decoder.positions"]
        for i in range(self.dec_layers):
            h = self.self_attention(f"decoder.layers.{i}.self", h, batch["frame_mask"], True)
            h = self.cross_attention(f"decoder.layers.{i}.cross", h, e, batch["text_mask"])
            h = self.feed_forward(f"decoder.layers.{i}.ff", h)
        h = self.norm("decoder.norm", h)
        valid, n = batch["valid"], batch["valid"].sum()
        mel = ((self.linear("mel", h) - batch["mel"]).abs() * valid).sum() / (n * BANDS)
        stop = F.binary_cross_entropy_with_logits(self.linear("stop", h), batch["stop"], reduction="none")
        return mel + (stop * valid).sum() / n

    def optimizer(self):
        decay = [v for k, v in self.p.items() if k.endswith(".weight")]
        rest = [v for k, v in self.p.items() if not k.endswith(".weight")]
        groups = [{"params": decay, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.98), eps=1e-8)


def step(model, batch, optimizer):
    optimizer.zero_grad()
    loss = model.loss(batch)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.p.values(), 1.0)
    optimizer.step()
    return loss


def to_batch(raw, dtype):
    """Masks only where lengths differ, so that PyTorch may take its fastest way where they do not."""
    batch = {k: torch.tensor(raw[k], dtype=dtype) for k in ("previous", "mel", "stop")}
    batch["token_ids"] = torch.tensor(raw["token_ids"].astype(np.int64))
    tokens, frames = raw["token_ids"].shape[1], raw["mel"].shape[1]
    text = torch.arange(tokens)[None] < torch.tensor(raw["token_counts"].astype(np.int64))[:, None]
    valid = torch.arange(frames)[None] < torch.tensor(raw["frame_counts"].astype(np.int64))[:, None]
    batch["valid"] = valid[..., None].to(dtype)
    batch["text_mask"] = None if text.all() else text[:, None, None, :]
    causal = torch.tril(torch.ones(frames, frames, dtype=torch.bool))
    batch["frame_mask"] = None if valid.all() else valid[:, None, None, :] & causal
    return batch


def read_safetensors(path):
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header, data = json.loads(f.read(n)), f.read()
    types = {"F32": np.float32, "U32": np.uint32}
    out = {}
    for name, t in header.items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            out[name] = np.frombuffer(data[a:b], types[t["dtype"]]).reshape(t["shape"])
    return out


def part(tensors, group):
    return {k[len(group) + 1:]: v for k, v in tensors.items() if k.startswith(group + ".")}


def tandem(args, *more):
    command = [args.tandem, "bench", "step", "--device", args.device, "--sketch", args.sketch, "--batch-size",
               str(args.batch_size), "--text-length", str(args.text_length), "--mel-frames", str(args.mel_frames),
               "--json", *more]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def dump(args, *more):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "step.safetensors")
        result = tandem(args, "--steps", "1", "--dump", path, *more)
        return result, read_safetensors(path)


def size_of(args):
    return [tuple(map(int, p.split("x"))) for p in args.sketch.split("/")]


def relative(a, b):
    return float(np.linalg.norm(a.astype(np.float64) - b) / (np.linalg.norm(b) + 1e-30))


def memory_line(name):
    with open("/proc/self/status") as f:
        return next(1024 * int(line.split()[1]) for line in f if line.startswith(name + ":"))


def growth_of_peak(run):
    """How far resident memory goes, while `run` runs, over what it is before; what was freed earlier is given back
    first, so that it cannot be used again uncounted."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")  # the peak starts anew
    before = memory_line("VmRSS")
    result = run()
    return result, memory_line("VmHWM") - before


def judge(name, value, bar):
    print(f"  {name:44} {value:8.4g}  bar {bar:g}  {'ok' if value <= bar else 'MISSED'}")
    return value <= bar


def measure_speed(args):
    def train(params):
        model = Sketch(size_of(args), params, torch.float32)
        optimizer = model.optimizer()
        for _ in range(3):
            step(model, batch, optimizer)
        return model, optimizer

    _, tensors = dump(args)
    batch = to_batch(part(tensors, "batch"), torch.float32)
    params = part(tensors, "param")
    del tensors
    (model, optimizer), growth = growth_of_peak(lambda: train(params))
    ratios, cpu_ratios, ours = [], [], None
    for _ in range(args.rounds):
        times, cpu = [], time.process_time()
        for _ in range(args.steps):
            start = time.perf_counter()
            step(model, batch, optimizer)
            times.append(1e3 * (time.perf_counter() - start))
        cpu = 1e3 * (time.process_time() - cpu) / args.steps
        ours = tandem(args, "--steps", str(args.steps))
        cpu_ratios.append(ours["cpu_ms_per_step"] / cpu)
        theirs, mine = statistics.median(times), ours["ms_per_step"]["median"]
        ratios.append(mine / theirs)
        print(f"  PyTorch {theirs:7.1f} ms {ours['flops_per_step'] * 1e-6 / theirs:6.1f} GF   "
              f"Tandem {mine:7.1f} ms {ours['gflops']:6.1f} GF   ratio {ratios[-1]:.3f}, of CPU time {cpu_ratios[-1]:.3f}",
              flush=True)
    checkpointed = tandem(args, "--steps", "1", "--checkpointing")
    print(f"  {ours['parameters'] * 1e-6:.2f} M parameters, {ours['launches']} launches, planned in "
          f"{ours['plan_ms']:.1f} ms; PyTorch's memory grew by {growth / 2**20:.0f} MiB")
    return [judge("time, median of ratios", statistics.median(ratios), BARS.get(args.sketch, 1)),
            judge("memory", ours["peak_device_bytes"] / growth, MEMORY_BAR),
            judge("memory with checkpointing", checkpointed["peak_device_bytes"] / growth, CHECKPOINT_BAR),
            judge("host share", ours["host_share"], HOST_BAR)]


def without_key_biases(tensors):
    out = dict(tensors)
    for k, v in tensors.items():
        if k.endswith(".qkv.bias"):
            out[k] = np.concatenate([v[:len(v) // 3], v[2 * len(v) // 3:]])
        elif k.endswith(".kv.bias"):
            out[k] = v[len(v) // 2:]
    return out


def compare(prefix, ours, theirs, bar):
    """How many tensors are farther from double than the bar and than PyTorch's own fp32."""
    ours = without_key_biases(ours)
    truth, fp32 = without_key_biases(theirs[torch.float64]), without_key_biases(theirs[torch.float32])
    mine = {k: relative(v, truth[k]) for k, v in ours.items()}
    peer = {k: relative(fp32[k], truth[k]) for k in ours}
    for k in sorted(mine, key=mine.get, reverse=True)[:5]:
        print(f"  {prefix}{k:36} from double {mine[k]:.1e}, PyTorch fp32 {peer[k]:.1e}; "
              f"from each other {relative(ours[k], fp32[k]):.1e}")
    print(f"  {len(mine)} tensors; within {bar:g} of double: ours {sum(v <= bar for v in mine.values())}, "
          f"PyTorch's {sum(v <= bar for v in peer.values())}; median {statistics.median(mine.values()):.1e}, "
          f"{statistics.median(peer.values()):.1e}")
    return sum(mine[k] > max(bar, peer[k]) for k in mine)


def measure_parity(args):
    _, tensors = dump(args, "--ragged")
    gradients, losses, updated = {}, {}, {}
    for dtype in (torch.float64, torch.float32):
        model = Sketch(size_of(args), part(tensors, "param"), dtype)
        batch = to_batch(part(tensors, "batch"), dtype)
        loss = model.loss(batch)
        loss.backward()
        losses[dtype] = loss.item()
        gradients[dtype] = {k: v.grad.numpy().astype(np.float64) for k, v in model.p.items()}
        optimizer = model.optimizer()
        for _ in range(10):
            step(model, batch, optimizer)
        updated[dtype] = {k: v.detach().numpy().astype(np.float64) for k, v in model.p.items()}
    loss = abs(float(tensors["loss.total"][0]) / losses[torch.float64] - 1)
    return [judge("loss", loss, 1e-5),
            judge("gradients that are off", compare("d ", part(tensors, "grad"), gradients, 1e-5), 0),
            judge("parameters off after ten updates", compare("", part(tensors, "updated"), updated, 1e-4), 0)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "parity"])
    parser.add_argument("--tandem", required=True)
    parser.add_argument("--device", default="cl:portable-computing-language.0")
    parser.add_argument("--sketch", default="128x2/192x3")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--text-length", type=int, default=100)
    parser.add_argument("--mel-frames", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    print(f"sketch {args.sketch}, {args.batch_size} items of {args.text_length} tokens and {args.mel_frames} frames; "
          f"PyTorch {torch.__version__} on {torch.get_num_threads()} threads")
    passed = measure_speed(args) if args.what == "speed" else measure_parity(args)
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
