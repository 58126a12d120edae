"""A network of two computers on one: two network namespaces, joined by a link of a given rate and delay, which this
process carries between two TUN devices (kernels often lack tc's netem). Stopped (SIGSTOP), the link is silent, as a
cable that was pulled out is. Needs root.

    python3 link.py NAME RATE_MBIT DELAY_MS     makes NAME-a (10.99.0.1) and NAME-b (10.99.0.2), says "ready", and
                                                takes both away again when its standard input ends
"""
import collections
import ctypes
import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import time

MTU = 65000
QUEUE_BYTES = 16 << 20
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000


class Way:
    """One direction: packets in the order of their coming, each with the time at which it arrives."""

    def __init__(self, source, target, bytes_per_s, delay_s):
        self.source, self.target = source, target
        self.bytes_per_s, self.delay_s = bytes_per_s, delay_s
        self.packets, self.bytes, self.sent_at = collections.deque(), 0, 0.0

    def take(self, now):
        packet = os.read(self.source, MTU + 64)
        if self.bytes + len(packet) > QUEUE_BYTES:
            return
        self.sent_at = max(now, self.sent_at) + len(packet) / self.bytes_per_s
        self.packets.append((self.sent_at + self.delay_s, packet))
        self.bytes += len(packet)

    def give(self, now):
        while self.packets and self.packets[0][0] <= now:
            _, packet = self.packets.popleft()
            self.bytes -= len(packet)
            os.write(self.target, packet)


def run(*command):
    subprocess.run(command, check=True)


def open_end(space, address):
    """A TUN device in a namespace of its own, from outside."""
    run("ip", "netns", "add", space)
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/net", "rb") as here, open(f"/run/netns/{space}", "rb") as there:
        if libc.setns(there.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        device = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", b"link0", IFF_TUN | IFF_NO_PI))
        if libc.setns(here.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    for words in ("addr add " + address + "/24 dev link0", f"link set link0 mtu {MTU} up", "link set lo up"):
        run("ip", "-n", space, *words.split())
    return device


def carry(ends, rate_mbit, delay_ms):
    ways = [Way(a, b, rate_mbit * 125e3, delay_ms / 1e3) for a, b in (ends, ends[::-1])]
    while True:
        due = min((way.packets[0][0] for way in ways if way.packets), default=None)
        timeout = None if due is None else max(0, due - time.monotonic())
        readable, _, _ = select.select([*ends, sys.stdin], [], [], timeout)
        now = time.monotonic()
        for way in ways:
            if way.source in readable:
                way.take(now)
            way.give(now)
        if sys.stdin in readable:
            return


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    name, rate_mbit, delay_ms = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    try:
        ends = [open_end(f"{name}-{end}", f"10.99.0.{i + 1}") for i, end in enumerate("ab")]
        print("ready", flush=True)
        carry(ends, rate_mbit, delay_ms)
    finally:
        for end in "ab":
            subprocess.run(["ip", "netns", "del", f"{name}-{end}"], check=False, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
