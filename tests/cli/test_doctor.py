#!/usr/bin/env python3
"""`doctor` as users meet it: what it says of this computer, and of ones without drivers, with broken ones, with
graphics cards that no driver serves or that may not be used.

    python3 tests/cli/test_doctor.py /path/to/tandem

Needs only Python's standard library. Other computers are folders that stand for / (TANDEM_SYSTEM_ROOT).
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = "./tandem"
NOBODY = 65534


class DoctorTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tandem-doctor-")
        self.addCleanup(self.folder.cleanup)
        self.root = self.folder.name
        os.chmod(self.root, 0o777)

    def put(self, name, text=""):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def run_doctor(self, *arguments, code=0, env=None, **more):
        changed = {k: v for k, v in os.environ.items() if k not in ("OCL_ICD_VENDORS", "VK_DRIVER_FILES", "VK_ICD_FILENAMES")}
        changed.update(env or {})
        done = subprocess.run([PROGRAM, "doctor", *arguments], capture_output=True, text=True, timeout=120, env=changed, **more)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def diagnose(self, code=0, env=None, **more):
        return json.loads(self.run_doctor("--json", code=code, env=env, **more))

    def card(self, address, vendor, device="0x1234", kind="0x030000"):
        for name, text in (("class", kind), ("vendor", vendor), ("device", device)):
            self.put(f"sys/bus/pci/devices/{address}/{name}", text + "\n")

    @staticmethod
    def find(told, group, name):
        return [c for c in told["checks"] if c["group"] == group and c["name"] == name]

    def without_drivers(self):
        return {"OCL_ICD_VENDORS": os.path.join(self.root, "none"), "VK_DRIVER_FILES": os.path.join(self.root, "none.json")}

    def test_this_computer(self):
        told = self.diagnose()
        self.assertGreater(told["usable_devices"], 0)
        self.assertEqual({c["group"] for c in told["checks"]},
                         {"program", "opencl", "vulkan", "graphics cards", "devices", "libraries", "caches"})
        for check in told["checks"]:
            self.assertIn(check["status"], ("ok", "note", "problem"))
            self.assertTrue(check["detail"], check)
            self.assertTrue(check["status"] != "problem" or check["advice"], check)
        self.assertEqual(told["problems"], sum(c["status"] == "problem" for c in told["checks"]))
        out = self.run_doctor()
        self.assertIn("can compute", out)
        self.assertIn("Next: tandem validate", out)

    def test_nothing_computes(self):
        told = self.diagnose(code=1, env=self.without_drivers())
        self.assertEqual(told["usable_devices"], 0)
        self.assertEqual(told["install"][:2], ["pocl-opencl-icd", "mesa-vulkan-drivers"])
        self.assertEqual(len(told["install"]), len(set(told["install"])))
        self.assertIn("none.json", self.find(told, "vulkan", "driver")[0]["detail"])
        out = self.run_doctor(code=1, env=self.without_drivers())
        self.assertIn("sudo apt install pocl-opencl-icd mesa-vulkan-drivers", out)
        self.assertIn("No device can compute", out)

    def test_missing_loaders(self):
        told = self.diagnose(code=1, env={"TANDEM_OPENCL_LIBRARY": "/no/cl.so", "TANDEM_VULKAN_LIBRARY": "/no/vk.so"})
        self.assertEqual(self.find(told, "opencl", "loader")[0]["packages"], ["ocl-icd-libopencl1"])
        self.assertEqual(self.find(told, "vulkan", "loader")[0]["packages"], ["libvulkan1"])

    def test_broken_drivers(self):
        self.put("icd/broken.icd", "/no/such/driver.so\n")
        manifest = self.put("vk/broken.json", "{")
        other = self.put("vk/other.json", json.dumps({"ICD": {"library_path": "./gone.so"}}))
        told = self.diagnose(code=1, env={"OCL_ICD_VENDORS": os.path.join(self.root, "icd"), "VK_DRIVER_FILES": f"{manifest}:{other}"})
        (cl,) = self.find(told, "opencl", "driver")
        self.assertEqual(cl["status"], "problem")
        self.assertIn("/no/such/driver.so", cl["detail"])
        self.assertIn("dpkg -S", cl["advice"])
        vulkan = self.find(told, "vulkan", "driver")
        self.assertEqual([c["status"] for c in vulkan], ["problem", "problem"])
        self.assertIn("library_path", vulkan[0]["detail"])
        self.assertIn(os.path.join(self.root, "vk/./gone.so"), vulkan[1]["detail"])

    def test_cards_without_a_driver(self):
        self.card("0000:01:00.0", "0x10de")
        self.card("0000:02:00.0", "0x1002", kind="0x038000")
        self.card("0000:03:00.0", "0x1234")
        self.card("0000:04:00.0", "0x8086", kind="0x020000")  # a network card
        told = self.diagnose(env={"TANDEM_SYSTEM_ROOT": self.root})
        nvidia, amd = (self.find(told, "graphics cards", f"0000:0{i}:00.0")[0] for i in (1, 2))
        self.assertEqual((nvidia["status"], amd["status"]), ("problem", "problem"))
        self.assertIn("nvidia-driver", nvidia["packages"])
        self.assertIn("mesa-vulkan-drivers", amd["packages"])
        self.assertEqual(self.find(told, "graphics cards", "0000:03:00.0")[0]["status"], "note")
        self.assertEqual(self.find(told, "graphics cards", "0000:04:00.0"), [])
        self.assertEqual(self.find(told, "graphics cards", "kernel driver")[0]["status"], "problem")

    def test_permission(self):
        node = self.put("dev/dri/renderD128")
        self.put("dev/dri/card0")
        os.chmod(node, 0)
        more = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        if more and subprocess.run(["test", "-x", PROGRAM], **more).returncode != 0:
            self.skipTest("the program is where only root may run it")
        env = {"TANDEM_SYSTEM_ROOT": self.root, "XDG_CACHE_HOME": os.path.join(self.root, "cache"), "HOME": self.root}
        env["TANDEM_CACHE_DIR"] = os.path.join(self.root, "cache")
        told = self.diagnose(env=env, **more)
        (check,) = self.find(told, "graphics cards", "permission")
        self.assertEqual(check["status"], "problem", check)
        self.assertIn("renderD128", check["detail"])
        self.assertIn("usermod -aG render", check["advice"])
        os.chmod(node, 0o666)
        (check,) = self.find(self.diagnose(env=env, **more), "graphics cards", "permission")
        self.assertEqual(check["status"], "ok", check)

    def test_caches(self):
        blocked = self.put("file")
        told = self.diagnose(env={"TANDEM_CACHE_DIR": os.path.join(blocked, "cache")})
        (check,) = self.find(told, "caches", "cache")
        self.assertEqual(check["status"], "problem")
        self.assertIn("--cache-dir", check["advice"])
        told = json.loads(self.run_doctor("--json", "--cache-dir", os.path.join(self.root, "new")))
        self.assertEqual(self.find(told, "caches", "cache")[0]["status"], "ok")
        self.assertNotIn("doctor-trial", os.listdir(os.path.join(self.root, "new")))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
