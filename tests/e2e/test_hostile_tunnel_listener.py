"""The tunnel listener against peers that take time and room: handshakes that never end, more connections than there are descriptors."""

import os
import re
import resource
import socket
import ssl
import time

import pytest

from platform_under_test import wait_until
from tunnel_listener_client import connect, knock, read_to_end, request_of, same_process, stranger, tls_context  # noqa: F401


def test_handshakes_end(platform, stranger):
    """Nobody may hold a place without saying who he is: silence, half a TLS handshake, half a request."""
    timeouts = platform.metric("culvert_tunnel_handshakes_total", result="timeout")
    silent = socket.create_connection(("127.0.0.1", platform.port("CULVERT_TUNNEL_URL")), timeout=30)
    half_tls = socket.create_connection(("127.0.0.1", platform.port("CULVERT_TUNNEL_URL")), timeout=30)
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
    assert platform.metric("culvert_tunnel_handshakes_total", result="timeout") >= timeouts + 2


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
            waiting.append(socket.create_connection(("127.0.0.1", platform.port("CULVERT_TUNNEL_URL")), timeout=20))
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
    assert own_platform.metric("culvert_tunnel_handshakes_total", result="503") >= 10


@pytest.mark.parametrize("own_platform", ["asan"], indirect=True)
def test_one_address_does_not_take_every_place(own_platform):
    retune(own_platform, "tunnel.handshakes_per_address_max = 2")
    silent = [socket.create_connection(("127.0.0.1", own_platform.port("CULVERT_TUNNEL_URL")), timeout=20) for _ in range(20)]

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
        wait_until(lambda: cut() > 0 and own_platform.metric("culvert_tunnel_handshakes_total", result="address") > 0, 10, "some are cut, and counted")
        # Another address is served meanwhile.
        other = socket.create_connection(("127.0.0.1", own_platform.port("CULVERT_TUNNEL_URL")), timeout=20, source_address=("127.0.0.5", 0))
        with tls_context(own_platform).wrap_socket(other, server_hostname="localhost") as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert read_to_end(sock)[0].startswith(b"HTTP/1.1 404")
    finally:
        for sock in silent:
            sock.close()
