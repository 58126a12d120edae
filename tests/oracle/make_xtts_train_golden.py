#!/usr/bin/env python3
"""Golden numbers of training the GPT of XTTS-v2, by the public package coqui-tts on shrunk models, in double.

    python3 make_xtts_train_golden.py OUT_DIR [CASE...]

Needs the venv of make_xtts_golden.py; the suite reads the files and needs none of it. Writes, for each case,
OUT_DIR/xtts_train_CASE.safetensors. Weights are computed from their names (`first_values`) on both sides. Metadata: the
keys of src/families/xtts/xtts_config.h, and lr, decay, eps of one update of AdamW (betas 0.9 and 0.96, the two groups of
the package's trainer), lora_rank, lora_alpha, lora_targets.

    text_ids, text_counts, codes, code_counts, wave_counts, cond_mel, cond_range    the batch
    WAY.losses              text and codes, without weights
    WAY.gradients           [tensors, 1 + SIGNS]: norm of each gradient, and its products with SIGNS vectors of 1 and -1
    WAY.updated             the same of the parameters after the update
    WAY.names               text: "NAME;" for each row of both

The signs are bits of the numbers that `first_values` begins with (see `hashes`), so that a mean square of differences of
products is the square of the difference. WAY: coqui (the package's own masking of prompts), none (none of it), all (as
it was meant: loss of the package's logits), lora (adapters by the class below beside frozen matrices, masking as coqui).
"""
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

from make_xtts_golden import first_values

from TTS.tts.layers.xtts.gpt import GPT  # noqa: E402

torch.Tensor.float = lambda x: x  # the package's norms and softmax cast to fp32; in double they need not

SIGNS = 8
UPDATE = dict(lr=1e-2, decay=0.1, eps=1e-3)
CASES = {
    "a": dict(layers=2, width=64, heads=2, text_tokens=40, audio_tokens=34, max_text=24, max_audio=40, text=[7],
              samples=[9226], frames=22, ranges=[[1000, 2300]], rank=3, alpha=5.0, targets="c_attn,c_fc"),
    "b": dict(layers=3, width=96, heads=3, text_tokens=37, audio_tokens=27, max_text=20, max_audio=30, text=[6, 9, 4],
              samples=[9226, 6144, 12001], frames=19, ranges=[[512, 3000], [0, 4096], [700, 1900]], rank=4, alpha=8.0,
              targets="c_attn,c_proj,c_fc"),
}


def hashes(name, count):
    """As first_values() begins."""
    with np.errstate(over="ignore"):
        h = np.uint64(0xcbf29ce484222325)
        for byte in name.encode():
            h = (h ^ np.uint64(byte)) * np.uint64(0x100000001b3)
        x = h + (np.arange(count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def digest(name, values):
    x = hashes(name, values.size)
    flat = values.ravel()
    return [np.linalg.norm(flat)] + [float(np.sum(np.where(x >> np.uint64(k) & np.uint64(1), flat, -flat)))
                                     for k in range(SIGNS)]


class Adapter(torch.nn.Module):
    """x W + b + alpha / rank (x A') B'; W [in, out] is another module's."""

    def __init__(self, base, name, case):
        super().__init__()
        self.base, self.scale = base, case["alpha"] / case["rank"]
        rows, columns = base.weight.shape
        self.a = torch.nn.Parameter(value(name + ".lora_A.weight", (case["rank"], rows)))
        self.b = torch.nn.Parameter(value(name + ".lora_B.weight", (columns, case["rank"])))

    def forward(self, x):
        return self.base(x) + self.scale * ((x @ self.a.T) @ self.b.T)


def value(name, shape):
    return torch.from_numpy(first_values(name, tuple(shape)).astype(np.float64))


def build(case):
    model = GPT(layers=case["layers"], model_dim=case["width"], heads=case["heads"], start_text_token=30, stop_text_token=0,
                number_text_tokens=case["text_tokens"], num_audio_tokens=case["audio_tokens"],
                start_audio_token=case["audio_tokens"] - 2, stop_audio_token=case["audio_tokens"] - 1,
                max_text_tokens=case["max_text"], max_mel_tokens=case["max_audio"], max_prompt_tokens=70,
                use_perceiver_resampler=True, code_stride_len=1024).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(value("gpt." + name, parameter.shape))
    return model


def make_batch(case):
    random = np.random.default_rng(7)
    items, frames = len(case["text"]), max(case["samples"]) // 256 + 1
    n_codes = -(-frames // 4)
    text = np.zeros((items, max(case["text"])), np.int32)
    for row, count in zip(text, case["text"]):
        row[:count] = random.integers(2, 30, count)
    return dict(text_ids=text, text_counts=np.array(case["text"], np.int32),
                codes=random.integers(0, case["audio_tokens"] - 2, (items, n_codes)).astype(np.int32),
                code_counts=np.array([-(-(s // 256 + 1) // 4) for s in case["samples"]], np.int32),
                wave_counts=np.array(case["samples"], np.int32),
                cond_mel=(random.standard_normal((items, case["frames"], 80)) * 0.8 - 1).astype(np.float32),
                cond_range=np.array(case["ranges"], np.int32))


def corrected_loss(batch, logits):
    """Of the codes, with what each slice covers left out: logits [B, classes, positions]."""
    targets = torch.full((logits.shape[0], logits.shape[2]), -1, dtype=torch.long)
    for b, (samples, (first, end)) in enumerate(zip(batch["wave_counts"], batch["cond_range"])):
        n = -(-int(samples) // 1024)
        targets[b, :n] = torch.from_numpy(batch["codes"][b, :n].astype(np.int64))
        targets[b, n:n + 4] = logits.shape[1] - 1
        targets[b, first // 1024:end // 1024] = -1
    return torch.nn.functional.cross_entropy(logits, targets, ignore_index=-1)


def forward(model, batch, way):
    mels = torch.from_numpy(batch["cond_mel"].astype(np.float64)).transpose(1, 2).unsqueeze(1)
    ranges = torch.from_numpy(batch["cond_range"].astype(np.int64)) if way in ("coqui", "lora") else None
    text, codes, logits = model(torch.from_numpy(batch["text_ids"].astype(np.int64)),
                                torch.from_numpy(batch["text_counts"].astype(np.int64)),
                                torch.from_numpy(batch["codes"].astype(np.int64)),
                                torch.from_numpy(batch["wave_counts"].astype(np.int64)), cond_mels=mels, cond_idxs=ranges,
                                cond_lens=None)
    return text, corrected_loss(batch, logits) if way == "all" else codes


def parameter_groups(model):
    """As the package's trainer has them: biases, norms and embeddings do not decay."""
    plain, kept = [], []
    for module in model.modules():
        still = isinstance(module, (torch.nn.LayerNorm, torch.nn.GroupNorm, torch.nn.Embedding))
        for name, parameter in module.named_parameters(recurse=False):
            (kept if still or name == "bias" or isinstance(module, Adapter) else plain).append(parameter)
    return [dict(params=plain, weight_decay=UPDATE["decay"]), dict(params=kept, weight_decay=0.0)]


def add_adapters(model, case):
    names = {}
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for i, block in enumerate(model.gpt.h):
        for part, layer in (("attn", "c_attn"), ("attn", "c_proj"), ("mlp", "c_fc"), ("mlp", "c_proj")):
            if layer not in case["targets"].split(","):
                continue
            name = f"gpt.gpt.h.{i}.{part}.{layer}"
            adapter = Adapter(getattr(getattr(block, part), layer), name, case)
            setattr(getattr(block, part), layer, adapter)
            names[name + ".lora_A.weight"], names[name + ".lora_B.weight"] = adapter.a, adapter.b
    return names


def train(case, batch, way):
    model = build(case)
    learnt = {"gpt." + name: p for name, p in model.named_parameters()}
    if way == "lora":
        learnt = add_adapters(model, case)
    optimizer = torch.optim.AdamW(parameter_groups(model), lr=UPDATE["lr"], betas=(0.9, 0.96), eps=UPDATE["eps"])
    text, codes = forward(model, batch, way)
    (0.01 * text + codes).backward()
    names = sorted(learnt)
    gradients = [digest(n, learnt[n].grad.numpy()) for n in names]
    optimizer.step()
    print(way, float(text), float(codes), len(names), "tensors; least norm", min(g[0] for g in gradients))
    return {f"{way}.losses": np.array([text.item(), codes.item()], np.float32),
            f"{way}.gradients": np.array(gradients, np.float32),
            f"{way}.updated": np.array([digest(n, learnt[n].detach().numpy()) for n in names], np.float32),
            f"{way}.names": np.frombuffer("".join(n + ";" for n in names).encode(), np.uint8)}


def metadata(case):
    keys = dict(gpt_layers=case["layers"], gpt_n_model_channels=case["width"], decoder_input_dim=case["width"],
                gpt_n_heads=case["heads"], gpt_number_text_tokens=case["text_tokens"], gpt_start_text_token=30,
                gpt_stop_text_token=0, gpt_num_audio_tokens=case["audio_tokens"],
                gpt_start_audio_token=case["audio_tokens"] - 2, gpt_stop_audio_token=case["audio_tokens"] - 1,
                gpt_max_audio_tokens=case["max_audio"], gpt_max_text_tokens=case["max_text"])
    out = {f"model.{k}": str(v) for k, v in keys.items()}
    out.update({k: repr(v) for k, v in UPDATE.items()})
    return out | dict(lora_rank=str(case["rank"]), lora_alpha=str(case["alpha"]), lora_targets=case["targets"])


def main():
    folder = Path(sys.argv[1])
    for name in sys.argv[2:] or CASES:
        case = CASES[name]
        out = make_batch(case)
        for way in ("coqui", "none", "all", "lora"):
            out.update(train(case, out, way))
        save_file(out, folder / f"xtts_train_{name}.safetensors", metadata(case))


if __name__ == "__main__":
    main()
