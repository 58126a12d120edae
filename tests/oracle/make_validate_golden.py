#!/usr/bin/env python3
"""What a step of the model "pico" gives by PyTorch in double precision, as the table that `tandem validate` compares with.

    python3 make_validate_golden.py > src/tools/validate_golden.inc        (needs torch and numpy)

Parameters and batch are not stored: both sides compute them from their names (first_values of make_model_golden.py). Of each
gradient two numbers are kept: its norm, and its product with the values of the name "probe." + its own.
"""
import numpy as np
import torch

import make_model_golden as oracle

PICO = dict(oracle.BASE, decoder_strategy="non_autoregressive", n_symbols=64, n_mels=80, text_width=32, text_layers=2,
            text_heads=1, audio_width=32, audio_layers=1, audio_heads=1, audio_channels=8, decoder_width=32, decoder_layers=2,
            decoder_heads=1, ff_factor=2, kernel=3, decoder_kernel=3, speaker_width=16, prenet_width=16)
ITEMS, TOKENS, FRAMES = 2, 12, 40
TOKEN_COUNTS, FRAME_COUNTS = [12, 9], [40, 31]


def main():
    ids = (np.arange(ITEMS * TOKENS) * 7 % 60 + 4).reshape(ITEMS, TOKENS)
    mel = oracle.first_values("batch.mel", (ITEMS, FRAMES, PICO["n_mels"])) * np.float32(20)
    batch = dict(token_ids=torch.tensor(ids), token_counts=torch.tensor(TOKEN_COUNTS), frame_counts=torch.tensor(FRAME_COUNTS),
                 mel=torch.tensor(mel.astype(np.float64)))
    model, terms, total = oracle.losses_of(PICO, batch)
    total.backward()
    print("/* Made by tests/oracle/make_validate_golden.py: X(name, norm, product). */")
    print(f"#define TD_VALIDATE_LOSS {total.item():.9g}")
    print("#define TD_VALIDATE_GRADIENTS(X) \\")
    lines = []
    for name, p in sorted(model.p.items()):
        g = p.grad
        probe = torch.tensor(oracle.first_values("probe." + name, tuple(p.shape)).astype(np.float64))
        lines.append(f'    X("{name}", {g.norm().item():.9g}, {(g * probe).sum().item():.9g})')
    print(" \\\n".join(lines))


if __name__ == "__main__":
    main()
