"""What the tests of several ranks share: programs, and how to start them together."""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from array import array

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from tones import make_dataset

PROBE, TANDEM, MORE, MODULE, FAULTS = sys.argv[1:6]
HANGS_S = 600  # what takes this long hangs; nothing here is judged by its pace


def ranks(n, *command, env=None, timeout=HANGS_S):
    """Runs a command on n ranks of this computer and gives back what came of it."""
    return subprocess.run(launcher(n) + list(command), capture_output=True, text=True, timeout=timeout,
                          env=environment(env))


def launcher(n):
    return ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(n)]


def environment(more=None):
    """Root may start ranks here, and nothing is looked for on a network. Open MPI leaves memory behind in many places, so
    that sanitizers do not look for leaks where it is."""
    own = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_btl": "self,vader,tcp",
           "OMPI_MCA_btl_tcp_if_include": "lo", "OMPI_MCA_oob_tcp_if_include": "lo"}
    if "ASAN_OPTIONS" in os.environ:
        own["ASAN_OPTIONS"] = os.environ["ASAN_OPTIONS"] + ":detect_leaks=0"
    return {**os.environ, **own, "TANDEM_MPI_MODULE": MODULE, **(more or {})}


def read_tensors(path):
    """Names to values of a safetensors file."""
    with open(path, "rb") as file:
        content = file.read()
    (size,) = struct.unpack("<Q", content[:8])
    tensors = {}
    for name, entry in json.loads(content[8:8 + size]).items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            tensors[name] = array("f", content[8 + size + begin:8 + size + end])
    return tensors


class InFolder(unittest.TestCase):
    """Tests with a folder and a dataset in it, "set"."""
    DATASET = (24, 6000, 400)

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="tandem-cluster-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        make_dataset(os.path.join(cls.folder, "set"), *cls.DATASET)

    def path(self, *names):
        return os.path.join(self.folder, *names)


def main():
    """Runs the tests of the file that was started, or those named behind the programs, or ends with 77 where ranks cannot
    be."""
    if not MODULE or shutil.which("mpirun") is None:
        print("Open MPI is not here (Debian: libopenmpi-dev, openmpi-bin): nothing to try with several ranks")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[6:], verbosity=2)
