#!/usr/bin/env python3
"""`tandem serve` under load and under attack, on this computer alone.

    serve_load.py PROGRAM VOICE [--soak SECONDS] [--leaving 1000] [--malformed 100000]

In turn: many clients at once, more than the queue holds, clients that leave at random points, half-open connections and
readers that do not read, malformed requests, a soak of steady load, and SIGTERM in the midst of it. Prints one JSON
object; exit 1 where something does not hold. PROGRAM of the preset `dev` looks for leaks at its end (with
LSAN_OPTIONS=suppressions=tests/sanitizers/leaks.supp), and its exit code tells. Needs Python's standard library alone.
"""
import argparse
import collections
import http.client
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

SENTENCE = "The young sailor painted the silver mirror last night."
SOME = " ".join([SENTENCE] * 8)
LONG = " ".join([SENTENCE] * 40)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, program, voice, *arguments):
        self.port, self.wyoming_port = free_port(), free_port()
        self.process = subprocess.Popen([program, "serve", "--quiet", "--voice", f"anna={voice}", "--port", str(self.port),
                                         "--wyoming-port", str(self.wyoming_port), *arguments],
                                        stdout=subprocess.DEVNULL)
        for _ in range(1200):
            try:
                if self.ask("GET", "/health")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise SystemExit("the server does not answer")

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request(method, path, body)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, content

    def say(self, text=SENTENCE, kind="pcm"):
        """Status, seconds, seconds of sound."""
        begun = time.monotonic()
        status, content = self.ask("POST", "/v1/audio/speech", json.dumps(
            {"model": "tts-1", "voice": "anna", "input": text, "response_format": kind}))
        return status, time.monotonic() - begun, len(content) / 48000

    def metric(self, name):
        for line in self.ask("GET", "/metrics")[1].decode().splitlines():
            if line.startswith(f"tandem_{name} "):
                return float(line.split()[1])
        raise SystemExit(f"there is no metric {name}")

    def memory(self):
        """Bytes that are resident, and open descriptors."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            resident = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS"))
        return resident, len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def await_rest(self, seconds=60):
        """Until nothing is spoken and nothing waits."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.metric("speaking") == 0 and self.metric("waiting") == 0:
                return True
            time.sleep(0.1)
        return False

    def end(self):
        """Exit code, and how long it took."""
        begun = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30), time.monotonic() - begun


def together(count, work):
    """What `work` gave in each of so many threads at once."""
    results, lock, gate = [], threading.Lock(), threading.Barrier(count)

    def run(number):
        gate.wait()
        result = work(number)
        with lock:
            results.append(result)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


# ---------------------------------------------------------------- loads

def load_many(server, clients):
    begun = time.monotonic()
    rows = together(clients, lambda _: server.say())
    wall = time.monotonic() - begun
    times = sorted(row[1] for row in rows)
    return {"errors": sum(row[0] != 200 for row in rows), "slowest_to_median": round(times[-1] / statistics.median(times), 2),
            "realtime_factor": round(sum(row[2] for row in rows) / wall, 1)}


def load_too_many(server, clients):
    """More at once than may wait and be spoken. Texts that end while others still ask make room for them."""
    before = server.metric("requests_refused_total")
    codes = collections.Counter(row[0] for row in together(clients, lambda _: server.say(SOME)))
    return {"codes": dict(codes), "refused": server.metric("requests_refused_total") - before}


def load_leaving(server, count, draw):
    """Each sends its request, or a part, reads some of the answer, or none, and leaves."""
    body = json.dumps({"model": "tts-1", "voice": "anna", "input": LONG, "response_format": "pcm"}).encode()
    request = b"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    for _ in range(count):
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as s:
            s.sendall(request[:draw.randrange(len(request) + 1)] if draw.random() < 0.3 else request)
            time.sleep(draw.random() * 0.02)
            if draw.random() < 0.3:
                s.settimeout(0.05)
                try:
                    s.recv(4096)
                except OSError:
                    pass
    return {"clients": count, "at_rest": server.await_rest(), "speaks": server.say()[0] == 200}


def load_idle(server):
    """Connections that say nothing or half a request, and readers that do not read; others are served meanwhile."""
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
    for s in idle[:10]:
        s.sendall(b"POST /v1/audio/speech HTTP/1.1\r\nHost: lo")
    body = json.dumps({"model": "tts-1", "voice": "anna", "input": LONG, "response_format": "pcm"}).encode()
    readers = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(4)]
    for s in readers:
        s.sendall(b"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    time.sleep(0.2)
    status, seconds, _ = server.say()
    for s in idle + readers:
        s.close()
    return {"status": status, "seconds": round(seconds, 2), "at_rest": server.await_rest()}


# ---------------------------------------------------------------- malformed requests

SEEDS = [json.dumps({"model": "tts-1", "voice": "anna", "input": "", "speed": 1, "stream": True}).encode(),
         b'{"model":"tts-1","voice":{"id":"anna"},"input":"<speak><break time=\\"9s\\"/></speak>"}', b"[" * 200, b"\xff" * 20]
FORM = (b'--b\r\nContent-Disposition: form-data; name="name"\r\n\r\nx\r\n--b\r\nContent-Disposition: form-data; '
        b'name="audio_sample"\r\n\r\nRIFF\r\n--b--\r\n')


def spoil(draw, data):
    data = bytearray(data)
    for _ in range(draw.randrange(1, 6)):
        at = draw.randrange(len(data))
        choice = draw.random()
        if choice < 0.4:
            data[at] = draw.randrange(256)
        elif choice < 0.7 and len(data) > 1:
            del data[at:at + draw.randrange(1, 8)]
        else:
            data[at:at] = data[at:at + draw.randrange(1, 12)]
        if not data:
            data = bytearray(b"x")
    return bytes(data)


def make_malformed(draw):
    """A request whose body, and sometimes whose head, is spoiled; and whether its head was."""
    if draw.random() < 0.5:
        body, path, kind = spoil(draw, draw.choice(SEEDS)), b"/v1/audio/speech", b"application/json"
    else:
        body, path, kind = spoil(draw, FORM), b"/v1/audio/voices", b"multipart/form-data; boundary=b"
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (path, kind, len(body))
    is_head = draw.random() < 0.1
    return spoil(draw, head) + body if is_head else head + body, is_head


def read_answer(stream):
    """The status; OSError where the connection has ended."""
    status, length = stream.readline().split(), 0
    if len(status) < 2:
        raise OSError("closed")
    while (line := stream.readline().strip()):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
        elif line.lower().startswith(b"transfer-encoding:"):
            raise OSError("it was taken, and speaks")
    stream.read(length)
    return int(status[1])


def send_malformed(server, count, draw, codes):
    """Many on a connection, until the server closes it, or nobody knows any more where a request ends."""
    while count > 0:
        with socket.create_connection(("127.0.0.1", server.port), timeout=2) as s:
            stream, is_head = s.makefile("rb"), False
            while count > 0 and not is_head:
                count -= 1
                try:
                    data, is_head = make_malformed(draw)
                    s.sendall(data)
                    codes[read_answer(stream)] += 1
                except OSError:
                    codes["closed"] += 1
                    break


def send_lines(server, count, draw):
    """To Wyoming."""
    seed = b'{"type":"synthesize","data_length":15,"payload_length":0}\n{"text":"a now"}'
    for _ in range(count):
        with socket.create_connection(("127.0.0.1", server.wyoming_port), timeout=30) as s:
            s.sendall(spoil(draw, seed))


def load_malformed(server, count, draw):
    counters = together(4, lambda i: [codes := collections.Counter(),
                                      send_malformed(server, count // 4, random.Random(draw.random()), codes)][0])
    send_lines(server, count // 100, draw)
    codes = sum(counters, collections.Counter())
    return {"requests": count, "codes": {str(key): value for key, value in sorted(codes.items(), key=str)},
            "server_errors": sum(value for key, value in codes.items() if key in (500, 503)),
            "speaks": server.say()[0] == 200}


# ---------------------------------------------------------------- long

def soak(server, seconds, draw):
    """Eight clients all the time; memory and descriptors after a fifth and at the end, at rest."""
    texts = [" ".join([SENTENCE] * draw.randrange(1, 6)) for _ in range(50)]
    stops, failures, counts = time.monotonic() + seconds, [], []

    def client(number):
        own, n = random.Random(number), 0
        while time.monotonic() < stops:
            status = server.say(own.choice(texts), own.choice(["pcm", "mp3", "opus", "flac", "wav"]))[0]
            n += 1
            if status != 200:
                failures.append(status)
        counts.append(n)

    def measure():
        time.sleep(seconds / 5)
        marks.append(server.memory())

    marks, watch = [], threading.Thread(target=measure)
    watch.start()
    together(8, client)
    watch.join()
    marks.append(server.memory())
    server.await_rest()
    return {"seconds": seconds, "requests": sum(counts), "failures": len(failures),
            "memory_mb": [round(mark[0] / 1e6, 1) for mark in marks],
            "growth": round(marks[1][0] / marks[0][0] - 1, 4), "descriptors": [mark[1] for mark in marks]}


def end_in_the_midst(server):
    """Every request that was taken is answered in full."""
    whole = server.say(SOME, "wav")[2]
    rows = []

    def ask(_):
        try:
            rows.append(server.say(SOME, "wav"))
        except (OSError, http.client.HTTPException):
            rows.append(("no answer", 0, 0))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    code, seconds = server.end()
    for thread in threads:
        thread.join()
    cut = [row for row in rows if row[0] == 200 and abs(row[2] - whole) > 1e-6]
    return {"exit_code": code, "seconds": round(seconds, 2), "answers": dict(collections.Counter(str(row[0]) for row in rows)),
            "cut_off": len(cut)}


def judge(r):
    """What does not hold."""
    wrong = []
    for name, holds in (("16 clients", r["many"]["errors"] == 0 and r["many"]["slowest_to_median"] <= 2.5),
                        ("64 clients", r["too_many"]["codes"].get(429, 0) == r["too_many"]["refused"]
                         and sum(r["too_many"]["codes"].values()) == 64 and set(r["too_many"]["codes"]) <= {200, 429}
                         and r["too_many"]["codes"].get(200, 0) >= 36),
                        ("leaving", r["leaving"]["at_rest"] and r["leaving"]["speaks"]),
                        ("idle", r["idle"]["status"] == 200 and r["idle"]["at_rest"]),
                        ("malformed", r["malformed"]["server_errors"] == 0 and r["malformed"]["speaks"]),
                        ("soak", not r["soak"] or (r["soak"]["failures"] == 0 and r["soak"]["growth"] <= 0.02)),
                        ("end", r["end"]["exit_code"] == 128 + signal.SIGTERM and r["end"]["seconds"] <= 10 and r["end"]["cut_off"] == 0
                         and "no answer" not in r["end"]["answers"])):
        if not holds:
            wrong.append(name)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("voice")
    parser.add_argument("--soak", type=int, default=0)
    parser.add_argument("--leaving", type=int, default=1000)
    parser.add_argument("--malformed", type=int, default=100000)
    arguments = parser.parse_args()
    draw = random.Random(1)
    folder = tempfile.TemporaryDirectory(prefix="tandem-load-")
    server = Server(arguments.program, arguments.voice, "--device", "cpu", "--deadline", "0", "--voices-dir",
                    folder.name)
    try:
        server.say()
        result = {"many": load_many(server, 16), "too_many": load_too_many(server, 64),
                  "leaving": load_leaving(server, arguments.leaving, draw), "idle": load_idle(server),
                  "malformed": load_malformed(server, arguments.malformed, draw),
                  "soak": soak(server, arguments.soak, draw) if arguments.soak else None,
                  "end": end_in_the_midst(server)}
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
        folder.cleanup()
    wrong = judge(result)
    print(json.dumps({**result, "wrong": wrong}, indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
