#!/usr/bin/env python3
"""Every call on a file fails, once and for ever: no space, a broken disk, lost permission. `train`, `train` going on,
`prepare`, `synth` and `report` then end by themselves with a message, or do without; and afterwards all is as if
nothing had been.

    python3 tests/faults/test_files.py TANDEM FAULT_PRELOAD [WALK...]     (TANDEM_FAULT_MOMENTS=1000 for many)

WALK: train, mels, going-on, prepare, synth, report; all if none is named. With TANDEM_FAULT_MOMENTS=all every call
fails, and each of them twice: alone, and with all that come after it. TANDEM_FAULT_CALLS="stat readdir" takes only
those.
"""

import os
import re
import shutil
import sys

from common import MOMENTS, PROGRAM, Workshop, choose, differ, forget, read

COUNT = MOMENTS or 3
ONCE = ("ENOSPC", "EIO", "EMFILE")
FOR_EVER = ("EACCES:ever", "EIO:ever", "ENOSPC:ever", "EROFS:ever")
KINDS = os.environ.get("TANDEM_FAULT_CALLS", "").split()
TOLD_EVERY = 200


def faults(count, calls, name):
    """Which calls fail, and how: `count` of them in one way each, or all of them, alone and with all after them."""
    numbers = [n for n, call in enumerate(calls, 1) if not KINDS or call in KINDS]
    chosen = choose(count, numbers, name)
    if len(chosen) < len(numbers):
        ways = ONCE + FOR_EVER
        return [(n, ways[i % len(ways)]) for i, n in enumerate(chosen)]
    return [(n, ways[n % len(ways)]) for ways in (ONCE, FOR_EVER) for n in chosen]


def names_place(message, path):
    """A temporary file is told by the name that it was to have."""
    return os.path.basename(path.split(".tmp-")[0]) in message


class Walk:
    """Starts with a run that nothing disturbed: `wanted` is its outcome, `whole` a copy of its folder."""

    def __init__(self, shop):
        self.shop = shop
        self.tried = self.lost = self.refused = self.survived = 0
        done = shop.do(shop.train_command())
        assert done.returncode == 0, done.stderr
        self.wanted, self.whole = shop.outcome(), shop.path("whole")
        shutil.copytree(shop.run, self.whole)

    def lose(self, what, problem):
        self.lost += 1
        print(f"LOST  {what}: {problem}", flush=True)

    def go(self, name, command, begin, end, again, count):
        """The n-th call of `command` fails, for many n. begin(): the state before; end(done): what a run that ended
        well has to show; again(): the problem with a run without a fault afterwards, or None."""
        begin()
        calls = self.shop.list_calls(command)
        chosen = faults(count, calls, name)
        for i, (n, error) in enumerate(chosen):
            if i % TOLD_EVERY == TOLD_EVERY - 1:
                print(f"files: {name}, {i} of {len(chosen)} moments, losses {self.lost}", flush=True)
            code, _, lasts = error.partition(":")
            self.shop.borrow_kernels()
            begin()
            done = self.shop.do(command, f"{code}:{n}{':' + lasts if lasts else ''}")
            fired = self.shop.fired()
            what = f"{name}, call {n} of {len(calls)} {fired}, {error}"
            self.tried += 1
            errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
            if done.returncode not in (0, 1, 2):
                self.lose(what, f"ended with {done.returncode}: {done.stderr.strip()[-600:]}")
            elif done.returncode != 0 and (len(errors) != 1 or len(errors[0]) < 30):
                self.lose(what, f"ended with {done.returncode} and said: {done.stderr.strip()[-600:]}")
            elif done.returncode != 0 and not lasts and not names_place(errors[0], fired[1]):
                self.lose(what, f"does not name the place: {errors[0]}")
            else:
                self.refused += done.returncode != 0
                self.survived += done.returncode == 0
                problem = end(done, fired) if done.returncode == 0 else None
                problem = problem or again(done, fired)
                if problem:
                    self.lose(what, problem)


def tells_of_row(done, fired):
    """A recording that could not be read was left out, which changes the batches: allowed if it is said."""
    return done.returncode == 0 and fired and "wavs/" in fired[1] and "warning" in done.stderr


def walk_training(walk, name, begin, count, *options):
    """begin(): the state to start from."""
    shop, wanted = walk.shop, walk.wanted
    command = shop.train_command(*options)

    def end(done, fired):
        return None if tells_of_row(done, fired) else differ(wanted, shop.outcome())

    def again(done, fired):
        if tells_of_row(done, fired):
            return None
        finished = shop.do(command)
        if finished.returncode != 0 or "damaged" in finished.stderr:
            return f"going on ended with {finished.returncode}: {finished.stderr.strip()}"
        return shop.problem(wanted)

    walk.go(name, command, begin, end, again, count)


def walk_from_nothing(walk, name, count, *options):
    def begin():
        walk.shop.forget_run()
        walk.shop.forget_data()

    walk_training(walk, name, begin, count, *options)


def walk_train(walk):
    walk_from_nothing(walk, "train", COUNT // 3)


def walk_mels(walk):
    walk_from_nothing(walk, "train with mels on disk", COUNT // 3, "--mel-cache", "disk")


def walk_going_on(walk):
    shop = walk.shop
    half = shop.path("half")
    shop.forget_run()
    shop.do(shop.train_command(), "kill:1000")  # somewhere after the first checkpoint
    os.rename(shop.run, half)

    def begin():
        shop.forget_run()
        shutil.copytree(half, shop.run)

    walk_training(walk, "train going on", begin, COUNT // 3)


def walk_prepare(walk):
    shop = walk.shop
    folder = os.path.join(shop.cache, "data")

    def state():
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return {name: read(os.path.join(folder, name)) for name in names if ".tmp-" not in name}

    shop.forget_data()
    assert shop.do(shop.prepare_command()).returncode == 0
    wanted = state()

    def again(done, fired):
        shop.do(shop.prepare_command())
        return differ(wanted, state())

    walk.go("prepare", shop.prepare_command(), shop.forget_data, lambda done, fired: None, again, COUNT // 6 or 1)


def walk_synth(walk):
    shop = walk.shop
    voice, out = os.path.join(walk.whole, "checkpoint-6.safetensors"), shop.path("said.wav")
    with open(shop.path("own.ini"), "w", encoding="utf-8") as file:
        file.write("[training]\nseed = 3\n")
    command = [PROGRAM, "synth", "--checkpoint", voice, "--text", "Say a now.", "-o", out, "--device", "cpu", "--config",
               shop.path("own.ini"), "--cache-dir", shop.cache]
    done = shop.do(command)
    assert done.returncode == 0, done.stderr
    wanted = read(out)

    def end(done, fired):
        return None if read(out) == wanted else "another sound"

    def again(done, fired):
        left = [name for name in os.listdir(shop.folder) if name.startswith("said.wav")]
        if done.returncode != 0 and "said.wav" in left and read(out) != wanted:
            return "half a sound was left"
        return end(done, fired) if shop.do(command).returncode == 0 else "synth fails afterwards"

    walk.go("synth", command, lambda: forget(out), end, again, COUNT // 6 or 1)


def walk_report(walk):
    shop = walk.shop
    out = shop.path("report.html")
    command = [PROGRAM, "report", shop.run, "-o", out]
    shop.forget_run()
    assert shop.do(shop.train_command("--sample-every", "3")).returncode == 0
    assert shop.do(command).returncode == 0

    def read_page():
        return re.sub(rb'"made_at": *"[^"]*"', b"", read(out))

    wanted = read_page()

    def end(done, fired):
        page = read_page()
        told = b"cannot" in page and page.rstrip().endswith(b"</html>")
        return None if page == wanted or told else "the page does not tell what it leaves out"

    def again(done, fired):
        if done.returncode != 0 and os.path.exists(out) and read_page() != wanted:
            return "half a page was left"
        return None if shop.do(command).returncode == 0 and read_page() == wanted else "another page afterwards"

    walk.go("report", command, lambda: forget(out), end, again, COUNT // 6)


WALKS = {"train": walk_train, "mels": walk_mels, "going-on": walk_going_on, "prepare": walk_prepare,
         "synth": walk_synth, "report": walk_report}
LONG = ("mels", "going-on")


def main():
    names = sys.argv[3:] or [name for name in WALKS if MOMENTS or name not in LONG]
    shop = Workshop()
    try:
        walk = Walk(shop)
        for name in names:
            WALKS[name](walk)
    finally:
        shop.close()
    print(f"files: {walk.tried} moments tried, {walk.refused} ended with a message, {walk.survived} did without, "
          f"losses {walk.lost}")
    return 1 if walk.lost or not walk.tried else 0


if __name__ == "__main__":
    sys.exit(main())
