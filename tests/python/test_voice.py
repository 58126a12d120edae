#!/usr/bin/env python3
"""The Python package (scripts/python) on the library that was built: voices.

    python3 tests/python/test_voice.py PACKAGES LIBRARY VOICE

NumPy is tried where it is there; without it samples are arrays.
"""

import array
import os
import sys
import tempfile
import threading
import unittest
import unittest.mock
import wave

TEXT = "one. two. three. four. five. six. seven. eight. nine. ten."


class VoiceTest(unittest.TestCase):
    def setUp(self):
        self.voice = tandem.Voice(VOICE, device="cpu")
        self.addCleanup(self.voice.close)

    def test_info(self):
        info = self.voice.info
        self.assertEqual((info.family, info.languages, info.speakers, info.rate), ("parallel", ["en"], [], 22050))
        self.assertGreater(info.parameters, 10000)
        self.assertFalse(info.needs_reference)
        self.assertTrue(info.has_speed and info.has_pitch and info.has_energy)

    def test_speak(self):
        first, again = self.voice.speak("hello"), self.voice.speak("hello")
        self.assertEqual(first.tobytes(), again.tobytes())
        self.assertNotEqual(first.tobytes(), self.voice.speak("hello", seed=1).tobytes())
        self.assertGreater(len(self.voice.speak("hello", speed=0.5)), len(first))
        self.assertLessEqual(max(abs(value) for value in first.tolist()), 1)

    def test_type(self):
        try:
            import numpy
        except ImportError:
            self.assertIsInstance(self.voice.speak("a"), array.array)
        else:
            self.assertEqual(self.voice.speak("a").dtype, numpy.float32)
            with unittest.mock.patch("tandem.voice.numpy", None):
                self.assertIsInstance(self.voice.speak("a"), array.array)

    def test_stream(self):
        whole = self.voice.speak(TEXT)
        chunks = list(self.voice.stream(TEXT))
        self.assertGreater(len(chunks), 3)
        self.assertEqual(b"".join(chunk.tobytes() for chunk in chunks), whole.tobytes())
        stream = self.voice.stream(TEXT)
        self.assertEqual(next(stream).tobytes(), chunks[0].tobytes())
        stream.close()  # the rest is not made
        self.assertEqual(self.voice.speak(TEXT).tobytes(), whole.tobytes())

    def test_save(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.wav")
            self.voice.save("hello. world.", path)
            with wave.open(path) as file:
                self.assertEqual((file.getframerate(), file.getnframes()), (22050, len(self.voice.speak("hello. world."))))

    def test_lexicon_and_ssml(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "words.txt")
            with open(path, "w", encoding="utf-8") as file:
                file.write("xyz\thello\n")
            with tandem.Voice(VOICE, device="cpu", lexicon=path) as voice:
                self.assertEqual(list(voice.speak("XYZ")), list(self.voice.speak("hello")))
            with open(path, "a", encoding="utf-8") as file:
                file.write("abc\n")
            with self.assertRaisesRegex(tandem.Error, "words.txt:2: no tab"):
                tandem.Voice(VOICE, device="cpu", lexicon=path)
        pause = "<speak>hello<break time=\"1s\"/></speak>"
        self.assertEqual(len(self.voice.speak(pause)), len(self.voice.speak("hello")) + self.voice.info.rate)

    def test_errors(self):
        for strict, status in ((False, "TD_ERR_CONFIG"), (True, "TD_ERR_FORMAT")):
            with self.assertRaises(tandem.Error) as caught:
                self.voice.speak("\u6f22", strict_text=strict)
            self.assertEqual(caught.exception.status, status)
            self.assertIn("U+6F22", str(caught.exception))
        with self.assertRaisesRegex(tandem.Error, "no table of speakers"):
            list(self.voice.stream("hello", speaker="anna"))
        with self.assertRaises(tandem.Error) as caught:
            tandem.Voice("none.safetensors", device="cpu")
        self.assertEqual(caught.exception.status, "TD_ERR_NOT_FOUND")
        with self.assertRaises(TypeError):
            self.voice.speak("hello", loudness=2)

    def test_cancel(self):
        timer = threading.Timer(0.3, self.voice.cancel)
        timer.start()
        with self.assertRaises(tandem.Error) as caught:
            for _ in range(1000):
                self.voice.speak(100 * TEXT)
        self.assertEqual(caught.exception.status, "TD_ERR_CANCELLED")

    def test_two_threads(self):
        results = [None, None]

        def speak(number):
            with tandem.Voice(VOICE, device="cpu") as voice:
                results[number] = voice.speak(TEXT).tobytes()

        threads = [threading.Thread(target=speak, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, 2 * [self.voice.speak(TEXT).tobytes()])


if __name__ == "__main__":
    packages, os.environ["TANDEM_LIBRARY"], VOICE = sys.argv[1:4]
    sys.path.insert(0, packages)
    import tandem
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
