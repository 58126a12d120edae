#!/usr/bin/env python3
"""`tandem serve` with the clients' own packages: `openai` and `wyoming`, and many clients at once.

    serve.py PROGRAM VOICE [--clients 16] [--seconds 3]

Starts the server with VOICE, a checkpoint, and stops it. Prints how long the first sound and whole sentences take,
how much faster than real time many clients are served, and how unequally. Exit 1 where a client fails. Needs both
packages (pip install openai wyoming), which nothing else in Tandem does.
"""
import argparse
import asyncio
import concurrent.futures
import json
import socket
import statistics
import subprocess
import sys
import time

import openai
from wyoming.client import AsyncTcpClient
from wyoming.info import Describe, Info
from wyoming.tts import Synthesize, SynthesizeVoice

TEXT = "The young sailor painted the silver mirror last night."
RATE = 24000  # of response_format pcm


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(program, voice):
    ports = free_port(), free_port()
    process = subprocess.Popen([program, "serve", "--voice", f"anna={voice}", "--port", str(ports[0]),
                                "--wyoming-port", str(ports[1])], stdout=subprocess.DEVNULL)
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{ports[0]}/v1", api_key="none", max_retries=0)
    for _ in range(600):
        try:
            client.models.list()
            client.audio.speech.create(model="tts-1", voice="anna", input=TEXT, response_format="pcm")
            return process, client, ports[1]
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


async def speak_wyoming(port):
    async with AsyncTcpClient("127.0.0.1", port) as client:
        await client.write_event(Describe().event())
        info = Info.from_event(await client.read_event())
        assert info.tts[0].voices[0].name == "anna", info
        await client.write_event(Synthesize(text=TEXT, voice=SynthesizeVoice(name="anna")).event())
        count = 0
        while True:
            event = await client.read_event()
            if event.type == "audio-stop":
                return count
            if event.type == "audio-chunk":
                count += len(event.payload)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("voice")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    process, client, wyoming_port = start(arguments.program, arguments.voice)
    try:
        for kind in ("mp3", "opus", "flac", "wav", "pcm"):
            content = client.audio.speech.create(model="tts-1", voice="anna", input=TEXT, response_format=kind).content
            assert len(content) > 1000, kind
        try:
            client.audio.speech.create(model="tts-1", voice="nobody", input=TEXT)
            raise SystemExit("a voice that is not there was taken")
        except openai.NotFoundError as error:
            assert "anna" in str(error)
        assert asyncio.run(speak_wyoming(wyoming_port)) > 1000
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
