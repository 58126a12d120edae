#!/usr/bin/env python3
"""The Python package (scripts/python) on the library that was built: training, then speaking with what was trained.

    python3 tests/python/test_training.py PACKAGES LIBRARY VOICE
"""

import math
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from tones import make_dataset  # noqa: E402


class TrainingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tandem-python-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder, root = folder.name, os.path.join(folder.name, "set")
        make_dataset(root, 8, 8000, 400)
        cls.ini = os.path.join(folder.name, "a.ini")
        with open(cls.ini, "w", encoding="utf-8") as file:
            file.write("[devices]\nmodel = cpu\n[model]\nmodel_size = pico\n[data]\nlanguage = en\nval_fraction = 0\n"
                       f"train_data = {root}\n[training]\nbatch_size = 2\nmax_steps = 3\n[logging]\nlog_every = 1\n")

    def make(self, name, **more):
        settings = {"training.checkpoint_dir": os.path.join(self.folder, name), **more}
        training = tandem.Training(self.ini, settings=settings)
        self.addCleanup(training.close)
        return training

    def test_run(self):
        events = []
        training = self.make("run")
        result = training.run(events.append)
        self.assertEqual((result.reason, result.step), ("done", 3))
        self.assertEqual([event.kind for event in events if event.kind in ("start", "end")], ["start", "end"])
        steps = [event for event in events if event.kind == "step" and not event.is_progress]
        self.assertEqual([event.step for event in steps], [1, 2, 3])
        self.assertTrue(all(math.isfinite(event.values["loss"]) for event in steps))
        self.assertTrue(os.path.isfile(result.checkpoint))
        with tandem.Voice(result.checkpoint, device="cpu") as voice:
            self.assertGreater(len(voice.speak("say a now.")), 0)

    def test_stop(self):
        training = self.make("stop", **{"training.max_steps": 100000})

        def receive(event):
            if event.kind == "step":
                training.stop()

        result = training.run(receive)
        self.assertEqual(result.reason, "stopped")
        self.assertLess(result.step, 1000)

    def test_exception(self):
        training = self.make("exception", **{"training.max_steps": 100000})

        def receive(event):
            if event.kind == "step":
                raise ValueError(event.step)

        with self.assertRaises(ValueError):
            training.run(receive)

    def test_settings(self):
        training = self.make("settings", **{"devices.allow_same_device": True})
        self.assertEqual(training["training.max_steps"], "3")
        training["training.max_steps"] = 5
        self.assertEqual(training["training.max_steps"], "5")
        with self.assertRaises(tandem.Error) as caught:
            training["training.max_step"] = 5
        self.assertEqual(caught.exception.status, "TD_ERR_CONFIG")
        self.assertIn("max_steps", str(caught.exception))


if __name__ == "__main__":
    packages, os.environ["TANDEM_LIBRARY"] = sys.argv[1:3]
    sys.path.insert(0, packages)
    import tandem
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
