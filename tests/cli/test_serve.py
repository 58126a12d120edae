#!/usr/bin/env python3
"""`serve` as its clients meet it: OpenAI's endpoint, that of xtts-api-server, Wyoming, who may ask, a full queue,
clients that leave, and its end.

    python3 tests/cli/test_serve.py /path/to/tandem

Needs only Python's standard library. tests/peers/serve.py lets the clients' own packages speak with it, and has recorded
what they send.
"""

import base64
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import exchanges
from tones import RATE, make_dataset

PROGRAM = "./tandem"
KEY = "a key that is long enough"


def train_command(folder, run, *arguments):
    """Of a small voice, with a dataset in the folder."""
    root = os.path.join(folder, "set")
    if not os.path.exists(root):
        make_dataset(root, 8)
    return [PROGRAM, "train", "--model-device", "cpu", "--train-data", root, "--checkpoint-dir", run, "--model-size",
            "pico", "--batch-size", "2", "--language", "en", *arguments]


def train(folder, name="run", *arguments):
    """A voice after one step of training."""
    run = os.path.join(folder, name)
    done = subprocess.run(train_command(folder, run, "--max-steps", "1", "--val-fraction", "0", *arguments),
                          capture_output=True, text=True, timeout=240)
    if done.returncode:
        raise AssertionError(done.stderr)
    return os.path.join(run, "checkpoint-1.safetensors")


def make_form(**fields):
    """The body of a form and its type."""
    body = b"".join(b'--xYz\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
                    % (name.encode(), value if isinstance(value, bytes) else value.encode())
                    for name, value in fields.items())
    return body + b"--xYz--\r\n", {"Content-Type": "multipart/form-data; boundary=xYz"}


class Server:
    """`tandem serve` on ports that are free."""

    def __init__(self, voice, *arguments):
        self.process = subprocess.Popen([PROGRAM, "serve", "--voice", f"anna={voice}", "--port", "0", "--json",
                                         "--wyoming-port", str(free_port()), "--device", "cpu", *arguments],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        text = line
        while text and not text.rstrip().endswith("}"):
            line = self.process.stdout.readline()
            text = text + line if line else ""
        if not text:
            raise AssertionError(self.process.stderr.read())
        start = json.loads(text)
        self.port, self.wyoming_port = start["port"], start["wyoming_port"]

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body)
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer, content

    def await_voices(self):
        for _ in range(600):
            if self.ask("GET", "/health")[0].status == 200:
                return
            time.sleep(0.05)
        raise AssertionError("the voices are not loaded after 30 s")

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(15)
        self.process.stdout.close()
        self.process.stderr.close()
        return self.process.returncode


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def speech(**more):
    return {"model": "tts-1", "input": "Say a now. Say b now.", "voice": "anna", "response_format": "wav", **more}


class ServeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tandem-serve-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.voice = train(cls.folder)
        cls.server = Server(cls.voice, "--streams", "2", "--queue", "3")
        cls.addClassCleanup(cls.server.end)
        cls.server.await_voices()

    def ask(self, method, path, body=None, code=200, **headers):
        answer, content = self.server.ask(method, path, body, headers)
        self.assertEqual(answer.status, code, content)
        return answer, content

    def refuse(self, code, name, words, body, path="/v1/audio/speech"):
        error = json.loads(self.ask("POST", path, body, code)[1])["error"]
        self.assertEqual(error["code"], name)
        self.assertIn(words, error["message"])

    def metric(self, name):
        for line in self.ask("GET", "/metrics")[1].decode().splitlines():
            if line.startswith(f"tandem_{name} "):
                return float(line.split()[1])
        raise AssertionError(name)

    # ------------------------------------------------------------ OpenAI

    def test_the_bytes_of_synth(self):
        path = os.path.join(self.folder, "synth.wav")
        subprocess.run([PROGRAM, "synth", "--checkpoint", self.voice, "--text", speech()["input"], "-o", path,
                        "--seed", "7", "--device", "cpu"], check=True, capture_output=True, timeout=60)
        answer, content = self.ask("POST", "/v1/audio/speech", speech(seed=7))
        self.assertEqual(answer.getheader("Content-Type"), "audio/wav")
        with open(path, "rb") as file:
            self.assertEqual(content, file.read())

    def test_formats(self):
        for name, start in (("mp3", b"\xff"), ("opus", b"OggS"), ("flac", b"fLaC"), ("pcm", b""), (None, b"\xff")):
            with self.subTest(name=name):
                body = speech(response_format=name) if name else {k: v for k, v in speech().items()
                                                                  if k != "response_format"}
                answer, content = self.ask("POST", "/v1/audio/speech", body)
                self.assertTrue(content.startswith(start))
                self.assertGreater(len(content), 500)
                self.assertEqual(answer.getheader("Transfer-Encoding"), "chunked")

    def test_a_stream_has_the_same_samples(self):
        whole = self.ask("POST", "/v1/audio/speech", speech())[1]
        stream = self.ask("POST", "/v1/audio/speech", speech(stream=True))[1]
        self.assertEqual(whole[44:], stream[44:])
        self.assertEqual(stream[40:44], b"\xff" * 4)

    def test_pcm_has_24_khz(self):
        n_wav = (len(self.ask("POST", "/v1/audio/speech", speech())[1]) - 44) / 2
        n_pcm = len(self.ask("POST", "/v1/audio/speech", speech(response_format="pcm"))[1]) / 2
        self.assertAlmostEqual(n_pcm / n_wav, 24000 / RATE, delta=2e-3)

    def test_events(self):
        answer, content = self.ask("POST", "/v1/audio/speech", speech(response_format="pcm", stream_format="sse"))
        self.assertEqual(answer.getheader("Content-Type"), "text/event-stream")
        events = [json.loads(line[6:]) for line in content.decode().split("\n\n") if line]
        self.assertTrue(all(event["type"] == "speech.audio.delta" for event in events[:-1]))
        self.assertEqual(events[-1]["type"], "speech.audio.done")
        self.assertGreater(events[-1]["usage"]["total_tokens"], 0)
        sound = b"".join(base64.b64decode(event["audio"]) for event in events[:-1])
        self.assertEqual(sound, self.ask("POST", "/v1/audio/speech", speech(response_format="pcm"))[1])

    def test_lists(self):
        self.assertEqual(json.loads(self.ask("GET", "/v1/models")[1])["data"][0]["id"], "tandem")
        self.assertEqual(json.loads(self.ask("GET", "/v1/audio/models")[1]), {"models": [{"id": "tandem", "name": "tandem"}]})
        self.assertEqual(json.loads(self.ask("GET", "/v1/audio/voices")[1]),
                         {"voices": [{"id": "anna", "name": "anna", "languages": ["en"], "takes_reference": False,
                                      "is_clone": False}]})
        self.ask("POST", "/v1/audio/speech", speech(voice={"id": "anna"}))

    def test_what_is_refused(self):
        for code, name, words, body in (
                (400, "missing_required_field", "input", {"model": "tts-1", "voice": "anna"}),
                (400, "missing_required_field", "voice", {"model": "tts-1", "input": "a"}),
                (404, "model_not_found", "'big'", speech(model="big")),
                (404, "voice_not_found", "there are: anna", speech(voice="ben")),
                (400, "unsupported_response_format", "mp3, opus", speech(response_format="aac")),
                (400, "invalid_speed", "0.25 to 4", speech(speed=9)),
                (400, "invalid_field", "a text", speech(input=5)),
                (400, "invalid_field", "audio or sse", speech(stream_format="x")),
                (400, "input_too_long", "4097", speech(input="a" * 4097)),
                (400, "invalid_input", "speaker", speech(voice="anna:nobody")),
                (400, "invalid_input", "nothing", speech(input=" ")),
                (400, "invalid_json", "JSON object", [1])):
            with self.subTest(name=name, words=words):
                self.refuse(code, name, words, body)
        self.assertIn(b"there is no /v1/x", self.ask("GET", "/v1/x", code=404)[1])
        self.assertIn(b"cannot be asked with GET", self.ask("GET", "/v1/audio/speech", code=405)[1])

    def test_large_and_broken_bodies(self):
        self.refuse(413, "body_too_large", "larger", speech(input="a" * (2 << 20)))
        for text in (b"", b"{", b"[" * 5000, b"{\"model\":\"\\u0000\"}", b"\0{}", b"\xff\xfe"):
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
            connection.request("POST", "/v1/audio/speech", text)
            self.assertIn(connection.getresponse().status, (400, 404))
            connection.close()

    # ------------------------------------------------------------ xtts-api-server

    def test_xtts_api(self):
        self.assertEqual(json.loads(self.ask("GET", "/speakers")[1]),
                         [{"name": "anna", "voice_id": "anna", "preview_url": ""}])
        self.assertEqual(json.loads(self.ask("GET", "/speakers_list")[1]), ["anna"])
        self.assertEqual(json.loads(self.ask("GET", "/languages")[1]), {"languages": {"en": "en"}})
        body = {"text": speech()["input"], "speaker_wav": "anna", "language": "en"}
        plain = self.ask("POST", "/tts_to_audio/", body)[1]
        self.assertEqual(plain, self.ask("POST", "/v1/audio/speech", speech())[1])
        query = "/tts_stream/?text=Say%20a%20now.%20Say%20b%20now.&speaker_wav=anna&language=en"
        self.assertEqual(self.ask("GET", query)[1][44:], plain[44:])
        self.ask("POST", "/set_tts_settings", {"speed": "2", "temperature": "0.7"})
        self.assertLess(len(self.ask("POST", "/tts_to_audio", body)[1]), len(plain))
        self.assertEqual(json.loads(self.ask("GET", "/get_tts_settings")[1]),
                         {"speed": 2, "temperature": 0.7, "top_k": 0, "top_p": 0, "repetition_penalty": 0})
        self.ask("POST", "/set_tts_settings", {"speed": 1})
        self.refuse(400, "missing_required_field", "speaker_wav", {"text": "a"}, "/tts_to_audio")
        self.refuse(403, "not_offered", "writes no files", {}, "/tts_to_file")

    # ------------------------------------------------------------ who may ask

    def test_pages_of_others(self):
        self.ask("GET", "/v1/models", code=403, Origin="https://example.org")
        for host in ("example.org", "127.example.org", "127.0.0.1.example.org", "localhost.example.org"):
            self.ask("GET", "/v1/models", code=403, Host=host)
            self.ask("GET", "/v1/models", code=403, Origin=f"http://{host}")
        answer, _ = self.ask("GET", "/v1/models", Origin="http://localhost:8000")
        self.assertEqual(answer.getheader("Access-Control-Allow-Origin"), "http://localhost:8000")
        answer, _ = self.ask("OPTIONS", "/v1/audio/speech", code=204, Origin="http://127.0.0.1:8000")
        self.assertIn("POST", answer.getheader("Access-Control-Allow-Methods"))

    def test_page(self):
        answer, content = self.ask("GET", "/")
        self.assertIn(b"<title>Tandem</title>", content)
        self.assertIn("default-src 'self'", answer.getheader("Content-Security-Policy"))
        self.assertIn(b"use strict", self.ask("GET", "/page.js")[1])

    def test_usage(self):
        key = os.path.join(self.folder, "key.txt")
        with open(key, "w", encoding="utf-8") as file:
            file.write("short\n")
        for words, arguments in (("no voice", []),
                                 ("--voice anna=", ["--voice", self.voice]),
                                 ("two voices", ["--voice", "a=x", "--voice", "a=y"]),
                                 ("cannot be a name", ["--voice", "a/b=x"]),
                                 ("--api-key-file", ["--voice", "a=x", "--host", "0.0.0.0"]),
                                 ("at least 8", ["--voice", "a=x", "--api-key-file", key]),
                                 ("not an address", ["--voice", "a=x", "--host", "here"]),
                                 ("cannot listen", ["--voice", "a=x", "--port", str(self.server.port)])):
            with self.subTest(words=words):
                done = subprocess.run([PROGRAM, "serve", *arguments], capture_output=True, text=True, timeout=30)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(words, done.stderr)
        done = subprocess.run([PROGRAM, "serve", "--voice", "a=none.safetensors", "--port", "0", "--wyoming-port", "0"],
                              capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 1)
        self.assertIn("none.safetensors", done.stderr)
        done = subprocess.run([PROGRAM, "serve", "--voice", f"a={self.voice}", "--port", "0", "--wyoming-port", "0",
                               "--device", "cpu", "--weights", "int8"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("fp32 weights alone", done.stderr)  # it is for XTTS

    # ------------------------------------------------------------ many at once

    def test_a_full_queue(self):
        codes, text = [], "Say a now say b now. " * 60

        def ask():
            codes.append(self.server.ask("POST", "/v1/audio/speech", speech(input=text))[0].status)

        threads = [threading.Thread(target=ask) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(set(codes), {200, 429})
        self.assertGreaterEqual(codes.count(200), 5)  # two that speak, three that wait

    def test_clients_that_leave(self):
        before = self.metric("requests_cancelled_total")
        body = json.dumps(speech(input="Say a now say b now. " * 150, response_format="pcm")).encode()
        for _ in range(4):
            with socket.create_connection(("127.0.0.1", self.server.port)) as s:
                s.sendall(b"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
                          + body)
                time.sleep(0.05)
        for _ in range(200):
            if self.metric("requests_cancelled_total") >= before + 4 and self.metric("speaking") == 0:
                break
            time.sleep(0.05)
        self.assertEqual(self.metric("requests_cancelled_total"), before + 4)
        self.assertEqual(self.metric("waiting"), 0)
        self.ask("POST", "/v1/audio/speech", speech())

    # ------------------------------------------------------------ Wyoming

    def test_wyoming(self):
        def send(stream, kind, data=None, inline=False):
            text = json.dumps(data).encode() if data and not inline else b""
            head = {"type": kind, "data_length": len(text)}
            if inline:
                head = {"type": kind, "data": data}
            stream.write(json.dumps(head).encode() + b"\n" + text)
            stream.flush()

        def receive(stream):
            head = json.loads(stream.readline())
            data = json.loads(stream.read(head["data_length"])) if head["data_length"] else {}
            return head["type"], data, stream.read(head["payload_length"])

        def begin_sound(stream):
            kind, data, _ = receive(stream)
            self.assertEqual((kind, data), ("audio-start", {"rate": RATE, "width": 2, "channels": 1}))

        def read_sound(stream, is_begun=False):
            sound = b""
            if not is_begun:
                begin_sound(stream)
            while True:
                kind, data, payload = receive(stream)
                if kind == "audio-stop":
                    return sound
                self.assertEqual(kind, "audio-chunk")
                sound += payload

        sound = self.ask("POST", "/v1/audio/speech", speech())[1][44:]
        with socket.create_connection(("127.0.0.1", self.server.wyoming_port), timeout=30) as s, s.makefile("rwb") as f:
            send(f, "describe")
            kind, data, _ = receive(f)
            self.assertEqual(kind, "info")
            self.assertEqual([voice["name"] for voice in data["tts"][0]["voices"]], ["anna"])
            send(f, "something-else")
            send(f, "synthesize", {"text": speech()["input"], "voice": {"name": "anna"}})
            self.assertEqual(read_sound(f), sound)
            send(f, "synthesize", {"text": speech()["input"]}, inline=True)
            self.assertEqual(read_sound(f), sound)
            send(f, "synthesize-start", {"voice": {"name": "anna"}})
            for piece in ("Say a now. ", "Say b", " now."):
                send(f, "synthesize-chunk", {"text": piece})
            send(f, "synthesize", {"text": "to be ignored"})
            send(f, "synthesize-stop")
            self.assertEqual(read_sound(f), sound)
            self.assertEqual(receive(f)[0], "synthesize-stopped")
            send(f, "synthesize-start", {"voice": {"name": "anna"}})
            send(f, "synthesize-chunk", {"text": "Say a now! Say"})
            begin_sound(f)  # before the rest of the text is there
            send(f, "synthesize-chunk", {"text": " b now."})
            send(f, "synthesize-stop")
            halves = [self.ask("POST", "/v1/audio/speech", speech(input=text))[1][44:]
                      for text in ("Say a now!", "Say b now.")]
            self.assertEqual(read_sound(f, is_begun=True), bytes(2 * (RATE // 5)).join(halves))
            self.assertEqual(receive(f)[0], "synthesize-stopped")
            send(f, "synthesize", {"text": "a", "voice": {"name": "ben"}})
            self.assertEqual(receive(f)[0], "error")
        for broken in (b"{}\n", b"x" * 70000, b"{\"type\":\"describe\",\"data_length\":1e12}\n", b"\0\n"):
            with socket.create_connection(("127.0.0.1", self.server.wyoming_port), timeout=30) as s:
                s.sendall(broken)
                self.assertEqual(s.recv(1), b"")


    # ------------------------------------------------------------ what clients' own packages sent once

    def play(self, client, port, read):
        """Sends it again, and compares what `read` makes of the answer with what the client took."""
        rows = [row for row in exchanges.load() if row["client"].startswith(client)]
        for row in rows:
            with self.subTest(row["name"]), socket.create_connection(("127.0.0.1", port), timeout=60) as s:
                s.sendall(row["sent"])
                self.assertEqual(read(s, row["answer"]), row["answer"])
        return len(rows)

    def test_recorded_openai(self):
        count = self.play("openai", self.server.port, lambda s, _: exchanges.describe_answer(s))
        self.assertGreaterEqual(count, 16)

    def test_recorded_wyoming(self):
        def read(s, expected):
            rows = []
            with s.makefile("rb") as stream:
                while not rows or rows[-1][0] != expected[-1][0]:
                    rows.append(exchanges.read_event(stream))
            return exchanges.join_repeats(rows)

        self.assertGreaterEqual(self.play("wyoming", self.server.wyoming_port, read), 7)


class EndTest(unittest.TestCase):
    def test_key_and_end(self):
        with tempfile.TemporaryDirectory(prefix="tandem-serve-") as folder:
            key = os.path.join(folder, "key.txt")
            with open(key, "w", encoding="utf-8") as file:
                file.write(KEY + "\n")
            server = Server(train(folder), "--api-key-file", key, "--streams", "2")
            try:
                self.assertIn(server.ask("GET", "/health")[0].status, (200, 503))
                server.await_voices()
                for headers, code in (({}, 401), ({"Authorization": "Bearer x"}, 401),
                                      ({"Authorization": "Bearer " + KEY}, 200)):
                    self.assertEqual(server.ask("POST", "/v1/audio/speech", speech(), headers)[0].status, code)
                self.assertEqual(server.ask("GET", "/v1/audio/voices")[0].status, 200)
                self.assertEqual(server.ask("GET", "/metrics")[0].status, 401)
                answers = []

                def ask():
                    answer, content = server.ask("POST", "/v1/audio/speech", speech(input="Say a now. " * 40),
                                                 {"Authorization": "Bearer " + KEY})
                    answers.append((answer.status, len(content)))

                threads = [threading.Thread(target=ask) for _ in range(4)]
                for thread in threads:
                    thread.start()
                time.sleep(0.3)
                begun = time.monotonic()
                self.assertEqual(server.end(), 128 + signal.SIGTERM)
                is_in_time = time.monotonic() - begun < 7  # else what is left is told so
                for thread in threads:
                    thread.join()
                self.assertEqual(len(answers), 4)
                self.assertEqual(len({answer for answer in answers if answer[0] == 200}), 1, answers)  # whole
                self.assertEqual({answer[0] for answer in answers} - {200}, set() if is_in_time else {503})
            finally:
                if server.process.poll() is None:
                    server.process.kill()


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else PROGRAM
    unittest.main()
