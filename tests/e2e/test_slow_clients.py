"""Clients that take their time on the API listener: it serves the others, ends the slow ones, and does not let one address take it all."""

import contextlib
import csv
import shutil
import socket
import subprocess
import threading

import pytest

from origin_under_test import read_responses
from platform_under_test import wait_until

CONNECTIONS = 300


def head(platform, line, *lines):
    host = platform.env["CULVERT_URL"].removeprefix("https://")
    return "\r\n".join([f"{line} HTTP/1.1", f"Host: {host}", f"Authorization: {platform.env['CULVERT_API_KEY']}", *lines, "", ""]).encode()


class Others:
    """Somebody who works meanwhile; every call must be answered."""

    def __init__(self, platform):
        self.platform, self.served, self.failures, self.over = platform, 0, [], threading.Event()
        self.thread = threading.Thread(target=self._work)

    def _work(self):
        while not self.over.is_set():
            try:
                assert self.platform.api("GET", "/api/user", timeout=10).status == 200
                self.served += 1
            except Exception as error:  # whatever it is, it is told at the end
                self.failures.append(repr(error))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


PROFILES = {
    "slow headers": ["-H", "-t", "GET"],
    "slow body": ["-B", "-t", "POST", "-s", "8192"],
    "many ranges": ["-R", "-a", "10", "-b", "3000", "-t", "HEAD"],
    "slow read": ["-X", "-w", "10", "-y", "20", "-n", "5", "-z", "32", "-k", "3"],
}


@pytest.mark.skipif(not shutil.which("slowhttptest"), reason="slowhttptest is not installed")
@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_slowhttptest(platform, profile, tmp_path):
    words = ["slowhttptest", *PROFILES[profile], "-c", str(CONNECTIONS), "-r", "150", "-i", "1", "-l", "6", "-p", "5", "-x", "24", "-g", "-o", str(tmp_path / "out"), "-u", platform.env["CULVERT_URL"] + "/"]
    with Others(platform) as others:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file, skipinitialspace=True))
    assert rows, done.stdout[-2000:]
    available = next(name for name in rows[0] if "vailable" in name)
    assert all(int(row[available]) for row in rows), rows
    most = max(int(row[name]) for row in rows for name in row if name.strip() in ("Connected", "Closed"))
    assert most >= CONNECTIONS // 2, f"there was an attack: {rows}"
    assert not others.failures and others.served >= 3, others.failures
    wait_until(lambda: platform.connections("api") < 20, 40, "the slow ones are gone")


@pytest.mark.parametrize("part", ["TLS", "head", "drip", "body", "idle"])
def test_the_listener_ends_who_does_not_go_on(own_listener, part):
    """In the time that a request has, whatever it is that does not come."""
    platform = own_listener
    socks = []
    for _ in range(50):
        plain = socket.create_connection(("127.0.0.1", int(platform.env["CULVERT_URL"].rsplit(":", 1)[1])), timeout=30)
        sock = plain if part == "TLS" else platform.context().wrap_socket(plain, server_hostname="localhost")
        if part in ("head", "drip"):
            sock.sendall(head(platform, "GET /api/ping")[:-2])
        elif part == "body":
            sock.sendall(head(platform, "POST /2.0/api/graphql", "Content-Type: application/json", "Content-Length: 100") + b"{")
        elif part == "idle":
            sock.sendall(head(platform, "GET /api/ping"))
            assert read_responses(sock, count=1)[0][0][0] == 200
        socks.append(sock)
    over = threading.Event()

    def drip():  # a byte now and then does not help
        while not over.wait(0.2):
            for sock in socks:
                try:
                    sock.sendall(b"X")
                except OSError:
                    pass

    dripping = threading.Thread(target=drip)
    if part == "drip":
        dripping.start()
    try:
        with Others(platform) as others:
            wait_until(lambda: platform.connections("api") < 10, 20, f"those whose {part} does not come are gone")
    finally:
        over.set()
        if part == "drip":
            dripping.join()
        for sock in socks:
            sock.close()
    assert not others.failures and others.served


@contextlib.contextmanager
def changed(platform, **settings):
    """The platform with these settings of its API listener, and as it was afterwards."""
    file = platform.home / "culvertd.conf"
    text = file.read_text()
    lines = [line for line in text.splitlines() if not line.startswith(tuple(f"api.{name} " for name in settings))]
    file.write_text("\n".join([*lines, *(f"api.{name} = {value}" for name, value in settings.items()), ""]))
    try:
        restart(platform)
        yield platform
    finally:
        file.write_text(text)
        restart(platform)


@pytest.fixture()
def own_listener(platform):
    """The platform, with two seconds for a request and few connections an address while the test runs."""
    with changed(platform, request_timeout="2s", connections_per_address_max=60):
        yield platform


def restart(platform):
    import signal

    old = platform.kill("culvertd", signal.SIGTERM)
    wait_until(lambda: platform.pid("culvertd") != old and platform.api("GET", "/api/ping").status == 200, 60, "culvertd serves again")


def test_one_address_cannot_take_it_all(own_listener):
    """Over its cap its connections are closed before they cost anything; others come in, and it itself once one has ended."""
    platform = own_listener
    port = int(platform.env["CULVERT_URL"].rsplit(":", 1)[1])
    socks = []
    refused = 0
    try:
        for _ in range(200):
            sock = socket.create_connection(("127.0.0.1", port), timeout=30, source_address=("127.0.0.2", 0))
            sock.settimeout(30)
            socks.append(sock)

        def count():
            return platform.metric("culvert_http_refused_connections_total", listener="api")

        wait_until(lambda: count() == 200 - 60, 10, "the rest is refused")
        refused = count()
        # And those of the tests themselves. The refused ones are counted until they are closed.
        wait_until(lambda: platform.connections("api") <= 60 + 3, 10, "no more than its cap are open")
        for _ in range(10):
            assert platform.api("GET", "/api/user").status == 200
    finally:
        for sock in socks:
            sock.close()
    wait_until(lambda: platform.connections("api") < 5, 20, "they are gone")
    with socket.create_connection(("127.0.0.1", port), timeout=30, source_address=("127.0.0.2", 0)) as plain:
        with platform.context().wrap_socket(plain, server_hostname="localhost") as sock:
            sock.sendall(head(platform, "GET /api/ping"))
            assert read_responses(sock, count=1)[0][0][0] == 200
    assert platform.metric("culvert_http_refused_connections_total", listener="api") == refused


def test_a_user_who_asks_too_often_waits(platform):
    """20 requests at once, and 2 a second; others of the account are served, whatever the credential is."""
    made = platform.graphql("mutation { createUser(name: \"other\", email: \"other@example.invalid\", role: MEMBER) { id } }")["createUser"]["id"]
    other = platform.graphql("mutation($u: String!) { createApiKey(userId: $u, name: \"k\") { token } }", {"u": made})["createApiKey"]["token"]
    own = platform.graphql("mutation { createMyApiKey(name: \"second\") { token } }")["createMyApiKey"]["token"]

    def flood():
        return next((answer for answer in (platform.api("GET", "/api/user", key=own) for _ in range(60)) if answer.status != 200), None)

    with changed(platform, user_requests_per_second=2):
        wait_until(lambda: flood() is not None, 20, "the limit is reached")
        for answer in (platform.api("GET", "/v1/account"), platform.graphql_answer("{ me { id } }"), flood()):
            if answer and answer.status == 200:
                continue  # a request came free meanwhile
            assert answer.status == 429 and answer.headers["Retry-After"] == "1", answer.text()
            assert answer.json()["code"] == "limited" and "api.user_requests_per_second" in answer.json()["detail"]
        assert platform.api("GET", "/api/user", key=other).status == 200
        assert platform.metric("culvert_api_requests_limited_total", scope="user") > 0
        wait_until(lambda: platform.api("GET", "/api/user").status == 200, 10, "it may ask again")


@pytest.mark.parametrize("begun", [b"GET /api/user HTTP/1.1\r\nHost: localh", b"POST /api/user HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf",
                                   b"POST /api/user HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nha"])
def test_a_request_that_does_not_come_in_time_is_told_so(own_listener, begun):
    """408 and the end; a connection that waits between requests ends without a word."""
    platform = own_listener
    with platform.raw(platform.env["CULVERT_URL"]) as slow, platform.raw(platform.env["CULVERT_URL"]) as idle:
        idle.sendall(head(platform, "GET /api/ping"))
        assert read_responses(idle, count=1)[0][0][0] == 200
        slow.sendall(begun)
        answer = b""
        while piece := slow.recv(4096):
            answer += piece
        assert answer.startswith(b"HTTP/1.1 408 ") and b"request-timeout" in answer and b"connection: close" in answer.lower()
        assert idle.recv(1) == b""
