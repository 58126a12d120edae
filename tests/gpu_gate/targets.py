"""The targets of the gate: how each compiler is called, and how its figures are read.

A family measures [(kernel, target)], of one kernel or, if it takes many, of one target, and gives {(kernel name, target): a
dict of figures or {"error": text}}:
  registers  per work-item; spills  to memory (bytes for NVIDIA, else a count); stack  or scratch, bytes per work-item;
  local  bytes; waves, waves_max  resident per multiprocessor (NVIDIA) or SIMD (AMD); simd  width (Intel);
  ffma  percent of the hottest loop's instructions (tile GEMM on sm_86; None: not counted).
"""
import functools
import os
import re
import subprocess
from pathlib import Path

import tools

CL_OPTIONS = ["-x", "cl", "-cl-std=CL1.2", "-O3", "-Wno-everything", "-Werror=zero-length-array", "-S"]


class Missing(Exception):
    """A tool that is not there or does not work; the text says why and how to get it."""


def call(command, environment=None, **more):
    done = subprocess.run([str(word) for word in command], env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", **more)
    return done.returncode, done.stdout


def refusal(output, code):
    """The line of a compiler's output that says most."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    told = [line for line in lines if re.search(r"error|fatal|abort|assert", line, re.I)]
    return {"error": (told or lines or [f"ended with {code} and no word"])[0]}


def number(pattern, text):
    m = re.search(pattern, text)
    return int(m[1]) if m else 0


class OpenCL:
    """What compiles the flattened OpenCL C, one kernel at a time."""
    optional = False
    takes_many = False

    @staticmethod
    def text(kernel):
        return kernel.flat

    @staticmethod
    def error(kernel):
        return kernel.flat_error

    def measure(self, group):
        return {(kernel.name, target): self.compile(kernel, target) for kernel, target in group}


class Nvidia(OpenCL):
    """OpenCL C -> PTX (clang, libclc) -> machine code (NVIDIA's assembler). One PTX of sm_75 serves all targets."""
    name = "nvidia"
    targets = ["sm_86", "sm_75", "sm_90"]
    # threads, bytes of local memory, groups per multiprocessor; bytes of local memory the system keeps per group
    chips = {"sm_75": (1024, 65536, 16, 0), "sm_86": (1536, 102400, 16, 1024), "sm_90": (2048, 233472, 32, 1024)}

    def __init__(self, work):
        self.work = work
        self.llvm, self.ptxas, self.nvdisasm = tools.find_llvm(), tools.find_nvidia("ptxas"), tools.find_nvidia("nvdisasm")
        if not self.ptxas:
            raise Missing(f"no ptxas; {tools.FETCH_NVIDIA}")
        if not self.llvm:
            raise Missing(f"no clang with libclc; {tools.FETCH_DEBIAN}")

    @functools.cached_property
    def version(self):
        text = call([self.ptxas, "--version"])[1]
        return (f"ptxas {re.search(r'V([0-9.]+)', text)[1]}, {clang_version(self.llvm[0])}"
                f"{'' if self.nvdisasm else ', no nvdisasm'}")

    def measure(self, group):
        kernel = group[0][0]
        ptx = self.work / f"{kernel.name}.ptx"
        code, output = call([self.llvm[0], "-target", "nvptx64-nvidia-nvcl", "-march=sm_75", "-Xclang", "-mlink-builtin-bitcode",
                             "-Xclang", self.llvm[1] / "nvptx64--nvidiacl.bc", *CL_OPTIONS, kernel.flat, "-o", ptx],
                            tools.environment())
        return {(kernel.name, target): refusal(output, code) if code else self.assemble(kernel, ptx, target)
                for _, target in group}

    def assemble(self, kernel, ptx, target):
        binary = self.work / f"{kernel.name}.{target}.cubin"
        code, output = call([self.ptxas, f"-arch={target}", "-v", ptx, "-o", binary])
        if code:
            return refusal(output, code)
        figures = {"registers": number(r"Used (\d+) registers", output), "local": number(r"(\d+) bytes smem", output),
                   "spills": number(r"(\d+) bytes spill stores", output) + number(r"(\d+) bytes spill loads", output),
                   "stack": number(r"(\d+) bytes stack frame", output)}
        figures["waves"], figures["waves_max"] = self.count_warps(figures, kernel.group, target)
        if kernel.body == "gemm_tile" and target == "sm_86":
            figures["ffma"] = ffma_share(call([self.nvdisasm, "-c", binary])[1]) if self.nvdisasm else None
        return figures

    def count_warps(self, figures, group, target):
        """Resident warps of a multiprocessor: four parts of 16384 registers, given out to warps 256 at a time."""
        threads, local, groups, kept = self.chips[target]
        warps = -(-group // 32)
        per_warp = -(-figures["registers"] * 32 // 256) * 256
        fit = min(groups, threads // group, 16384 // max(per_warp, 256) * 4 // warps)
        if figures["local"]:
            fit = min(fit, local // (figures["local"] + kept))
        return fit * warps, threads // 32


def ffma_share(listing):
    """Percent of FFMA among the instructions of the innermost loop that has most of them."""
    operations, labels, loops = [], {}, []
    for line in listing.splitlines():
        if m := re.match(r"\s*(\.L_\w+):", line):
            labels[m[1]] = len(operations)
        elif m := re.match(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)(.*)", line):
            if m[1].startswith("BRA") and (to := re.search(r"\.L_\w+", m[2])) and to[0] in labels:
                loops.append((labels[to[0]], len(operations)))
            operations.append(m[1].split(".")[0])
    inner = [a for a in loops if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in loops)]
    bodies = [operations[first:last + 1] for first, last in inner]
    hottest = max(bodies, key=lambda body: body.count("FFMA"), default=[])
    return round(100 * hottest.count("FFMA") / len(hottest), 1) if hottest else 0.0


class Amd(OpenCL):
    """OpenCL C -> machine code, by LLVM's AMD back end with libclc."""
    name = "amd"
    targets = ["gfx1030", "gfx906", "gfx90a", "gfx1100"]
    waves_max = {"gfx906": 10, "gfx90a": 8, "gfx1030": 16, "gfx1100": 16}

    def __init__(self, work):
        self.work = work
        self.llvm = tools.find_llvm()
        if not self.llvm:
            raise Missing(f"no clang with libclc; {tools.FETCH_DEBIAN}")

    @functools.cached_property
    def version(self):
        return clang_version(self.llvm[0])

    def compile(self, kernel, target):
        listing = self.work / f"{kernel.name}.{target}.s"
        code, output = call([self.llvm[0], "-nogpulib", "-target", "amdgcn--amdhsa", f"-mcpu={target}", "-Xclang",
                             "-mlink-builtin-bitcode", "-Xclang", self.llvm[1] / "amdgcn--amdhsa.bc", *CL_OPTIONS,
                             kernel.flat, "-o", listing], tools.environment())
        if code:
            return refusal(output, code)
        text = listing.read_text()
        facts = text[text.rfind("amdhsa.kernels:"):]
        return {"registers": number(r"\.vgpr_count:\s+(\d+)", facts), "local": number(r"\.group_segment_fixed_size:\s+(\d+)", facts),
                "spills": number(r"\.vgpr_spill_count:\s+(\d+)", facts) + number(r"\.sgpr_spill_count:\s+(\d+)", facts),
                "stack": number(r"\.private_segment_fixed_size:\s+(\d+)", facts),
                "waves": number(r"; Occupancy: (\d+)", text), "waves_max": self.waves_max[target]}


def clang_version(clang):
    return "clang " + re.search(r"version ([0-9.]+)", call([clang, "--version"], tools.environment())[1])[1]


class Intel(OpenCL):
    """OpenCL C -> machine code, by Intel's graphics compiler. It narrows the SIMD width rather than spill."""
    name = "intel"
    targets = ["igc-dg2", "igc-tgllp"]

    def __init__(self, work):
        self.work = work
        self.ocloc = tools.find_ocloc()
        if not self.ocloc:
            raise Missing(f"no ocloc; {tools.FETCH_DEBIAN}")

    @functools.cached_property
    def version(self):
        return f"IGC {tools.package_version('libigc1')}"

    def compile(self, kernel, target):
        folder = self.work / f"{kernel.name}.{target}"
        folder.mkdir(exist_ok=True)
        code, output = call([self.ocloc, "compile", "-file", kernel.flat, "-device", target.removeprefix("igc-"), "--format", "zebin",
                             "-out_dir", folder, "-output", "kernel", "-output_no_suffix", "-options", "-cl-std=CL1.2"],
                            tools.environment())
        if code or not (folder / "kernel").exists():
            return refusal(output, code)
        binary = (folder / "kernel").read_bytes()
        facts = binary[binary.find(b"kernels:"):].decode("latin1")
        memory = re.search(r"per_thread_memory_buffers:\s*\n((?:\s+- .*\n(?:\s{8,}.*\n)*)+)", facts)
        return {"registers": number(r"grf_count:\s+(\d+)", facts), "local": number(r"slm_size:\s+(\d+)", facts),
                "spills": number(r"spilled around (\d+)", output), "simd": number(r"simd_size:\s+(\d+)", facts),
                "stack": sum(map(int, re.findall(r"size:\s+(\d+)", memory[1]))) if memory else 0}


class Vulkan:
    """SPIR-V -> machine code by a Vulkan driver without its hardware, through vkstat.c. One process for all kernels."""
    takes_many = True

    def __init__(self, work):
        self.work = work
        self.vkstat = work / "vkstat"
        code, output = call(["cc", "-O1", Path(__file__).parent / "vkstat.c", "-o", self.vkstat, "-lvulkan"])
        if code:
            raise Missing(f"vkstat.c does not compile; scripts/setup.sh: {refusal(output, code)['error']}")

    @functools.cached_property
    def version(self):
        return f"Mesa {tools.package_version('mesa-vulkan-drivers')}"

    @staticmethod
    def text(kernel):
        return kernel.spirv

    @staticmethod
    def error(kernel):
        return kernel.spirv_error

    def measure(self, group):
        target, cells = group[0][1], {}
        text = "".join(f"{kernel.name} {kernel.buffers} {kernel.spirv}\n" for kernel, _ in group)
        environment = {**os.environ, "MESA_SHADER_CACHE_DISABLE": "true", **self.environment(target)}
        code, output = call([self.vkstat], environment, input=text)
        parts = re.split(r"^shader=(.*)$", output, flags=re.M)
        for name, part in zip(parts[1::2], parts[2::2]):
            facts = dict(line.split("=", 1) for line in part.splitlines() if "=" in line)
            complete = "Instructions" in facts or "Instruction Count" in facts
            cells[name, target] = self.figures(facts, target) if complete else refusal(facts.get("error", part), code)
        for kernel, _ in group:
            cells.setdefault((kernel.name, target), refusal(output if len(parts) == 1 else "the driver crashed before it", code))
        return cells


class Radv(Vulkan):
    name = "radv"
    optional = False
    targets = ["radv-navi21", "radv-vega10"]
    waves_max = {"radv-navi21": 32, "radv-vega10": 10}
    driver = Path("/usr/share/vulkan/icd.d/radeon_icd.x86_64.json")

    def __init__(self, work):
        if not self.driver.exists():
            raise Missing("no RADV driver; scripts/setup.sh installs mesa-vulkan-drivers")
        super().__init__(work)

    def environment(self, target):
        return {"VK_ICD_FILENAMES": str(self.driver), "RADV_FORCE_FAMILY": target.removeprefix("radv-")}

    def figures(self, facts, target):
        return {"registers": int(facts["VGPRs"]), "spills": int(facts["Spilled VGPRs"]) + int(facts["Spilled SGPRs"]),
                "stack": int(facts["Scratch size"]), "local": int(facts["LDS size"]),
                "waves": int(facts["Subgroups per SIMD"]), "waves_max": self.waves_max[target]}


class Anv(Vulkan):
    name = "anv"
    optional = True
    targets = ["anv-dg2", "anv-tgl"]
    driver = Path("/usr/share/vulkan/icd.d/intel_icd.x86_64.json")

    def __init__(self, work):
        self.shim = tools.find_anv_shim()
        if not self.shim or not self.driver.exists():
            raise Missing(f"no Mesa drm shim in {tools.HOME}; docs/gpu_portability.md says how to build it")
        super().__init__(work)

    def environment(self, target):
        return {"VK_ICD_FILENAMES": str(self.driver), "LD_PRELOAD": str(self.shim),
                "INTEL_STUB_GPU_PLATFORM": target.removeprefix("anv-")}

    def figures(self, facts, target):
        return {"registers": 128, "spills": int(facts["Spill Count"]) + int(facts["Fill Count"]),
                "stack": int(facts["Scratch Memory Size"]), "local": int(facts["Workgroup Memory Size"]),
                "simd": int(facts["subgroup"])}


FAMILIES = [Nvidia, Amd, Radv, Intel, Anv]
