#!/usr/bin/env python3
"""Golden numbers of XTTS-v2, by the public package coqui-tts on shrunk models.

    python3 make_xtts_golden.py OUT_DIR [CASE...]

Needs a venv with coqui-tts 0.28.0, torch, torchaudio, transformers 4.57, tokenizers and soundfile; the suite reads the
files and needs none of them. Nothing of the package is written into them but numbers, and names and shapes of tensors.

Writes OUT_DIR/xtts_vocab.json and, for each case, OUT_DIR/xtts_CASE.safetensors. Weights are not stored: both sides
compute them from their names (see `first_values`), as they do the recordings (see `recording`). Metadata: the keys of
src/families/xtts/xtts_config.h, and text, language, references, stop_bias (added to the logit of the stop code, so that
one case ends by itself). Waves are stored every `STRIDE`-th sample.

    tensors                 text: "NAME DIM DIM ..;" for each tensor of the state dict
    reference_22k, _16k     first recording as it is heard, every STRIDE-th sample
    mel                     [frames, bands] of the first chunk, divided by mel_stats
    cond_latents            [32, width];  speaker_embedding [d], _exact: in double, from which fp32 is off by 1e-4
    filters, filter_at      of the speaker encoder's front end: what is not zero, and where;  window: of the same
    tokens                  of the text;  tokens.LANGUAGE of TEXTS
    codes, latents, logits  of greedy decoding with the case's repetition penalty; logits before it
    short_wave              whole, of the first SHORT latents
    wave, fast_wave         of all latents, and at a speed of 1.3
    stream, stream_chunks   concatenated chunks, and their lengths
    sampling_logits, sampling_history, sampling_probabilities
"""
import copy
import json
import struct
import sys
import tempfile
from pathlib import Path

import numpy as np
import soundfile
import torch
import torchaudio
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

torchaudio.load = lambda path: (lambda x, rate: (torch.from_numpy(x.T.copy()), rate))(
    *soundfile.read(str(path), dtype="float32", always_2d=True))

from TTS.encoder.models.resnet import ResNetSpeakerEncoder  # noqa: E402
from TTS.tts.configs.xtts_config import XttsArgs, XttsConfig  # noqa: E402
from TTS.tts.layers.xtts.hifigan_decoder import HifiDecoder  # noqa: E402
from TTS.tts.layers.xtts.tokenizer import VoiceBpeTokenizer  # noqa: E402
from TTS.tts.models.xtts import Xtts, load_audio, wav_to_mel_cloning  # noqa: E402
from transformers import LogitsProcessorList, RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper  # noqa: E402
from transformers import TopKLogitsWarper, TopPLogitsWarper  # noqa: E402

STRIDE = 11
SHORT = 6
AUDIO = dict(fft_size=512, win_length=400, hop_length=160, sample_rate=16000, preemphasis=0.97, num_mels=64)
TEXTS = {"en": "we left, the camera under the bridge!", "de": "die brücke ist \"alt\".", "fr": "où est-il? là-bas",
         "es": "¿qué tal?", "pl": "dzień dobry", "nl": "een klein huis", "tr": "iyi günler"}

# recordings: (rate, channels, samples, seed)
CASES = {
    "a": dict(layers=2, width=64, heads=2, audio_tokens=34, max_audio=48, max_text=40, decoder=32, d_vector=24,
              filters=[8, 16, 24, 32], blocks=[1, 1, 1, 1], text="hello there, dear friend.", language="en", penalty=5.0,
              references=[(22050, 1, 27000, 1), (44100, 2, 40000, 2)], chunk=1, cond=3, chunk_codes=20, stop_bias=0.0),
    "b": dict(layers=3, width=128, heads=2, audio_tokens=50, max_audio=33, max_text=50, decoder=16, d_vector=40,
              filters=[8, 8, 16, 24], blocks=[1, 2, 1, 1], text="guten tag, liebe brücke", language="de", penalty=2.0,
              references=[(24000, 1, 21000, 3)], chunk=2, cond=2, chunk_codes=7,
              stop_bias=3.0),
    "c": dict(layers=5, width=96, heads=3, audio_tokens=27, max_audio=29, max_text=61, decoder=48, d_vector=17,
              filters=[16, 8, 8, 40], blocks=[2, 1, 1, 2], text="où est-il? là-bas", language="fr", penalty=1.5,
              references=[(44100, 1, 46000, 4), (16000, 2, 20000, 5)], chunk=1, cond=2, chunk_codes=5, stop_bias=0.0),
}
WORDS = ["hello there dear friend", "the camera was left under the bridge", "guten tag liebe brücke", "die brücke ist alt",
         "où est il là bas", "qué tal", "dzień dobry", "een klein huis", "iyi günler", "we see the water there"]


def first_values(name, shape):
    """Uniform numbers from splitmix64, seeded by the FNV-1a hash of the name."""
    with np.errstate(over="ignore"):
        h = np.uint64(0xcbf29ce484222325)
        for byte in name.encode():
            h = (h ^ np.uint64(byte)) * np.uint64(0x100000001b3)
        x = h + (np.arange(int(np.prod(shape)), dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    v = ((x >> np.uint64(40)).astype(np.float32) * np.float32(2.0 ** -23) - np.float32(1)).reshape(shape)
    f = np.float32
    if name.endswith("running_var"):
        return f(1) + f(0.3) * v
    if name.endswith(("running_mean", "bias")):
        return f(0.1) * v
    if name == "mel_stats":
        return f(2) + f(0.5) * v
    if name.endswith("original0"):
        return f(0.75) + f(0.25) * v
    if name.endswith("original1"):
        return v
    if len(shape) == 1:
        return f(1) + f(0.1) * v
    if "embedding" in name or name.endswith("latents"):
        return f(0.5) * v
    inputs = shape[0] if ".c_" in name else int(np.prod(shape[1:]))
    gain = 4 if name.endswith("mel_head.weight") else 1
    return f(gain * np.sqrt(3 / inputs)) * v


def recording(rate, channels, samples, seed):
    """Three triangles with a slow envelope and noise, in integers."""
    i = np.arange(samples, dtype=np.int64)
    out = np.zeros((samples, channels), dtype=np.int64)
    for c in range(channels):
        s = np.zeros(samples, dtype=np.int64)
        for k, period in enumerate([rate // (110 + 13 * seed), rate // (420 + 31 * c), rate // (1900 + 170 * seed)]):
            s += np.abs(2 * (i % period) - period) * (9000 >> k) // period - (4500 >> k)
        noise = (((i + 977 * c) * 1103515245 + 12345 * seed) >> 7) % 2048 - 1024
        envelope = 40 + np.abs(i % 9000 - 4500) // 25
        out[:, c] = (s * envelope >> 8) + noise
    return out.astype(np.int16)


def make_vocab(path):
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = ["[STOP]", "[UNK]", "[SPACE]", "[en]", "[de]", "[START]", "[fr]", "[es]", "[pl]", "[nl]", "[tr]"]
    trainer = trainers.BpeTrainer(vocab_size=90, special_tokens=special,
                                  initial_alphabet=list("abcdefghijklmnopqrstuvwxyz.,!?'-"), show_progress=False)
    tokenizer.train_from_iterator(WORDS, trainer)
    tokenizer.save(str(path))


def build(case, vocab):
    tokenizer = VoiceBpeTokenizer(vocab_file=vocab)
    args = XttsArgs(gpt_layers=case["layers"], gpt_n_model_channels=case["width"], gpt_n_heads=case["heads"],
                    gpt_number_text_tokens=tokenizer.tokenizer.get_vocab_size(),
                    gpt_start_text_token=tokenizer.tokenizer.token_to_id("[START]"),
                    gpt_stop_text_token=tokenizer.tokenizer.token_to_id("[STOP]"),
                    gpt_num_audio_tokens=case["audio_tokens"], gpt_start_audio_token=case["audio_tokens"] - 2,
                    gpt_stop_audio_token=case["audio_tokens"] - 1, gpt_max_audio_tokens=case["max_audio"],
                    gpt_max_text_tokens=case["max_text"], gpt_use_perceiver_resampler=True,
                    decoder_input_dim=case["width"], d_vector_dim=case["d_vector"])
    model = Xtts(XttsConfig(model_args=args))
    model.tokenizer = tokenizer
    model.hifigan_decoder = HifiDecoder(decoder_input_dim=case["width"], d_vector_dim=case["d_vector"],
                                        upsample_initial_channel_decoder=case["decoder"])
    model.hifigan_decoder.speaker_encoder = ResNetSpeakerEncoder(
        input_dim=64, proj_dim=case["d_vector"], layers=case["blocks"], num_filters=case["filters"], log_input=True,
        use_torch_spec=True, audio_config=AUDIO)
    shapes = {}
    with torch.no_grad():
        for name, t in model.state_dict().items():
            if name.endswith("num_batches_tracked"):
                continue
            shapes[name] = tuple(t.shape)
            if "torch_spec" not in name:
                t.copy_(torch.from_numpy(first_values(name, tuple(t.shape))))
        model.gpt.mel_head.bias[-1] += case["stop_bias"]
    model.eval()
    model.gpt.init_gpt_for_inference(kv_cache=True, use_deepspeed=False)
    model.gpt.eval()
    return model, shapes


def sample(model, case):
    """Probabilities that a code would be drawn with, for rows of random logits and histories."""
    generator = np.random.default_rng(5)
    vocab, out = case["audio_tokens"], []
    logits = (generator.standard_normal((4, vocab)) * 2).astype(np.float32)
    logits[3, 5] = logits[3, 9]  # the same: top-k keeps ties
    history = np.stack([np.concatenate([[1], [vocab - 2], generator.integers(0, vocab - 2, 6)]) for _ in range(4)])
    for row, k, p, t in zip(range(4), [50, 8, 12, 1], [0.85, 0.85, 1.0, 0.5], [0.75, 1.0, 0.6, 0.75]):
        chain = LogitsProcessorList([RepetitionPenaltyLogitsProcessor(case["penalty"]), TemperatureLogitsWarper(t),
                                     TopKLogitsWarper(k), TopPLogitsWarper(p)])
        scores = chain(torch.from_numpy(history[row:row + 1]), torch.from_numpy(logits[row:row + 1].copy()))
        out.append(torch.softmax(scores, -1).numpy()[0])
    return {"sampling_logits": logits, "sampling_history": history.astype(np.int32),
            "sampling_probabilities": np.stack(out),
            "sampling_settings": np.array([[50, .85, .75], [8, .85, 1], [12, 1, .6], [1, .5, .75]], np.float32)}


def embed_exactly(model, case):
    """The speaker encoder in double, from the samples of the files on."""
    encoder, made = copy.deepcopy(model.hifigan_decoder.speaker_encoder).double(), []
    for rate, channels, samples, seed in case["references"]:
        x = torch.from_numpy(recording(rate, channels, samples, seed).astype(np.float64).mean(1) / 32768)[None]
        x = torchaudio.functional.resample(torchaudio.functional.resample(x, rate, 22050), 22050, 16000)
        made.append(encoder(x, l2_norm=True)[0])
    return torch.stack(made).mean(0)


def greedy(model, tokens, cond, case):
    """Codes by generate(), and the raw logits that it saw."""
    seen = []
    head = model.gpt.gpt_inference.lm_head
    hook = head.register_forward_hook(lambda m, a, out: seen.append(out[0, -1].detach().clone()))
    codes = model.gpt.generate(cond_latents=cond, text_inputs=tokens, do_sample=False, num_beams=1, top_k=None, top_p=None,
                               temperature=None, repetition_penalty=case["penalty"], num_return_sequences=1)
    hook.remove()
    return codes, torch.stack(seen)


@torch.no_grad()
def run(case, vocab):
    model, shapes = build(case, vocab)
    out = {"tensors": np.frombuffer("".join(f"{n} {' '.join(map(str, s))};" for n, s in shapes.items()).encode(), np.uint8)}
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for i, (rate, channels, samples, seed) in enumerate(case["references"]):
            paths.append(f"{folder}/{i}.wav")
            soundfile.write(paths[-1], recording(rate, channels, samples, seed), rate, subtype="PCM_16")
        cond, speaker = model.get_conditioning_latents(paths, gpt_cond_len=case["cond"], gpt_cond_chunk_len=case["chunk"])
        references = [load_audio(p, 22050) for p in paths]
    last = references[-1]
    audio = torch.cat(references, -1)
    out["reference_22k"] = last[0, ::STRIDE].numpy()
    out["reference_16k"] = torchaudio.functional.resample(last, 22050, 16000)[0, ::STRIDE].numpy()
    out["mel"] = wav_to_mel_cloning(audio[:, :22050 * case["chunk"]], mel_norms=model.mel_stats, n_fft=2048, hop_length=256,
                                    win_length=1024)[0].T.numpy()
    out["cond_latents"] = cond[0].numpy()
    out["speaker_embedding"] = speaker[0, :, 0].numpy()
    exact = embed_exactly(model, case)
    filters = model.hifigan_decoder.speaker_encoder.torch_spec[1].mel_scale.fb.numpy().ravel()
    out["filter_at"] = np.flatnonzero(filters).astype(np.int32)
    out["window"] = model.hifigan_decoder.speaker_encoder.torch_spec[1].spectrogram.window.numpy()
    out["filters"] = filters[out["filter_at"]]
    out["speaker_embedding_exact"] = exact.numpy().astype(np.float32)
    print("embedding in fp32 is off by", float((exact - speaker[0, :, 0]).norm() / exact.norm()))
    tokens = torch.IntTensor(model.tokenizer.encode(case["text"], lang=case["language"])).unsqueeze(0)
    out["tokens"] = tokens[0].numpy()
    for language, text in TEXTS.items():
        out[f"tokens.{language}"] = np.array(model.tokenizer.encode(text, lang=language), np.int32)
    codes, logits = greedy(model, tokens, cond, case)
    made = dict(temperature=0.75, top_k=1, top_p=1.0, repetition_penalty=case["penalty"])
    whole = model.inference(case["text"], case["language"], cond, speaker, do_sample=False, **made)
    fast = model.inference(case["text"], case["language"], cond, speaker, do_sample=False, speed=1.3, **made)
    out["codes"], out["logits"] = codes[0].numpy().astype(np.int32), logits.numpy()
    out["latents"], out["wave"] = whole["gpt_latents"][0], whole["wav"][::STRIDE]
    out["fast_wave"] = fast["wav"][::STRIDE]
    out["short_wave"] = model.hifigan_decoder(torch.from_numpy(whole["gpt_latents"][:, :SHORT]), g=speaker).flatten().numpy()
    chunks = [c.numpy() for c in model.inference_stream(case["text"], case["language"], cond, speaker, do_sample=True,
                                                        stream_chunk_size=case["chunk_codes"], **made)]
    out["stream"] = np.concatenate(chunks)[::STRIDE]
    out["stream_chunks"] = np.array([len(c) for c in chunks], np.int32)
    out["wave_samples"] = np.array([len(whole["wav"]), len(fast["wav"])], np.int32)
    out.update(sample(model, case))
    report(case, out, logits)
    return out, metadata(case, model)


def report(case, out, logits):
    """What a reader may want to know before trusting greedy codes: how far the best is before the second."""
    scores, margin = logits.clone(), []
    for step in range(len(scores)):
        history = {1, case["audio_tokens"] - 2, *out["codes"][:step].tolist()}
        for i in history:
            scores[step, i] = scores[step, i] * case["penalty"] if scores[step, i] < 0 else scores[step, i] / case["penalty"]
        top = scores[step].topk(2).values
        margin.append(float(top[0] - top[1]))
    print(len(out["codes"]), "codes", sorted(set(out["codes"].tolist())), "least margin", min(margin))
    print("wave rms", float(np.sqrt(np.mean(out["wave"] ** 2))), "chunks", out["stream_chunks"], "bytes",
          sum(v.nbytes for v in out.values()))


def metadata(case, model):
    a = model.args
    keys = {"gpt_layers": a.gpt_layers, "gpt_n_model_channels": a.gpt_n_model_channels, "gpt_n_heads": a.gpt_n_heads,
            "gpt_number_text_tokens": a.gpt_number_text_tokens, "gpt_start_text_token": a.gpt_start_text_token,
            "gpt_stop_text_token": a.gpt_stop_text_token, "gpt_num_audio_tokens": a.gpt_num_audio_tokens,
            "gpt_start_audio_token": a.gpt_start_audio_token, "gpt_stop_audio_token": a.gpt_stop_audio_token,
            "gpt_max_audio_tokens": a.gpt_max_audio_tokens, "gpt_max_text_tokens": a.gpt_max_text_tokens,
            "decoder_input_dim": case["width"], "d_vector_dim": case["d_vector"], "decoder_channels": case["decoder"],
            "repetition_penalty": case["penalty"], "gpt_cond_len": case["cond"], "gpt_cond_chunk_len": case["chunk"],
            "dvae_hidden": 0}
    for i in range(4):
        keys[f"speaker_filters_{i + 1}"], keys[f"speaker_blocks_{i + 1}"] = case["filters"][i], case["blocks"][i]
    pairs = {f"model.{k}": str(v) for k, v in keys.items()}
    pairs.update(text=case["text"], language=case["language"], stride=str(STRIDE), short=str(SHORT),
                 chunk_codes=str(case["chunk_codes"]), stop_bias=str(case["stop_bias"]),
                 references="".join(" ".join(map(str, r)) + "\n" for r in case["references"]))
    pairs.update({f"text.{k}": v for k, v in TEXTS.items()})
    return pairs


def write(path, tensors, pairs):
    names = {np.dtype(np.float32): "F32", np.dtype(np.int32): "I32", np.dtype(np.uint8): "U8"}
    header, data = {"__metadata__": pairs}, b""
    for name, t in sorted(tensors.items(), key=lambda item: item[1].dtype == np.uint8):
        t = np.ascontiguousarray(t)
        header[name] = {"dtype": names[t.dtype], "shape": list(t.shape), "data_offsets": [len(data), len(data) + t.nbytes]}
        data += t.tobytes()
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    folder = Path(sys.argv[1])
    vocab = folder / "xtts_vocab.json"
    make_vocab(vocab)
    for name, case in CASES.items():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        tensors, pairs = run(case, vocab)
        write(folder / f"xtts_{name}.safetensors", tensors, pairs)


if __name__ == "__main__":
    main()
