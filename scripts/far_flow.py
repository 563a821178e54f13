#!/usr/bin/env python3
"""One end of plain TCP streams, as bench_far.py starts it in a namespace.

    far_flow.py receive ADDRESS PORT STREAMS SECONDS                the bytes that arrived in each tenth of a second, JSON
    far_flow.py send ADDRESS PORT STREAMS SECONDS [CONGESTION]      fills all streams until the receiver has gone

SECONDS run from the first byte. What the kernel chooses of buffers is left to it unless --buffer says otherwise.
"""
import argparse
import contextlib
import json
import selectors
import socket
import sys
import time

CHUNK = bytes(1 << 20)
TICK_S = 0.1
PATIENCE_S = 30  # for the streams to come


def prepare(stream, options):
    if options.congestion:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, options.congestion.encode())
    if options.buffer:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.buffer)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.buffer)


def receive(options):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    prepare(listener, options)
    listener.bind((options.address, options.port))
    listener.listen(options.streams)
    listener.settimeout(PATIENCE_S)
    print("ready", flush=True)
    waits = selectors.DefaultSelector()
    for _ in range(options.streams):
        waits.register(listener.accept()[0], selectors.EVENT_READ)
    ticks, begin, space = [], None, bytearray(1 << 20)
    while begin is None or time.monotonic() - begin < options.seconds:
        for key, _ in waits.select(TICK_S if begin else PATIENCE_S):
            size = key.fileobj.recv_into(space)
            begin = begin or time.monotonic()
            tick = int((time.monotonic() - begin) / TICK_S)
            ticks += [0] * (tick + 1 - len(ticks))
            ticks[tick] += size
    print(json.dumps(ticks[:round(options.seconds / TICK_S)]))


def send(options):
    waits = selectors.DefaultSelector()
    for _ in range(options.streams):
        stream = socket.socket()
        prepare(stream, options)
        stream.settimeout(PATIENCE_S)
        stream.connect((options.address, options.port))
        stream.setblocking(False)
        waits.register(stream, selectors.EVENT_WRITE)
    end = time.monotonic() + options.seconds + PATIENCE_S
    with contextlib.suppress(ConnectionError):
        while (left := end - time.monotonic()) > 0:
            for key, _ in waits.select(left):
                key.fileobj.send(CHUNK)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", choices=("receive", "send"))
    parser.add_argument("address")
    parser.add_argument("port", type=int)
    parser.add_argument("streams", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("congestion", nargs="?", default="")
    parser.add_argument("--buffer", type=int, default=0, help="bytes, SO_SNDBUF and SO_RCVBUF")
    options = parser.parse_args()
    try:
        (receive if options.role == "receive" else send)(options)
    except OSError as error:
        sys.exit(f"error: {options.role}: {error}")


if __name__ == "__main__":
    main()
