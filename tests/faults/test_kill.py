#!/usr/bin/env python3
"""kill -9 at many moments of `train`, of the resumed `train` and of `prepare`: going on gives the files of a run that
was never broken, byte for byte, and no half file is ever taken for good. The same of XTTS, whole and with adapters, whose
batches come from a device of their own.

    python3 tests/faults/test_kill.py TANDEM FAULT_PRELOAD      (TANDEM_FAULT_MOMENTS=1000 for many)
"""

import os
import random
import signal
import subprocess
import sys
import time

from common import MOMENTS, SEED, Workshop, choose, differ, read

COUNT = MOMENTS or 3
VOCABULARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle", "golden", "xtts_vocab.json")
# as small as models can be that have all parts
DVAE = {"hidden": 8, "codebook_dim": 6, "codes": 16}
XTTS = {"gpt_start_text_token": 5, "gpt_num_audio_tokens": 18, "gpt_start_audio_token": 16, "gpt_stop_audio_token": 17,
        "gpt_max_audio_tokens": 60, "gpt_max_text_tokens": 40, "conditioning_blocks": 1, "perceiver_layers": 1,
        "perceiver_heads": 1, "dvae_hidden": 8, "dvae_codebook_dim": 6}
TWO = ("--data-device", "cl:0.1", "--model-device", "cl:0.0")


class Walk:
    def __init__(self, shop):
        self.shop = shop
        self.rng = random.Random(SEED)
        self.tried = self.lost = 0
        self.by_call = {}

    def judge(self, what, problem):
        self.tried += 1
        if problem:
            self.lost += 1
            print(f"LOST  {what}: {problem}", flush=True)
        if self.tried % 50 == 0:  # a long walk that is broken off still says how far it came
            print(f"kill: {self.tried} of {COUNT} moments, losses {self.lost}", flush=True)

    def note(self, fired):
        if fired:
            self.by_call[fired[0]] = self.by_call.get(fired[0], 0) + 1

    def finish(self, wanted):
        """Goes on to the end: the problem, or None."""
        done = self.shop.do(self.shop.train_command())
        if done.returncode != 0:
            return f"going on ended with {done.returncode}: {done.stderr.strip()}"
        warnings = [line for line in done.stderr.splitlines() if "warning" in line and "--init-from is not used" not in line]
        if warnings:
            return f"going on met {warnings}"
        return self.shop.problem(wanted)

    def kill_at(self, n, command):
        done = self.shop.do(command, f"kill:{n}")
        fired = self.shop.fired()
        self.note(fired)
        return fired, done.returncode

    def kill_after(self, seconds, command):
        with subprocess.Popen(command, env=self.shop.environment(), stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            time.sleep(seconds)
            process.send_signal(signal.SIGKILL)
            process.wait()


def walk_train(walk, wanted, total, what="train", first=1):
    shop = walk.shop
    for i, n in enumerate(choose(COUNT - COUNT // 4 if MOMENTS else 1, range(first, total + 1), what)):
        shop.forget_run()
        if i % 4 == 0 and first == 1:
            shop.forget_data()
        fired, code = walk.kill_at(n, shop.train_command())
        if fired and code != -signal.SIGKILL:
            walk.judge(f"call {n} of {what} {fired}", f"was to be killed, ended with {code}")
            continue
        if i % 3 == 1:  # and once more while it goes on
            walk.kill_at(walk.rng.randint(1, total), shop.train_command())
        walk.judge(f"call {n} of {what} {fired}", walk.finish(wanted))


def walk_time(walk, wanted, seconds):
    for _ in range(COUNT // 8 or 1):
        walk.shop.forget_run()
        at = walk.rng.uniform(0, seconds)
        walk.kill_after(at, walk.shop.train_command())
        walk.judge(f"after {at:.3f} s of train", walk.finish(wanted))


def walk_prepare(walk):
    shop = walk.shop
    folder = os.path.join(shop.cache, "data")
    shop.forget_data()
    total = len(shop.list_calls(shop.prepare_command()))
    wanted = {name: read(os.path.join(folder, name)) for name in os.listdir(folder)}
    for n in choose(COUNT // 8 or 1, range(1, total + 1), "prepare"):
        shop.forget_data()
        fired, _ = walk.kill_at(n, shop.prepare_command())
        again = shop.do(shop.prepare_command())
        got = {name: read(os.path.join(folder, name)) for name in os.listdir(folder) if ".tmp-" not in name}
        problem = None if again.returncode == 0 and "warning" not in again.stderr else again.stderr.strip()
        walk.judge(f"call {n} of prepare {fired}", problem or differ(wanted, got))


def walk_xtts(walk):
    """A GPT from nothing on the codes of a DVAE, then adapters of that GPT, on two devices that are alike."""
    shop = walk.shop

    def make(what, steps, values, *options):
        shop.more = (*options, *(word for key, value in values.items() for word in ("--set", f"model.{key}={value}")))
        shop.forget_run()
        done = shop.do(shop.train_command(steps=steps))
        assert done.returncode == 0, done.stderr
        os.rename(os.path.join(shop.run, f"checkpoint-{steps}.safetensors"), shop.path(f"{what}.safetensors"))
        return shop.path(f"{what}.safetensors")

    os.environ["POCL_DEVICES"] = "pthread pthread"
    dvae = make("dvae", 2, DVAE, "--family", "dvae")
    base = ("--family", "xtts", "--tokenizer", VOCABULARY, *TWO)
    gpt = make("gpt", 2, XTTS, *base, "--init-from", dvae)
    for what, options in (("xtts", ("--init-from", dvae)),
                          ("adapters of xtts", ("--set", "xtts.tune=lora", "--set", "xtts.lora_rank=2", "--init-from", gpt))):
        shop.more = (*base, *options, *(word for key, value in XTTS.items() for word in ("--set", f"model.{key}={value}")))
        shop.forget_run()
        shop.list_calls(shop.train_command())  # in a short walk the moment lies between the first checkpoint and the last
        first, last = (shop.count_calls_to(f"/checkpoint-{step}.safetensors") for step in (2, 6))
        walk_train(walk, shop.outcome(), last, what, 1 if MOMENTS else first + 100)


def main():
    shop = Workshop()
    try:
        walk = Walk(shop)
        start = time.monotonic()
        total = len(shop.list_calls(shop.train_command()))
        seconds = time.monotonic() - start
        wanted = shop.outcome()
        assert total > 300, f"only {total} calls were seen: the fault cannot be put in their way"
        walk_train(walk, wanted, total)
        walk_time(walk, wanted, seconds)
        walk_prepare(walk)
        walk_xtts(walk)
    finally:
        shop.close()
    calls = ", ".join(f"{count} in {call}" for call, count in sorted(walk.by_call.items()))
    print(f"kill: {walk.tried} moments tried of {total} calls of train ({calls}), losses {walk.lost}")
    return 1 if walk.lost or not walk.tried else 0


if __name__ == "__main__":
    sys.exit(main())
