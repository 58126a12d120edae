#!/usr/bin/env python3
"""Golden losses and gradients of XTTS's vocoder in training: the generator is that of the public package coqui-tts, in double
precision; losses and discriminators are those of make_vocoder_golden.py, written from docs/vocoder.md.

    python3 make_xtts_vocoder_golden.py OUT_DIR

Needs a venv with coqui-tts 0.28.0, torch and torchaudio; the suite reads the file and needs none of them. Writes
OUT_DIR/model_xtts_vocoder.safetensors as make_model_golden.py does.
"""
import sys
from pathlib import Path

import numpy as np
import torch
import torchaudio
from TTS.vocoder.models.hifigan_generator import HifiganGenerator

from make_model_golden import save_case
from make_vocoder_golden import PARAMS, RAMP, get, hinge, judge, norm_of, size_of, stft

PREFIX = "hifigan_decoder.waveform_decoder."
CONFIG = dict(family="xtts", tune="vocoder", gpt_n_model_channels=8, gpt_n_heads=2, decoder_input_dim=8, decoder_channels=32,
              d_vector_dim=6, n_mels=10, crop=12, discriminators=True, discriminator_width=2, loss_spectral=1, loss_mel=1,
              loss_adversarial=0.2, loss_features=0.5)
RATE, HOP, N_FFT, FLOOR = 24000, 256, 1024, 1e-5


def make_generator():
    c = CONFIG
    model = HifiganGenerator(c["decoder_input_dim"], 1, "1", [[1, 3, 5]] * 3, [3, 7, 11], [16, 16, 4, 4], c["decoder_channels"],
                             [8, 8, 2, 2], inference_padding=0, cond_channels=c["d_vector_dim"], conv_pre_weight_norm=False,
                             conv_post_weight_norm=False, conv_post_bias=False, cond_in_each_up_layer=True).double()
    for name, p in model.named_parameters():
        with torch.no_grad():
            p.copy_(get(PREFIX + name, *p.shape))
        PARAMS[PREFIX + name] = p
    return model


def log_mel(wave, bands):
    return torch.log((size_of(stft(wave, N_FFT, HOP)) ** 2 @ bands).clamp(min=FLOOR))


def losses_of(made, wave):
    bands = torchaudio.functional.melscale_fbanks(N_FFT // 2 + 1, 0, RATE / 2, CONFIG["n_mels"], RATE, "slaney", "htk").double()
    spectral = 0
    for n_fft, hop in ((512, 128), (1024, 256), (2048, 512)):
        a, b = size_of(stft(made, n_fft, hop)), size_of(stft(wave, n_fft, hop))
        spectral += (norm_of(a - b) / (norm_of(b) + 0.01)).mean() / 3
        spectral += (torch.log(a + 1e-3) - torch.log(b + 1e-3)).abs().mean() / 3
    answers, mine = judge(made, CONFIG["discriminator_width"])
    other = judge(wave, CONFIG["discriminator_width"])[1]
    features = sum((a - b).abs().mean() / (b.abs().mean() + 1e-3) for a, b in zip(mine, other)) / len(mine)
    return dict(spectral=spectral, mel=(log_mel(made, bands) - log_mel(wave, bands)).abs().mean(),
                adversarial=hinge(answers, 1), features=features)


def main():
    torch.set_default_dtype(torch.float64)
    rng = np.random.default_rng(11)
    frames = CONFIG["crop"] + 1
    # larger latents: of small ones biases make a hum, and between its lines there is little to take the logarithm of
    raw = dict(latents=(3 * rng.normal(size=(2, frames, CONFIG["decoder_input_dim"]))).astype(np.float32),
               speaker_vector=rng.normal(size=(2, CONFIG["d_vector_dim"])).astype(np.float32),
               wave=(0.2 * rng.normal(size=(2, (frames - 1) * HOP))).astype(np.float32))
    batch = {k: torch.tensor(v.astype(np.float64)) for k, v in raw.items()}
    model = make_generator()
    made = model(batch["latents"][:, :-1].transpose(1, 2), g=batch["speaker_vector"][..., None])[:, 0]
    terms = losses_of(made, batch["wave"])
    ramp = {"adversarial": RAMP, "features": RAMP}
    total = sum(ramp.get(k, 1) * CONFIG["loss_" + k] * v for k, v in terms.items())
    total.backward()
    learnt = {k: p for k, p in PARAMS.items() if k.startswith(PREFIX)}
    raw["adversarial_ramp"] = np.array([RAMP], np.float32)
    save_case(Path(sys.argv[1]) / "model_xtts_vocoder.safetensors", CONFIG, learnt, raw, terms, total)
    print(total.item(), {k: round(v.item(), 5) for k, v in terms.items()}, sum(p.numel() for p in learnt.values()), "parameters")


if __name__ == "__main__":
    main()
