#!/usr/bin/env python3
"""The calls of src/cluster between real processes: sums bit by bit, and how a rank that fails ends them all."""
import subprocess
import unittest

from share import HANGS_S, PROBE, environment, main, ranks


class Calls(unittest.TestCase):
    def test_alone(self):
        done = subprocess.run([PROBE], capture_output=True, text=True, timeout=HANGS_S)
        self.assertEqual((done.returncode, done.stdout), (0, "ranks 1 alone\n"), done.stderr)

    def test_every_call_on_two_and_three_ranks(self):
        for n in (2, 3):
            done = ranks(n, PROBE)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, rf"^ranks {n} Open MPI [0-9.]+\n$")

    def test_one_that_fails_ends_all(self):
        for _ in range(10):  # the launcher sometimes loses its own message
            done = ranks(2, PROBE, "fail")
            if "ORTE_ERROR_LOG" not in done.stderr:
                break
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("rank 1", done.stderr)

    def test_a_failure_ends_a_rank_that_is_busy(self):
        """By itself, before the others have missed its signs of life for too long."""
        done = ranks(2, PROBE, "busy")
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn("no sign of life", done.stderr)

    def test_without_the_module_it_says_what_to_install(self):
        done = ranks(2, PROBE, env={"TANDEM_MPI_MODULE": "/nowhere/libtandem_mpi.so"})
        self.assertEqual(done.returncode, 2)
        self.assertIn("openmpi-bin", done.stderr)

    def test_without_a_launcher_there_is_no_mpi(self):
        done = subprocess.run([PROBE], capture_output=True, text=True, timeout=HANGS_S,
                              env=environment({"TANDEM_MPI_MODULE": "/nowhere/libtandem_mpi.so"}))
        self.assertEqual(done.returncode, 0, done.stderr)


main()
