#!/usr/bin/env python3
"""Tries out check_layers.py: test_check_layers.py ROOT. Plants one fault at a time in a small tree."""
import unittest

from plant import ROOT, Planted  # from the folder of this file, as is what comes next
import check_layers

GOOD = {
    "src/base/a.c": '#include <stdio.h>\n\n#include "base/a.h"\n#include "tandem/status.h"\n/* exit( */ const char *s = "exit(";\n',
    "src/device/opencl/b.c": '#include <CL/cl.h>\n\n#include "base/a.h"\n#include "device/backend.h"\n',
    "src/cli/main.c": '#include "device/backend.h"\nint main(void) { printf("hello"); return 0; }\n',
    "include/tandem/device.h": '#include "tandem/status.h"\n',
    "docs/page.md": "# A page\n[here](#a-page) [there](../README.md) [far](https://example.org/)\n",
    "README.md": "# Top\n[page](docs/page.md#a-page)\n",
}
GOOD["tests/lint/layers.txt"] = (ROOT / "tests/lint/layers.txt").read_text()
BAD = (
    ("src/base/up.c", '#include "device/backend.h"\n', "src/base/up.c:1: includes device/backend.h"),
    ("src/pipeline/up.c", '\n#include "train/loop.h"\n', "src/pipeline/up.c:2: includes train/loop.h"),
    ("src/audio/side.c", '#include "text/tokens.h"\n', "includes text/tokens.h"),
    ("src/base/public.c", '#include "tandem/device.h"\n', "includes tandem/device.h"),
    ("src/device/vulkan/side.c", '#include "device/sim/sim.h"\n', "includes device/sim/sim.h"),
    ("src/device/down.c", '#include "device/opencl/opencl.h"\n', "includes device/opencl/opencl.h"),
    ("src/tools/in.c", '#include "device/opencl/opencl.h"\n', "private to device/opencl"),
    ("src/device/native.c", "#include <CL/cl.h>\n", "only src/device/opencl may see"),
    ("src/device/sim/native.c", "#include <vulkan/vulkan.h>\n", "only src/device/vulkan may see"),
    ("src/base/dots.c", '#include "../base/a.h"\n', "paths start at src/ or include/"),
    ("src/base/loud.c", 'void f(void) { printf("x"); }\n', "src/base/loud.c:1: 'printf'"),
    ("src/base/loud.c", "void f(void) { fputc('x', stderr); }\n", "'stderr'"),
    ("src/base/deadly.c", "void f(void) { exit(1); }\n", "'exit'"),
    ("src/attic/old.c", "int x;\n", "lies in no folder"),
    ("include/tandem/leak.h", '#include "base/a.h"\n', "a public header needs nothing"),
    ("include/tandem/leak.h", "#include <CL/cl.h>\n", "a public header needs nothing"),
    ("docs/dead.md", "[x](gone.md)\n", "links to gone.md"),
    ("docs/dead.md", "[x](page.md#nowhere)\n", "no such heading"),
    ("docs/dead.md", '<img src="gone.svg">\n', "links to gone.svg"))


class Faults(Planted):
    lint, good, bad = check_layers, GOOD, BAD


if __name__ == "__main__":
    unittest.main(defaultTest="Faults")
