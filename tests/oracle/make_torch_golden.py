#!/usr/bin/env python3
"""Files of tensors by PyTorch itself, for the readers of src/torch; and the tensors of a shrunk XTTS by Coqui's code.

    python3 make_torch_golden.py OUT_DIR [--layout]

Needs torch; with --layout also coqui-tts 0.28. The suite reads the files and needs neither.

torch_KIND.pth hold the same tensors (see `tensors`), which tests/torch/test_torch_file.c knows by their formulas:
    zip         as torch.save() writes today, with a config that is an object of a class that nobody has
    legacy      as it did before 1.6
    protocol4   with pickle's protocol 4
    nocrc       without checksums, which newer versions can leave out
torch_bare.pth is one tensor and nothing else; torch_ordered.pth a module's state dict with its _metadata.
xtts_layout.txt: "key = value" lines of the configuration, then "NAME DIM DIM .." of each tensor.
"""
import argparse
import collections
import sys
import types
from pathlib import Path

import torch


def count(*shape, dtype=torch.float32):
    """0, 1, 2 .. in row-major order, by a quarter, less 3."""
    n = 1
    for dim in shape:
        n *= dim
    return (torch.arange(n, dtype=torch.float64) * 0.25 - 3).reshape(shape).to(dtype)


def tensors():
    base = count(4, 6)
    return collections.OrderedDict([
        ("f32", count(2, 3)), ("f16", count(2, 3, dtype=torch.float16)), ("bf16", count(2, 3, dtype=torch.bfloat16)),
        ("f64", count(2, 3, dtype=torch.float64)), ("i64", torch.arange(5) - 2),
        ("i32", torch.arange(5, dtype=torch.int32) - 2), ("u8", torch.arange(5, dtype=torch.uint8)),
        ("bool", torch.tensor([True, False, True])), ("scalar", torch.tensor(7.5)),
        ("tracked", torch.tensor(12345678901)), ("empty", torch.zeros(0, 3)),
        ("transposed", base.t()), ("sliced", base[1:3, ::2]), ("whole", base),
        ("parameter", torch.nn.Parameter(count(3))), ("channels_last", count(1, 2, 3, 4).permute(0, 3, 1, 2)),
    ])


def make_config():
    """Of a class in a module of another program, with another object inside."""
    module = types.ModuleType("TTS.tts.configs.xtts_config")
    for name in ["TTS", "TTS.tts", "TTS.tts.configs"]:
        sys.modules[name] = types.ModuleType(name)
    sys.modules[module.__name__] = module
    for name in ["XttsConfig", "XttsArgs"]:
        made = type(name, (), {"__module__": module.__name__})
        setattr(module, name, made)
    args = module.XttsArgs()
    args.gpt_layers, args.tokenizer_file = 30, ""
    config = module.XttsConfig()
    config.model, config.temperature, config.languages, config.model_args = "xtts", 0.75, ["en", "model"], args
    config.large = 1 << 70
    return config


def make_files(out):
    whole = {"config": make_config(), "model": tensors(), "step": 3}
    torch.save(whole, out / "torch_zip.pth")
    torch.save(whole, out / "torch_legacy.pth", _use_new_zipfile_serialization=False)
    torch.save(whole, out / "torch_protocol4.pth", pickle_protocol=4)
    torch.serialization.set_crc32_options(False)
    torch.save({"model": tensors()}, out / "torch_nocrc.pth")
    torch.serialization.set_crc32_options(True)
    torch.save(count(80), out / "torch_bare.pth")
    layer = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    with torch.no_grad():
        for t in layer.state_dict().values():
            t.copy_(count(*t.shape) if t.is_floating_point() else torch.tensor(4))
    torch.save(layer.state_dict(), out / "torch_ordered.pth")


def make_layout(out):
    for name in list(sys.modules):
        if name == "TTS" or name.startswith("TTS."):
            del sys.modules[name]
    from TTS.encoder.models.resnet import ResNetSpeakerEncoder
    from TTS.tts.configs.xtts_config import XttsArgs, XttsConfig
    from TTS.tts.layers.xtts.dvae import DiscreteVAE
    from TTS.tts.layers.xtts.hifigan_decoder import HifiDecoder
    from TTS.tts.models.xtts import Xtts
    keys = dict(gpt_layers=2, gpt_n_model_channels=48, gpt_n_heads=2, gpt_number_text_tokens=40, gpt_start_text_token=30,
                gpt_stop_text_token=0, gpt_num_audio_tokens=34, gpt_start_audio_token=32, gpt_stop_audio_token=33,
                gpt_max_audio_tokens=41, gpt_max_text_tokens=24, decoder_input_dim=48, d_vector_dim=24)
    model = Xtts(XttsConfig(model_args=XttsArgs(gpt_use_perceiver_resampler=True, **keys)))
    model.hifigan_decoder = HifiDecoder(decoder_input_dim=48, d_vector_dim=24, upsample_initial_channel_decoder=16)
    audio = dict(fft_size=512, win_length=400, hop_length=160, sample_rate=16000, preemphasis=0.97, num_mels=64)
    model.hifigan_decoder.speaker_encoder = ResNetSpeakerEncoder(
        input_dim=64, proj_dim=24, layers=[1, 2, 1, 1], num_filters=[8, 16, 24, 32], log_input=True, use_torch_spec=True,
        audio_config=audio)
    dvae = DiscreteVAE(channels=80, normalization=None, positional_dims=1, num_tokens=32, codebook_dim=12, hidden_dim=16,
                       num_resnet_blocks=3, kernel_size=3, num_layers=2, use_transposed_convs=False)
    keys.update(decoder_channels=16, speaker_filters_1=8, speaker_filters_2=16, speaker_filters_3=24,
                speaker_filters_4=32, speaker_blocks_1=1, speaker_blocks_2=2, speaker_blocks_3=1, speaker_blocks_4=1,
                dvae_hidden=16, dvae_codebook_dim=12)
    named = {**model.state_dict(), **{"dvae." + k: v for k, v in dvae.state_dict().items() if "discrete_loss" not in k}}
    lines = [f"{k} = {v}" for k, v in keys.items()] + [" ".join([k, *map(str, v.shape)]) for k, v in sorted(named.items())]
    (out / "xtts_layout.txt").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--layout", action="store_true")
    options = parser.parse_args()
    make_files(options.out)
    if options.layout:
        make_layout(options.out)


if __name__ == "__main__":
    main()
