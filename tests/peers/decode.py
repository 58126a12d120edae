#!/usr/bin/env python3
"""Times PyTorch's GPT-2 with a cache beside `tandem bench decode` on the same cores, turn by turn, as JSON.

    decode.py --tandem PROGRAM [--device SEL] [--weights fp32,bf16,int8] [--layers 30] [--width 1024] [--turns 3]

One code at a time behind a prompt of 132 rows, random weights, fp32 in PyTorch. PyTorch and transformers are tools of
this comparison alone: pip install torch transformers.
"""
import argparse
import json
import statistics
import subprocess
import time

import torch
from transformers import GPT2Config, GPT2Model

CODES = 1026


def make_peer(layers, width, rows):
    config = GPT2Config(n_layer=layers, n_embd=width, n_head=width // 64, vocab_size=CODES, n_positions=rows,
                        activation_function="gelu_new")
    return GPT2Model(config).eval(), torch.nn.Linear(width, CODES)


@torch.inference_mode()
def time_torch(peer, prompt, codes):
    """Codes a second, by the median code."""
    model, head = peer
    cache = model(torch.randint(CODES, (1, prompt)), use_cache=True).past_key_values
    code, seconds = torch.zeros(1, 1, dtype=torch.long), []
    for _ in range(codes + 2):
        start = time.perf_counter()
        out = model(code, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        code = head(out.last_hidden_state[:, -1]).argmax(-1, keepdim=True)
        seconds.append(time.perf_counter() - start)
    return 1 / statistics.median(seconds[2:])


def time_ours(args, weights):
    out = subprocess.run([args.tandem, "bench", "decode", "--device", args.device, "--weights", weights, "--layers",
                          str(args.layers), "--width", str(args.width), "--prompt", str(args.prompt), "--codes",
                          str(args.codes), "--json"], check=True, stdout=subprocess.PIPE).stdout
    return json.loads(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tandem", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--weights", default="fp32,bf16,int8")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--prompt", type=int, default=132)
    parser.add_argument("--codes", type=int, default=40)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    peer = make_peer(args.layers, args.width, args.prompt + args.codes + 4)
    formats = args.weights.split(",")
    theirs, ours = [], {name: [] for name in formats}
    for _ in range(args.turns):
        theirs.append(time_torch(peer, args.prompt, args.codes))
        for name in formats:
            ours[name].append(time_ours(args, name))
    result = {"torch": torch.__version__, "threads": args.threads, "codes_per_s_torch": statistics.median(theirs)}
    for name, runs in ours.items():
        ratios = [run["codes_per_s"] / peer_speed for run, peer_speed in zip(runs, theirs)]
        result[name] = {"codes_per_s": statistics.median(run["codes_per_s"] for run in runs),
                        "ratio": statistics.median(ratios), "ratios": [round(r, 2) for r in ratios],
                        "gbps": statistics.median(run["gbps"] for run in runs),
                        "share_of_copy": statistics.median(run["share_of_copy"] for run in runs)}
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
