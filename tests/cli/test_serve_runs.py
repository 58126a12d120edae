#!/usr/bin/env python3
"""`serve` watches a training run as it goes and passes wishes on; and a server with one stream under load: texts that
wait too long, short texts among long ones.

    python3 tests/cli/test_serve_runs.py /path/to/tandem
"""

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import test_serve
from test_serve import Server, make_form, speech, train, train_command


class RunsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tandem-serve-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.voice = train(cls.folder)
        cls.server = Server(cls.voice, "--runs", cls.folder, "--voices-dir", os.path.join(cls.folder, "v"),
                            "--streams", "1", "--deadline", "1")
        cls.addClassCleanup(cls.server.end)
        cls.server.await_voices()

    def ask(self, method, path, code=200):
        answer, content = self.server.ask(method, path)
        self.assertEqual(answer.status, code, content)
        return json.loads(content) if answer.getheader("Content-Type") == "application/json" else content

    def find(self, name):
        return {run["name"]: run for run in self.ask("GET", "/runs")["runs"]}.get(name)

    def await_run(self):
        for _ in range(1200):
            if self.find("live") and self.find("live")["is_training"]:
                return "/runs/" + self.find("live")["id"]
            time.sleep(0.05)
        raise AssertionError("the run does not begin")

    def await_event(self, stream, kind):
        while True:
            line = stream.readline()
            self.assertTrue(line, "the events have ended")
            if line.startswith(b"data: ") and json.loads(line[6:])["event"] == kind:
                return json.loads(line[6:])

    def check_samples(self, path, step):
        files = self.ask("GET", path + "/samples")["files"]
        names = {file["name"]: file["id"] for file in files}
        self.assertIn(f"step-{step}-0.wav", names)
        picture = names[f"step-{step}-0-spectrogram.png"]
        self.assertTrue(self.ask("GET", f"{path}/samples/{picture}").startswith(b"\x89PNG"))
        for wrong in ("/runs/live/events", path + "/lock", path + "/samples/..", f"{path}/samples/{files[0]['name']}",
                      "/runs/..%2Frun/events", path + "/samples/..%2F..%2Flog.txt", "/runs/0123456789abcdef/events"):
            self.ask("GET", wrong, 404)
        self.ask("POST", path + "/lock", 404)

    def test_a_live_run(self):
        with open(os.path.join(self.folder, "log.txt"), "wb") as log:
            live = subprocess.Popen(train_command(self.folder, os.path.join(self.folder, "live"), "--max-steps", "1000000",
                                                  "--val-fraction", "0.3", "--val-every", "1000000", "--log-every", "5"),
                                    stdout=log, stderr=log)
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            path = self.await_run()
            connection.request("GET", path + "/events")
            stream = connection.getresponse()
            self.assertEqual(stream.getheader("Content-Type"), "text/event-stream")
            self.assertEqual(self.await_event(stream, "start")["max_step"], 1000000)
            self.assertGreater(self.await_event(stream, "step")["loss"], 0)
            self.ask("POST", path + "/sample", 202)
            step = self.await_event(stream, "sampled")["step"]
            self.ask("POST", path + "/stop", 202)
            self.assertGreaterEqual(self.await_event(stream, "end")["step"], step)
            self.assertEqual(live.wait(60), 0)
            self.check_samples(path, step)
            self.assertFalse(self.find("live")["is_training"])
            self.ask("POST", path + "/stop", 409)
        finally:
            connection.close()
            live.kill()
            live.wait()

    def test_no_voice_can_follow_a_recording(self):
        body, headers = make_form(name="x", consent="true", audio_sample=b"RIFF")
        answer, content = self.server.ask("POST", "/v1/audio/voices", body, headers)
        self.assertEqual(answer.status, 400)
        self.assertEqual(json.loads(content)["error"]["code"], "cannot_clone")

    def ask_all(self, server, bodies):
        """Answers, in the order in which they ended."""
        answers = []

        def ask(body):
            answer, content = server.ask("POST", "/v1/audio/speech", body)
            answers.append((body["input"], answer, content))

        threads = [threading.Thread(target=ask, args=(body,)) for body in bodies]
        for thread in threads:
            thread.start()
            time.sleep(0.05)
        for thread in threads:
            thread.join()
        return answers

    def test_texts_that_wait_too_long(self):
        answers = self.ask_all(self.server, [speech(input="Say a now say b now. " * 190)] * 12)
        refused = [(answer, content) for _, answer, content in answers if answer.status != 200]
        self.assertGreater(len(answers), len(refused))
        self.assertGreater(len(refused), 0)
        for answer, content in refused:
            self.assertEqual(answer.status, 429)
            self.assertIn(b"not begun within 1 s", content)
            self.assertGreaterEqual(int(answer.getheader("Retry-After")), 1)

    def test_a_short_text_among_long_ones(self):
        server = Server(self.voice, "--streams", "4")
        try:
            server.await_voices()
            long, short = "Say a now say b now. " * 190, "Say a now."
            answers = self.ask_all(server, [speech(input=long)] * 3 + [speech(input=short)])
            self.assertEqual([answer.status for _, answer, _ in answers], [200] * 4)
            self.assertEqual(answers[0][0], short)
        finally:
            server.end()


if __name__ == "__main__":
    test_serve.PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "./tandem"
    unittest.main()
