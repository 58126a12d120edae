#!/usr/bin/env python3
"""Started by a launcher, but without the module that joins ranks, as where Open MPI is not installed.

    python3 tests/cli/test_cluster.py /path/to/tandem

Needs neither Open MPI nor a launcher: what a launcher leaves in the environment is enough.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from tones import make_dataset

PROGRAM = "./tandem"
LAUNCHERS = {"mpirun (Open MPI)": ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
             "an MPI launcher (PMI)": ("PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID"),
             "srun (Slurm)": ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID")}


class WithoutModule(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-alone-")
        self.addCleanup(self.folder.cleanup)
        self.program = shutil.copy(PROGRAM, self.path("tandem"))  # the module is looked for beside it

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run_rank(self, launcher, size, rank, *options, local=None):
        known = {name for names in LAUNCHERS.values() for name in names}
        environment = {name: value for name, value in os.environ.items() if name not in known | {"TANDEM_MPI_MODULE"}}
        told = (size, rank) if local is None else (size, rank, local)
        environment.update(zip(LAUNCHERS[launcher], map(str, told)))
        return subprocess.run([self.program, "train", "--model-device", "cpu", "--train-data", self.path("set"),
                               "--checkpoint-dir", self.path("run"), *options], capture_output=True, text=True,
                              timeout=120, env=environment)

    def test_it_says_what_to_install(self):
        for launcher in LAUNCHERS:
            with self.subTest(launcher=launcher):
                done = self.run_rank(launcher, 2, 0)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"started by {launcher}", done.stderr)
                self.assertIn("openmpi-bin", done.stderr)
                self.assertIn("--cluster none", done.stderr)
                self.assertFalse(os.path.exists(self.path("run")))
                other = self.run_rank(launcher, 4, 3, local=1)  # one rank of each computer tells it
                self.assertEqual((other.returncode, other.stderr), (2, ""))
                other = self.run_rank(launcher, 4, 2, local=0)
                self.assertEqual(other.returncode, 2)
                self.assertIn(f"rank 2 (on {os.uname().nodename}), started by", other.stderr)
                self.assertIn("openmpi-bin", other.stderr)

    def test_alone_it_trains(self):
        make_dataset(self.path("set"), 6, 6000, 400)
        less = ("--model-size", "pico", "--language", "en", "--batch-size", "2", "--max-steps", "1", "--val-every", "0",
                "--sample-every", "0")
        for size, more in ((1, ()), (2, ("--cluster", "none"))):
            done = self.run_rank("mpirun (Open MPI)", size, 0, *less, *more)
            self.assertEqual(done.returncode, 0, done.stderr)
        refused = self.run_rank("mpirun (Open MPI)", 1, 0, *less, "--cluster", "mpi")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("mpirun -n 2", refused.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
