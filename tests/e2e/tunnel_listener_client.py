"""A client of the tunnel listener that says exactly what it is given: upgrades, WebSocket frames."""

import base64
import os
import re
import socket
import struct
import uuid

import pytest

from platform_under_test import wait_until

BINARY, TEXT, CONTINUATION, CLOSE, PING, PONG = 2, 1, 0, 8, 9, 10


# ---- the upgrade --------------------------------------------------------------------------------------------------------


def tls_context(platform):
    context = platform.context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def connect(platform):
    sock = socket.create_connection(("127.0.0.1", platform.port("CULVERT_TUNNEL_URL")), timeout=20)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return tls_context(platform).wrap_socket(sock, server_hostname="localhost")


def headers_of(name, token):
    return {
        "Host": "localhost",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        "Sec-WebSocket-Protocol": "culvert.tunnel.1",
        "Authorization": f"Bearer {token}",
        "culvert-instance-id": "listener-test",
        "culvert-boot-id": str(uuid.uuid4()),
        "culvert-agent-version": "0.1.0",
        "culvert-runtime": name,
    }


def request_of(name, token, line="GET /tunnel/v1 HTTP/1.1", **changes):
    """A good request, changed: underscores stand for dashes, None takes a header away."""
    headers = headers_of(name, token)
    for key, value in changes.items():
        match = next((k for k in headers if k.lower() == key.replace("_", "-").lower()), key.replace("_", "-"))
        headers[match] = value
    lines = [line, *(f"{k}: {v}" for k, v in headers.items() if v is not None), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def read_to_end(sock, seconds=15):
    """What comes until the other side closes, and whether it closed in good order."""
    sock.settimeout(seconds)
    got = b""
    try:
        while piece := sock.recv(65536):
            got += piece
    except OSError:
        return got, False
    return got, True


class Knocked:
    def __init__(self, answer, in_order, sock=None, rest=b""):
        self.answer, self.in_order, self.sock, self.rest = answer, in_order, sock, rest
        self.status = int(answer.split()[1]) if re.match(rb"HTTP/1\.1 \d{3} ", answer) else 0


def knock(platform, data, keep=False, pieces=None):
    """Sends a request and gives the answer: all of it when refused, the head when let in."""
    sock = connect(platform)
    try:
        for piece in pieces or [data]:
            sock.sendall(piece)
        got = b""
        while b"\r\n\r\n" not in got:
            piece = sock.recv(65536)
            if not piece:
                return Knocked(got, True)
            got += piece
        head, _, rest = got.partition(b"\r\n\r\n")
        if head.startswith(b"HTTP/1.1 101"):
            kept, sock = sock, None if keep else sock
            return Knocked(head, True, kept if keep else None, rest)
        more, in_order = read_to_end(sock)
        return Knocked(got + more, in_order)
    finally:
        if sock:
            sock.close()


# ---- frames --------------------------------------------------------------------------------------------------------------


def frame(opcode, payload=b"", fin=True, rsv=0, masked=True, form=None, length=None):
    """One frame; form 16 or 64 forces a long length, length lies about it."""
    length = len(payload) if length is None else length
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    bit = 0x80 if masked else 0
    if form == 64 or (form is None and length > 65535):
        head += bytes([bit | 127]) + struct.pack(">Q", length)
    elif form == 16 or (form is None and length > 125):
        head += bytes([bit | 126]) + struct.pack(">H", length)
    else:
        head += bytes([bit | length])
    if not masked:
        return head + payload
    mask = os.urandom(4)
    pattern = (mask * (len(payload) // 4 + 1))[: len(payload)]
    return head + mask + (int.from_bytes(payload, "big") ^ int.from_bytes(pattern, "big")).to_bytes(len(payload), "big")


def close_frame(code=None, reason=b""):
    return frame(CLOSE, b"" if code is None else struct.pack(">H", code) + reason)


class WebSocket:
    """The client's end after a 101: reads frames, forgets HTTP/2."""

    def __init__(self, platform, stranger):
        knocked = knock(platform, request_of(*stranger), keep=True)
        assert knocked.status == 101, knocked.answer
        self.sock, self.buffer = knocked.sock, knocked.rest

    def take(self, count):
        while len(self.buffer) < count:
            piece = self.sock.recv(65536)
            if not piece:
                raise EOFError
            self.buffer += piece
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def read(self):
        """(opcode, payload) of the next frame that is not of the pipe; None at the end."""
        while True:
            try:
                first, second = self.take(2)
                assert first & 0x70 == 0 and second & 0x80 == 0, "the server's frames have no mask and no reserved bits"
                length = second & 0x7F
                if length > 125:
                    length = int.from_bytes(self.take(2 if length == 126 else 8), "big")
                payload = self.take(length)
            except (EOFError, OSError):
                return None
            if first & 0x0F != BINARY:
                return first & 0x0F, payload

    def read_close(self):
        """The code of the Close frame (1005: none); then the end follows."""
        while True:
            found = self.read()
            assert found, "closed without a Close frame"
            if found[0] == CLOSE:
                assert self.read() is None
                return int.from_bytes(found[1][:2], "big") if found[1] else 1005

    def send(self, *pieces):
        for piece in pieces:
            try:
                self.sock.sendall(piece)
            except OSError:
                return  # it was refused before all had been sent

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()


# ---- for the tests of the listener --------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def same_process(request, platform):
    """Whatever a test sends, the process that served it serves on, and so does the runtime that was there."""
    pid = platform.pid("culvertd")
    yield
    assert platform.pid("culvertd") == pid and platform.api("GET", "/api/ping").status == 200


@pytest.fixture(scope="module")
def stranger(platform):
    """A runtime of its own, so that nobody takes the demo agent's place."""
    name = f"listener-{uuid.uuid4().hex[:8]}"
    token = platform.create_runtime(name)
    wait_until(lambda: knock(platform, request_of(name, token)).status == 101, 10, "the new token is known")
    yield name, token
    platform.graphql("mutation($n: String!) { deleteRuntime(name: $n) }", {"n": name})
