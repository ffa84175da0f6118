"""The tunnel door against peers that are no agents: upgrades that mean something else, WebSocket frames that may not be, handshakes
that never end, more connections than there are descriptors. Everything is sent on raw sockets."""

import base64
import os
import re
import resource
import socket
import ssl
import struct
import time
import uuid

import pytest

from platform_under_test import wait_until

BINARY, TEXT, CONTINUATION, CLOSE, PING, PONG = 2, 1, 0, 8, 9, 10


@pytest.fixture(autouse=True)
def same_process(request, platform):
    """Whatever a test sends, the process that served it serves on, and so does the runtime that was there."""
    pid = platform.pid("culvertd")
    yield
    assert platform.pid("culvertd") == pid and platform.api("GET", "/api/ping").status == 200


def create_runtime(platform, name):
    query = "mutation($a: RuntimeInstallationArgs!) { createRuntime(installationArgs: $a) { newAccessToken } }"
    args = {"runtimeName": name, "cluster": "in-cluster", "runtimeVersion": "0.1.0", "componentNames": []}
    return platform.graphql(query, {"a": args})["createRuntime"]["newAccessToken"]


@pytest.fixture(scope="module")
def stranger(platform):
    """A runtime of its own, so that nobody takes the demo agent's place."""
    name = f"door-{uuid.uuid4().hex[:8]}"
    token = create_runtime(platform, name)
    wait_until(lambda: knock(platform, request_of(name, token)).status == 101, 10, "the new token is known")
    yield name, token
    platform.graphql("mutation($n: String!) { deleteRuntime(name: $n) }", {"n": name})


# ---- talking -------------------------------------------------------------------------------------------------------------


def tunnel_port(platform):
    return int(platform.env["CULVERT_TUNNEL_URL"].rsplit(":", 1)[1].split("/")[0])


def tls_context(platform):
    context = platform.context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def connect(platform):
    sock = socket.create_connection(("127.0.0.1", tunnel_port(platform)), timeout=20)
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
        "culvert-instance-id": "door-test",
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


# ---- upgrades ------------------------------------------------------------------------------------------------------------

KEY = base64.b64encode(bytes(range(16))).decode()


def cl(body=b"", **more):
    return lambda n, t: request_of(n, t, **more) + body


def raw(change):
    return lambda n, t: change(request_of(n, t))


def line(text, **more):
    return lambda n, t: request_of(n, t, line=text, **more)


def twice(header):
    def change(data):
        found = re.search(rb"(?i)\r\n(" + header.encode() + rb": [^\r]*)", data)
        return data.replace(found.group(0), found.group(0) * 2, 1)

    return raw(change)


MALFORMED_UPGRADES = {
    # the request line
    "POST": (line("POST /tunnel/v1 HTTP/1.1"), 400),
    "PUT": (line("PUT /tunnel/v1 HTTP/1.1"), 400),
    "HEAD": (line("HEAD /tunnel/v1 HTTP/1.1"), 400),
    "OPTIONS": (line("OPTIONS * HTTP/1.1"), 400),
    "CONNECT": (line("CONNECT localhost:443 HTTP/1.1"), 400),
    "get in lower case": (line("get /tunnel/v1 HTTP/1.1"), 400),
    "no method": (line("/tunnel/v1 HTTP/1.1"), 400),
    "method with a control byte": (line("GE\x01T /tunnel/v1 HTTP/1.1"), 400),
    "HTTP/1.0": (line("GET /tunnel/v1 HTTP/1.0"), 400),
    "HTTP/0.9": (line("GET /tunnel/v1"), 400),
    "HTTP/2.0": (line("GET /tunnel/v1 HTTP/2.0"), 400),
    "HTTP/1.2": (line("GET /tunnel/v1 HTTP/1.2"), 400),
    "http in lower case": (line("GET /tunnel/v1 http/1.1"), 400),
    "HTTP/1.10": (line("GET /tunnel/v1 HTTP/1.10"), 400),
    "HTTP/01.1": (line("GET /tunnel/v1 HTTP/01.1"), 400),
    "two spaces": (line("GET  /tunnel/v1 HTTP/1.1"), 400),
    "a tab": (line("GET\t/tunnel/v1 HTTP/1.1"), 400),
    "a space behind": (line("GET /tunnel/v1 HTTP/1.1 "), 400),
    "a space before": (line(" GET /tunnel/v1 HTTP/1.1"), 400),
    "an empty line before": (raw(lambda d: b"\r\n" + d), 400),
    "HTTP/2 preface": (lambda n, t: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "HTTP/2 preface with settings": (lambda n, t: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0", 400),
    "garbage": (lambda n, t: bytes(range(256)) + b"\r\n\r\n", 400),
    "SSH": (lambda n, t: b"SSH-2.0-OpenSSH_9.2\r\n\r\n", 400),
    # the target
    "absolute form": (line("GET https://localhost/tunnel/v1 HTTP/1.1"), 400),
    "asterisk form": (line("GET * HTTP/1.1"), 400),
    "authority form": (line("GET localhost:443 HTTP/1.1"), 400),
    "no slash": (line("GET tunnel/v1 HTTP/1.1"), 400),
    "root": (line("GET / HTTP/1.1"), 404),
    "trailing slash": (line("GET /tunnel/v1/ HTTP/1.1"), 404),
    "upper case": (line("GET /Tunnel/v1 HTTP/1.1"), 404),
    "other version": (line("GET /tunnel/v2 HTTP/1.1"), 404),
    "escaped slash": (line("GET /tunnel%2fv1 HTTP/1.1"), 404),
    "escaped letter": (line("GET /tunnel/%761 HTTP/1.1"), 404),
    "dots": (line("GET /x/../tunnel/v1 HTTP/1.1"), 404),
    "double slash": (line("GET //tunnel/v1 HTTP/1.1"), 404),
    "query": (line("GET /tunnel/v1?a=b HTTP/1.1"), 404),
    "empty query": (line("GET /tunnel/v1? HTTP/1.1"), 404),
    "fragment": (line("GET /tunnel/v1#a HTTP/1.1"), 400),
    "path parameter": (line("GET /tunnel/v1;a=b HTTP/1.1"), 404),
    "not ASCII": (line("GET /tunnel/v1\xe9 HTTP/1.1"), 400),
    "frp's path": (line("GET /~!frp HTTP/1.1"), 404),
    # Host
    "no Host": (cl(Host=None), 400),
    "empty Host": (cl(Host=""), 400),
    "two Hosts": (twice("Host"), 400),
    "Host with a user": (cl(Host="a@localhost"), 400),
    "Host with a path": (cl(Host="localhost/x"), 400),
    "Host with a comma": (cl(Host="localhost, other"), 400),
    "Host with a bad port": (cl(Host="localhost:99999"), 400),
    # Upgrade and Connection
    "no Upgrade": (cl(Upgrade=None), 426),
    "empty Upgrade": (cl(Upgrade=""), 426),
    "h2c": (cl(Upgrade="h2c", Connection="Upgrade, HTTP2-Settings", HTTP2_Settings="AAMAAABkAAQAAP__"), 426),
    "h2c and websocket": (cl(Upgrade="h2c, websocket"), 426),
    "websocket and h2c": (cl(Upgrade="websocket, h2c"), 426),
    "websocket/13": (cl(Upgrade="websocket/13"), 426),
    "websockets": (cl(Upgrade="websockets"), 426),
    "TLS": (cl(Upgrade="TLS/1.0"), 426),
    "two Upgrades": (twice("Upgrade"), 400),
    "no Connection": (cl(Connection=None), 400),
    "empty Connection": (cl(Connection=""), 400),
    "Connection: keep-alive": (cl(Connection="keep-alive"), 400),
    "Connection: close": (cl(Connection="close"), 400),
    "Connection: Upgraded": (cl(Connection="Upgraded"), 400),
    "Connection: Up grade": (cl(Connection="Up grade"), 400),
    "Connection: quoted": (cl(Connection='"Upgrade"'), 400),
    # the WebSocket's own headers
    "no version": (cl(Sec_WebSocket_Version=None), 426),
    "version 8": (cl(Sec_WebSocket_Version="8"), 426),
    "version 013": (cl(Sec_WebSocket_Version="013"), 426),
    "version 13, 8": (cl(Sec_WebSocket_Version="13, 8"), 426),
    "two versions": (twice("Sec-WebSocket-Version"), 400),
    "no key": (cl(Sec_WebSocket_Key=None), 400),
    "empty key": (cl(Sec_WebSocket_Key=""), 400),
    "two keys": (twice("Sec-WebSocket-Key"), 400),
    "key of 15 bytes": (cl(Sec_WebSocket_Key=base64.b64encode(bytes(15)).decode()), 400),
    "key of 17 bytes": (cl(Sec_WebSocket_Key=base64.b64encode(bytes(17)).decode()), 400),
    "key of 18 bytes": (cl(Sec_WebSocket_Key=base64.b64encode(bytes(18)).decode()), 400),
    "key without padding": (cl(Sec_WebSocket_Key=KEY.rstrip("=")), 400),
    "key of another alphabet": (cl(Sec_WebSocket_Key=KEY[:-3] + "_=="), 400),
    "key with a space": (cl(Sec_WebSocket_Key=KEY[:10] + " " + KEY[11:]), 400),
    "key of 4096 bytes": (cl(Sec_WebSocket_Key="A" * 4096), 400),
    "no subprotocol": (cl(Sec_WebSocket_Protocol=None), 426),
    "unknown subprotocol": (cl(Sec_WebSocket_Protocol="graphql-transport-ws"), 426),
    "unknown list": (cl(Sec_WebSocket_Protocol="culvert.tunnel.0, culvert.tunnel.2"), 426),
    "subprotocol in upper case": (cl(Sec_WebSocket_Protocol="CULVERT.TUNNEL.1"), 426),
    "subprotocol is no token": (cl(Sec_WebSocket_Protocol="culvert.tunnel.1 x"), 400),
    "empty element": (cl(Sec_WebSocket_Protocol="culvert.tunnel.1,,x"), 400),
    "two subprotocol headers": (twice("Sec-WebSocket-Protocol"), 400),
    "Origin": (cl(Origin="https://evil.example"), 403),
    "Origin: null": (cl(Origin="null"), 403),
    "empty Origin": (cl(Origin=""), 403),
    "our own Origin": (cl(Origin="https://localhost"), 403),
    # who it is
    "no credential": (cl(Authorization=None), 401),
    "empty credential": (cl(Authorization=""), 401),
    "two credentials": (twice("Authorization"), 400),
    "no instance": (cl(culvert_instance_id=None), 400),
    "instance with a space": (cl(culvert_instance_id="a b"), 400),
    "long instance": (cl(culvert_instance_id="a" * 200), 400),
    "no boot id": (cl(culvert_boot_id=None), 400),
    "no version of the agent": (cl(culvert_agent_version=None), 400),
    "no runtime": (cl(culvert_runtime=None), 400),
    "another's runtime": (cl(culvert_runtime="demo-of-others"), 403),
    "two runtimes": (twice("culvert-runtime"), 400),
    "runtime not ASCII": (cl(culvert_runtime="caf\xe9"), 400),
    # bodies, and what comes behind
    "Content-Length 0": (cl(Content_Length="0"), 400),
    "a body": (cl(b"hello", Content_Length="5"), 400),
    "negative length": (cl(Content_Length="-1"), 400),
    "length with a sign": (cl(Content_Length="+5"), 400),
    "chunked": (cl(b"0\r\n\r\n", Transfer_Encoding="chunked"), 400),
    "length and chunked": (cl(b"0\r\n\r\n", Transfer_Encoding="chunked", Content_Length="5"), 400),
    "gzip coding": (cl(Transfer_Encoding="gzip, chunked"), 400),
    "Expect": (cl(Expect="100-continue"), 400),
    "another Expect": (cl(Expect="a-miracle"), 400),
    "a second request behind": (lambda n, t: request_of(n, t) * 2, 400),
    "a frame behind": (lambda n, t: request_of(n, t) + b"\x82\x80abcd", 400),
    "HTTP/2 behind": (lambda n, t: request_of(n, t) + b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    # the head's own form
    "bare LF": (raw(lambda d: d.replace(b"\r\n", b"\n")), 400),
    "bare LF once": (raw(lambda d: d.replace(b"localhost\r\n", b"localhost\n", 1)), 400),
    "bare CR": (raw(lambda d: d.replace(b"localhost\r\n", b"localhost\rX: y\r\n", 1)), 400),
    "fold with a space": (raw(lambda d: d.replace(b"Upgrade: websocket", b"Upgrade:\r\n websocket", 1)), 400),
    "fold with a tab": (raw(lambda d: d.replace(b"Upgrade: websocket", b"Upgrade:\r\n\twebsocket", 1)), 400),
    "fold first": (raw(lambda d: d.replace(b"Host:", b" X: y\r\nHost:", 1)), 400),
    "space before the colon": (raw(lambda d: d.replace(b"Upgrade:", b"Upgrade :", 1)), 400),
    "no colon": (raw(lambda d: d.replace(b"Upgrade: websocket", b"Upgrade websocket", 1)), 400),
    "no name": (raw(lambda d: d.replace(b"Upgrade: websocket", b": websocket", 1)), 400),
    "NUL in a value": (raw(lambda d: d.replace(b"door-test", b"door\0test", 1)), 400),
    "NUL in a name": (raw(lambda d: d.replace(b"culvert-instance-id", b"culvert-instance\0id", 1)), 400),
    "control byte in a value": (raw(lambda d: d.replace(b"door-test", b"door\x07test", 1)), 400),
    "DEL in a value": (raw(lambda d: d.replace(b"door-test", b"door\x7ftest", 1)), 400),
    "control byte without an end": (lambda n, t: b"GET /tunnel/v1 HTTP/1.1\r\nHost: a\x00", 400),
    "too many headers": (raw(lambda d: d.replace(b"\r\n\r\n", b"\r\n" + b"A: b\r\n" * 120 + b"\r\n", 1)), 431),
    "long header": (cl(X="a" * 9000), 431),
    "long line without an end": (lambda n, t: b"GET /" + b"a" * 9000, 431),
    "long credential": (cl(Authorization="Bearer " + "a" * 400), 400),
}


def test_enough_of_them():
    assert len(MALFORMED_UPGRADES) >= 72


@pytest.mark.parametrize("name", MALFORMED_UPGRADES)
def test_malformed_upgrade_gets_an_answer(platform, stranger, name):
    """A 4xx that says why, in good order, at once, and nothing behind it."""
    make, status = MALFORMED_UPGRADES[name]
    knocked = knock(platform, make(*stranger))
    assert knocked.status == status, knocked.answer
    assert knocked.in_order and knocked.answer.count(b"HTTP/1.1 ") == 1
    head, _, body = knocked.answer.partition(b"\r\n\r\n")
    assert b"\r\nconnection: close" in head and f"\r\ncontent-length: {len(body)}".encode() in head and body.strip()
    assert (b"\r\nsec-websocket-protocol: culvert.tunnel.1" in head) == (status == 426)
    assert stranger[1] not in knocked.answer.decode("latin-1")


GOOD_UPGRADES = {
    "as it is": lambda n, t: request_of(n, t),
    "other cases": lambda n, t: request_of(n, t, Upgrade="WebSocket", Connection="keep-alive, UPGRADE"),
    "names in lower case": lambda n, t: re.sub(rb"(?m)^([A-Za-z-]+):", lambda m: m.group(0).lower(), request_of(n, t)),
    "two Connections": lambda n, t: request_of(n, t).replace(b"Connection: Upgrade", b"Connection: keep-alive\r\nConnection: upgrade", 1),
    "a list of subprotocols": lambda n, t: request_of(n, t, Sec_WebSocket_Protocol="culvert.tunnel.2, culvert.tunnel.1,x"),
    "extensions that nobody needs": lambda n, t: request_of(n, t, Sec_WebSocket_Extensions="permessage-deflate; client_max_window_bits"),
    "no space behind the colon": lambda n, t: request_of(n, t).replace(b": ", b":"),
    "spaces around values": lambda n, t: request_of(n, t).replace(b": ", b": \t ").replace(b"websocket\r\n", b"websocket \t\r\n", 1),
    "another header": lambda n, t: request_of(n, t, User_Agent="x", Cookie="a=b", Via="1.1 proxy"),
    "Host with a port": lambda n, t: request_of(n, t, Host="tunnel.example.com:8443"),
}


@pytest.mark.parametrize("name", GOOD_UPGRADES)
def test_good_upgrade_is_let_in(platform, stranger, name):
    request = GOOD_UPGRADES[name](*stranger)
    answer = knock(platform, request).answer.decode().lower()
    assert answer.startswith("http/1.1 101 "), answer
    assert "\r\nsec-websocket-protocol: culvert.tunnel.1" in answer and "extensions" not in answer


def test_request_byte_by_byte(platform, stranger):
    request = request_of(*stranger)
    assert knock(platform, b"", pieces=[request[i : i + 1] for i in range(len(request))]).status == 101


def test_nothing_is_served_behind_a_refusal(platform, stranger):
    bad = request_of(*stranger, Origin="https://a")
    with connect(platform) as sock:
        sock.sendall(bad)
        got = sock.recv(65536)
        try:
            sock.sendall(request_of(*stranger))
        except OSError:
            pass
        more, _ = read_to_end(sock)
    assert got.startswith(b"HTTP/1.1 403") and b"HTTP/1.1" not in more


def test_other_protocols_on_the_port(platform):
    with socket.create_connection(("127.0.0.1", tunnel_port(platform)), timeout=20) as sock:
        sock.sendall(b"GET /tunnel/v1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        got, in_order = read_to_end(sock)
        assert got.startswith(b"HTTP/1.1 400") and b"TLS" in got and in_order
    with socket.create_connection(("127.0.0.1", tunnel_port(platform)), timeout=20) as sock:
        sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert read_to_end(sock)[0].startswith(b"HTTP/1.1 400")
    with socket.create_connection(("127.0.0.1", tunnel_port(platform)), timeout=20) as sock:
        sock.sendall(b"\x00\x01\x02\x03")
        assert read_to_end(sock)[0] == b""
    context = platform.context()
    context.set_alpn_protocols(["h2"])
    with pytest.raises(ssl.SSLError):
        context.wrap_socket(socket.create_connection(("127.0.0.1", tunnel_port(platform))), server_hostname="localhost")
    context = platform.context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with context.wrap_socket(socket.create_connection(("127.0.0.1", tunnel_port(platform))), server_hostname="localhost") as sock:
        assert sock.selected_alpn_protocol() == "http/1.1"
        sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert read_to_end(sock)[0].startswith(b"HTTP/1.1 400")


def test_sessions_are_resumed(platform):
    """A ticket of one loop is good at every other."""
    context = platform.context()
    context.minimum_version = ssl.TLSVersion.TLSv1_3

    def tls(session):
        sock = socket.create_connection(("127.0.0.1", tunnel_port(platform)), timeout=20)
        with context.wrap_socket(sock, server_hostname="localhost", session=session) as spoken:
            spoken.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            read_to_end(spoken)  # the ticket comes behind the handshake
            return spoken.session_reused, spoken.session

    _, session = tls(None)
    for _ in range(8):
        reused, session = tls(session)
        assert reused


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


SETTINGS = b"\0\0\0\4\0\0\0\0\0"  # the agent is the HTTP/2 server: its first frame


UNKNOWN = b"\0\0\0\xf0\0\0\0\0\0"


def filler(length):
    """The SETTINGS, then HTTP/2 frames of a type that nobody knows, so many bytes in all."""
    out = SETTINGS
    while (left := length - len(out)) > 0:
        take = left if left <= 16384 + 9 else min(16384 + 9, left - 9)
        out += (take - 9).to_bytes(3, "big") + b"\xf0\0\0\0\0\0" + bytes(take - 9)
    return out


def pieces_of(data, *cuts):
    edges = [0, *cuts, len(data)]
    parts = [data[a:b] for a, b in zip(edges, edges[1:])]
    return [frame(BINARY if i == 0 else CONTINUATION, part, fin=i == len(parts) - 1) for i, part in enumerate(parts)]


def bad_frames():
    cases = {}
    for opcode in (CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG):
        cases[f"unmasked, opcode {opcode}"] = ([frame(opcode, b"\x03\xe8" if opcode == CLOSE else b"xx", masked=False)], 1002)
    for rsv in range(1, 8):
        for opcode in (BINARY, PING, CLOSE):
            cases[f"reserved bits {rsv}, opcode {opcode}"] = ([frame(opcode, b"\x03\xe8", rsv=rsv)], 1002)
    for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15):
        cases[f"reserved opcode {opcode}"] = ([frame(opcode)], 1002)
        cases[f"reserved opcode {opcode} with bytes"] = ([frame(opcode, b"hello")], 1002)
    for opcode in (CLOSE, PING, PONG):
        cases[f"control {opcode} of 126"] = ([frame(opcode, bytes(126))], 1002)
        cases[f"control {opcode} of 65536"] = ([frame(opcode, bytes(65536))], 1002)
        cases[f"control {opcode} of 1 in a long form"] = ([frame(opcode, bytes(1), form=16)], 1002)
        cases[f"control {opcode} in pieces"] = ([frame(opcode, b"", fin=False), frame(CONTINUATION)], 1002)
    cases["continuation of nothing"] = ([frame(CONTINUATION, b"x")], 1002)
    cases["continuation of nothing, not the last"] = ([frame(CONTINUATION, b"x", fin=False)], 1002)
    cases["continuation of nothing, empty"] = ([frame(CONTINUATION)], 1002)
    cases["continuation behind a whole message"] = ([*pieces_of(SETTINGS, 4), frame(CONTINUATION, b"x")], 1002)
    cases["message in a message"] = ([frame(BINARY, SETTINGS, fin=False), frame(BINARY, b"x")], 1002)
    cases["message in a message, in pieces"] = ([frame(BINARY, SETTINGS, fin=False), frame(BINARY, b"x", fin=False)], 1002)
    cases["message in a message behind a ping"] = ([frame(BINARY, SETTINGS, fin=False), frame(PING), frame(BINARY, b"x")], 1002)
    cases["text in a message"] = ([frame(BINARY, SETTINGS, fin=False), frame(TEXT, b"x")], 1002)
    for name, payload in {"text": b"hello", "empty text": b"", "text that is not UTF-8": b"\xff\xfe", "long text": b"a" * 70000}.items():
        cases[name] = ([frame(TEXT, payload)], 1003)
    cases["text in pieces"] = ([frame(TEXT, b"hel", fin=False), frame(CONTINUATION, b"lo")], 1003)
    cases["text behind bytes"] = ([frame(BINARY, SETTINGS), frame(TEXT, b"x")], 1003)
    for length in (2**63, 2**63 + 1, 2**64 - 1):
        cases[f"length {length}"] = ([frame(BINARY, form=64, length=length)], 1002)
    for form, length in ((16, 0), (16, 125), (64, 0), (64, 126), (64, 65535)):
        cases[f"length {length} in {form} bits"] = ([frame(BINARY, bytes(length), form=form)], 1002)
    cases["close of one byte"] = ([frame(CLOSE, b"\x03")], 1002)
    for code in (0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535):
        cases[f"close code {code}"] = ([close_frame(code)], 1002)
    for name, reason in {"a lone byte": b"\xff", "cut": b"\xe2\x82", "overlong": b"\xc0\xaf", "surrogate": b"\xed\xa0\x80", "too high": b"\xf4\x90\x80\x80"}.items():
        cases[f"close reason: {name}"] = ([close_frame(1000, reason)], 1007)
    return cases


def good_closes():
    cases = {"close without a code": ([close_frame()], 1005)}
    for code in (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999):
        cases[f"close {code}"] = ([close_frame(code)], code)
    cases["close with a reason"] = ([close_frame(1000, "Grüße, κόσμε 🙂".encode())], 1000)
    cases["close with the longest reason"] = ([close_frame(1000, b"a" * 123)], 1000)
    cases["close twice"] = ([close_frame(1000), close_frame(1001)], 1000)
    cases["bytes behind the close"] = ([close_frame(1000) + frame(BINARY, b"x") + frame(PING, b"y")], 1000)
    cases["close in the middle of a message"] = ([frame(BINARY, SETTINGS, fin=False), close_frame(1000)], 1000)
    cases["close in single bytes"] = ([bytes([b]) for b in close_frame(1000, b"why")], 1000)
    return cases


def good_frames():
    """Messages in every shape; behind each the connection answers a ping."""
    whole = filler(100)
    cases = {f"message of {n}": [frame(BINARY, filler(n))] for n in (9, 18, 125, 126, 127, 128, 65535, 65536, 65537, 300000)}
    cases["empty message"] = [frame(BINARY), frame(BINARY, SETTINGS)]
    cases["empty pieces"] = [frame(BINARY, fin=False), frame(CONTINUATION, fin=False), frame(CONTINUATION, SETTINGS, fin=False), frame(CONTINUATION)]
    for cuts in ([1], [9], [99], [1, 2, 3], [10, 10, 50], list(range(1, 100))):
        cases[f"cut at {cuts[:3]} of {len(cuts)}"] = pieces_of(whole, *cuts)
    cases["pieces with pings between"] = [part for piece in pieces_of(whole, 3, 50) for part in (piece, frame(PING, b"between"), frame(PONG))]
    cases["single bytes"] = [bytes([b]) for b in frame(BINARY, whole)]
    cases["header in two"] = (lambda data: [data[:3], data[3:]])(frame(BINARY, filler(300)))
    cases["mask in two"] = (lambda data: [data[:6], data[6:]])(frame(BINARY, filler(300)))
    cases["many in one write"] = [frame(BINARY, SETTINGS) + b"".join(frame(BINARY, UNKNOWN) for _ in range(500))]
    cases["zero mask"] = [bytes([0x82, 0x80 | 9]) + bytes(4) + SETTINGS]
    cases["unasked pong"] = [frame(PONG), frame(PONG, b"x" * 125), frame(BINARY, SETTINGS)]
    return cases


BAD_FRAMES, GOOD_CLOSES, GOOD_FRAMES = bad_frames(), good_closes(), good_frames()
PINGS = {"empty": b"", "one byte": b"x", "text": b"hello", "bytes": bytes(range(125)), "zeros": bytes(8), "the longest": b"\xff" * 125}


def test_enough_frames():
    assert len(BAD_FRAMES) + len(GOOD_CLOSES) + len(GOOD_FRAMES) + len(PINGS) >= 100


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_bad_frame_gets_its_close_code(platform, stranger, name):
    pieces, code = BAD_FRAMES[name]
    with WebSocket(platform, stranger) as ws:
        ws.send(*pieces)
        assert ws.read_close() == code


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_bad_frame_in_single_bytes(platform, stranger, name):
    pieces, code = BAD_FRAMES[name]
    data = b"".join(pieces)
    if len(data) > 200:
        data = data[:200]  # the head is what counts
    with WebSocket(platform, stranger) as ws:
        ws.send(*(data[i : i + 1] for i in range(len(data))))
        assert ws.read_close() == code


@pytest.mark.parametrize("name", GOOD_CLOSES)
def test_close_is_answered(platform, stranger, name):
    pieces, code = GOOD_CLOSES[name]
    with WebSocket(platform, stranger) as ws:
        ws.send(*pieces)
        assert ws.read_close() == code


@pytest.mark.parametrize("name", GOOD_FRAMES)
def test_any_shape_is_taken(platform, stranger, name):
    with WebSocket(platform, stranger) as ws:
        ws.send(*GOOD_FRAMES[name], frame(PING, b"are you there?"))
        while (found := ws.read()) != (PONG, b"are you there?"):
            assert found and found[0] == PONG and found[1] == b"between", found
        ws.send(close_frame(1000))
        assert ws.read_close() == 1000


@pytest.mark.parametrize("name", PINGS)
def test_ping_is_echoed(platform, stranger, name):
    with WebSocket(platform, stranger) as ws:
        ws.send(frame(PING, PINGS[name]))
        assert ws.read() == (PONG, PINGS[name])


def test_ten_pings_ten_pongs(platform, stranger):
    with WebSocket(platform, stranger) as ws:
        ws.send(b"".join(frame(PING, b"%d" % i) for i in range(10)))
        assert [ws.read() for _ in range(10)] == [(PONG, b"%d" % i) for i in range(10)]


def test_pings_of_a_peer_that_does_not_read(platform, stranger):
    """Of many pings that nobody reads the answers to some stay unanswered (RFC 6455 section 5.5.3); then all goes on."""
    many = 100 * 500
    with WebSocket(platform, stranger) as ws:
        for _ in range(100):
            ws.send(b"".join(frame(PING, bytes(125)) for _ in range(500)))
        ws.send(frame(BINARY, SETTINGS))
        ws.sock.settimeout(1)
        answered = 0
        while ws.read() == (PONG, bytes(125)):
            answered += 1
        assert 0 < answered <= many
        ws.sock.settimeout(20)
        ws.send(frame(PING, b"still there?"))
        assert ws.read() == (PONG, b"still there?")


def test_http2_that_is_none_ends_the_session(platform, stranger):
    with WebSocket(platform, stranger) as ws:
        ws.send(frame(BINARY, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        assert ws.read_close() == 1002


# ---- time and room ---------------------------------------------------------------------------------------------------------


def metric(platform, name):
    for text in platform.admin("/metrics").text().splitlines():
        if text.split(" ")[0] == name:
            return float(text.split()[-1])
    return 0.0


def test_handshakes_end(platform, stranger):
    """Nobody may hold a place without saying who he is: silence, half a TLS handshake, half a request."""
    timeouts = metric(platform, 'culvert_tunnel_handshakes_total{result="timeout"}')
    silent = socket.create_connection(("127.0.0.1", tunnel_port(platform)), timeout=30)
    half_tls = socket.create_connection(("127.0.0.1", tunnel_port(platform)), timeout=30)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = tls_context(platform).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        hello.do_handshake()
    half_tls.sendall(outgoing.read()[:100])
    half_request = connect(platform)
    half_request.sendall(request_of(*stranger)[:-10])
    with silent, half_tls, half_request:
        assert read_to_end(silent, 30)[0] == b"" and read_to_end(half_tls, 30)[0] == b""
        got, in_order = read_to_end(half_request, 30)
        assert got.startswith(b"HTTP/1.1 408") and in_order
    assert metric(platform, 'culvert_tunnel_handshakes_total{result="timeout"}') >= timeouts + 2


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_no_spin_without_descriptors(platform, stranger):
    """At the process's limit connections wait in the kernel's queue, and are served when there is room."""
    pid = platform.pid("culvertd")
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    in_use = len(os.listdir(f"/proc/{pid}/fd"))
    waiting = []
    try:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (in_use + 8, limits[1]))
        for _ in range(60):
            waiting.append(socket.create_connection(("127.0.0.1", tunnel_port(platform)), timeout=20))
        wait_until(lambda: "accept_paused" in platform.log("culvertd"), 10, "the listener has paused")
        began, before = time.monotonic(), cpu_seconds(pid)
        wait_until(lambda: time.monotonic() - began > 2, 5, "two seconds pass")
        used = (cpu_seconds(pid) - before) / (time.monotonic() - began)
        assert used < 0.5, f"{used:.2f} of a core while there is nothing to do"
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        for sock in waiting:
            sock.close()
    wait_until(lambda: knock(platform, request_of(*stranger)).status == 101, 10, "it accepts again")


def retune(platform, *lines):
    """Other settings: culvertd is started again with them."""
    path = platform.home / "culvertd.conf"
    path.write_text(path.read_text() + "\n".join(["", *lines, ""]))
    killed = platform.kill("culvertd")
    wait_until(lambda: platform.pid("culvertd") != killed and platform.api("GET", "/api/ping").status == 200, 60, "culvertd runs again")


@pytest.mark.parametrize("own_platform", ["asan"], indirect=True)
def test_bucket_of_handshakes(own_platform):
    """More handshakes than the loops want are told to come later, each at another time, before anybody looks at their token."""
    retune(own_platform, "tunnel.handshakes_per_second = 1")
    refused = [knocked for _ in range(20) if (knocked := knock(own_platform, request_of("nobody", "0" * 24 + "." + "0" * 64))).status == 503]
    assert len(refused) >= 10
    waits = {int(re.search(rb"\r\nretry-after: (\d+)\r\n", knocked.answer).group(1)) for knocked in refused}
    assert all(1 <= seconds <= 10 for seconds in waits) and len(waits) > 1
    assert metric(own_platform, 'culvert_tunnel_handshakes_total{result="503"}') >= 10


@pytest.mark.parametrize("own_platform", ["asan"], indirect=True)
def test_one_address_does_not_take_every_place(own_platform):
    retune(own_platform, "tunnel.handshakes_per_address_max = 2")
    silent = [socket.create_connection(("127.0.0.1", tunnel_port(own_platform)), timeout=20) for _ in range(20)]

    def cut():
        count = 0
        for sock in silent:
            sock.setblocking(False)
            try:
                count += sock.recv(1) == b""
            except BlockingIOError:
                pass
            except OSError:
                count += 1
        return count

    try:
        wait_until(lambda: cut() > 0 and metric(own_platform, 'culvert_tunnel_handshakes_total{result="address"}') > 0, 10, "some are cut, and counted")
        # Another address is served meanwhile.
        other = socket.create_connection(("127.0.0.1", tunnel_port(own_platform)), timeout=20, source_address=("127.0.0.5", 0))
        with tls_context(own_platform).wrap_socket(other, server_hostname="localhost") as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert read_to_end(sock)[0].startswith(b"HTTP/1.1 404")
    finally:
        for sock in silent:
            sock.close()
