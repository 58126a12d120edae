#!/usr/bin/env python3
"""A training step of XTTS-v2's GPT at its published size, by Coqui's code and PyTorch, and by Tandem.

    xtts_step.py [--tandem PROGRAM] [--device SELECTOR] [--steps N] [--skip-torch] [--threads N]

Batch 1, 32 latents, 60 text positions and 120 audio positions (T = 212), random weights, dropout on, AdamW. Prints, for
each, seconds and CPU seconds of a step and the peak of resident memory; for Tandem with several ways to save memory.
Both run alone, one after the other. Needs coqui-tts 0.28 and PyTorch; with --skip-torch neither.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import time

TEXT, CODES, SLICE = 58, 115, 517
WAYS = {
    "fp32": [],
    "bf16 state": ["--optimizer-state", "bf16"],
    "int8 state, checkpointing": ["--optimizer-state", "int8", "--checkpointing"],
    "LoRA, fp32 base": ["--model-keys", "tune=lora"],
    "LoRA, bf16 base": ["--model-keys", "tune=lora", "--precision", "bf16"],
    "LoRA, bf16 base, checkpointing": ["--model-keys", "tune=lora", "--precision", "bf16", "--checkpointing"],
}


def run_torch(steps, threads):
    import torch
    from TTS.tts.layers.xtts.gpt import GPT
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = GPT(layers=30, model_dim=1024, heads=16, start_text_token=261, stop_text_token=0, number_text_tokens=6681,
                num_audio_tokens=1026, start_audio_token=1024, stop_audio_token=1025, max_text_tokens=402,
                max_mel_tokens=605, max_prompt_tokens=70, use_perceiver_resampler=True, code_stride_len=1024).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-6, betas=(0.9, 0.96), eps=1e-8, weight_decay=0.01)
    batch = (torch.randint(2, 200, (1, TEXT)), torch.tensor([TEXT]), torch.randint(0, 1024, (1, CODES)),
             torch.tensor([CODES * 1024]))
    taken = []
    for _ in range(steps + 1):
        before, cpu = time.perf_counter(), time.process_time()
        text, codes, _ = model(*batch, cond_mels=torch.randn(1, 1, 80, SLICE), cond_idxs=torch.tensor([[1000, 90000]]))
        (0.01 * text + codes).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        taken.append((time.perf_counter() - before, time.process_time() - cpu))
    return taken[1:], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run_tandem(args, options):
    command = [args.tandem, "bench", "step", "--device", args.device, "--family", "xtts", "--model-size", "base",
               "--batch-size", "1", "--text-length", str(TEXT), "--mel-frames", str(4 * CODES), "--steps", str(args.steps),
               "--json", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out = process.stdout.read()
    error = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)}: {error}")
    made = json.loads(out.strip().splitlines()[-1])
    return made, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", default="build/release/tandem")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--skip-torch", action="store_true")
    parser.add_argument("--only", help="one of Tandem's ways, by its name")
    args = parser.parse_args()
    if not args.skip_torch:
        taken, peak = run_torch(args.steps, args.threads)
        wall, cpu = (sorted(t[i] for t in taken)[len(taken) // 2] for i in range(2))
        print(f"{'PyTorch':32} {wall:7.2f} s, CPU {cpu:7.2f} s, peak {peak / 1e9:5.2f} GB", flush=True)
    for name, options in WAYS.items():
        if args.only in (None, name):
            made, peak = run_tandem(args, options)
            print(f"{name:32} {made['ms_per_step']['median'] / 1e3:7.2f} s, CPU {made['cpu_ms_per_step'] / 1e3:7.2f} s, peak "
                  f"{peak / 1e9:5.2f} GB, of the device {made['peak_device_bytes'] / 1e9:5.2f} GB", flush=True)


if __name__ == "__main__":
    main()
