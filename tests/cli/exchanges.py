"""What clients and the server said to each other, in the form in which it is kept and compared: what a client sent, byte
by byte, and the structure of the answer: status, types, the fields of JSON, the kind of sound, the order of events.
tests/peers/serve.py records them from the clients' own packages, test_serve.py plays them back."""

import base64
import http.client
import io
import json
import os

RECORDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded_clients.json")
SOUNDS = {b"RIFF": "wav", b"OggS": "opus", b"fLaC": "flac"}


def get_shape(value):
    """Names and types of all fields; of a list those of its first item."""
    if isinstance(value, dict):
        return {name: get_shape(item) for name, item in sorted(value.items())}
    if isinstance(value, list):
        return [get_shape(item) for item in value[:1]]
    return "number" if type(value) in (int, float) else type(value).__name__


def join_repeats(rows):
    """How often a kind of event comes in a row depends on the sound."""
    return [row for i, row in enumerate(rows) if i == 0 or row != rows[i - 1]]


def get_sound(content):
    if content[:1] == b"\xff" and content[1] >= 0xe0:
        return "mp3"
    return SOUNDS.get(content[:4], "samples")


# ---------------------------------------------------------------- HTTP

class Received:
    """Bytes that were received, for HTTPResponse in place of a socket."""

    def __init__(self, content):
        self.content = content

    def makefile(self, _):
        return io.BytesIO(self.content)


def describe_answer(source):
    """Of a socket or of Received."""
    answer = http.client.HTTPResponse(source)
    answer.begin()
    content = answer.read()
    kind = answer.getheader("Content-Type")
    if kind == "application/json":
        body = get_shape(json.loads(content))
    elif kind == "text/event-stream":
        events = [json.loads(line[6:]) for line in content.decode().split("\n\n") if line]
        body = join_repeats([[event["type"], get_shape(event)] for event in events])
    else:
        body = get_sound(content)
    return {"status": answer.status, "type": kind, "chunked": answer.chunked, "body": body}


# ---------------------------------------------------------------- Wyoming

def read_event(stream):
    """The type of an event and its shape."""
    head = json.loads(stream.readline())
    data = head.get("data") or {}
    if head.get("data_length"):
        data = json.loads(stream.read(head["data_length"]))
    payload = stream.read(head.get("payload_length") or 0)
    return [head["type"], get_shape(data), "bytes" if payload else ""]


def describe_events(content):
    stream, rows = io.BytesIO(content), []
    while stream.tell() < len(content):
        rows.append(read_event(stream))
    return join_repeats(rows)


# ---------------------------------------------------------------- keeping

def save(exchanges, path):
    """One exchange a line. What was sent is text, but for bodies that are none."""
    def make_row(exchange):
        sent = exchange["sent"]
        try:
            return {**exchange, "sent": sent.decode("ascii")}
        except UnicodeDecodeError:
            return {**exchange, "sent": None, "sent_base64": base64.b64encode(sent).decode()}

    with open(path, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(make_row(e)) for e in exchanges) + "\n]\n")


def load():
    with open(RECORDED, encoding="utf-8") as file:
        rows = json.load(file)
    for row in rows:
        row["sent"] = base64.b64decode(row["sent_base64"]) if row["sent"] is None else row["sent"].encode()
    return rows
