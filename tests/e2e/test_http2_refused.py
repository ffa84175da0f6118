"""HTTP/2 is not spoken on the API listener, the tunnel listener and the admin listener, however it is asked for. (The ingress listener has its own.)"""

import socket
import ssl

import pytest

from origin_under_test import read_responses

LISTENERS = ["CULVERT_URL", "CULVERT_TUNNEL_URL"]
SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS
UPGRADES = ["h2c", "H2C", "h2", "h2c-14", "h2c-16", "HTTP/2.0", "HTTP/2", "h2c, websocket", "websocket, h2c", "h2c\r\nUpgrade: h2"]
HTTP2_SETTINGS = "HTTP2-Settings: AAMAAABkAAQAAP__"


def connect(platform, listener, protocols=None):
    context = platform.context()
    if protocols:
        context.set_alpn_protocols(protocols)
    sock = socket.create_connection(("127.0.0.1", platform.port(listener)), timeout=20)
    return context.wrap_socket(sock, server_hostname="localhost")


def exchange(sock, data):
    """All that comes back until the other side closes; it must close."""
    sock.settimeout(20)
    got = b""
    try:
        sock.sendall(data)
        while piece := sock.recv(65536):
            got += piece
    except (ConnectionError, ssl.SSLError, BrokenPipeError):
        pass
    return got


def check_refused(got):
    """One answer of HTTP/1.1, 4xx, and nothing else: no frame."""
    assert got.startswith(b"HTTP/1.1 4") and got.count(b"HTTP/1.1 ") == 1, got
    assert SETTINGS[3:] not in got and b"\r\nupgrade: h2" not in got.lower()


@pytest.mark.parametrize("listener", LISTENERS)
def test_offered_alone(platform, listener):
    """RFC 7301 section 3.2: the handshake fails."""
    with pytest.raises((ssl.SSLError, ConnectionError)):
        connect(platform, listener, ["h2"]).close()


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("protocols", [["h2", "http/1.1"], ["http/1.1", "h2"], ["h2c", "h2", "spdy/3", "http/1.1"]])
def test_offered_among_others(platform, listener, protocols):
    with connect(platform, listener, protocols) as sock:
        assert sock.selected_alpn_protocol() == "http/1.1"


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("protocols", [None, ["http/1.1"], ["h2", "http/1.1"]])
@pytest.mark.parametrize("preface", [PREFACE, PREFACE[:24], PREFACE[:18], b"PRI / HTTP/2.0\r\nHost: localhost\r\n\r\n", b"PRI * HTTP/1.1\r\nHost: localhost\r\n\r\nSM\r\n\r\n"], ids=range(5))
def test_preface_over_tls(platform, listener, protocols, preface):
    with connect(platform, listener, protocols) as sock:
        check_refused(exchange(sock, preface))


@pytest.mark.parametrize("listener", LISTENERS)
def test_preface_over_plain_tcp(platform, listener):
    """Nothing but, at most, TLS' own alert or word that TLS is spoken here."""
    with socket.create_connection(("127.0.0.1", platform.port(listener)), timeout=20) as sock:
        got = exchange(sock, PREFACE)
    if got and not (got[0] == 0x15 and len(got) <= 7):
        check_refused(got)


def test_preface_on_the_admin_listener(platform):
    with socket.create_connection(("127.0.0.1", platform.port("CULVERT_ADMIN_URL")), timeout=20) as sock:
        check_refused(exchange(sock, PREFACE))


def upgrade(path, value):
    lines = [f"GET {path} HTTP/1.1", "Host: localhost", "Connection: Upgrade, HTTP2-Settings", f"Upgrade: {value}", HTTP2_SETTINGS, "", ""]
    return "\r\n".join(lines).encode()


@pytest.mark.parametrize("value", UPGRADES)
def test_upgrade_on_the_api_listener(platform, value):
    """RFC 9110 section 7.8: an offer may be ignored. The preface behind it is then no request."""
    with connect(platform, "CULVERT_URL") as sock:
        sock.sendall(upgrade("/api/ping", value) + PREFACE)
        responses, closed, rest = read_responses(sock)
    statuses = [status for status, _, _ in responses]
    assert closed and not rest and statuses in ([200, 400], [400]), (statuses, rest)


@pytest.mark.parametrize("value", UPGRADES)
def test_upgrade_on_the_tunnel_listener(platform, value):
    with connect(platform, "CULVERT_TUNNEL_URL") as sock:
        check_refused(exchange(sock, upgrade("/tunnel/v1", value) + PREFACE))


@pytest.mark.parametrize("value", UPGRADES)
def test_upgrade_on_the_admin_listener(platform, value):
    """It has no TLS, where h2c would be at home."""
    with socket.create_connection(("127.0.0.1", platform.port("CULVERT_ADMIN_URL")), timeout=20) as sock:
        sock.sendall(upgrade("/livez", value) + PREFACE)
        responses, closed, rest = read_responses(sock)
    assert closed and not rest and [status for status, _, _ in responses] in ([200, 400], [400])
