"""A bad line between agent and platform: it stalls, breaks, delays, cuts writes to pieces, swaps bytes, refuses, swallows.

What was answered is right or an error, never cut short in silence; and the runtime comes back by itself. A platform of its own,
whose agent dials through a culvert-fault-proxy; the platform asks for signs of life sooner than by default, the agent as always.
"""

import hashlib
import http.client
import json
import pathlib
import re
import signal
import socket
import ssl
import sys
import tempfile
import threading
import time

import pytest

from conftest import build_folder
from platform_under_test import Connection, Platform, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from fault_proxy import FaultProxy  # noqa: E402

PLATFORM_SETTINGS = "tunnel.ping_after = 1s\ntunnel.dead_after = 1s\n"
NOTICED_SECONDS_MAX = 15  # by either end, with its default settings
RUNTIME_PATTERN = bytes(range(256)) * 4096  # what the demo service's /bytes and /chunked consist of
BROKEN = (http.client.HTTPException, ssl.SSLError, OSError)
PROXY_PROGRAM = build_folder("asan") / "tests/support/culvert-fault-proxy"


class Line:
    """The platform, and the proxy on its agent's way to it."""

    def __init__(self, platform):
        self.platform = platform
        self.proxy = FaultProxy(PROXY_PROGRAM, int(platform.env["CULVERT_TUNNEL_URL"].rsplit(":", 1)[1]))
        with (platform.home / "culvertd.conf").open("a") as settings:
            settings.write(PLATFORM_SETTINGS)
        agent = platform.home / "agent/agent.conf"
        agent.write_text(re.sub(r"(?m)^platform\.url = .*$", f"platform.url = wss://localhost:{self.proxy.port}", agent.read_text()))
        self.restart("culvertd")
        self.restart("agent")

    def restart(self, name):
        before = self.platform.kill(name, signal.SIGTERM)
        wait_until(lambda: self.platform.pid(name) != before, 40, f"{name} starts again")
        self.bad_ends = len(self.disconnects())
        self.wait_for_calls()

    def call(self, method, path, body=None, **more):
        return self.platform.ingress(method, "/services/demo" + path, body, **more)

    def open(self, path, method="GET", timeout=30):
        """A request under way, as http.client.HTTPConnection."""
        platform = self.platform
        connection = Connection(platform, int(platform.env["CULVERT_INGRESS_URL"].rsplit(":", 1)[1]), platform.env["CULVERT_INGRESS_HOST"], True, timeout)
        connection.putrequest(method, "/services/demo" + path)
        connection.putheader("Authorization", platform.env["CULVERT_API_KEY"])
        return connection

    def get(self, path):
        connection = self.open(path)
        connection.endheaders()
        return connection, connection.getresponse()

    def wait_for_calls(self, seconds=40):
        wait_until(lambda: self.call("GET", "/").status == 200, seconds, "calls reach the service")

    def _lines(self, log, message):
        lines = [json.loads(text) for text in self.platform.log(log).splitlines() if text.startswith("{")]
        return [each for each in lines if each["msg"] == message]

    def disconnects(self):
        """What the agent has said of connections that did not open or did not last."""
        return self._lines("agent", "disconnected")

    def sessions_closed(self):
        """What the platform has said of sessions that have ended."""
        return self._lines("culvertd", "session_closed")


@pytest.fixture(scope="module")
def whole_line():
    with tempfile.TemporaryDirectory(prefix="culvert-e2e.", dir="/var/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        platform, made = Platform(pathlib.Path(folder) / "home", build_folder("asan")), None
        try:
            made = Line(platform.start())
            yield made
        finally:
            if made:
                made.proxy.stop()
            platform.reset()


@pytest.fixture()
def line(whole_line, request):
    """In order when a test gets it, and again when it is done; the logs of a test that failed are shown."""
    whole_line.proxy.calm()
    if len(whole_line.disconnects()) > whole_line.bad_ends:
        whole_line.restart("agent")  # its next wait is a short one again, which takes a minute of good life otherwise
    whole_line.wait_for_calls()
    request.node.funcargs["platform"] = whole_line.platform
    yield whole_line
    whole_line.proxy.calm()


def in_background(work):
    """Runs work() on a thread; a function that waits for its outcome, value or exception."""
    outcome = []

    def run():
        try:
            outcome.append(work())
        except BROKEN as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def wait(seconds=30):
        thread.join(seconds)
        assert outcome, "still under way"
        return outcome[0]

    return wait


def read_whole(answer, got):
    """Adds all that comes to `got`, and raises unless the answer's framing says that it is whole."""
    while piece := answer.read(65536):
        got += piece
    if answer.length:  # http.client takes an end before Content-Length for an end; chunks are http.client's to check
        raise http.client.IncompleteRead(bytes(got))


def pattern(count):
    return (RUNTIME_PATTERN * (count // len(RUNTIME_PATTERN) + 1))[:count]


# ---- the proxy itself ----------------------------------------------------------------------------------------------


@pytest.fixture()
def echo_port():
    """A service that sends back what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(client):
        with client:
            try:
                while data := client.recv(65536):
                    client.sendall(data)
            except OSError:
                pass

    def accept():
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def exchange(sock, data):
    threading.Thread(target=sock.sendall, args=(data,), daemon=True).start()
    got = bytearray()
    while len(got) < len(data):
        piece = sock.recv(65536)
        assert piece
        got += piece
    return bytes(got)


def test_proxy_does_what_it_is_told(echo_port):
    data = pattern(300_000)
    with FaultProxy(PROXY_PROGRAM, echo_port) as proxy:

        def dial():
            sock = socket.create_connection(("127.0.0.1", proxy.port), timeout=10)
            return sock

        with dial() as sock:
            for commands in (["delay 0"], ["chunk 1"], ["chunk 7", "jitter 5"], ["delay 20", "window 65536"], ["rate 3000000"]):
                proxy.say(*commands)
                assert exchange(sock, data) == data
                proxy.calm()
            proxy.say("delay 30")
            began = time.monotonic()
            assert exchange(sock, b"x") == b"x" and time.monotonic() - began >= 0.060
            proxy.calm()
            proxy.say("swap up")
            sock.sendall(b"abcdef")
            assert sock.recv(6, socket.MSG_WAITALL) == b"defabc"
            proxy.say("stall down")
            sock.sendall(b"held")
            wait_until(lambda: proxy.stats()["queued_bytes"] == 4, 5, "the answer is held")
            proxy.say("resume")
            assert sock.recv(4, socket.MSG_WAITALL) == b"held"
            proxy.say("cut")
            with pytest.raises(ConnectionResetError):
                sock.recv(1)
        with dial() as sock:
            assert exchange(sock, b"x") == b"x"
            proxy.say("close")
            assert sock.recv(1) == b""
        proxy.say("refuse")
        with pytest.raises(ConnectionResetError), dial() as sock:
            sock.recv(1)
        proxy.say("blackhole")
        with dial() as sock:
            sock.sendall(b"x")
            sock.settimeout(0.2)
            with pytest.raises(TimeoutError):
                sock.recv(1)
        with pytest.raises(RuntimeError):
            proxy.say("delay soon")
        wait_until(lambda: proxy.stats()["open"] == 0, 5, "no connection is left")


# ---- silence -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["up", "down"])
def test_stall_is_noticed_and_calls_say_why(line, way):
    """Up, the platform hears nothing from the agent; down, the agent hears nothing from the platform."""
    ended, lost = len(line.sessions_closed()), len(line.disconnects())
    others = streams_open(line.platform)
    under_way = in_background(lambda: line.call("GET", "/slow?seconds=60"))
    wait_until(lambda: streams_open(line.platform) > others, 10, "a call is under way")
    line.proxy.say(f"stall {way}")
    answer = under_way(NOTICED_SECONDS_MAX + 10)
    assert (answer.status, answer.headers["culvert-cause"]) == (502, "tunnel-lost"), answer
    assert len(line.sessions_closed()) > ended
    if way == "down":
        wait_until(lambda: len(line.disconnects()) > lost, NOTICED_SECONDS_MAX + 5, "the agent notices")
    refused = line.call("GET", "/")
    assert (refused.status, refused.headers["culvert-cause"]) == (503, "no-tunnel") and refused.headers["retry-after"]
    line.proxy.say("resume")
    line.wait_for_calls()


def streams_open(platform):
    found = re.search(r"(?m)^culvert_tunnel_streams_open (\d+)", platform.admin("/metrics").text())
    return int(found[1])


# ---- a connection that breaks in the middle ------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["cut", "close"])
@pytest.mark.parametrize("kind", ["bytes", "chunked"])
def test_broken_download_is_no_success(line, kind, end):
    line.proxy.say("rate 4000000")
    connection, answer = line.get(f"/{kind}/20000000")
    assert answer.status == 200
    got = bytearray(answer.read(1_000_000))
    line.proxy.say("rate 0", end)
    with pytest.raises(BROKEN):
        read_whole(answer, got)
    assert got == pattern(len(got))
    connection.close()
    line.wait_for_calls()
    assert line.call("GET", f"/{kind}/300000").body == pattern(300_000)


@pytest.mark.parametrize("kind", ["length", "chunked"])
def test_broken_upload_is_no_success(line, kind):
    body = pattern(8_000_000)
    line.proxy.say("rate 2000000")
    connection = line.open("/echo", "PUT")
    if kind == "length":
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders()
        pieces = [body]
    else:
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        pieces = [b"%x\r\n%s\r\n" % (len(body), body), b"0\r\n\r\n"]
    before = line.proxy.stats()["down_bytes"]

    def send():
        for piece in pieces:
            connection.sock.sendall(piece)

    sending = in_background(send)
    wait_until(lambda: line.proxy.stats()["down_bytes"] > before + 500_000, 20, "some of it has passed")
    line.proxy.say("rate 0", "cut")
    sending()
    try:
        answer = connection.getresponse()
        assert (answer.status, answer.headers["culvert-cause"]) == (502, "tunnel-lost"), answer.read()
    except BROKEN:
        pass  # the listener closed before all of the body was sent; the answer may be lost with the connection
    connection.close()
    line.wait_for_calls()
    assert line.call("PUT", "/echo", body).json()["sha256"] == hashlib.sha256(body).hexdigest()


# ---- a line that is only bad ---------------------------------------------------------------------------------------


def assert_exact(line, body):
    assert line.call("PUT", "/echo", body).json()["sha256"] == hashlib.sha256(body).hexdigest()
    for kind in ("bytes", "chunked"):
        assert line.call("GET", f"/{kind}/{len(body)}").body == body


@pytest.mark.parametrize("commands", [["delay 40"], ["delay 5", "jitter 40"], ["delay 20", "window 65536"]], ids=",".join)
def test_late_bytes_stay_exact(line, commands):
    line.proxy.say(*commands)
    assert_exact(line, pattern(300_001))


def test_pieces_of_any_size_stay_exact(line):
    for size in range(1, 8):
        line.proxy.say(f"chunk {size}")
        assert_exact(line, pattern(20_001 + size))
    line.proxy.say("chunk 1", "cut")  # the handshakes, too
    line.wait_for_calls()
    assert_exact(line, pattern(70_001))


@pytest.mark.parametrize("way", ["up", "down"])
def test_swapped_bytes_end_the_session(line, way):
    """TLS notices; what came before is right, and nothing comes after."""
    ended, body = len(line.sessions_closed()), pattern(6_000_000)
    line.proxy.say("rate 4000000")
    if way == "up":
        connection, answer = line.get(f"/bytes/{len(body)}")
        got = bytearray(answer.read(500_000))
        line.proxy.say("swap up", "rate 0")
        with pytest.raises(BROKEN):
            read_whole(answer, got)
        assert got == body[: len(got)]
        connection.close()
    else:
        before = line.proxy.stats()["down_bytes"]
        sending = in_background(lambda: line.call("PUT", "/echo", body))
        wait_until(lambda: line.proxy.stats()["down_bytes"] > before + 500_000, 20, "some of it has passed")
        line.proxy.say("swap down", "rate 0")
        answer = sending()
        assert isinstance(answer, BROKEN) or (answer.status, answer.headers["culvert-cause"]) == (502, "tunnel-lost")
    wait_until(lambda: len(line.sessions_closed()) > ended, 10, "the session ends")
    line.wait_for_calls()


# ---- nobody there --------------------------------------------------------------------------------------------------


def test_refused_dials_back_off_with_jitter(line):
    line.restart("agent")
    before = len(line.disconnects())
    line.proxy.say("refuse", "cut")
    wait_until(lambda: len(line.disconnects()) >= before + 5, 60, "five dials have failed")
    waits = [each["retry_in_ms"] for each in line.disconnects()[before:]]
    for failures, wait in enumerate(waits):
        assert 0 <= wait <= min(30_000, 500 * 2**failures), waits
    assert len(set(waits)) > 1, waits
    answer = line.call("GET", "/")
    assert (answer.status, answer.headers["culvert-cause"]) == (503, "no-tunnel")
    line.proxy.say("resume")
    line.wait_for_calls(60)


def test_swallowed_dials_are_given_up(line):
    before = len(line.disconnects())
    line.proxy.say("blackhole", "cut")
    wait_until(lambda: len(line.disconnects()) >= before + 2, 40, "a dial that nobody answers ends")
    line.proxy.say("resume")
    line.wait_for_calls(60)
