"""The tunnel listener against upgrades that mean something else, and other protocols on its port. Everything is sent on raw sockets."""

import base64
import re
import socket
import ssl

import pytest

from tunnel_listener_client import connect, knock, read_to_end, request_of, same_process, stranger  # noqa: F401

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
    "POST": (line("POST /tunnel/v1 HTTP/1.1"), 405),
    "PUT": (line("PUT /tunnel/v1 HTTP/1.1"), 405),
    "HEAD": (line("HEAD /tunnel/v1 HTTP/1.1"), 405),
    "OPTIONS": (line("OPTIONS * HTTP/1.1"), 405),
    "CONNECT": (line("CONNECT localhost:443 HTTP/1.1"), 400),
    "get in lower case": (line("get /tunnel/v1 HTTP/1.1"), 501),
    "unknown method": (line("BREW /tunnel/v1 HTTP/1.1"), 501),
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
    "NUL in a value": (raw(lambda d: d.replace(b"listener-test", b"listener\0test", 1)), 400),
    "NUL in a name": (raw(lambda d: d.replace(b"culvert-instance-id", b"culvert-instance\0id", 1)), 400),
    "control byte in a value": (raw(lambda d: d.replace(b"listener-test", b"listener\x07test", 1)), 400),
    "DEL in a value": (raw(lambda d: d.replace(b"listener-test", b"listener\x7ftest", 1)), 400),
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
    with socket.create_connection(("127.0.0.1", platform.port("CULVERT_TUNNEL_URL")), timeout=20) as sock:
        sock.sendall(b"GET /tunnel/v1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        got, in_order = read_to_end(sock)
        assert got.startswith(b"HTTP/1.1 400") and b"TLS" in got and in_order
    with socket.create_connection(("127.0.0.1", platform.port("CULVERT_TUNNEL_URL")), timeout=20) as sock:
        sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert read_to_end(sock)[0].startswith(b"HTTP/1.1 400")
    with socket.create_connection(("127.0.0.1", platform.port("CULVERT_TUNNEL_URL")), timeout=20) as sock:
        sock.sendall(b"\x00\x01\x02\x03")
        assert read_to_end(sock)[0] == b""
    context = platform.context()
    context.set_alpn_protocols(["h2"])
    with pytest.raises(ssl.SSLError):
        context.wrap_socket(socket.create_connection(("127.0.0.1", platform.port("CULVERT_TUNNEL_URL"))), server_hostname="localhost")
    context = platform.context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with context.wrap_socket(socket.create_connection(("127.0.0.1", platform.port("CULVERT_TUNNEL_URL"))), server_hostname="localhost") as sock:
        assert sock.selected_alpn_protocol() == "http/1.1"
        sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert read_to_end(sock)[0].startswith(b"HTTP/1.1 400")


def test_sessions_are_resumed(platform):
    """A ticket of one loop is good at every other."""
    context = platform.context()
    context.minimum_version = ssl.TLSVersion.TLSv1_3

    def tls(session):
        sock = socket.create_connection(("127.0.0.1", platform.port("CULVERT_TUNNEL_URL")), timeout=20)
        with context.wrap_socket(sock, server_hostname="localhost", session=session) as spoken:
            spoken.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            read_to_end(spoken)  # the ticket comes behind the handshake
            return spoken.session_reused, spoken.session

    _, session = tls(None)
    for _ in range(8):
        reused, session = tls(session)
        assert reused
