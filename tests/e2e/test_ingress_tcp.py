"""TCP connections through the ingress listener: connect-tcp by Upgrade and by extended CONNECT."""

import random
import socket

import h2.exceptions

from http2_client import Http2Client
from platform_under_test import wait_until
from raw_client import RawClient


def test_tcp_by_upgrade(ingress):
    upgrade = ("Connection: Upgrade", "Upgrade: connect-tcp")
    with RawClient(ingress.platform) as client:
        client.send("GET /tcp/echo", *upgrade)
        head = client.head()
        assert head.startswith(b"HTTP/1.1 101") and b"upgrade: connect-tcp\r\n" in head
        data = random.Random(5).randbytes(3_000_001)
        assert client.echoed(data) == data
        ended = len(ingress.echo.ended)
    wait_until(lambda: len(ingress.echo.ended) > ended, 20, "the service sees the end")
    for head, more, status in (
        ("GET /tcp/echo", {"key": False}, b"401"),
        ("GET /tcp/echo/x", {}, b"404"),
        ("GET /services/probe/", {}, b"404"),
        ("POST /tcp/echo", {}, b"400"),
    ):
        with RawClient(ingress.platform) as client:
            client.send(head, *upgrade, **more)
            assert client.head().startswith(b"HTTP/1.1 " + status), head
    with RawClient(ingress.platform) as client:
        client.send("GET /tcp/elsewhere", *upgrade)
        assert client.head()[9:12] in (b"403", b"404")


def test_tcp_half_close(ingress):
    """TLS's close_notify ends one direction: what the service says after it still arrives."""
    with RawClient(ingress.platform) as client:
        client.send("GET /tcp/echo", "Connection: Upgrade", "Upgrade: connect-tcp")
        client.head()
        client.sock.sendall(b"last words")
        plain = socket.socket(fileno=client.sock.fileno())
        try:
            client.exactly(10)
            plain.shutdown(socket.SHUT_WR)
            assert client.to_the_end() == b"end"
        finally:
            plain.detach()


def test_tcp_by_extended_connect(ingress):
    with Http2Client(ingress.platform) as client:
        stream = client.request("CONNECT", "/tcp/echo", end=False, protocol="connect-tcp")
        reply = client.replies[stream]
        client.until(lambda: reply.status is not None)
        assert reply.status == 200
        data = random.Random(6).randbytes(300001)
        client.send(stream, data, end=True)
        client.until(lambda: reply.ended)
        assert reply.body == data + b"end"
        assert client.ask("CONNECT", "/tcp/elsewhere", protocol="connect-tcp").status in (403, 404)
        assert client.ask("CONNECT", "/tcp/echo", protocol="connect-tcp", key=False).status == 401
        assert client.ask("CONNECT", "/services/probe/", protocol="connect-tcp").status == 404


UPGRADE = ("Connection: Upgrade", "Upgrade: connect-tcp")
MORE = random.Random(7).randbytes(1_500_001)


def end_sending(client):
    """FIN, and no RST for what was not read."""
    plain = socket.socket(fileno=client.sock.fileno())
    plain.shutdown(socket.SHUT_WR)
    plain.detach()


def writes_on(write):
    """For wait_until: is whoever writes on told that nobody listens?"""
    try:
        write()
    except (OSError, h2.exceptions.ProtocolError):
        return True
    return False


def test_tcp_service_ends_first(ingress):
    """Its end reaches the client at once, and the client may go on."""
    heard = len(ingress.leaver.heard)
    with RawClient(ingress.platform) as client:
        client.send("GET /tcp/leaver", *UPGRADE)
        client.head()
        client.sock.sendall(b"half")
        assert client.to_the_end() == b"done"
        assert len(ingress.leaver.heard) == heard
        client.sock.sendall(MORE)
        end_sending(client)
        wait_until(lambda: len(ingress.leaver.heard) > heard, 30, "the service hears the rest")
    assert len(ingress.leaver.heard[heard]) == len(MORE) and ingress.leaver.heard[heard] == MORE


def test_tcp_service_is_gone(ingress):
    """Whoever writes to one that has left altogether is cut off."""
    with RawClient(ingress.platform) as client:
        client.send("GET /tcp/leaver", *UPGRADE)
        client.head()
        client.sock.sendall(b"gone")
        assert client.to_the_end() == b"done"
        wait_until(lambda: writes_on(lambda: client.sock.sendall(b"more")), 30, "the connection is cut")


def test_tcp_service_ends_first_by_extended_connect(ingress):
    heard = len(ingress.leaver.heard)
    with Http2Client(ingress.platform) as client:
        stream = client.request("CONNECT", "/tcp/leaver", end=False, protocol="connect-tcp")
        client.send(stream, b"half")
        reply = client.reply(stream)
        assert reply.body == b"done" and reply.ended and reply.reset is None
        client.send(stream, MORE, end=True, own_half=True)
        end_sending(client)  # the connection ends with the stream
        wait_until(lambda: len(ingress.leaver.heard) > heard, 30, "the service hears the rest")
    assert len(ingress.leaver.heard[heard]) == len(MORE) and ingress.leaver.heard[heard] == MORE


def test_tcp_service_is_gone_by_extended_connect(ingress):
    with Http2Client(ingress.platform) as client:
        stream = client.request("CONNECT", "/tcp/leaver", end=False, protocol="connect-tcp")
        reply = client.replies[stream]
        client.send(stream, b"gone")
        client.until(lambda: reply.ended)
        assert reply.body == b"done"

        def write():
            client.send(stream, b"more", own_half=True)
            client.h2.ping(b"answered")  # so that there is something to read
            client.flush()
            client.step()
            if reply.reset is not None:
                raise ConnectionError("reset")

        wait_until(lambda: writes_on(write), 30, "the stream is reset")
        assert reply.reset not in (None, 0)
