#!/usr/bin/env python3
"""Golden numbers of the data that XTTS-v2 learns from, by the public package coqui-tts on shrunk models.

    python3 make_xtts_dvae_golden.py OUT_DIR

Needs what make_xtts_golden.py needs. Writes OUT_DIR/xtts_dvae_CASE.safetensors. Weights and recordings are computed
from their names by both sides, as there; names begin with the case and a colon. Vectors of the codebook are stored: they
are what the encoder makes of some frames, and noise, so that many codes are used. Metadata: keys of the model, clips.

    codebook        [channels, codes]
    codes.I         of recording I by itself, as the package's trainer would make them of a batch of one
    vectors.I       every STRIDE-th number of what the encoder makes of it
    cond_mel.I      every STRIDE-th number of the slice that validation conditions on, silence behind, divided by mel_stats
    cond_range.I    where that slice begins and ends, in samples
"""
import random
import sys
import tempfile
from pathlib import Path

import numpy as np
import soundfile
import torch
from make_xtts_golden import STRIDE, first_values, recording, write
from TTS.tts.layers.tortoise.arch_utils import TorchMelSpectrogram
from TTS.tts.layers.xtts.dvae import DiscreteVAE
from TTS.tts.layers.xtts.trainer.dataset import get_prompt_slice

RATE = 22050
# clips: (samples, seed)
CASES = {
    "a": dict(hidden=16, dim=16, tokens=32, blocks=3, clips=[(30720, 1), (47111, 2), (141000, 3)]),
    "b": dict(hidden=12, dim=20, tokens=50, blocks=2, clips=[(24831, 4), (24832, 5), (24833, 6), (12001, 7)]),
    "c": dict(hidden=24, dim=9, tokens=100, blocks=1, clips=[(36000, 8), (60413, 9)]),
}


def build(name, case):
    dvae = DiscreteVAE(channels=80, normalization=None, positional_dims=1, num_tokens=case["tokens"],
                       codebook_dim=case["dim"], hidden_dim=case["hidden"], num_resnet_blocks=case["blocks"], kernel_size=3,
                       num_layers=2, use_transposed_convs=False)
    with torch.no_grad():
        for key, t in dvae.named_parameters():
            t.copy_(torch.from_numpy(first_values(f"{name}:dvae.{key}", tuple(t.shape))))
    stats = torch.from_numpy(first_values("mel_stats", (80,)))
    return dvae.eval(), stats


def choose_codebook(dvae, mels, case):
    """Vectors of frames of all recordings, and some noise."""
    generator = np.random.default_rng(case["dim"])
    vectors = torch.cat([dvae.encoder(m)[0].T for m in mels])
    chosen = vectors[torch.from_numpy(generator.choice(len(vectors), case["tokens"]))].numpy()
    spread = chosen.std(0, keepdims=True)
    return (chosen + 0.3 * spread * generator.standard_normal(chosen.shape)).astype(np.float32).T.copy()


@torch.no_grad()
def run(name, case):
    dvae, stats = build(name, case)
    out, margins = {}, []
    with tempfile.TemporaryDirectory() as folder:
        torch.save(stats, f"{folder}/mel_stats.pth")
        common = dict(hop_length=256, win_length=1024, normalize=False, sampling_rate=RATE, mel_fmin=0, mel_fmax=8000,
                      n_mel_channels=80, mel_norm_file=f"{folder}/mel_stats.pth")
        hear_codes, hear_slice = TorchMelSpectrogram(filter_length=1024, **common), TorchMelSpectrogram(
            filter_length=2048, **common)
        mels, slices = [], []
        for i, (samples, seed) in enumerate(case["clips"]):
            path = f"{folder}/{i}.wav"
            soundfile.write(path, recording(RATE, 1, samples, seed), RATE, subtype="PCM_16")
            wave = torch.from_numpy(soundfile.read(path, dtype="float32")[0])[None]
            mels.append(hear_codes(wave))
            part, _, place = get_prompt_slice(path, 6 * RATE, 3 * RATE, RATE, is_eval=True)
            slices.append((hear_slice(part)[0].T, place))
    out["codebook"] = choose_codebook(dvae, mels, case)
    dvae.codebook.embed.copy_(torch.from_numpy(out["codebook"]))
    for i, mel in enumerate(mels):
        z = dvae.encoder(mel)[0].T
        distance = torch.cdist(z.double(), dvae.codebook.embed.T.double()) ** 2
        two = distance.topk(2, largest=False).values
        margins.append(float(((two[:, 1] - two[:, 0]) / two[:, 1]).min()))
        out[f"codes.{i}"] = dvae.get_codebook_indices(mel)[0].numpy().astype(np.int32)
        out[f"vectors.{i}"] = z.numpy().ravel()[::STRIDE].copy()
        out[f"cond_mel.{i}"] = slices[i][0].numpy().ravel()[::STRIDE].copy()
        out[f"cond_range.{i}"] = np.array(slices[i][1], np.int32)
    codes = np.concatenate([out[f"codes.{i}"] for i in range(len(mels))])
    print(name, len(codes), "codes,", len(set(codes.tolist())), "of them different; least margin", min(margins))
    return out


def metadata(case):
    keys = dict(dvae_hidden=case["hidden"], dvae_codebook_dim=case["dim"], dvae_blocks=case["blocks"],
                gpt_num_audio_tokens=case["tokens"] + 2, gpt_start_audio_token=case["tokens"],
                gpt_stop_audio_token=case["tokens"] + 1)
    pairs = {f"model.{k}": str(v) for k, v in keys.items()}
    return pairs | dict(stride=str(STRIDE), clips="".join(f"{n} {seed}\n" for n, seed in case["clips"]))


def main():
    random.seed(0)
    torch.manual_seed(0)
    for name, case in CASES.items():
        write(Path(sys.argv[1]) / f"xtts_dvae_{name}.safetensors", run(name, case), metadata(case))


if __name__ == "__main__":
    main()
