#!/usr/bin/env python3
"""Golden losses, gradients and moved codebooks of the dvae family, by PyTorch in double precision, written from docs/xtts.md.

    python3 make_dvae_golden.py OUT_DIR        (needs torch and numpy; the suite reads the files and needs neither)

Writes OUT_DIR/model_CASE.safetensors for each of CASES, as make_model_golden.py does; state.NAME: the codebook before the
step, after.NAME: behind it, param.mel_stats: what spectrograms are divided by. Each recording is encoded by itself,
without padding.
"""
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from make_model_golden import first_values, save_case

CASES = {"dvae": dict(hidden=6, blocks=2, codebook_dim=5, codes=9, n_mels=7, counts=[31, 17, 24], seed=1),
         "dvae_one": dict(hidden=4, blocks=1, codebook_dim=8, codes=12, n_mels=5, counts=[13], seed=2)}
COMMITMENT, RATE, LEAST = 0.25, 0.01, 1e-5
PARAMS = {}


def conv(name, x, taps, out, stride=1):
    """x [channels, frames]; first values are given to [out, in, taps]."""
    shapes = {name + ".weight": (out, x.shape[0], taps), name + ".bias": (out,)}
    for key, shape in shapes.items():
        if key not in PARAMS:
            PARAMS[key] = torch.tensor(first_values(key, shape), dtype=torch.float64, requires_grad=True)
    return F.conv1d(x[None], PARAMS[name + ".weight"], PARAMS[name + ".bias"], stride=stride, padding=taps // 2)[0]


def block(name, x):
    y = F.relu(conv(name + ".0", x, 3, x.shape[0]))
    y = F.relu(conv(name + ".2", y, 3, x.shape[0]))
    return x + conv(name + ".4", y, 1, x.shape[0])


def encode(c, x):
    x = F.relu(conv("dvae.encoder.0.0", x, 3, c["hidden"], 2))
    x = F.relu(conv("dvae.encoder.1.0", x, 3, 2 * c["hidden"], 2))
    for i in range(c["blocks"]):
        x = block(f"dvae.encoder.{2 + i}.net", x)
    return conv(f"dvae.encoder.{2 + c['blocks']}", x, 1, c["codebook_dim"])


def decode(c, x):
    x = conv("dvae.decoder.0", x, 1, 2 * c["hidden"])
    for i in range(c["blocks"]):
        x = block(f"dvae.decoder.{1 + i}.net", x)
    for i, width in enumerate([2 * c["hidden"], c["hidden"]]):
        x = F.relu(conv(f"dvae.decoder.{1 + c['blocks'] + i}.0.conv", x.repeat_interleave(2, 1), 3, width))
    return conv(f"dvae.decoder.{3 + c['blocks']}", x, 1, c["n_mels"])


def make_states(c, vectors, generator):
    """A codebook that lies among the vectors, with clusters of several sizes."""
    chosen = vectors[generator.integers(0, len(vectors), c["codes"])]
    embed = chosen + 0.5 * vectors.std(0) * generator.standard_normal(chosen.shape)
    sizes = generator.uniform(0.5, 3, c["codes"])
    return {"embed": embed.T, "embed_avg": (embed * sizes[:, None]).T, "cluster_size": sizes}


def move(states, vectors, codes):
    hits = F.one_hot(codes, states["embed"].shape[1]).double()
    sizes = (1 - RATE) * states["cluster_size"] + RATE * hits.sum(0)
    sums = (1 - RATE) * states["embed_avg"] + RATE * vectors.T @ hits
    n = sizes.sum()
    smooth = (sizes + LEAST) / (n + len(sizes) * LEAST) * n
    return {"embed": sums / smooth, "embed_avg": sums, "cluster_size": sizes}


def run(name, c, out):
    PARAMS.clear()
    generator = np.random.default_rng(c["seed"])
    frames = max(c["counts"]) + 3
    mel = generator.standard_normal((len(c["counts"]), frames, c["n_mels"])).astype(np.float32)  # behind an item: anything
    stats = generator.uniform(0.5, 2, c["n_mels"]).astype(np.float32)
    heard = [torch.tensor(mel[i, :n].T / stats[:, None].astype(np.float64)) for i, n in enumerate(c["counts"])]
    z = [encode(c, x) for x in heard]
    vectors = torch.cat([v.T for v in z])
    first = {k: torch.tensor(v.astype(np.float32).astype(np.float64)) for k, v in
             make_states(c, vectors.detach().numpy(), generator).items()}
    distances = torch.cdist(vectors.detach(), first["embed"].T) ** 2
    two = distances.topk(2, largest=False).values
    print(name, "codes", sorted(set(distances.argmin(1).tolist())), "least margin", float((two[:, 1] - two[:, 0]).min()))
    errors, apart, codes = [], [], []
    for x, v in zip(heard, z):
        code = (torch.cdist(v.T.detach(), first["embed"].T) ** 2).argmin(1)
        chosen = first["embed"][:, code]
        made = decode(c, v + (chosen - v).detach())[:, :x.shape[1]]
        errors.append((made - x) ** 2)
        apart.append((v - chosen) ** 2)
        codes.append(code)
    terms = {"reconstruction": torch.cat([e.flatten() for e in errors]).mean(),
             "commitment": torch.cat([a.flatten() for a in apart]).mean()}
    total = terms["reconstruction"] + COMMITMENT * terms["commitment"]
    total.backward()
    after = move(first, vectors.detach(), torch.cat(codes))
    more = {"param.mel_stats": stats} | {f"state.dvae.codebook.{k}": v.numpy().astype(np.float32) for k, v in first.items()}
    more |= {f"after.dvae.codebook.{k}": v.numpy().astype(np.float32) for k, v in after.items()}
    raw = {"mel": mel, "frame_counts": np.array(c["counts"])}
    keys = {k: v for k, v in c.items() if k not in ("counts", "seed")}
    save_case(out / f"model_{name}.safetensors", dict(keys, family="dvae", commitment=COMMITMENT, codebook_rate=RATE,
                                                      codebook_least=0), PARAMS, raw, terms, total, more)


if __name__ == "__main__":
    for case, values in CASES.items():
        run(case, values, Path(sys.argv[1]))
