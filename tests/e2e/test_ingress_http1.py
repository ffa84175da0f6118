"""HTTP/1.1 at the ingress listener: trailers, interim answers, upgrades, and who is told when somebody leaves."""

import asyncio
import contextlib
import hashlib
import os
import random
import re

import pytest
import websockets

from platform_under_test import wait_until
from raw_client import RawClient


def test_trailers_of_requests_reach_the_service(ingress):
    with RawClient(ingress.platform) as client:
        body = b"3\r\nabc\r\n0\r\nDigest: sha-256=x\r\nAuthorization: no\r\nX-Remote-User: root\r\n\r\n"
        client.send("POST /services/probe/trailed1", "Transfer-Encoding: chunked", body=body)
        assert client.head().startswith(b"HTTP/1.1 200")
    seen = ingress.origin.last("/trailed1")
    assert seen.body_bytes == 3 and seen.trailers == {"digest": "sha-256=x"}


@pytest.mark.skipif(os.cpu_count() == 1, reason="a processor, a loop")
def test_connections_go_to_the_loop_of_their_tunnel(ingress):
    """Sixteen of them: not all can be there by chance. What they ask meanwhile is answered, each by its own answer."""
    platform = ingress.platform
    before = platform.metric("culvert_ingress_transfers_total")
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(RawClient(platform)) for _ in range(16)]

        def ask_all():
            for i, client in enumerate(clients):
                for n in range(10):
                    body = b"%02d-%02d" % (i, n)
                    client.send("POST /services/probe/one", "Content-Length: 5", body=body)
                    assert client.head().startswith(b"HTTP/1.1 200")
                    assert client.until(b"\n") == b"5 %s\n" % hashlib.sha256(body).hexdigest().encode()
            return platform.metric("culvert_ingress_transfers_total") > before

        opened = platform.connections("ingress")
        wait_until(ask_all, 20, "a connection has gone")
        assert ask_all() and platform.connections("ingress") == opened


def test_trailers_of_answers_go_to_who_takes_them(ingress):
    with RawClient(ingress.platform) as client:
        client.send("GET /services/probe/trailers", "TE: trailers", "Connection: TE")
        client.head()
        assert client.until(b"\r\n\r\n").endswith(b"\r\n0\r\nserver-timing: db;dur=1\r\n\r\n")
        client.send("GET /services/probe/trailers", "Connection: close")
        client.head()
        assert client.to_the_end().endswith(b"4\r\nbody\r\n0\r\n\r\n")


def test_continue_comes_from_the_service(ingress):
    with RawClient(ingress.platform) as client:
        client.send("POST /services/probe/waits", "Expect: 100-continue", "Content-Length: 5")
        assert client.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sock.sendall(b"12345")
        assert client.head().startswith(b"HTTP/1.1 200")
        # The service's last word comes instead of a 100: the body is never asked for.
    assert "100-continue" in ingress.origin.last("/waits").headers["expect"]
    with RawClient(ingress.platform) as client:
        client.send("POST /services/probe/refuse", "Expect: 100-continue", "Content-Length: 5000000")
        assert client.head().startswith(b"HTTP/1.1 413")
        client.to_the_end()
    # A service that says nothing: the listener does, after a while.
    with RawClient(ingress.platform) as client:
        client.send("POST /services/probe/silent", "Expect: 100-continue", "Content-Length: 5")
        assert client.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sock.sendall(b"12345")
        assert client.head().startswith(b"HTTP/1.1 200")


def test_early_hints_pass_without_links(ingress):
    with RawClient(ingress.platform) as client:
        client.send("GET /services/probe/hints")
        assert client.head() == b"HTTP/1.1 103 Early Hints\r\n\r\n"
        assert client.head().startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("path", ["/nothing", "/endless", "/flood"])
def test_a_client_that_leaves_ends_the_request_at_the_service(ingress, path):
    with RawClient(ingress.platform) as client:
        client.send(f"GET /services/probe{path}")
        wait_until(lambda: ingress.origin.last(path), 20, "the request arrives")
        if path != "/nothing":
            client.head()
    assert ingress.origin.last(path).left.wait(20)


def test_a_client_that_leaves_its_upload_ends_the_request(ingress):
    with RawClient(ingress.platform) as client:
        client.send("POST /services/probe/left", "Content-Length: 10000000", body=bytes(100000))
        wait_until(lambda: ingress.origin.last("/left").body_bytes == 100000, 20, "a part arrives")
    seen = ingress.origin.last("/left")
    assert seen.left.wait(20) and not seen.whole


def test_a_service_that_leaves_is_told_by_an_unfinished_answer(ingress):
    with RawClient(ingress.platform) as client:
        client.send("GET /services/probe/gone")
        assert b"content-length: 100" in client.head()
        assert client.to_the_end() in (b"", b"half")


# ---- WebSocket -------------------------------------------------------------------------------------------------------


class WebSocketClient:
    """python3-websockets, one call at a time."""

    def __init__(self, platform, path="/services/socket/"):
        self.loop = asyncio.new_event_loop()
        host = platform.env["CULVERT_INGRESS_HOST"]
        port = int(platform.env["CULVERT_INGRESS_URL"].rsplit(":", 1)[1])

        async def connect():
            return await websockets.connect(
                f"wss://{host}:{port}{path}",
                host="127.0.0.1",
                port=port,
                ssl=platform.context(),
                server_hostname=host,
                subprotocols=["chat"],
                compression=None,
                max_size=1 << 25,
                extra_headers={"Authorization": platform.env["CULVERT_API_KEY"]},
            )

        self.ws = self.run(connect())

    def run(self, awaitable):
        async def bounded():
            return await asyncio.wait_for(awaitable, 30)

        return self.loop.run_until_complete(bounded())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(Exception):
            self.run(self.ws.close())
        self.loop.close()


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 10_000_019])
def test_websocket_carries_messages_of_any_size(ingress, size):
    with WebSocketClient(ingress.platform) as client:
        assert client.ws.subprotocol == "chat"
        data = random.Random(size).randbytes(size)
        sending = client.loop.create_task(client.ws.send(data))
        got = client.run(client.ws.recv())
        client.run(sending)
        assert hashlib.sha256(got).digest() == hashlib.sha256(data).digest()


def test_websocket_closes_both_ways_with_its_code(ingress):
    closed = len(ingress.socket.closed)
    with WebSocketClient(ingress.platform) as client:
        client.run(client.ws.close(4001, "done"))
    wait_until(lambda: ingress.socket.has_closed(4001, closed), 20, "the service sees the close")
    with WebSocketClient(ingress.platform) as client:
        client.run(client.ws.send("close 4002"))
        with pytest.raises(websockets.ConnectionClosed):
            client.run(client.ws.recv())
        assert client.ws.close_code == 4002


def test_websocket_service_gone_is_seen_by_the_client(ingress):
    with WebSocketClient(ingress.platform) as client:
        client.run(client.ws.send("leave"))
        with pytest.raises(websockets.ConnectionClosed):
            client.run(client.ws.recv())
        assert client.ws.close_code == 1006


def test_websocket_client_gone_is_seen_by_the_service(ingress):
    closed = len(ingress.socket.closed)
    with WebSocketClient(ingress.platform) as client:
        client.run(client.ws.send("hello"))
        assert client.run(client.ws.recv()) == "hello"
        client.ws.transport.abort()
        client.run(client.ws.wait_closed())
        wait_until(lambda: ingress.socket.has_closed(1006, closed), 20, "the service sees the end")


def test_websocket_without_a_key_is_refused(ingress):
    with RawClient(ingress.platform) as client:
        upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
        client.send("GET /services/socket/", *upgrade, key=False)
        assert client.head().startswith(b"HTTP/1.1 401")


def test_a_websocket_that_is_not_switched(ingress):
    """A service that answers the upgrade with 200 is heard as it spoke, and the connection stays one of HTTP."""
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
    with RawClient(ingress.platform) as client:
        for path in ("plain", "trailers", "plain"):
            client.send(f"GET /services/probe/{path}", *upgrade)
            head = client.head()
            assert head.startswith(b"HTTP/1.1 200 ") and b"upgrade" not in head.lower() and b"culvert-status" not in head
            if path == "plain":
                assert client.exactly(int(re.search(rb"content-length: (\d+)", head).group(1))).startswith(b"0 ")
            else:
                assert client.until(b"0\r\n\r\n") == b"4\r\nbody\r\n0\r\n\r\n"
