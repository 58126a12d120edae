"""Finds the compilers of the gate, and fetches those that can be fetched into a directory of our own.

Nothing is installed into the system: Debian's libclc packages exclude each other, and intel-opencl-icd would add a
platform to every OpenCL program. The directory is $GATE_TOOLS, else tandem-gate in the user's cache directory.
"""
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

HOME = Path(os.environ.get("GATE_TOOLS")
            or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tandem-gate")
ROOT = HOME / "debian"
WHEELS = HOME / "nvidia"
LLVM = "19"
DEBIAN_PACKAGES = [f"clang-{LLVM}", f"libclang-cpp{LLVM}", f"libllvm{LLVM}", f"libclang-common-{LLVM}-dev", f"libclc-{LLVM}",
                   f"libclc-{LLVM}-dev",
                   "intel-opencl-icd", "libigc1", "libigdfcl1", "libigdgmm12", "libopencl-clang14", "libllvmspirvlib14"]
NVIDIA_WHEELS = {"ptxas": "nvidia-cuda-nvcc", "nvdisasm": "nvidia-cuda-nvdisasm"}
FETCH_DEBIAN = "scripts/gpu_gate.sh --install debian"
FETCH_NVIDIA = "scripts/gpu_gate.sh --install nvidia"


def environment(**more):
    """The environment of a fetched program: its libraries lie beside it."""
    paths = [str(ROOT / "usr/lib/x86_64-linux-gnu"), os.environ.get("LD_LIBRARY_PATH", "")]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(p for p in paths if p), **more}


def find_llvm():
    """(clang, directory of libclc's bitcode), fetched or installed, or None. LLVM before 16 counts waves wrongly."""
    fetched = ROOT / f"usr/lib/llvm-{LLVM}/bin/clang", ROOT / "usr/lib/clc"
    if fetched[0].exists() and fetched[1].is_dir():
        return fetched
    installed, bitcode = shutil.which(f"clang-{LLVM}"), Path("/usr/lib/clc")
    return (Path(installed), bitcode) if installed and (bitcode / "amdgcn--amdhsa.bc").exists() else None


def find_ocloc():
    fetched = ROOT / "usr/bin/ocloc"
    installed = shutil.which("ocloc")
    return fetched if fetched.exists() else Path(installed) if installed else None


def package_version(name):
    """Of a Debian package, fetched or installed, without Debian's own part."""
    fetched = ROOT / "versions"
    lines = fetched.read_text().splitlines() if fetched.exists() else []
    found = [line.split()[1] for line in lines if line.split()[0] == name]
    if not found and shutil.which("dpkg-query"):
        found = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], capture_output=True, text=True).stdout.split()
    return found[0].rsplit("-", 1)[0] if found else "of unknown version"


def find_nvidia(program):
    """ptxas or nvdisasm: $PTXAS or $NVDISASM, the path, CUDA's folder, or what --install fetched."""
    named = os.environ.get(program.upper())
    places = [Path(named)] if named else []
    found = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")
    places += [Path(found)] if found else []
    places += sorted(WHEELS.glob(f"nvidia/*/bin/{program}"))
    return next((place for place in places if place.exists()), None)


def find_anv_shim():
    """Mesa's libintel_noop_drm_shim.so, which no package ships (docs/gpu_portability.md)."""
    place = Path(os.environ.get("ANV_SHIM") or HOME / "libintel_noop_drm_shim.so")
    return place if place.exists() else None


def run(command, **more):
    subprocess.run(command, check=True, **more)


def install_debian():
    if find_llvm() and find_ocloc():
        return
    if not shutil.which("apt-get"):
        raise OSError("no apt-get here: install clang and libclc of one version, 16 or newer, and Intel's ocloc by hand")
    partial = HOME / "debian.partial"
    shutil.rmtree(partial, ignore_errors=True)
    (partial / "packages").mkdir(parents=True)
    print(f"gpu_gate: fetching {' '.join(DEBIAN_PACKAGES)} into {ROOT}", file=sys.stderr)
    run(["apt-get", "download", "-qq", *DEBIAN_PACKAGES], cwd=partial / "packages", stderr=subprocess.DEVNULL)
    packages = sorted((partial / "packages").glob("*.deb"))
    for package in packages:
        run(["dpkg", "-x", package, partial])
    (partial / "versions").write_text("".join(" ".join(package.stem.split("_")[:2]) + "\n" for package in packages))
    shutil.rmtree(partial / "packages")
    shutil.rmtree(ROOT, ignore_errors=True)
    partial.rename(ROOT)


def install_nvidia():
    for program, package in NVIDIA_WHEELS.items():
        if find_nvidia(program):
            continue
        print(f"gpu_gate: fetching {package} (NVIDIA's licence) into {WHEELS}", file=sys.stderr)
        folder = WHEELS / "wheels"
        folder.mkdir(parents=True, exist_ok=True)
        run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, package])
        for wheel in folder.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(WHEELS)
        shutil.rmtree(folder)
        for place in WHEELS.glob("nvidia/*/bin/*"):
            place.chmod(0o755)


def install(what):
    """Fetches "debian" (AMD, Intel and the front end for NVIDIA), "nvidia" (ptxas, nvdisasm), or "all". Returns an exit code."""
    code = 0
    for name, fetch in (("debian", install_debian), ("nvidia", install_nvidia)):
        if what in (name, "all"):
            try:
                fetch()
            except (OSError, subprocess.CalledProcessError) as failure:
                print(f"gpu_gate: {name}: {failure}", file=sys.stderr)
                code = 1
    return code
