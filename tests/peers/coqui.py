#!/usr/bin/env python3
"""Coqui's own code beside `tandem import` and `tandem export`, on a shrunk model with random weights.

    python3 tests/peers/coqui.py PROGRAM [WORK_DIR]

Needs a venv with coqui-tts 0.28, its trainer, torch, safetensors and tokenizers, outside the tree. Writes model folders
as Coqui and its trainer do, lets PROGRAM import them, and compares every tensor to the bit; exports the voice, loads it
with torch.load(weights_only=True) and with Xtts.load_checkpoint, and compares logits; lets both speak a text greedily
and compares codes and latents. Fine-tunes the voice, whole and with adapters, and lets Coqui load what is exported of
both: its logits are those of the parameters in the run's checkpoint, to which PyTorch adds the adapters here. Prints a
line for each check; ends with 1 if one failed.
"""
import json
import shutil
import subprocess
import sys
import tempfile
import wave
from pathlib import Path

import torch
import safetensors.torch
from tokenizers import Tokenizer, models, pre_tokenizers

from TTS.tts.configs.xtts_config import XttsArgs, XttsConfig
from TTS.tts.layers.xtts.dvae import DiscreteVAE
from TTS.tts.models.xtts import Xtts

D_VECTOR = 512  # the loader builds the vocoder at its full width
faults = 0


def check(name, holds):
    global faults
    faults += not holds
    print(f"{'ok    ' if holds else 'FAILED'} {name}", flush=True)


def make_vocab(path):
    letters = "abcdefghijklmnopqrstuvwxyz.,!?'-"
    special = ["[STOP]", "[UNK]", "[SPACE]", "[en]", "[de]", "[START]"]
    vocab = {piece: i for i, piece in enumerate([*special, *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(special)
    tokenizer.save(str(path))


def make_config(tokens):
    args = XttsArgs(gpt_layers=2, gpt_n_model_channels=64, gpt_n_heads=2, gpt_number_text_tokens=tokens,
                    gpt_start_text_token=5, gpt_stop_text_token=0, gpt_num_audio_tokens=34, gpt_start_audio_token=32,
                    gpt_stop_audio_token=33, gpt_max_audio_tokens=40, gpt_max_text_tokens=24,
                    gpt_use_perceiver_resampler=True, decoder_input_dim=64, d_vector_dim=D_VECTOR)
    return XttsConfig(model_args=args, languages=["en", "de"], temperature=0.7)


def make_model(config):
    torch.manual_seed(1)
    model = Xtts(config)
    with torch.no_grad():
        for name, t in model.state_dict().items():
            if t.is_floating_point() and "torch_spec" not in name:
                t.copy_(torch.rand_like(t) * 0.2 + (0.5 if name.endswith(("running_var", "mel_stats")) else -0.1))
    state = {k: v.clone() for k, v in model.state_dict().items()}
    model.eval()  # adds gpt.gpt_inference.*
    return model, state


def run(program, *arguments):
    made = subprocess.run([program, *map(str, arguments), "--json"], capture_output=True, text=True)
    document = json.loads(made.stdout) if made.stdout else {}
    if made.returncode != 0:
        print(made.stderr)
    return made.returncode, document


def is_equal(name, voice, wanted, dtype=None):
    same = set(wanted) <= set(voice) and all(
        voice[k].dtype == (dtype if dtype and v.is_floating_point() else v.dtype) and
        torch.equal(voice[k], v.to(voice[k].dtype)) for k, v in wanted.items())
    check(name, same)


def logits(model):
    text = torch.tensor([[5, 8, 9, 10, 11, 0]])
    codes = torch.arange(10).unsqueeze(0) % 32
    torch.manual_seed(3)
    mel = torch.randn(1, 1, 80, 52)
    with torch.no_grad():
        return model.gpt(text, torch.tensor([6]), codes, torch.tensor([10240]), cond_mels=mel, cond_idxs=None,
                         cond_lens=None)[2]


def make_folders(work, model, state, config, dvae, speakers):
    """As Coqui's files are, as newer ones are, and as a trainer's checkpoint is."""
    plain = json.loads(config.to_json())
    folders = {}
    for name in ["object", "dict", "legacy", "trainer", "tensors", "half"]:
        folder = folders[name] = work / name
        folder.mkdir()
        make_vocab(folder / "vocab.json")
        (folder / "config.json").write_text(json.dumps(plain, indent=4))
    torch.save({"config": config, "model": state}, folders["object"] / "model.pth")
    torch.save(dvae, folders["object"] / "dvae.pth")
    torch.save(speakers, folders["object"] / "speakers_xtts.pth")
    torch.save({"model": model.state_dict(), "config": plain}, folders["dict"] / "model.pth")
    (folders["dict"] / "config.json").unlink()
    old = {k.replace("parametrizations.weight.original0", "weight_g").replace("parametrizations.weight.original1",
                                                                              "weight_v"): v for k, v in state.items()}
    old["gpt.gpt.h.0.attn.bias"] = torch.ones(1, 1, 8, 8, dtype=torch.bool)
    old["gpt.gpt.wte.weight"] = state["gpt.mel_embedding.weight"]
    old["gpt.gpt_inference.lm_head.0.weight"] = state["gpt.final_norm.weight"]
    torch.save({"model": old}, folders["legacy"] / "model.pth", _use_new_zipfile_serialization=False)
    trained = {"xtts." + k: v for k, v in state.items()}
    trained.update({"dvae." + k: v for k, v in dvae.items()})
    trained["torch_mel_spectrogram_dvae.mel_stft.spectrogram.window"] = torch.hann_window(1024)
    parameter = torch.nn.Parameter(torch.randn(7, 5))
    optimizer = torch.optim.AdamW([parameter])
    parameter.sum().backward()
    optimizer.step()
    torch.save({"config": plain, "model": trained, "optimizer": [optimizer.state_dict()], "step": 3, "epoch": 1,
                "date": "today", "model_loss": {"train_loss": 1.0}}, folders["trainer"] / "best_model.pth")
    safetensors.torch.save_file({k: v.contiguous().clone() for k, v in state.items()},
                                folders["tensors"] / "model.safetensors")
    torch.save({"model": {k: v.half() if v.is_floating_point() else v for k, v in state.items()}},
               folders["half"] / "model.pth")
    return folders


def speak(program, voice, model, speaker):
    """The same text by both, greedily: Tandem's dump, and what Coqui's model that loaded the export makes."""
    dump, text = voice.with_suffix(".dump"), "hello, dear friend."
    made = subprocess.run([program, "synth", "--checkpoint", voice, "--speaker", "Ana", "--language", "en", "--text", text,
                           "--greedy", "--no-guard", "--dump-synth", dump, "-o", voice.with_suffix(".wav")],
                          capture_output=True, text=True)
    print(made.stderr, end="")
    ours = safetensors.torch.load_file(dump)
    with torch.no_grad():
        tokens = torch.IntTensor(model.tokenizer.encode(text, lang="en")).unsqueeze(0)
        codes = model.gpt.generate(cond_latents=speaker["gpt_cond_latent"], text_inputs=tokens, do_sample=False,
                                   num_beams=1, top_k=None, top_p=None, temperature=None, num_return_sequences=1,
                                   repetition_penalty=float(model.config.repetition_penalty))[0]
        whole = model.inference(text, "en", speaker["gpt_cond_latent"], speaker["speaker_embedding"], do_sample=False,
                                num_beams=1, repetition_penalty=float(model.config.repetition_penalty))
    codes = codes[codes != model.args.gpt_stop_audio_token].to(torch.int32)
    check("both speak the same codes", torch.equal(ours["synth.codes"], codes))
    latents = torch.from_numpy(whole["gpt_latents"][0])[:len(codes)]
    error = float((ours["synth.latents"] - latents).norm() / latents.norm())
    check(f"with the same latents (relative error {error:.1e})", error <= 5e-6)


def make_recordings(root):
    (root / "wavs").mkdir(parents=True)
    rows = [f"r{i}|say {word} now." for i, word in enumerate(["one", "two", "three", "four", "five", "six"])]
    (root / "metadata.csv").write_text("\n".join(rows) + "\n")
    torch.manual_seed(4)
    for i in range(len(rows)):
        with wave.open(str(root / f"wavs/r{i}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(22050)
            file.writeframes((torch.randn(12000 + 400 * i) * 3000).to(torch.int16).numpy().tobytes())


def load(folder):
    config = XttsConfig()
    config.load_json(str(folder / "config.json"))
    model = Xtts.init_from_config(config)
    model.load_checkpoint(config, checkpoint_dir=str(folder), eval=True, use_deepspeed=False)
    return model


def fine_tune(program, work, voice, before, tune):
    """Three updates, exported; the same parameters put into Coqui's model by hand."""
    trained = subprocess.run([program, "train", "--model-device", "cpu", "--init-from", voice, "--train-data", work / "set",
                              "--checkpoint-dir", work / tune, "--language", "en", "--batch-size", "2", "--max-steps", "3",
                              "--val-every", "0", "--sample-every", "0", "--max-mel-frames", "60", "--set", "training.lr=1e-2",
                              "--set", f"xtts.tune={tune}", "--set", "xtts.lora_rank=2"], capture_output=True, text=True)
    check(f"{tune}: training ends with 0", trained.returncode == 0)
    print(trained.stderr if trained.returncode else "", end="")
    made = work / tune / "checkpoint-3.safetensors"
    code, _ = run(program, "export", made, "-o", work / f"{tune}-out", "--format", "coqui")
    check(f"{tune}: export ends with 0", code == 0)
    values = {name.removeprefix("param."): value for name, value in safetensors.torch.load_file(made).items()}
    model = load(work / f"{tune}-out")
    got = logits(model)
    state = model.state_dict()
    for name in before:
        if name not in values:
            continue
        state[name] = values[name]
        a, b = (values.get(f"{name.removesuffix('.weight')}.lora_{half}.weight") for half in "AB")
        if a is not None:
            state[name] = values[name] + 32 / 2 * (b.double() @ a.double()).T.float()
    model.load_state_dict(state)
    wanted = logits(model)
    error = float((got - wanted).norm() / wanted.norm())
    moved = float((got - logits(load(work / "out"))).norm() / wanted.norm())
    check(f"{tune}: Coqui's logits are those of the run's parameters (relative error {error:.1e}, moved by {moved:.1e})",
          error <= 1e-6 and moved > 1e-3)


def main():
    program = sys.argv[1]
    work = Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp(prefix="tandem-coqui-"))
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    make_vocab(work / "vocab.json")
    config = make_config(len(json.loads((work / "vocab.json").read_text())["model"]["vocab"]))
    model, state = make_model(config)
    torch.manual_seed(2)
    dvae = DiscreteVAE(channels=80, normalization=None, positional_dims=1, num_tokens=32, codebook_dim=16, hidden_dim=16,
                       num_resnet_blocks=3, kernel_size=3, num_layers=2, use_transposed_convs=False).state_dict()
    speakers = {n: {"gpt_cond_latent": torch.randn(1, 32, 64), "speaker_embedding": torch.randn(1, D_VECTOR, 1)}
                for n in ["Ana", "Ana.h", "Zed Löw"]}
    folders = make_folders(work, model, state, config, dvae, speakers)
    for name, folder in folders.items():
        before = {p.name: p.read_bytes() for p in folder.iterdir()}
        code, told = run(program, "import", folder, "-o", work / f"{name}.safetensors")
        check(f"{name}: import ends with 0", code == 0)
        if code != 0:
            continue
        check(f"{name}: the source is as it was", before == {p.name: p.read_bytes() for p in folder.iterdir()})
        check(f"{name}: parameters of the GPT", told["parts"]["gpt"] == sum(p.numel() for p in model.gpt.parameters()))
        voice = safetensors.torch.load_file(work / f"{name}.safetensors")
        wanted = {k: v.half().float() if name == "half" and v.is_floating_point() else v for k, v in state.items()}
        is_equal(f"{name}: every tensor to the bit", voice, wanted)
        print("       ignored", told["ignored"], "missing", told["missing"])
        if name in ("object", "trainer"):
            kept = {"dvae." + k: v for k, v in dvae.items() if "discrete_loss" not in k}
            is_equal(f"{name}: the DVAE too", voice, kept)
    voice = safetensors.torch.load_file(work / "object.safetensors")
    is_equal("object: speakers", voice, {f"speakers.{n}.{k}": v for n, s in speakers.items() for k, v in s.items()})

    code, _ = run(program, "export", work / "object.safetensors", "-o", work / "out", "--format", "coqui")
    check("export ends with 0", code == 0)
    loaded = torch.load(work / "out/model.pth", weights_only=True)
    check("model.pth has one key", list(loaded) == ["model"])
    check("model.pth has every tensor to the bit", set(loaded["model"]) == set(state) and
          all(torch.equal(loaded["model"][k], v) and loaded["model"][k].dtype == v.dtype for k, v in state.items()))
    mapped = torch.load(work / "out/model.pth", weights_only=True, mmap=True)["model"]
    check("model.pth can be mapped", all(torch.equal(mapped[k], v) for k, v in state.items()))
    back = torch.load(work / "out/speakers_xtts.pth", weights_only=True)
    check("speakers_xtts.pth", all(torch.equal(back[n][k], v) for n, s in speakers.items() for k, v in s.items()))
    check("mel_stats.pth", torch.equal(torch.load(work / "out/mel_stats.pth", weights_only=True), state["mel_stats"]))
    check("dvae.pth", all(torch.equal(v, dvae[k]) for k, v in torch.load(work / "out/dvae.pth", weights_only=True).items()))
    fresh = load(work / "out")
    check("Coqui's loader gives the same logits", torch.equal(logits(fresh), logits(model)))
    speak(program, work / "object.safetensors", fresh, speakers["Ana"])
    make_recordings(work / "set")
    for tune in ("full", "lora"):
        fine_tune(program, work, work / "object.safetensors", state, tune)
    code, _ = run(program, "import", work / "out", "-o", work / "again.safetensors")
    check("import of the export is the voice, byte for byte", code == 0 and
          (work / "again.safetensors").read_bytes() == (work / "object.safetensors").read_bytes())
    for weights, dtype in [("bf16", torch.bfloat16), ("fp16", torch.float16)]:
        code, _ = run(program, "import", folders["object"], "-o", work / f"{weights}.safetensors", "--weights", weights)
        is_equal(f"--weights {weights}", safetensors.torch.load_file(work / f"{weights}.safetensors"), state, dtype)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
