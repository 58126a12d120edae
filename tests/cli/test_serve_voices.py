#!/usr/bin/env python3
"""Voices that clients of `serve` bring: a recording becomes a voice, speaks, outlives a restart, and goes.

    python3 tests/cli/test_serve_voices.py /path/to/tandem
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

import test_serve
from test_serve import Server, make_form, speech, train
from tones import RATE, make_tone, write_wav


class VoicesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tandem-serve-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.voices = os.path.join(cls.folder, "voices")
        cls.voice = train(cls.folder, "encoder", "--set", "model.speaker_encoder=true")
        cls.start()
        cls.addClassCleanup(lambda: cls.server.end())
        cls.samples = []
        for i in (1, 9):
            path = os.path.join(cls.folder, f"{i}.wav")
            write_wav(path, make_tone(i, RATE))
            with open(path, "rb") as file:
                cls.samples.append(file.read())

    @classmethod
    def start(cls):
        cls.server = Server(cls.voice, "--voices-dir", cls.voices, "--streams", "2")
        cls.server.await_voices()

    def bring(self, code, word, **fields):
        body, headers = make_form(**fields)
        answer, content = self.server.ask("POST", "/v1/audio/voices", body, headers)
        self.assertEqual(answer.status, code, content)
        self.assertIn(word, content.decode())

    def say(self, voice, code=200):
        answer, content = self.server.ask("POST", "/v1/audio/speech", speech(voice=voice))
        self.assertEqual(answer.status, code, content)
        return content

    def check_bytes(self, content):
        """Those of `synth` with the recording that was kept for the first voice."""
        path = os.path.join(self.folder, "synth.wav")
        with open(os.path.join(self.voices, "voices.json"), encoding="utf-8") as file:
            recording = json.load(file)[0]["recording"]
        subprocess.run([test_serve.PROGRAM, "synth", "--checkpoint", self.voice, "--text", speech()["input"], "-o", path,
                        "--device", "cpu", "--reference", os.path.join(self.voices, recording + ".wav")], check=True,
                       capture_output=True, timeout=60)
        with open(path, "rb") as file:
            self.assertEqual(content, file.read())

    def test_a_voice_comes_and_goes(self):
        self.bring(201, '"anna"', name="ben", consent="true", audio_sample=self.samples[0])
        self.bring(201, '"eve"', name="eve", voice="anna", consent="I agree", audio_sample=self.samples[1])
        for name in ("ben", "anna"):
            self.bring(409, "already", name=name, consent="true", audio_sample=self.samples[1])
        ben = self.say("ben")
        self.assertNotEqual(ben, self.say("eve"))
        self.check_bytes(ben)
        for kept in os.listdir(self.voices):
            self.assertRegex(kept, r"^([0-9a-f]{32}\.wav|voices\.json)$")
        listed = json.loads(self.server.ask("GET", "/v1/audio/voices")[1])["voices"]
        self.assertEqual([(voice["id"], voice["is_clone"]) for voice in listed],
                         [("anna", False), ("ben", True), ("eve", True)])
        self.assertEqual(json.loads(self.server.ask("GET", "/speakers_list")[1]), ["anna", "ben", "eve"])
        self.assertEqual(self.server.end(), 128 + signal.SIGTERM)
        self.start()
        self.assertEqual(self.say("ben"), ben)
        for name, code in (("ben", 204), ("ben", 404), ("anna", 403), ("..%2Fvoices.json", 404), ("eve", 204)):
            self.assertEqual(self.server.ask("DELETE", "/v1/audio/voices/" + name)[0].status, code, name)
        self.say("ben", 404)
        self.assertEqual(os.listdir(self.voices), ["voices.json"])
        self.assertIn(b"reference", self.say("anna", 400))

    def test_what_is_refused(self):
        good, more = self.samples[0], {"name": "x", "consent": "1"}
        for code, word, fields in (
                (400, "audio_sample is missing", more),
                (400, "name is missing", {"audio_sample": good, "consent": "true"}),
                (400, "agreed", {"name": "x", "audio_sample": good}),
                (400, "agreed", {"name": "x", "audio_sample": good, "consent": "false"}),
                (400, "cannot be called", {"name": "../x", "audio_sample": good, "consent": "true"}),
                (400, "less than", {**more, "name": "x" * 2000, "audio_sample": good}),
                (404, "no voice", {**more, "audio_sample": good, "voice": "z"}),
                (400, "cannot be read", {**more, "audio_sample": b"RIFF"}),
                (400, "cannot be read", {**more, "audio_sample": good[:900]}),
                (413, "larger", {**more, "audio_sample": good + bytes(11 << 20)}),
                (413, "at most", {**more, "audio_sample": good + bytes(10 << 20)})):
            with self.subTest(word=word):
                self.bring(code, word, **fields)
        answer, content = self.server.ask("POST", "/v1/audio/voices", {"name": "x"})
        self.assertEqual((answer.status, b"multipart" in content), (400, True))
        self.assertEqual([name for name in os.listdir(self.voices) if not name.endswith((".wav", ".json"))], [])


if __name__ == "__main__":
    test_serve.PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "./tandem"
    unittest.main()
