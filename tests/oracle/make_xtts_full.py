#!/usr/bin/env python3
"""Writes a folder as Coqui's XTTS-v2 has it, at its published size and with random weights.

    make_xtts_full.py FOLDER [--tandem PROGRAM]

For measurements of time and memory at full size; 1.9 GB, so it is never committed. With --tandem the folder is imported
as FOLDER.safetensors too. Needs coqui-tts 0.28.
"""
import argparse
import subprocess
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from TTS.tts.configs.xtts_config import XttsArgs, XttsConfig
from TTS.tts.models.xtts import Xtts

TOKENS = 6681


def write_vocab(path):
    special = ["[STOP]", "[UNK]", "[SPACE]", "[en]", "[de]", "[START]"]
    vocab = {piece: i for i, piece in enumerate([*special, *"abcdefghijklmnopqrstuvwxyz.,!?'-"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(special)
    tokenizer.save(str(path))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tandem")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    config = XttsConfig(model_args=XttsArgs(
        gpt_number_text_tokens=TOKENS, gpt_start_text_token=5, gpt_stop_text_token=0, gpt_num_audio_tokens=1026,
        gpt_start_audio_token=1024, gpt_stop_audio_token=1025, gpt_max_audio_tokens=605, gpt_max_text_tokens=402,
        gpt_use_perceiver_resampler=True), languages=["en", "de"])
    model = Xtts(config)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if name.endswith("proj_out.weight"):  # starts with zeros, which would leave its layer out
                tensor.normal_(std=0.02)
    torch.save({"model": model.state_dict()}, args.folder / "model.pth")
    config.save_json(str(args.folder / "config.json"))
    write_vocab(args.folder / "vocab.json")
    if args.tandem:
        subprocess.run([args.tandem, "import", str(args.folder), "-o", f"{args.folder}.safetensors"], check=True)


if __name__ == "__main__":
    main()
