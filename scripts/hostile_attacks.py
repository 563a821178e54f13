"""What a stranger may send to a port: bytes that are no request, no frame and no handshake, by a seed.

attacks() gives endless pairs of a kind and bytes. The n-th attack of a seed is always the same, except what OpenSSL
draws for a hello. None of them is something that a port should answer with content.
"""
import random
import ssl

TOKEN_OF_NOBODY = "shoalapi1.tok_1." + "0" * 64
ROUTES = ["/api/v1/jobs", "/api/v1/agents", "/api/v1/events/stream", "/api/v1/audit", "/api/v1/jobs/hostile/rounds",
          "/metrics", "/api/v1/enrol", "/api/v1/renew", "/api/v1/session"]
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "G\0T", "get", "X" * 40]
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MARK = b"hS"  # what frames between peers begin with (wire/stream/core/frame.cc)


def client_hello():
    """As a client of TLS 1.3 begins."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(incoming, outgoing, server_hostname="shoal-coordinator").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def damaged(dice, data):
    """Some bytes are others, and often the end is missing."""
    changed = bytearray(data)
    for _ in range(dice.randint(1, 8)):
        changed[dice.randrange(len(changed))] = dice.randrange(256)
    return bytes(changed[:dice.randint(1, len(changed))] if dice.random() < 0.5 else changed)


def noise(dice):
    return dice.randbytes(dice.randint(1, 600))


def request(method, path, headers="", body=b""):
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}{length}\r\n".encode() + body


def http_attack(dice, hello):
    """A kind and its bytes."""
    path, token = dice.choice(ROUTES), f"Authorization: Bearer {TOKEN_OF_NOBODY}\r\n"
    guarded = [route for route in ROUTES if route not in ("/api/v1/enrol", "/api/v1/renew", "/api/v1/session")]
    body = dice.choice([b"{", b'{"token":', b"[" * 5000, b'{"a":1}' + noise(dice), noise(dice), b"\xff\xfe{}"])
    kind = dice.choice(["no HTTP", "method", "token", "body", "header", "length", "chunks", "target", "host", "TLS",
                        "half a request"])
    sent = {
        "no HTTP": lambda: noise(dice) + b"\r\n\r\n",
        "method": lambda: request(dice.choice(METHODS), dice.choice(guarded)),
        "token": lambda: request("GET", dice.choice(guarded), token),
        "body": lambda: request("POST", path, token + "Content-Type: application/json\r\n", body),
        "header": lambda: request("GET", dice.choice(guarded), "X: " + "y" * dice.choice([9, 15_000, 40_000]) + "\r\n"),
        "length": lambda: request("POST", path, f"Content-Length: {dice.choice(['-1', '9' * 30, 'x', '2000000'])}\r\n"),
        "chunks": lambda: request("POST", path, "Transfer-Encoding: chunked\r\n") + dice.choice(
            [b"zz\r\n", b"fffffffffffffffff\r\n", b"5\r\nab", b"-1\r\n\r\n"]),
        "target": lambda: request("GET", "/api/v1/" + dice.choice(["%", "%zz", "../" * 50, "%00", "a" * 9000])),
        "host": lambda: b"GET /api/v1/jobs HTTP/1.1\r\nHost: " + dice.choice([b"evil.example", b"", b"\x01"]) +
        b"\r\n\r\n",
        "TLS": lambda: damaged(dice, hello),
        "half a request": lambda: request("POST", path, "Content-Length: 500\r\n")[:dice.randint(1, 60)],
    }[kind]()
    return kind, sent


def grpc_attack(dice, hello):
    kind = dice.choice(["TLS", "whole hello", "HTTP/2", "noise"])
    sent = {"TLS": lambda: damaged(dice, hello), "whole hello": lambda: hello + noise(dice),
            "HTTP/2": lambda: HTTP2 + noise(dice), "noise": lambda: noise(dice)}[kind]()
    return kind, sent


def peer_attack(dice, hello):
    kind = dice.choice(["TLS", "whole hello", "frames", "noise", "HTTP/2"])
    sent = {"TLS": lambda: damaged(dice, hello), "whole hello": lambda: hello + noise(dice),
            "frames": lambda: MARK + noise(dice), "noise": lambda: noise(dice),
            "HTTP/2": lambda: damaged(dice, HTTP2)}[kind]()
    return kind, sent


KINDS = {"http": http_attack, "agents": grpc_attack, "peers": peer_attack}


def attacks(port, seed):
    dice, hello = random.Random(f"{port} {seed}"), client_hello()
    while True:
        yield KINDS[port](dice, hello)
