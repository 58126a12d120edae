#!/usr/bin/env python3
"""Two ranks on two computers, as far as a network is concerned: namespaces joined by a link of 1 Gbit/s and 10 ms
(link.py). Skipped where such a link cannot be made."""
import os
import re
import signal
import stat
import subprocess
import sys
import time

from share import HANGS_S, MODULE, TANDEM, InFolder, environment, main

DEVICE = "cl:portable-computing-language.0"
NAME = f"td{os.getpid()}"
SUBNET = "10.99.0.0/24"
KEEPALIVE = ("--mca", "oob_tcp_keepalive_time", "4", "--mca", "oob_tcp_keepalive_intvl", "3", "--mca",
             "oob_tcp_keepalive_probes", "3")
HERE = os.path.dirname(os.path.abspath(__file__))


def enter(end, *command):
    """A command in one of the namespaces, on a computer of another name."""
    return ["ip", "netns", "exec", f"{NAME}-{end}", "unshare", "--uts", "sh", "-c", f"hostname {NAME}-{end}; exec \"$@\"",
            "sh", *command]


class Link(InFolder):
    DATASET = (16, 150000, 500)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.link = subprocess.Popen([sys.executable, "-B", os.path.join(HERE, "link.py"), NAME, "1000", "10"],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        cls.addClassCleanup(cls.take_down)
        if cls.link.stdout.readline() != "ready\n":
            print("no link of network namespaces can be made here:", cls.link.stderr.read().strip().splitlines()[-1])
            cls.take_down()
            os._exit(77)
        # mpirun starts the other computer's ranks by this instead of ssh; $1 is the address
        cls.agent = os.path.join(cls.folder, "agent.sh")
        with open(cls.agent, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\nshift\nexec ip netns exec {NAME}-b unshare --uts sh -c \"hostname {NAME}-b; exec $*\"\n")
        os.chmod(cls.agent, stat.S_IRWXU)

    @classmethod
    def take_down(cls):
        cls.link.send_signal(signal.SIGCONT)
        cls.link.communicate("")

    def command(self, run, steps, *more, size="pico"):
        return [TANDEM, "train", "--model-device", DEVICE, "--model-size", size, "--train-data",
                self.path("set"), "--language", "en", "--batch-size", "4", "--max-steps", str(steps),
                "--checkpoint-dir", self.path(run), "--val-every", "0", "--sample-every", "0",
                "--bucket-mb", "1", *more]

    def start(self, *command):
        own = environment({"OMPI_MCA_btl": "self,tcp", "OMPI_MCA_btl_tcp_if_include": SUBNET,
                           "OMPI_MCA_oob_tcp_if_include": SUBNET, "OMPI_MCA_plm_rsh_agent": self.agent})
        job = subprocess.Popen(enter("a", "mpirun", "--host", "10.99.0.1:1,10.99.0.2:1", "-n", "2", "--bind-to", "none",
                                     "-x", "TANDEM_MPI_MODULE", *command),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=own)
        self.addCleanup(job.kill)
        return job

    def finish(self, job, timeout=HANGS_S):
        out, text = job.communicate(timeout=timeout)
        self.assertEqual(job.returncode, 0, out + text)
        return text

    def checkpoint(self, run, step):
        with open(self.path(run, f"checkpoint-{step}.safetensors"), "rb") as file:
            return file.read()

    def test_gradients_travel_behind_the_backward_pass(self):
        """With a model that has much work for its parameters: 3.7 million, most of them in its sixteen decoder layers,
        whose gradients are the first to be final. The ranks, the link between them and whatever else runs have this
        computer's cores in turns, so that sums take longer on a busy one: TANDEM_TEST_QUIET says that it is not, and 0.6
        are to be hidden. Buckets that left only after the backward pass would all be waited for, on any computer."""
        deep = ("--set", "model.decoder_layers=16", "--set", "model.text_layers=2", "--batch-size", "8")
        text = self.finish(self.start(*self.command("together", 3, *deep, size="nano")))
        found = re.search(r"gradients of a step: .* ([0-9.-]+) of it hidden", text)
        self.assertIsNotNone(found, text)
        print(found.group(0))
        self.assertGreaterEqual(float(found.group(1)), 0.6 if "TANDEM_TEST_QUIET" in os.environ else 0.2, text)

    def cut(self, run, *mca):
        """A run whose link goes silent after its first checkpoint. Gives back the job and when that was."""
        job = self.start(*mca, *self.command(run, 100000, "--save-every", "2"))
        end = time.monotonic() + HANGS_S
        while not os.path.exists(self.path(run, "latest")):
            self.assertIsNone(job.poll(), job.returncode)
            self.assertLess(time.monotonic(), end, "no checkpoint came")
            time.sleep(0.05)
        self.link.send_signal(signal.SIGSTOP)
        self.addCleanup(self.link.send_signal, signal.SIGCONT)
        return job, time.monotonic()

    def ours(self, name):
        """Process IDs of this test's programs of a name."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                    words = file.read().split("\0")
            except OSError:
                continue
            if os.path.basename(words[0]) == name and any(self.folder in word for word in words):
                found.append(int(pid))
        return found

    def test_a_link_that_is_cut_ends_the_job(self):
        """mpirun notices it where it is told to look, ends everything, and the run goes on to the bits of one rank."""
        job, cut = self.cut("cut", *KEEPALIVE)
        _, text = job.communicate(timeout=60)
        took = time.monotonic() - cut
        self.link.send_signal(signal.SIGCONT)
        self.assertNotEqual(job.returncode, 0)
        self.assertIn("10.99.0.2", text)
        self.assertLess(took, 30)
        steps = [int(name[11:-12]) for name in os.listdir(self.path("cut"))
                 if name.startswith("checkpoint-")]
        last = max(steps) + 1
        self.finish(self.start(*self.command("cut", last)))
        whole = subprocess.run(self.command("whole", last, "--grad-accum", "2"), capture_output=True, text=True,
                               timeout=HANGS_S)
        self.assertEqual(whole.returncode, 0, whole.stderr)
        self.assertTrue(self.checkpoint("cut", last) == self.checkpoint("whole", last))

    def test_ranks_notice_a_silent_link_themselves(self):
        """Where mpirun was not told to look it stays, but the ranks end and say which one is gone."""
        job, cut = self.cut("silent")
        while self.ours("tandem") and time.monotonic() - cut < 60:
            time.sleep(0.2)
        took = time.monotonic() - cut
        for name in ("mpirun", "orted"):
            for pid in self.ours(name):
                os.kill(pid, signal.SIGKILL)
        _, text = job.communicate(timeout=60)
        self.assertIn(f"no sign of life of rank 1 (on {NAME}-b)", text)
        self.assertLess(took, 30)


if __name__ == "__main__":
    if os.geteuid() != 0 and MODULE:
        print("network namespaces need root")
        sys.exit(77)
    main()
