"""TCP connections through the ingress listener: connect-tcp by Upgrade and by extended CONNECT."""

import contextlib
import os
import random
import signal
import socket
import struct
import subprocess
import threading

import h2.exceptions
import pytest

from conftest import build_folder
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


# ---- culvert port-forward ----------------------------------------------------------------------


@contextlib.contextmanager
def forwarding(platform, service, *words, **env):
    """The program and the port that it listens on; its errors are in `said` when the block is left."""
    program = [build_folder("asan") / "cli" / "culvert", "port-forward", f"{platform.env['CULVERT_RUNTIME']}/{service}", *words]
    names = ("CULVERT_URL", "CULVERT_API_KEY", "CULVERT_CA", "CULVERT_INGRESS_URL")
    environment = {**os.environ, **{name: platform.env[name] for name in names}, "CULVERT_CLI_CONFIG": "/nonexistent/config.json", **env}
    with subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            line = running.stdout.readline()
            assert line.startswith("Forwarding from 127.0.0.1:"), (line, running.stderr.read())
            running.port = int(line.split()[2].rsplit(":", 1)[1])
            yield running
        finally:
            running.send_signal(signal.SIGTERM)
            running.said = running.communicate(timeout=20)[1]
    assert running.returncode == 0, running.said


def connected(running):
    return socket.create_connection(("127.0.0.1", running.port), timeout=30)


def echoed(running, size, seed):
    data, got = random.Random(seed).randbytes(size), bytearray()
    with connected(running) as sock:
        threading.Thread(target=lambda: (sock.sendall(data), sock.shutdown(socket.SHUT_WR)), daemon=True).start()
        while piece := sock.recv(1 << 16):
            got += piece
    return bytes(got) == data + b"end"


@pytest.mark.parametrize("by_path", [False, True])
def test_port_forward_carries_many_connections(ingress, by_path):
    """Each whole and in both directions at once; ended by the client, the service still answers."""
    port = ingress.platform.port("CULVERT_INGRESS_URL")
    host = ingress.platform.env["CULVERT_URL"].rsplit(":", 1)[0]
    own = {"CULVERT_INGRESS_URL": f"{host}:{port}"} if by_path else {}
    with forwarding(ingress.platform, "echo", **own) as running:
        results = []
        threads = [threading.Thread(target=lambda seed=seed: results.append(echoed(running, 300_001 * (seed % 4), seed))) for seed in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert results == [True] * 20
    assert running.said == ""


def test_port_forward_holds_back_what_nobody_takes(ingress):
    """A client that does not read stops the service; one that reads again gets all of it."""
    with forwarding(ingress.platform, "echo") as running, connected(running) as sock:
        sock.settimeout(1)
        data, sent, got = random.Random(9).randbytes(1 << 20), 0, 0
        with contextlib.suppress(TimeoutError):
            while sent < 1 << 29:
                sent += sock.send(data)
        assert sent < 1 << 29
        rss = int(next(line for line in open(f"/proc/{running.pid}/status") if line.startswith("VmHWM")).split()[1])
        assert rss < 200_000  # KiB, with sanitizers
        sock.settimeout(30)
        while got < sent:
            got += len(sock.recv(1 << 20))
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(10) == b"end"


def test_port_forward_tells_which_side_ended(ingress):
    with forwarding(ingress.platform, "leaver") as running:
        with connected(running) as sock:
            sock.sendall(b"half")
            assert sock.recv(10) == b"done" and sock.recv(10) == b""
            sock.sendall(b"more")
        wait_until(lambda: b"more" in ingress.leaver.heard, 20, "what is said after its end")
        ended = len(ingress.echo.ended)
    with forwarding(ingress.platform, "echo") as running:
        with connected(running) as sock:
            sock.sendall(b"x")
            sock.recv(1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        wait_until(lambda: len(ingress.echo.ended) > ended, 20, "the service sees the client break off")
        with connected(running) as sock:
            sock.sendall(b"x")
            sock.recv(1)
            ended = len(ingress.echo.ended)
            running.send_signal(signal.SIGINT)
            with contextlib.suppress(ConnectionResetError):
                assert sock.recv(1) == b""
        wait_until(lambda: len(ingress.echo.ended) > ended, 20, "the service sees the end of the program")


@pytest.mark.parametrize("service, env, text", [
    ("elsewhere", {}, "not-allowed"),
    ("echo", {"CULVERT_INGRESS_URL": "https://localhost:1"}, "connect"),
])
def test_port_forward_breaks_what_cannot_be_carried(ingress, service, env, text):
    with forwarding(ingress.platform, service, **env) as running:
        with pytest.raises(ConnectionResetError), connected(running) as sock:
            assert sock.recv(1) != b""
    assert f"{service}: " in running.said and text in running.said.lower()
    assert ingress.platform.env["CULVERT_API_KEY"] not in running.said


def test_port_forward_refuses_a_runtime_that_is_not_there(ingress):
    env = {**os.environ, **{name: ingress.platform.env[name] for name in ("CULVERT_URL", "CULVERT_API_KEY", "CULVERT_CA", "CULVERT_INGRESS_URL")}}
    done = subprocess.run([build_folder("asan") / "cli" / "culvert", "port-forward", "nothing/echo"], env=env, capture_output=True, text=True, timeout=30)
    assert done.returncode == 3 and "does not exist" in done.stderr
