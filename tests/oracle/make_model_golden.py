#!/usr/bin/env python3
"""Golden losses and gradients of the model, by PyTorch in double precision, written from docs/model.md alone.

    python3 make_model_golden.py OUT_DIR        (needs torch and numpy; the suite reads the files and needs neither)

Writes OUT_DIR/model_CASE.safetensors: the batch (batch.*), every gradient (grad.*), every loss term (loss.*), the gradients'
norm (norm), what a flow decoder makes of the batch's texts (made.*), and for each parameter after one step of torch's AdamW the sum and the sum of squares (updated.*: two doubles).
Parameters before are not stored: both sides compute them from their names (see `first_values`).
Settings are in the file's metadata.
"""
import json
import math
import struct
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

ADAM = dict(lr=1e-3, betas=(0.9, 0.98), eps=1e-4)
DECAY = 0.01
CLIP = 1.0
EPS = 1e-5

BASE = dict(n_symbols=12, n_speakers=0, n_mels=8, text_width=32, text_layers=1, text_heads=0, audio_width=32, audio_layers=1,
            audio_heads=0, audio_channels=4, decoder_width=32, decoder_layers=1, decoder_heads=0, ff_factor=1, kernel=3,
            decoder_kernel=3, speaker_encoder=False, speaker_width=6, pitch_predictor=False, energy_predictor=False,
            reduction=1, prenet_width=5, postnet=False, attention_rate=0.3, max_tokens=16, max_frames=64)
CASES = {
    "nar": dict(BASE, decoder_strategy="non_autoregressive", text_layers=2, text_heads=1),
    "nar_speaker": dict(BASE, decoder_strategy="non_autoregressive", text_width=16, decoder_heads=1, decoder_kernel=1, kernel=5,
                        audio_heads=1, n_speakers=3, speaker_encoder=True, pitch_predictor=True, energy_predictor=True,
                        mel_kind="huber"),
    "nar_flow": dict(BASE, decoder_strategy="non_autoregressive", decoder="flow", decoder_layers=2, text_width=16, frame_pitch=True, pitch_predictor=True,
                     flow_steps=3, flow_temperature=0.75),
    "ar": dict(BASE, decoder_strategy="autoregressive", decoder_heads=1, decoder_layers=2, decoder_kernel=1, reduction=2),
    "ar_speaker": dict(BASE, decoder_strategy="autoregressive", text_width=16, decoder_heads=1, decoder_kernel=1, reduction=3,
                       n_speakers=2, speaker_encoder=True, postnet=True),
}
SEEDS = {"nar": 40, "nar_speaker": 41, "ar": 42, "ar_speaker": 43, "nar_flow": 44}  # of batches
MADE = dict(step=5, seed=9)  # of the noise in synthesis
WEIGHTS = dict(mel=1, coarse=1, prior=1, duration=1, pitch=1, energy=1, contour=1, voicing=0.1, flow=1, stop=0.5, supervision=1, guided=1)
SUPERVISION, GUIDED = 0.3, 2.0
STOP_POSITIVE, BAND, SIGMA, HUBER = 5.0, 10.0, 0.2, 1.0


def first_values(name, shape):
    """Uniform numbers from splitmix64, seeded by the FNV-1a hash of the name."""
    with np.errstate(over="ignore"):
        h = np.uint64(0xcbf29ce484222325)
        for byte in name.encode():
            h = (h ^ np.uint64(byte)) * np.uint64(0x100000001b3)
        x = h + (np.arange(math.prod(shape), dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    v = ((x >> np.uint64(40)).astype(np.float32) * np.float32(2.0 ** -23) - np.float32(1)).reshape(shape)
    kind = name.rsplit(".", 1)[1]
    if kind in ("gamma", "weight_g", "original0"):
        return np.float32(1) + np.float32(0.1) * v
    if kind in ("beta", "bias"):
        return np.float32(0.1) * v
    if kind in ("embedding", "table"):
        return np.float32(0.5) * v
    return np.float32(1 / math.sqrt(math.prod(shape[:-1]))) * v


def philox(counter, key):
    """Philox-4x32-10 of counters [n, 4]: words [n, 4]."""
    c, k = counter.astype(np.uint64), [np.uint64(key & 0xffffffff), np.uint64(key >> 32)]
    low = np.uint64(0xffffffff)
    for _ in range(10):
        a, b = c[:, 0] * np.uint64(0xD2511F53), c[:, 2] * np.uint64(0xCD9E8D57)
        c = np.stack([(b >> np.uint64(32)) ^ c[:, 1] ^ k[0], b & low, (a >> np.uint64(32)) ^ c[:, 3] ^ k[1], a & low], 1)
        k = [(k[0] + np.uint64(0x9E3779B9)) & low, (k[1] + np.uint64(0xBB67AE85)) & low]
    return c


def toss(shape, stream, step=0, seed=0):
    """0 or 2: what dropout of a half makes of ones."""
    i = np.arange(math.prod(shape))
    counter = np.stack([16 * (i // 128) + i % 16, np.full_like(i, step), np.full_like(i, stream), np.zeros_like(i)], 1)
    half = i // 16 % 8
    word = philox(counter, seed)[i, half // 2]
    bits = (word >> (16 * (half % 2)).astype(np.uint64)) & np.uint64(0xffff)
    return torch.tensor(np.where(bits < 32768, 2.0, 0.0).reshape(shape))


class Model:
    def __init__(self, c):
        self.c, self.p = c, {}

    def get(self, name, *shape):
        if name not in self.p:
            self.p[name] = torch.tensor(first_values(name, shape), dtype=torch.get_default_dtype(), requires_grad=True)
        assert self.p[name].shape == shape, name
        return self.p[name]

    def linear(self, name, x, out):
        return x @ self.get(name + ".weight", x.shape[-1], out) + self.get(name + ".bias", out)

    def norm(self, name, x):
        d = x.shape[-1]
        return F.layer_norm(x, (d,), self.get(name + ".gamma", d), self.get(name + ".beta", d), EPS)

    def conv(self, name, x, taps, out):
        w = self.get(name + ".weight", taps, x.shape[-1], out)
        return F.conv1d(x.transpose(1, 2), w.permute(2, 1, 0), self.get(name + ".bias", out), padding=taps // 2).transpose(1, 2)

    def attention(self, name, x, heads, valid):
        """valid [B, T, T]: which keys a query sees."""
        b, t, d = x.shape
        qkv = self.linear(name + ".qkv", self.norm(name + ".norm", x), 3 * d)
        q, k, v = (z.reshape(b, t, heads, d // heads).transpose(1, 2) for z in qkv.split(d, -1))
        s = q @ k.transpose(-1, -2) / math.sqrt(d // heads)
        w = s.masked_fill(~valid[:, None], -torch.inf).softmax(-1)
        return x + self.linear(name + ".out", (w @ v).transpose(1, 2).reshape(b, t, d), d)

    def feed(self, name, x, mask, kernel):
        d = x.shape[-1]
        y = self.norm(name + ".norm", x) * mask
        y = F.relu(self.conv(name + ".conv1", y, kernel, self.c["ff_factor"] * d)) * mask
        return (x + self.conv(name + ".conv2", y, 1, d)) * mask

    def stack(self, name, x, layers, heads, mask, kernel):
        seen = (mask[:, :, 0] > 0)[:, None, :].expand(-1, x.shape[1], -1)
        for i in range(layers):
            if heads:
                x = self.attention(f"{name}.block.{i}.attention", x, heads, seen)
            x = self.feed(f"{name}.block.{i}.ff", x, mask, kernel)
        return self.norm(name + ".norm", x)


def positions(n, width, rate=1.0):
    p = torch.arange(n)[:, None] * rate
    f = torch.exp(-math.log(10000.0) * torch.arange(0, width, 2) / width)
    return torch.stack([torch.sin(p * f), torch.cos(p * f)], -1).flatten(1)


def mask_of(counts, n):
    return (torch.arange(n)[None] < counts[:, None]).to(torch.get_default_dtype())


def search(ll, n_tokens, n_frames):
    """Durations of the best monotonic path through ll [L, T]."""
    q = np.full((n_tokens, n_frames), -np.inf)
    q[0, 0] = ll[0, 0]
    for t in range(1, n_frames):
        for j in range(min(t + 1, n_tokens)):
            q[j, t] = ll[j, t] + max(q[j, t - 1], q[j - 1, t - 1] if j else -np.inf)
    durations, j = np.zeros(ll.shape[0], int), n_tokens - 1
    for t in range(n_frames - 1, -1, -1):
        durations[j] += 1
        if t and j and (j == t or q[j - 1, t - 1] > q[j, t - 1]):
            j -= 1
    return durations


def masked_mean(x, mask):
    return (x * mask).sum() / (mask.expand_as(x)).sum()


def huber(d):
    return torch.where(d.abs() <= HUBER, d * d / 2, HUBER * (d.abs() - HUBER / 2))


def speaker_of(m, batch):
    c, s = m.c, None
    if c["speaker_encoder"]:
        x, mask = batch["reference_mel"], mask_of(batch["reference_counts"], batch["reference_mel"].shape[1])[..., None]
        for i in (1, 2, 3):
            x = m.norm(f"audio.norm{i}", F.relu(m.conv(f"audio.conv{i}", x * mask, 3, c["audio_channels"] << (i - 1))))
        x = m.linear("audio.input", x, c["audio_width"])
        x = m.stack("audio", x, c["audio_layers"], c["audio_heads"], mask, c["kernel"])
        mean = (x * mask).sum(1) / mask.sum(1)
        s = torch.tanh(m.linear("audio.out", mean, c["speaker_width"]))
    if c["n_speakers"]:
        row = m.get("speaker.table", c["n_speakers"], c["speaker_width"])[batch["speakers"]]
        s = row if s is None else s + row
    return s


def predictor(m, name, hidden, mask, n=1):
    d = m.c["text_width"]
    x = hidden.detach()
    x = m.norm(name + ".norm1", F.relu(m.conv(name + ".conv1", x, 3, d))) * mask
    x = m.norm(name + ".norm2", F.relu(m.conv(name + ".conv2", x, 3, d)))
    x = m.linear(name + ".out", x, n)
    return x[..., 0] if n == 1 else x


def durations_of(ll, n_tok, n_fr):
    return torch.tensor(np.stack([search(ll[b].numpy(), int(n_tok[b]), int(n_fr[b])) for b in range(len(ll))]))


def losses_of(m, batch):
    c, terms = m.c, {}
    ids, n_tok, n_fr, y = batch["token_ids"], batch["token_counts"], batch["frame_counts"], batch["mel"]
    (items, length), frames = ids.shape, y.shape[1]
    xm, ym = mask_of(n_tok, length)[..., None], mask_of(n_fr, frames)[..., None]
    kind = huber if c.get("mel_kind") == "huber" else torch.abs
    d = c["text_width"]
    speaker = speaker_of(m, batch)

    h = m.get("text.embedding", c["n_symbols"], d)[ids] + 0.5 * positions(length, d)
    h = m.stack("text", h * xm, c["text_layers"], c["text_heads"], xm, c["kernel"])
    if speaker is not None:
        h = h + m.linear("speaker.text", speaker, d)[:, None]
    h = h * xm
    mu = m.linear("prior", h, c["n_mels"])

    sequential = c["decoder_strategy"] == "autoregressive"
    ll = -0.5 * ((y[:, None] - mu[:, :, None]) ** 2).sum(-1).detach()
    if sequential:
        away = (torch.arange(length)[None, :, None] / n_tok[:, None, None] - torch.arange(frames)[None, None] / n_fr[:, None, None]) ** 2
        ll = ll - BAND * away / (2 * SIGMA ** 2)
    dur = durations_of(ll, n_tok, n_fr)
    index = torch.zeros(items, frames, dtype=torch.long)
    for b in range(items):
        index[b, :n_fr[b]] = torch.repeat_interleave(torch.arange(length), dur[b])
    take = lambda z: torch.gather(z, 1, index[..., None].expand(-1, -1, z.shape[-1]))
    terms["prior"] = masked_mean((take(mu) - y) ** 2, ym)
    m.durations, m.index = dur, index

    if not sequential:
        decode_parallel(m, c, terms, batch, h, xm, ym, dur, index, take, speaker, kind)
    else:
        decode_steps(m, c, terms, batch, h, dur, index, speaker, kind)
    total = sum(WEIGHTS[k] * v * (SUPERVISION if k == "supervision" else GUIDED if k == "guided" else 1) for k, v in terms.items())
    return terms, total


def token_means(values, dur, skip_zeros):
    """The mean of values [B, T] over the frames of each token; 0 where there is none."""
    means = torch.zeros(dur.shape)
    for b in range(len(dur)):
        start = 0
        for j in range(dur.shape[1]):
            part = values[b, start:start + dur[b, j]]
            start += int(dur[b, j])
            if skip_zeros:
                part = part[part > 0]
            means[b, j] = part.mean() if len(part) else 0
    return means


def places_of(dur, index, n_fr):
    """Where in its token a frame lies [B, T, 3]."""
    place = torch.zeros(*index.shape, 3)
    for b in range(len(dur)):
        start = torch.cumsum(dur[b], 0) - dur[b]
        for t in range(int(n_fr[b])):
            j = index[b, t]
            f = (t - start[j] + 0.5) / dur[b, j]
            place[b, t] = torch.stack([f, torch.sin(math.pi * f), dur[b, j].double().log()])
    return place


def decode_parallel(m, c, terms, batch, h, xm, ym, dur, index, take, speaker, kind):
    y = batch["mel"]
    d = c["decoder_width"]
    log_dur = dur.clamp(min=1).to(torch.get_default_dtype()).log()
    terms["duration"] = masked_mean((predictor(m, "duration", h, xm) - log_dur) ** 2, xm[..., 0])
    x = h
    for name, scale in (("pitch", 0.01), ("energy", 20.0)):
        if not c[name + "_predictor"]:
            continue
        target = torch.log(1 + scale * token_means(batch[name], dur, name == "pitch"))
        terms[name] = masked_mean((predictor(m, name, h, xm) - target) ** 2, xm[..., 0])
        if name == "pitch":
            m.token_pitch = target[..., None]
        x = x + m.linear(name + ".embed", target[..., None], h.shape[-1])
    if d != h.shape[-1]:
        x = m.linear("decoder.input", x, d)
    g = take(x) + m.linear("decoder.place", places_of(dur, index, batch["frame_counts"]), d)
    if speaker is not None:
        g = g + m.linear("speaker.decoder", speaker, d)[:, None]
    if c["decoder_heads"]:
        g = g + 0.5 * positions(index.shape[1], d)
    made_g = g
    if c.get("frame_pitch"):
        pitch = batch["pitch"][..., None]
        real = torch.cat([torch.log(1 + pitch / 100), (pitch > 0).double()], -1)
        guess = predictor(m, "contour", g * ym, ym, 2)
        terms["contour"] = masked_mean((guess[..., :1] * real[..., 1:] - real[..., :1]) ** 2, ym)
        terms["voicing"] = masked_mean(F.binary_cross_entropy_with_logits(guess[..., 1:], real[..., 1:], reduction="none"), ym)
        voiced = (guess[..., 1:] > 0).double()
        made_g = g + m.linear("decoder.contour", torch.cat([guess[..., :1] * voiced, voiced], -1), d)
        m.frame_pitch = (100 * (torch.exp(guess[..., :1]) - 1) * voiced).detach() * ym
        g = g + m.linear("decoder.contour", real, d)
    g = m.stack("decoder", g * ym, c["decoder_layers"], c["decoder_heads"], ym, c["decoder_kernel"])
    out = m.linear("decoder.out", g, c["n_mels"])
    terms["mel"] = masked_mean(kind(out - y), ym)
    if c.get("decoder") == "flow":
        learn_flow(m, c, terms, y, ym, out.detach(), g.detach())
        with torch.no_grad():
            g = m.stack("decoder", made_g * ym, c["decoder_layers"], c["decoder_heads"], ym, c["decoder_kernel"])
            m.made = make_flow(m, c, y.shape, ym, m.linear("decoder.out", g, c["n_mels"]), g)


def make_noise(shape, step=0, seed=0):
    weights = 0.85 ** np.arange(12)
    return sum(w * (toss(shape, 1 + k, step, seed) - 1) for k, w in enumerate(weights)) / math.sqrt((weights ** 2).sum())


def velocity(m, c, ym, mean, hidden, x, t):
    d = c["decoder_width"]
    x = m.linear("flow.state", x, d) + m.linear("flow.condition", torch.cat([mean, hidden], -1), d)
    x = x + m.linear("flow.time2", F.gelu(m.linear("flow.time1", t, d), approximate="tanh"), d)
    x = m.stack("flow", x * ym, c["decoder_layers"], c["decoder_heads"], ym, c["decoder_kernel"])
    return m.linear("flow.out", x, c["n_mels"])


def learn_flow(m, c, terms, y, ym, mean, hidden):
    noise = make_noise(y.shape)
    t = sum(toss((len(y), 1, 1), 13 + k) / 2 ** (k + 2) for k in range(8)) + 2.0 ** -9
    way = 4 * (y - mean) - noise
    terms["flow"] = masked_mean((velocity(m, c, ym, mean, hidden, noise + t * way, t) - way) ** 2, ym)


def make_flow(m, c, shape, ym, mean, hidden):
    x = c["flow_temperature"] * make_noise(shape, MADE["step"], MADE["seed"])
    for i in range(c["flow_steps"]):
        t = torch.full((shape[0], 1, 1), i / c["flow_steps"])
        x = x + velocity(m, c, ym, mean, hidden, x, t) / c["flow_steps"]
    return (mean + x / 4) * ym


def decode_steps(m, c, terms, batch, h, dur, index, speaker, kind):
    y, n_fr, n_tok = batch["mel"], batch["frame_counts"], batch["token_counts"]
    items, frames = index.shape
    r, d, bands, length = c["reduction"], c["decoder_width"], c["n_mels"], h.shape[1]
    steps = -(-frames // r)
    y = F.pad(y, (0, 0, 0, steps * r - frames))
    ym = mask_of(n_fr, steps * r)[..., None]
    n_st = (n_fr + r - 1) // r
    sm = mask_of(n_st, steps)
    previous = y[:, r - 1::r]
    previous = torch.cat([torch.zeros(items, 1, bands), previous[:, :-1]], 1)
    x = F.relu(m.linear("decoder.prenet1", previous, 2 * c["prenet_width"]))
    x = F.relu(m.linear("decoder.prenet2", x, c["prenet_width"]))
    x = m.linear("decoder.prenet3", x, d) + 0.5 * positions(steps, d)
    if speaker is not None:
        x = x + m.linear("speaker.decoder", speaker, d)[:, None]
    causal = torch.ones(steps, steps).tril().bool()[None].expand(items, -1, -1)
    keys = h + positions(length, h.shape[-1])
    queries = positions(steps, d, np.float64(np.float32(c["attention_rate"])))
    seen = (mask_of(n_tok, length) > 0)[:, None]
    maps = []
    for i in range(c["decoder_layers"]):
        p = f"decoder.block.{i}"
        x = m.attention(p + ".attention", x, c["decoder_heads"], causal)
        q = m.linear(p + ".cross.query", m.norm(p + ".cross.norm", x) + queries, d)
        k = m.linear(p + ".cross.key", keys, d)
        v = m.linear(p + ".cross.value", h, d)
        w = (q @ k.transpose(1, 2) / math.sqrt(d)).masked_fill(~seen, -torch.inf).softmax(-1)
        maps.append(w)
        x = x + m.linear(p + ".cross.out", w @ v, d)
        x = m.feed(p + ".ff", x, torch.ones(1, 1, 1), c["decoder_kernel"])
    x = m.norm("decoder.norm", x)
    out = m.linear("decoder.out", x, r * bands).reshape(items, steps * r, bands)
    stop = m.linear("decoder.stop", x, 1)[..., 0]
    if c["postnet"]:
        terms["coarse"] = masked_mean(kind(out - y), ym)
        z = torch.tanh(m.conv("postnet.conv1", out * ym, 5, h.shape[-1]))
        z = torch.tanh(m.conv("postnet.conv2", z * ym, 5, h.shape[-1]))
        out = out + m.conv("postnet.conv3", z * ym, 5, bands)
    terms["mel"] = masked_mean(kind(out - y), ym)
    last = (torch.arange(steps)[None] == n_st[:, None] - 1).double()
    bce = F.binary_cross_entropy_with_logits(stop, last, reduction="none", pos_weight=torch.tensor(STOP_POSITIVE))
    terms["stop"] = masked_mean(bce, sm)
    target = torch.zeros(items, steps, length)
    for b in range(items):
        for t in range(int(n_st[b]) * r):
            target[b, t // r, index[b, min(t, int(n_fr[b]) - 1)]] += 1 / r
    terms["supervision"] = sum(-((target * torch.log(w + 1e-6)).sum(-1) * sm).sum() / sm.sum() for w in maps) / len(maps)
    away = (torch.arange(steps)[None, :, None] / n_st[:, None, None] - torch.arange(length)[None, None] / n_tok[:, None, None]) ** 2
    far = (1 - torch.exp(-away / (2 * SIGMA ** 2))) * mask_of(n_tok, length)[:, None]
    terms["guided"] = sum(((w * far).sum(-1) * sm).sum() / sm.sum() for w in maps) / len(maps)


def make_batch(c, seed):
    rng = np.random.default_rng(seed)
    n_tok, n_fr = np.array([7, 4, 5]), np.array([23, 20, 9])
    items, length, frames, reference = 3, 7, 23, 11
    batch = dict(token_ids=rng.integers(0, c["n_symbols"], (items, length)), token_counts=n_tok, frame_counts=n_fr,
                 mel=rng.normal(size=(items, frames, c["n_mels"])).astype(np.float32))
    if c["pitch_predictor"]:
        batch["pitch"] = (rng.uniform(80, 300, (items, frames)) * (rng.uniform(size=(items, frames)) > 0.4)).astype(np.float32)
    if c["energy_predictor"]:
        batch["energy"] = rng.uniform(0, 0.3, (items, frames)).astype(np.float32)
    if c["n_speakers"]:
        batch["speakers"] = rng.integers(0, c["n_speakers"], items)
    if c["speaker_encoder"]:
        batch["reference_mel"] = rng.normal(size=(items, reference, c["n_mels"])).astype(np.float32)
        batch["reference_counts"] = np.array([11, 6, 9])
    return batch


def write_file(path, metadata, tensors):
    names = {np.dtype("float64"): "F64", np.dtype("float32"): "F32", np.dtype("uint32"): "U32"}
    header, offset = {"__metadata__": metadata}, 0
    tensors = dict(sorted(tensors.items(), key=lambda kv: (-kv[1].itemsize, kv[0])))
    for name, a in tensors.items():
        header[name] = {"dtype": names[a.dtype], "shape": list(a.shape), "data_offsets": [offset, offset + a.nbytes]}
        offset += a.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(a.tobytes() for a in tensors.values()))


def save_case(path, config, params, raw, terms, total, more=None):
    """What the suite compares: batch, gradients, losses, norm, and parameters after an update. `total` has been differentiated."""
    # torch gives no gradient to what nothing depends on; there is nothing of the kind
    tensors = {"batch." + k: v.astype(np.uint32) if v.dtype != np.float32 else v for k, v in raw.items()} | (more or {})
    tensors |= {"grad." + k: p.grad.numpy().astype(np.float32) for k, p in params.items()}
    tensors |= {"loss." + k: v.detach().numpy().reshape(1) for k, v in terms.items()}
    tensors["loss"] = total.detach().numpy().reshape(1)
    tensors["norm"] = torch.nn.utils.clip_grad_norm_(params.values(), CLIP).numpy().reshape(1)
    groups = [dict(params=[p for k, p in params.items() if k.endswith(".weight")], weight_decay=DECAY),
              dict(params=[p for k, p in params.items() if not k.endswith(".weight")], weight_decay=0.0)]
    torch.optim.AdamW(groups, **ADAM).step()
    tensors |= {"updated." + k: np.array([p.sum().item(), (p * p).sum().item()]) for k, p in params.items()}
    write_file(path, {k: str(v).lower() for k, v in config.items()}, tensors)


def main():
    torch.set_default_dtype(torch.float64)
    out = Path(sys.argv[1])
    for case, c in CASES.items():
        raw = make_batch(c, SEEDS[case])
        batch = {k: torch.tensor(v.astype(np.float64) if v.dtype == np.float32 else v) for k, v in raw.items()}
        m = Model(c)
        terms, total = losses_of(m, batch)
        total.backward()
        more = {}
        if hasattr(m, "made"):
            more = {"made.durations": m.durations.numpy().astype(np.uint32), "made.index": m.index.numpy().astype(np.uint32),
                    "made.pitch": m.token_pitch.numpy().astype(np.float32),
                    "made.frame_pitch": m.frame_pitch.numpy().astype(np.float32),
                    "made.mel": m.made.numpy().astype(np.float32)}
        save_case(out / f"model_{case}.safetensors", c, m.p, raw, terms, total, more)
        print(case, total.item(), {k: round(v.item(), 5) for k, v in terms.items()}, sum(p.numel() for p in m.p.values()), "parameters")


if __name__ == "__main__":
    main()
