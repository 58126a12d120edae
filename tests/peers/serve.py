#!/usr/bin/env python3
"""`tandem serve` with the clients' own packages: `openai` and `wyoming`, and many clients at once.

    serve.py PROGRAM VOICE [--clients 16] [--rounds 30] [--record FILE]

Starts the server with VOICE, a checkpoint, and stops it. Prints how long the first sound and whole sentences take,
how much faster than real time many clients are served, and how unequally. Exit 1 where a client fails. --record writes
what the clients sent and how the answers were made, for tests/cli/test_serve.py. Needs both packages
(pip install openai wyoming), which nothing else in Tandem does.
"""
import argparse
import asyncio
import concurrent.futures
import importlib.metadata
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time

import openai
from wyoming.client import AsyncTcpClient
from wyoming.info import Describe, Info
from wyoming.ping import Ping
from wyoming.tts import (Synthesize, SynthesizeChunk, SynthesizeStart, SynthesizeStop, SynthesizeVoice)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import exchanges

TEXT = "The young sailor painted the silver mirror last night."
SHORT = "Say a now. Say b now."
RATE = 24000  # of response_format pcm


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def make_client(port):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)


def start(program, voice):
    ports = free_port(), free_port()
    process = subprocess.Popen([program, "serve", "--voice", f"anna={voice}", "--port", str(ports[0]),
                                "--wyoming-port", str(ports[1])], stdout=subprocess.DEVNULL)
    client = make_client(ports[0])
    for _ in range(600):
        try:
            client.models.list()
            client.audio.speech.create(model="tts-1", voice="anna", input=TEXT, response_format="pcm")
            return process, client, ports
        except (openai.APIConnectionError, openai.InternalServerError):
            time.sleep(0.1)
    raise SystemExit("the server does not answer")


def say(client, text=TEXT):
    """Seconds to the first bytes and to the last, and seconds of sound."""
    begun, first, count = time.monotonic(), None, 0
    with client.audio.speech.with_streaming_response.create(model="tts-1", voice="anna", input=text,
                                                            response_format="pcm") as answer:
        for piece in answer.iter_bytes(4096):
            first = first or time.monotonic() - begun
            count += len(piece)
    return first, time.monotonic() - begun, count / 2 / RATE


# ---------------------------------------------------------------- each client once

class Tee:
    """Stands between a client and the server, and keeps what passes."""

    def __init__(self, port):
        self.target, self.sent, self.received = port, bytearray(), bytearray()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.socket.accept()
            server = socket.create_connection(("127.0.0.1", self.target))
            for source, sink, kept in ((client, server, self.sent), (server, client, self.received)):
                threading.Thread(target=self.pump, args=(source, sink, kept), daemon=True).start()

    @staticmethod
    def pump(source, sink, kept):
        try:
            while data := source.recv(65536):
                kept.extend(data)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # one of them has left

    def take(self):
        taken = bytes(self.sent), bytes(self.received)
        self.sent.clear()
        self.received.clear()
        return taken


def refuses(error, words, call):
    """The client tells what was wrong in its own way."""
    try:
        call()
    except error as refused:
        assert words in str(refused), refused
    else:
        raise SystemExit(f"{words}: this was taken")


def list_openai_calls(client):
    def create(**more):
        answer = client.audio.speech.create(**{"model": "tts-1", "voice": "anna", "input": SHORT, **more})
        assert len(answer.content) > 100, more

    calls = {"models": lambda: list(client.models.list()), "usual format": create,
             "voice by id": lambda: create(voice={"id": "anna"}, response_format="pcm"),
             "instructions and speed": lambda: create(instructions="softly", speed=1.5, response_format="pcm"),
             "events": lambda: create(stream_format="sse", response_format="pcm"),
             "fields of others": lambda: create(response_format="wav",
                                                extra_body={"stream": True, "seed": 3, "language": "en"})}
    for kind in ("mp3", "opus", "flac", "wav", "pcm"):
        calls[kind] = lambda kind=kind: create(response_format=kind)
    for name, error, words, more in (
            ("unknown voice", openai.NotFoundError, "anna", {"voice": "nobody"}),
            ("unknown model", openai.NotFoundError, "'big'", {"model": "big"}),
            ("aac", openai.BadRequestError, "aac", {"response_format": "aac"}),
            ("too fast", openai.BadRequestError, "0.25 to 4", {"speed": 9}),
            ("no text", openai.BadRequestError, "nothing", {"input": " "}),
            ("too long", openai.BadRequestError, "4097", {"input": "a" * 4097})):
        calls[name] = lambda error=error, words=words, more=more: refuses(error, words, lambda: create(**more))
    return calls


async def converse(port, events, last):
    """Sends events, and returns what comes until one of the type `last`."""
    received = []
    async with AsyncTcpClient("127.0.0.1", port) as client:
        for event in events:
            await client.write_event(event.event())
        while not received or received[-1].type != last:
            received.append(await client.read_event())
            assert received[-1], f"the connection ended before {last}"
    return received


def list_wyoming_calls(port):
    anna = SynthesizeVoice(name="anna")

    def describe():
        info = Info.from_event(asyncio.run(converse(port, [Describe()], "info"))[0])
        assert info.tts[0].voices[0].name == "anna" and info.tts[0].supports_synthesize_streaming, info

    def hear(events, last="audio-stop"):
        received = asyncio.run(converse(port, events, last))
        assert sum(len(event.payload) for event in received if event.type == "audio-chunk") > 1000

    pieces = [SynthesizeChunk(text=text) for text in ("Say a ", "now. Say", " b now.")]
    return {"describe": describe,
            "ping": lambda: asyncio.run(converse(port, [Ping(text="here")], "pong")),
            "synthesize": lambda: hear([Synthesize(text=SHORT, voice=anna)]),
            "synthesize without a voice": lambda: hear([Synthesize(text=SHORT)]),
            "synthesize in a language": lambda: hear([Synthesize(text=SHORT, voice=SynthesizeVoice(language="en"))]),
            "text in pieces": lambda: hear([SynthesizeStart(voice=anna), *pieces, Synthesize(text=SHORT, voice=anna),
                                            SynthesizeStop()], "synthesize-stopped"),
            "unknown voice": lambda: asyncio.run(converse(port, [Synthesize(text=SHORT, voice=SynthesizeVoice(
                name="nobody"))], "error"))}


def try_clients(http_port, wyoming_port):
    """Every call once; what was exchanged."""
    rows = []
    for package, port, list_calls, describe in (
            ("openai", http_port, lambda port: list_openai_calls(make_client(port)),
             lambda content: exchanges.describe_answer(exchanges.Received(content))),
            ("wyoming", wyoming_port, list_wyoming_calls, exchanges.describe_events)):
        tee = Tee(port)
        for name, call in list_calls(tee.port).items():
            call()
            sent, received = tee.take()
            rows.append({"client": f"{package} {importlib.metadata.version(package)}", "name": name, "sent": sent,
                         "answer": describe(received)})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("voice")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--record")
    arguments = parser.parse_args()
    process, client, ports = start(arguments.program, arguments.voice)
    try:
        rows = try_clients(*ports)
        if arguments.record:
            exchanges.save(rows, arguments.record)
        alone = [say(client) for _ in range(arguments.rounds)]
        begun = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(arguments.clients) as pool:
            together = list(pool.map(lambda _: say(client), range(arguments.clients)))
        wall = time.monotonic() - begun
        times = sorted(row[1] for row in together)
        print(json.dumps({
            "first_audio_ms": round(1e3 * statistics.median(row[0] for row in alone), 1),
            "sentence_ms": round(1e3 * statistics.median(row[1] for row in alone), 1),
            "sentence_audio_s": round(alone[0][2], 2),
            "clients": arguments.clients,
            "realtime_factor": round(sum(row[2] for row in together) / wall, 1),
            "slowest_to_median": round(times[-1] / statistics.median(times), 2)}))
    finally:
        process.terminate()
        process.wait(15)
    return 0


if __name__ == "__main__":
    sys.exit(main())
