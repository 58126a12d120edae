#!/usr/bin/env python3
"""Training on several ranks of this computer: the bits of one rank with as many micro-batches, the life of a job."""
import json
import os
import random
import re
import signal
import subprocess
import time

from share import FAULTS, HANGS_S, MODULE, MORE, InFolder, environment, launcher, main, make_dataset, ranks, read_tensors

DEVICE = "cl:portable-computing-language.0"
VOCABULARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle", "golden", "xtts_vocab.json")
# parameters come so late that whoever does not wait for them reads those of the step before
LATE = {"TANDEM_MPI_MODULE": FAULTS, "TANDEM_FAULT_MODULE": MODULE, "TANDEM_FAULT_DELAY_MS": "20"}
SMALL_MB = "0.05"  # several buckets even of a small model


def read(path):
    with open(path, "rb") as file:
        return file.read()


def ranks_of(parent, wanted):
    """Process IDs of the ranks that a launcher has started, in their order, once all are training."""
    found = {}
    for pid in os.listdir("/proc"):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                facts = dict(pair.split(b"=", 1) for pair in file.read().split(b"\0") if b"=" in pair)
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                is_child = int(file.read().rsplit(")", 1)[1].split()[1]) == parent
        except (OSError, ValueError):
            continue
        if is_child and b"OMPI_COMM_WORLD_RANK" in facts:
            found[int(facts[b"OMPI_COMM_WORLD_RANK"])] = int(pid)
    return [found[i] for i in range(wanted)] if len(found) == wanted else None


class Cluster(InFolder):
    def command(self, run, steps, *more, family="toy"):
        return [MORE, "train", "--model-device", DEVICE, "--set", f"model.family={family}", "--model-size", "pico",
                "--train-data", self.path("set"), "--language", "en", "--batch-size", "2", "--max-steps", str(steps),
                "--checkpoint-dir", self.path(run), "--val-every", "0", "--sample-every", "0", "--quiet",
                *(("--set", "model.width=24") if family == "toy" else ()), *more]

    def train(self, n, run, steps, *more, code=0, env=None, **named):
        done = ranks(n, *self.command(run, steps, *more, **named), env=env) if n > 1 else subprocess.run(
            self.command(run, steps, *more, **named), capture_output=True, text=True, timeout=HANGS_S, env=environment())
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def checkpoint(self, run, step):
        return read(self.path(run, f"checkpoint-{step}.safetensors"))


class Bits(Cluster):
    def compare(self, family, n, *more, name=None, sharded=False):
        """20 steps of one rank and of n: the same file. TANDEM_TEST_RANKS: another number for all families. `sharded`: also
        with moments that are cut among ranks, and parameters that come late."""
        n, name = int(os.environ.get("TANDEM_TEST_RANKS", n)), name or family
        more = ("--average-decay", "0.9", *more)
        self.train(1, f"{name}-alone", 20, "--grad-accum", str(n), *more, family=family)
        whole = self.checkpoint(f"{name}-alone", 20)
        self.train(n, f"{name}-{n}", 20, "--bucket-mb", "1", *more, family=family)
        self.assertTrue(whole == self.checkpoint(f"{name}-{n}", 20), f"{n} ranks and {n} micro-batches of one rank differ")
        if sharded:
            self.train(n, f"{name}-late", 20, "--bucket-mb", SMALL_MB, "--shard-optimizer", *more, family=family, env=LATE)
            self.assertTrue(whole == self.checkpoint(f"{name}-late", 20), "moments that are cut make a difference")

    def test_parallel_on_two(self):
        self.compare("parallel", 2, "--set", "model.dropout=0.2", sharded=True)

    def test_autoregressive_on_four(self):
        self.compare("autoregressive", 4, "--set", "model.dropout=0.2")

    def test_several_learners_on_two(self):
        self.compare("gan", 2, sharded=True)

    def test_vocoder_on_two(self):
        small = {"model.width": 16, "model.inside": 24, "model.blocks": 1, "model.kernel": 3, "model.pitch_width": 8,
                 "model.pitch_layers": 1, "training.crop": 12}
        self.compare("vocoder", 2, *(word for pair in small.items() for word in ("--set", "%s=%s" % pair)))

    def test_a_part_that_nobody_trains_on_two(self):
        self.compare("content", 2)

    def test_aligner_on_two(self):
        self.compare("aligner", 2)

    def test_xtts_on_two(self):
        """A GPT on the codes of a DVAE, both from nothing and shrunk; then adapters of that GPT."""
        self.train(1, "dvae", 2, "--set", "model.hidden=8", "--set", "model.codebook_dim=6", "--set", "model.codes=16",
                   family="dvae")
        small = {"gpt_start_text_token": 5, "gpt_num_audio_tokens": 18, "gpt_start_audio_token": 16,
                 "gpt_stop_audio_token": 17, "gpt_max_audio_tokens": 60, "gpt_max_text_tokens": 40, "conditioning_blocks": 1,
                 "perceiver_layers": 1, "perceiver_heads": 1, "dvae_hidden": 8, "dvae_codebook_dim": 6}
        self.compare("xtts", 2, "--tokenizer", VOCABULARY, "--init-from", self.path("dvae", "checkpoint-2.safetensors"),
                     *(word for key, value in small.items() for word in ("--set", f"model.{key}={value}")))
        self.compare("xtts", 2, "--set", "xtts.tune=lora", "--set", "xtts.lora_rank=2", "--init-from",
                     self.path("xtts-alone", "checkpoint-20.safetensors"), name="lora", sharded=True)

    def test_accumulated_twice_the_same(self):
        """With micro-batches on each rank too the bits are the same every time, though not those of one rank."""
        for run in ("first", "second"):
            self.train(2, run, 5, "--grad-accum", "2")
        self.assertTrue(self.checkpoint("first", 5) == self.checkpoint("second", 5))

    def test_sharded_as_unsharded(self):
        """Moments cut among ranks, and weights in 16 bits too: the same file, also where a run goes on with another number
        of ranks."""
        more = ("--average-decay", "0.9", "--mixed-precision")
        self.train(1, "whole", 6, "--grad-accum", "2", *more, family="parallel")
        self.train(2, "cut", 3, "--shard-optimizer", *more, family="parallel")  # all in the warm-up
        self.train(1, "cut", 4, "--grad-accum", "2", *more, family="parallel")
        self.train(2, "cut", 6, "--shard-optimizer", "--bucket-mb", SMALL_MB, *more, family="parallel", env=LATE)
        self.assertTrue(self.checkpoint("whole", 6) == self.checkpoint("cut", 6))

    def test_bf16_on_the_way_is_near(self):
        losses = []
        for form in ("fp32", "bf16"):
            done = self.train(2, form, 20, "--reduce-format", form, "--json")
            events = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertTrue(all(e["ranks"] == 2 for e in events))
            losses.append([e["loss"] for e in events if e["event"] == "step"][-1])
        self.assertFalse(self.checkpoint("fp32", 20) == self.checkpoint("bf16", 20))
        self.assertLess(abs(losses[0] - losses[1]), 1e-3 * losses[0])
        exact, near = (read_tensors(self.path(form, "checkpoint-20.safetensors")) for form in ("fp32", "bf16"))
        for name in filter(lambda name: name.startswith("param."), exact):
            apart = sum((a - b) ** 2 for a, b in zip(exact[name], near[name])) ** 0.5
            self.assertLessEqual(apart, 1e-3 * sum(a * a for a in exact[name]) ** 0.5, name)


class Life(Cluster):
    def start(self, n, run, *more):
        """A run that goes on for long, and its ranks, once it has written a checkpoint."""
        job = subprocess.Popen(launcher(n) + self.command(run, 100000, "--save-every", "2", *more),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        self.addCleanup(job.kill)
        end = time.monotonic() + HANGS_S
        while not os.path.exists(self.path(run, "latest")):
            self.assertIsNone(job.poll(), job.returncode)
            self.assertLess(time.monotonic(), end, "no checkpoint came")
            time.sleep(0.05)
        return job, ranks_of(job.pid, n)

    def steps(self, run):
        """Of checkpoints, without what was being written aside."""
        names = os.listdir(self.path(run)) if os.path.isdir(self.path(run)) else ()
        return sorted(int(name[11:-12]) for name in names if re.fullmatch(r"checkpoint-\d+\.safetensors", name))

    def test_a_signal_to_one_rank_ends_all_with_a_checkpoint(self):
        job, pids = self.start(2, "asked")
        os.kill(pids[1], signal.SIGTERM)
        _, text = job.communicate(timeout=HANGS_S)
        self.assertEqual(job.returncode, 128 + signal.SIGTERM, text)
        last = self.steps("asked")[-1]
        done = self.train(3, "asked", last + 2, "--json")  # another number of ranks goes on
        self.assertEqual(json.loads(done.stdout.splitlines()[0])["start_step"], last)
        self.assertEqual(self.steps("asked")[-1], last + 2)

    def test_a_rank_that_dies_ends_all(self):
        job, pids = self.start(2, "killed")
        os.kill(pids[1], signal.SIGKILL)
        start = time.monotonic()
        _, text = job.communicate(timeout=HANGS_S)
        self.assertLess(time.monotonic() - start, 10)
        self.assertNotEqual(job.returncode, 0)
        self.assertIn("rank 1", text)
        # What it left is whole, and going on from there is as if it had never been broken.
        last = self.steps("killed")[-1]
        for run in ("killed", "unbroken"):
            self.train(2, run, last + 2)
        self.assertTrue(self.checkpoint("killed", last + 2) == self.checkpoint("unbroken", last + 2))

    def test_a_rank_killed_at_any_moment(self):
        """kill -9 of a random rank at random moments, from the start of the ranks on; TANDEM_TEST_KILLS: of how many
        runs. Whatever checkpoint is there is that of an unbroken run, and so is what comes of going on from it."""
        steps, draw, n_runs = 100, random.Random(19), int(os.environ.get("TANDEM_TEST_KILLS", 3))
        options = ("--save-every", "1", "--keep-checkpoints", "1000", "--average-decay", "0.9", "--shard-optimizer")
        self.train(2, "unbroken-kills", steps, *options)
        killed_at, n_missed, folder = [], 0, 0  # killed_at: the last checkpoint then
        while len(killed_at) < n_runs:
            run = f"kills-{folder}"
            was_killed = self.kill_one(run, steps, options, draw, n_checkpoints=0 if len(killed_at) % 3 == 2 else 12)
            for step in self.steps(run):
                self.assertTrue(self.checkpoint(run, step) == self.checkpoint("unbroken-kills", step), (run, step))
            if was_killed:
                killed_at.append(max(self.steps(run), default=0))
            else:
                n_missed += 1
                self.assertLess(n_missed, 5 + n_runs)
            if not was_killed or len(killed_at) % 4 == 0 or len(killed_at) == n_runs:
                self.train(2, run, steps, *options)
                self.assertTrue(self.checkpoint(run, steps) == self.checkpoint("unbroken-kills", steps), run)
                folder += 1
        if n_runs > 3:
            print(f"killed with these checkpoints there: {killed_at}; {n_missed} had ended before")

    def kill_one(self, run, steps, options, draw, n_checkpoints):
        """Starts a run and kills one of its two ranks: a little after up to n_checkpoints new ones, or while it starts (0).
        Gives back whether it did; how far a run gets meanwhile depends on the computer, and it may have ended."""
        job = subprocess.Popen(launcher(2) + self.command(run, steps, *options), stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, env=environment())
        self.addCleanup(job.kill)
        pids, enough = None, len(self.steps(run)) + (draw.randint(1, n_checkpoints) if n_checkpoints else 0)
        while pids is None and job.poll() is None:
            pids = ranks_of(job.pid, 2)
        while job.poll() is None and len(self.steps(run)) < enough:
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.02 if n_checkpoints else 0.4))
        victim = draw.randrange(2)
        try:
            os.kill(pids[victim], signal.SIGKILL)
        except (ProcessLookupError, TypeError):
            victim = None
        _, text = job.communicate(timeout=HANGS_S)
        if job.returncode == 0:
            return False
        self.assertIn(f"rank {victim}", text)
        return True

    def test_every_call_can_fail(self):
        """The n-th call of the module fails on one rank: all end, one says which rank it was, and what lies in the
        folder is whole."""
        more = ("--save-every", "1", "--shard-optimizer")

        def run(folder, rank, at):
            return ranks(2, *self.command(folder, 2, *more), timeout=HANGS_S,
                         env={"TANDEM_MPI_MODULE": FAULTS, "TANDEM_FAULT_MODULE": MODULE, "TANDEM_FAULT_RANK": str(rank),
                              "TANDEM_FAULT_AT": str(at), "TANDEM_FAULT_COUNT": self.path("calls")})

        self.assertEqual(run("sound", 0, 0).returncode, 0)
        calls = int(read(self.path("calls")))
        self.assertGreater(calls, 20)
        stride = 1 if os.environ.get("TANDEM_TEST_ALL_CALLS") else max(1, calls // 3)  # each takes some seconds
        for at in {1, *range(2, calls + 1, stride), calls}:
            with self.subTest(call=at):
                done = run(f"fault-{at}", at % 2, at)
                self.assertNotEqual(done.returncode, 0)
                self.assertEqual(done.stderr.count("failed in"), 1, done.stderr)  # the launcher may write into the line
                self.assertIn(f"rank {at % 2}: ", done.stderr)
                if at > 1:
                    self.train(2, f"fault-{at}", 2, *more)
                    self.assertTrue(self.checkpoint(f"fault-{at}", 2) == self.checkpoint("sound", 2))

    def test_what_differs_is_named(self):
        make_dataset(self.path("other"), 24, 7000, 400)
        for more, what in ((("--batch-size", "1"), "--batch-size"), (("--optimizer-state", "bf16"), "[training]"),
                           (("--set", "model.width=32"), "model"), (("--train-data", self.path("other")), "dataset")):
            with self.subTest(what=what):
                one, other = self.command("unlike", 5), self.command("unlike", 5, *more)
                done = subprocess.run(launcher(1) + one + [":", "-n", "1"] + other, capture_output=True, text=True,
                                      timeout=HANGS_S, env=environment())
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(done.stderr.count("error: rank 1 (on "), 1, done.stderr)
                self.assertIn(f"another {'configuration of ' if what[0] == '[' else ''}{what}", done.stderr)

    def test_another_build_is_named(self):
        """The same program but for the name of its build."""
        told = subprocess.run([MORE, "--version"], capture_output=True, text=True, check=True).stdout.split()
        build = f"{told[1]} {told[2][1:-1]}\0".encode("ascii")
        self.assertIn(build, read(MORE))
        with open(self.path("other-build"), "wb") as file:
            file.write(read(MORE).replace(build, build[:-2] + b"#\0"))
        os.chmod(self.path("other-build"), 0o700)
        one = self.command("builds", 5)
        done = subprocess.run(launcher(1) + one + [":", "-n", "1", self.path("other-build")] + one[1:], capture_output=True,
                              text=True, timeout=HANGS_S, env=environment())
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("another build of tandem than rank 0", done.stderr)

    def test_without_the_module_it_says_what_to_install(self):
        """However late the rank is that tells it."""
        late = ["sh", "-c", "[ $OMPI_COMM_WORLD_RANK = 1 ] || sleep 2; exec \"$@\"", "sh"]
        done = ranks(2, *late, *self.command("nothing", 5), env={"TANDEM_MPI_MODULE": "/nowhere/libtandem_mpi.so"})
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("openmpi-bin"), 1, done.stderr)
        self.assertFalse(os.path.exists(self.path("nothing")))

    def test_averages_of_batches_are_not_trained_by_ranks(self):
        done = ranks(2, *self.command("codes", 2, family="dvae"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("moves with every batch, which ranks do not share yet", done.stderr)

    def test_a_failure_is_told_once_and_by_whom(self):
        missing = self.command("bad", 5)
        missing[missing.index(self.path("set"))] = self.path("no-such-set")
        done = ranks(2, *missing)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stderr.count("error: rank 0 of 2"), 1, done.stderr)


main()
