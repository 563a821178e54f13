"""Uploaded code of a job that attacks the host of its agent; hostile_programs.py sends it with a plan.json.

It speaks to its agent over the trainers' socket with a client of its own (HTTP/2 and protobuf by hand), so that no
part of Shoal keeps it honest. Each line that it prints begins with HELD, BROKE or NOTE.
"""
import json
import os
import pathlib
import socket
import stat
import struct
import time

PLAN = json.loads((pathlib.Path(__file__).parent / "plan.json").read_text())
DATA = pathlib.Path(os.environ["HOME"]).parent.parent  # of the agent
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_DATA, FRAME_HEADERS, FRAME_SETTINGS, FRAME_PING, FRAME_CONTINUATION = 0, 1, 4, 6, 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1


def say(kind, text):
    print(f"{kind} {text}", flush=True)


# ---- protobuf


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out + bytes([number]))


def field(number, value):
    """An unsigned number, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(data):
    """Pairs of number and value."""
    def take():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    at = 0
    while at < len(data):
        key = take()
        kind = key & 7
        if kind == 0:
            yield key >> 3, take()
            continue
        size = take() if kind == 2 else {1: 8, 5: 4}[kind]
        yield key >> 3, data[at:at + size]
        at += size


# ---- gRPC


class Call:
    """One call to the agent: requests go out as they are given, answers are collected."""

    def __init__(self, method):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(5)
        self.socket.connect(os.environ["SHOAL_TRAINER_SOCKET"])
        self.left, self.messages, self.status = b"", [], None
        headers = {":method": "POST", ":scheme": "http", ":path": f"/shoal.v1.TrainerHost/{method}",
                   ":authority": "localhost", "te": "trailers", "content-type": "application/grpc",
                   "shoal-trainer-nonce": os.environ["SHOAL_TRAINER_NONCE"]}
        block = b"".join(b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
                         for name, value in headers.items())
        self.socket.sendall(PREFACE + self.frame(FRAME_SETTINGS, 0, 0, b"")
                            + self.frame(FRAME_HEADERS, END_HEADERS, 1, block))

    @staticmethod
    def frame(kind, flags, stream, payload):
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

    def send(self, message, last=False):
        body = b"\0" + struct.pack(">I", len(message)) + message
        self.socket.sendall(self.frame(FRAME_DATA, END_STREAM if last else 0, 1, body))

    def exactly(self, count):
        data = b""
        while len(data) < count:
            some = self.socket.recv(count - len(data))
            if not some:
                raise ConnectionError("the agent hung up")
            data += some
        return data

    def read(self):
        """One frame."""
        head = self.exactly(9)
        payload = self.exactly(int.from_bytes(head[:3], "big"))
        kind, flags = head[3], head[4]
        if kind == FRAME_SETTINGS and not flags & ACK:
            self.socket.sendall(self.frame(FRAME_SETTINGS, ACK, 0, b""))
        elif kind == FRAME_PING and not flags & ACK:
            self.socket.sendall(self.frame(FRAME_PING, ACK, 0, payload))
        elif kind == FRAME_DATA:
            self.left += payload
            while len(self.left) >= 5 and len(self.left) >= 5 + (size := int.from_bytes(self.left[1:5], "big")):
                self.messages.append(self.left[5:5 + size])
                self.left = self.left[5 + size:]
        elif kind in (FRAME_HEADERS, FRAME_CONTINUATION) and b"grpc-status" in payload:
            at = payload.index(b"grpc-status") + len(b"grpc-status")
            self.status = payload[at + 1:at + 1 + payload[at]].decode()

    def next(self, limit=20):
        """The next message; None: the call ended without one."""
        until = time.monotonic() + limit
        while not self.messages and self.status is None and time.monotonic() < until:
            try:
                self.read()
            except socket.timeout:
                continue
        return self.messages.pop(0) if self.messages else None


def certify(replica):
    """How gRPC ends it; "0" is a certificate."""
    call = Call("Certify")
    call.send(field(1, replica) + field(2, PLAN["csr"].encode()), last=True)
    while call.status is None:
        call.read()
    return call.status


def attach(holds=b""):
    device = field(1, int(os.environ["SHOAL_TRAINER_DEVICE"])) + field(2, b"cpu") + field(3, b"hostile")
    device += field(4, 1 << 34) + varint(5 << 3 | 1) + struct.pack("<d", 10)
    ready = field(1, device) + field(2, b"127.0.0.1:1") + field(3, b"none")
    ready += field(4, int(os.environ["SHOAL_TRAINER_SLOT"])) + field(5, PLAN["protocol"])
    call = Call("Attach")
    call.send(field(2, ready + (field(6, holds) if holds else b"")))
    return call


def own_assign(call):
    """As LoadReplica brings it."""
    while (message := call.next(60)) is not None:
        for number, value in fields(message):
            if number == 2:
                return dict(fields(value))[1]
    raise ConnectionError("no replica was given")


# ---- attacks


def report_claim(when):
    status = certify(PLAN["victim"])
    say("BROKE" if status == "0" else "HELD", f"{when}: a certificate of rep_{PLAN['victim']}: gRPC status {status}")


def claim():
    call = attach()
    assign = own_assign(call)
    own = dict(fields(assign))[1]
    report_claim("as itself")
    say("HELD" if certify(own) == "0" else "BROKE", f"its own certificate, of rep_{own}, it gets")
    say("NOTE", f"READY rep_{own}")
    pretended = assign + field(1, PLAN["victim"]) + field(2, PLAN["victim_job"])  # the last value of a field counts
    if PLAN["after_restart"]:
        try:
            while call.next(120) is not None or call.status is None:
                pass
        except OSError:
            pass
    else:
        call.socket.close()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            call = attach(pretended)
            for _ in range(20):
                report_claim("as another replica")
                time.sleep(0.05)
        except OSError:
            time.sleep(0.05)


def tries(what, action):
    try:
        action()
    except OSError as error:
        return say("HELD", f"{what}: {error.strerror}")
    say("BROKE", what)


def files():
    call = attach()
    assign = dict(fields(own_assign(call)))
    own = DATA / "written" / f"rep_{assign[1]}"
    for name in PLAN["foreign"]:
        path = DATA / name
        tries(f"read {name}", path.read_bytes)
        tries(f"write {name}", lambda: path.write_bytes(b"x"))
        tries(f"delete {name}", path.unlink)
        tries(f"list the folder of {name}", lambda: list(path.parent.iterdir()))
        tries(f"put a file beside {name}", lambda: (path.parent / "more").write_bytes(b"x"))
        tries(f"link to {name}", lambda: os.link(path, own / "link"))
    for name in ("written", "fetched"):
        tries(f"list {name}/", lambda: list((DATA / name).iterdir()))
        tries(f"make a folder in {name}/", (DATA / name / "rep_1000001").mkdir)
    (own / "ckpt_1").mkdir(parents=True)
    (own / "ckpt_1" / "model.safetensors").write_bytes(b"mine")
    tries("make a FIFO", lambda: os.mkfifo(own / "ckpt_1" / "fifo"))
    tries("make a socket", lambda: socket.socket(socket.AF_UNIX).bind(str(own / "s")))
    tries("make a symbolic link", lambda: os.symlink(DATA / "machine.key", own / "ckpt_1" / "key"))
    tries("make a device", lambda: os.mknod(own / "null", stat.S_IFCHR | 0o600, os.makedev(1, 3)))
    os.mkfifo(pathlib.Path(os.environ["TMPDIR"]) / "fifo")
    tries("move a FIFO in", lambda: os.rename(pathlib.Path(os.environ["TMPDIR"]) / "fifo", own / "fifo"))
    say("NOTE", "READY")
    time.sleep(600)


def fork():
    stream = attach()  # open until the end, or the program is killed for that
    for number in range(10_000):
        if os.fork() == 0:
            if number % 2:
                os.setsid()
            time.sleep(600)
            os._exit(0)
    say("BROKE", "10,000 processes were made")
    time.sleep(600)
    stream.socket.close()


def memory():
    stream = attach()  # open until the end, or the program is killed for that
    held = []
    for _ in range(4096):
        held.append(b"x" * (4 << 20))
        time.sleep(0.01)
    say("BROKE", "16 GiB of memory were filled")
    stream.socket.close()


def disk():
    stream = attach()  # open until the end, or the program is killed for that
    with open(pathlib.Path(os.environ["TMPDIR"]) / "big", "wb", buffering=0) as file:
        for _ in range(4096):
            file.write(b"x" * (4 << 20))
            time.sleep(0.01)
    say("BROKE", "16 GiB of the disk were filled")
    stream.socket.close()


def main():
    {"claim": claim, "files": files, "fork": fork, "memory": memory, "disk": disk}[PLAN["attack"]]()


main()
