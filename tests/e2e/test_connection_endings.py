"""However a client of a listener leaves, in whatever state of whatever exchange: nothing of it is left behind."""

import contextlib
import os
import pathlib
import signal
import tempfile
import threading
import time
import uuid

import pytest

from conftest import build_folder
from ingress_origin import IngressServices, TcpService
from platform_under_test import wait_until
from replicas_under_test import Replicas, calm
from tunnel_listener_client import BINARY, frame, request_of
from visitor import Visitor

EACH = 2
LEAVE_SECONDS = 15  # until a connection that is over is forgotten
SILENCE_SECONDS = 30  # the longest limit that a silent client has here (10 s, for handshakes of the tunnel listener), and what follows it
LIMIT_SECONDS = 2
LIMITS = {"INGRESS_HEAD_TIMEOUT": "2s", "INGRESS_IDLE_TIMEOUT": "2s", "INGRESS_STALL_TIMEOUT": "2s", "API_REQUEST_TIMEOUT": "2s", "TUNNEL_HEAD_TIMEOUT": "4s", "TUNNEL_PING_AFTER": "3s"}
DRAIN = {"DRAIN_LAME_DUCK": "100ms", "DRAIN_SPREAD": "100ms", "DRAIN_DEADLINE": "1s"}
KEPT = 16  # descriptors that a process may have more in the end: connections to services, to databases, between replicas


class TcpDeaf(TcpService):
    """Takes a connection and neither reads nor says anything."""

    def __init__(self):
        self.over = threading.Event()
        super().__init__()

    def serve(self, connection):
        self.over.wait()

    def stop(self):
        self.over.set()
        super().stop()


class TcpSilent(TcpDeaf):
    """Reads, also the end, and says nothing."""

    def serve(self, connection):
        with contextlib.suppress(OSError):
            while connection.recv(1 << 16):
                pass
        super().serve(connection)


class Listeners(IngressServices):
    """Two replicas, one of which holds the tunnel, and services behind it."""

    def __init__(self, replicas):
        self.deaf, self.silent = TcpDeaf(), TcpSilent()
        super().__init__(replicas)

    def _set_up(self, services, more=""):
        more = more.rstrip("\n") + f", deaf=127.0.0.1:{self.deaf.port}, silent=127.0.0.1:{self.silent.port}\n"
        super()._set_up(services, more)
        wait_until(lambda: calm(self.platform), 60, "two replicas and a tunnel")
        self.here = self.platform.owner()
        self.name = f"gone-{uuid.uuid4().hex[:8]}"
        self.token = self.platform.create_runtime(self.name)

    def __exit__(self, *more):
        self.deaf.stop()
        self.silent.stop()
        super().__exit__(*more)

    # ---- clients -----------------------------------------------------------------------------------------------------

    def port(self, listener):
        number = 1 - self.here if listener == "hop" else self.here
        return self.platform.port("INGRESS" if listener in ("hop", "h2") else listener.upper(), number)

    def visit(self, listener):
        return Visitor(self.platform, self.port(listener))

    def welcome(self, listener):
        """A visitor that may speak."""
        visitor = self.visit(listener)
        if listener == "admin":
            return visitor
        name = self.platform.env["CULVERT_INGRESS_HOST"] if listener in ("ingress", "h2", "hop") else "localhost"
        return visitor.shake_hands(name, "h2" if listener == "h2" else "http/1.1")

    def head(self, listener, line, *lines):
        host = f"localhost:{self.port(listener)}" if listener in ("api", "admin") else f"{self.platform.env['CULVERT_INGRESS_HOST']}:{self.port(listener)}"
        return "\r\n".join([f"{line} HTTP/1.1", f"Host: {host}", f"Authorization: {self.platform.env['CULVERT_API_KEY']}", *lines, "", ""]).encode()

    def service(self, listener, path):
        return f"/runtimes/{self.platform.env['CULVERT_RUNTIME']}/proxy{path}" if listener == "api" else path

    def ask(self, listener, path, *lines, method="GET", body=b""):
        return self.welcome(listener).last(self.head(listener, f"{method} {self.service(listener, path)}", *lines) + body)

    def ask2(self, path, method="GET", headers=(), **more):
        authority = f"{self.platform.env['CULVERT_INGRESS_HOST']}:{self.port('h2')}"
        fields = [("authorization", self.platform.env["CULVERT_API_KEY"]), *headers]
        return self.welcome("h2").request(method, path, fields, authority=authority, **more)

    def knock(self, **changes):
        return self.welcome("tunnel").last(request_of(self.name, self.token, **changes))

    @contextlib.contextmanager
    def held_up(self):
        """Nobody looks meanwhile: the last words and the end come at once."""
        pids = [self.platform.pid(f"culvertd-{number}") for number in (0, 1)]
        try:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    # ---- what is left ------------------------------------------------------------------------------------------------

    def held(self):
        """What the two replicas hold for clients, by metric."""
        gauges = ("culvert_http_connections", "culvert_http_requests_in_flight", "culvert_tunnel_streams_open", "culvert_tunnels", "culvert_tunnel_buffered_bytes")
        held = {}
        for number in (0, 1):
            for line in self.platform.admin_of(number, "/metrics").text().splitlines():
                series, _, value = line.rpartition(" ")
                if series.split("{")[0] in gauges:
                    held[number, series] = float(value)
        return held

    def descriptors(self):
        return {name: len(os.listdir(f"/proc/{self.platform.pid(name)}/fd")) for name in ("culvertd-0", "culvertd-1", "agent")}


@pytest.fixture(scope="module")
def listeners():
    with tempfile.TemporaryDirectory(prefix="culvert-e2e.", dir="/var/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        replicas = Replicas(pathlib.Path(folder) / "home", build_folder("asan"))
        replicas.settings.update({f"CULVERT_{name}": value for name, value in {**LIMITS, **DRAIN}.items()})
        try:
            replicas.start()
            with Listeners(replicas) as listeners:
                wait_until(lambda: listeners.knock().hear(b"101"), 10, "the new token is known")
                wait_until(lambda: sum(replicas.metric(n, "culvert_tunnels") for n in (0, 1)) == 1, 20, "one tunnel")
                listeners.before, listeners.descriptors_before = listeners.held(), listeners.descriptors()
                yield listeners
        finally:
            replicas.reset()


def nothing_left(listeners, before, seconds):
    """Every gauge comes back to where it was."""

    def none_more():
        left = {name: value for name, value in listeners.held().items() if value > before.get(name, 0)}
        assert not left, left
        return True

    wait_until(none_more, seconds, "nothing is left")


# ---- exchanges --------------------------------------------------------------------------------------------------------

UPGRADE = ("Connection: Upgrade", "Upgrade: connect-tcp")
WEBSOCKET = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
HEADERS_FRAME = b"\0\0\x20\1\5\0\0\0\1"  # announces 32 bytes
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"


def every_listener(listener):
    """What HTTP/1.1 has at any listener."""
    exchanges = {
        "nothing": lambda d: d.visit(listener),
        "half a head": lambda d: d.welcome(listener).last(d.head(listener, "GET /x")[:-10]),
        "a malformed head": lambda d: d.welcome(listener).last(d.head(listener, "GET /a b")),
        "a head that is not allowed": lambda d: d.welcome(listener).last(d.head(listener, "GET /x", "Expect: wonders")),
        "half a body": lambda d: d.welcome(listener).last(d.head(listener, "POST /x", "Content-Length: 100") + b"half"),
        "half of a chunk": lambda d: d.welcome(listener).last(d.head(listener, "POST /x", "Transfer-Encoding: chunked") + b"64\r\nhalf"),
        "a whole request": lambda d: d.welcome(listener).last(d.head(listener, "GET /livez")),
        "a second request": lambda d: d.welcome(listener).say(d.head(listener, "GET /livez")).hear(b"\r\n\r\n").last(d.head(listener, "GET /livez")),
        "many requests": lambda d: d.welcome(listener).last(40 * d.head(listener, "GET /livez") + b"GET"),
    }
    if listener != "admin":
        exchanges["half a handshake"] = lambda d: d.visit(listener).hello(half=True)
        exchanges["a hello"] = lambda d: d.visit(listener).hello()
        exchanges["a handshake"] = lambda d: d.welcome(listener)
    return exchanges


def services(listener):
    """What goes through the tunnel."""
    chunked = "Transfer-Encoding: chunked"
    return {
        "a call": lambda d: d.ask(listener, "/services/probe/x"),
        "a call without an answer": lambda d: d.ask(listener, "/services/probe/nothing"),
        "a call to nowhere": lambda d: d.ask(listener, "/services/none/x"),
        "a download": lambda d: d.ask(listener, "/services/probe/flood").hear(b"200 OK"),
        "a download not begun": lambda d: d.ask(listener, "/services/probe/flood"),
        "events": lambda d: d.ask(listener, "/services/probe/endless").hear(b"data: 1"),
        "an upload": lambda d: d.ask(listener, "/services/probe/x", chunked, method="POST", body=b"5\r\nabcde\r\n10000\r\n" + bytes(1000)),
        "a refused upload": lambda d: d.ask(listener, "/services/probe/refuse", chunked, method="POST").say_on(b"4000\r\n" + bytes(0x4000) + b"\r\n", 20),
    }


def upgrades(listener):
    return {
        "a websocket": lambda d: d.ask(listener, "/services/socket/", *WEBSOCKET).hear(b"101").last(frame(1, b"hello")),
        "half a websocket frame": lambda d: d.ask(listener, "/services/socket/", *WEBSOCKET).hear(b"101").last(frame(1, b"hello")[:4]),
        "a websocket not switched yet": lambda d: d.ask(listener, "/services/socket/", *WEBSOCKET),
        "tcp": lambda d: d.ask(listener, "/tcp/echo", *UPGRADE).hear(b"101").last(b"hello"),
        "tcp, the service half gone": lambda d: d.ask(listener, "/tcp/leaver", *UPGRADE).hear(b"101").say(b"half").hear(b"done"),
        "tcp, the service gone": lambda d: d.ask(listener, "/tcp/leaver", *UPGRADE).hear(b"101").last(b"gone"),
        "tcp, the service silent": lambda d: d.ask(listener, "/tcp/silent", *UPGRADE).hear(b"101").last(b"hello"),
        "tcp, the service deaf": lambda d: d.ask(listener, "/tcp/deaf", *UPGRADE).hear(b"101").say_on(bytes(1 << 16), 400),
    }


def http2():
    tcp = {"method": "CONNECT", "protocol": "connect-tcp", "end": False}
    return {
        "nothing": lambda d: d.welcome("h2"),
        "half a preface": lambda d: d.welcome("h2").last(PREFACE[:10]),
        "half a frame": lambda d: d.welcome("h2").last(PREFACE + HEADERS_FRAME[:5]),
        "half a head": lambda d: d.welcome("h2").last(PREFACE + HEADERS_FRAME + b"\x82"),
        "no HTTP/2": lambda d: d.welcome("h2").last(d.head("h2", "GET /x")),
        "a call": lambda d: d.ask2("/services/probe/x"),
        "a call without an answer": lambda d: d.ask2("/services/probe/nothing"),
        "a refused call": lambda d: d.ask2("/services/probe/a//b"),
        "a download": lambda d: d.ask2("/services/probe/flood").hear(bytes(1000)),
        "events": lambda d: d.ask2("/services/probe/endless").hear(b"data: 1"),
        "an upload": lambda d: d.ask2("/services/probe/x", "POST", end=False).send_data(bytes(10000)),
        "half of a DATA frame": lambda d: d.ask2("/services/probe/x", "POST", end=False).last(b"\0\x40\0\0\0\0\0\0\1" + bytes(100)),
        "tcp": lambda d: d.ask2("/tcp/echo", **tcp).send_data(b"hello").hear(b"hello"),
        "tcp, the service half gone": lambda d: d.ask2("/tcp/leaver", **tcp).send_data(b"half").hear(b"done"),
        "tcp, the service gone and not heard": lambda d: d.ask2("/tcp/leaver", window=0, **tcp).send_data(b"gone"),
        "tcp, the service silent": lambda d: d.ask2("/tcp/silent", **tcp).send_data(b"hello"),
    }


def tunnel():
    return {
        "nothing": lambda d: d.visit("tunnel"),
        "half a handshake": lambda d: d.visit("tunnel").hello(half=True),
        "a hello": lambda d: d.visit("tunnel").hello(),
        "no TLS": lambda d: d.visit("tunnel").last(b"GET / HTTP/1.1\r\n\r\n"),
        "a handshake": lambda d: d.welcome("tunnel"),
        "half an upgrade": lambda d: d.welcome("tunnel").last(request_of(d.name, d.token)[:-10]),
        "a malformed upgrade": lambda d: d.knock(line="GET /else HTTP/1.1"),
        "an upgrade for nobody": lambda d: d.knock(Authorization="Bearer " + "0" * 24 + "." + "0" * 64),
        "an upgrade": lambda d: d.knock(),
        "a session": lambda d: d.knock().hear(b"101"),
        "a session in half a frame": lambda d: d.knock().hear(b"101").last(frame(BINARY, bytes(1000))[:100]),
        "a session that breaks the rules": lambda d: d.knock().hear(b"101").last(frame(1, b"text")),
        "a session in half an HTTP/2 frame": lambda d: d.knock().hear(b"101").last(frame(BINARY, b"\0\x10\0\4\0")),
    }


EXCHANGES = {
    "api": {**every_listener("api"), **services("api")},
    "admin": every_listener("admin"),
    "ingress": {**every_listener("ingress"), **services("ingress"), **upgrades("ingress")},
    "h2": http2(),
    "hop": {**services("hop"), **upgrades("hop")},
    "tunnel": tunnel(),
}

# ---- who is gone -------------------------------------------------------------------------------------------------------

GONE = {"closed": Visitor.close, "reset": Visitor.reset, "closed unread": Visitor.close_unread, "half-closed, then reset": Visitor.half_close_then_reset}


def waits(listener, name):
    """Whoever closes a TCP connection looks like one who has ended his half and waits for the service's; the kernel's
    keep-alive (2 min) tells them apart. Over HTTP/2 the halves are those of streams."""
    return listener != "h2" and name in ("tcp, the service silent", "tcp, the service deaf")



@pytest.mark.parametrize("ending", sorted(GONE))
@pytest.mark.parametrize("listener", sorted(EXCHANGES))
def test_who_is_gone_leaves_nothing_behind(listeners, listener, ending):
    before = listeners.held()
    exchanges = [exchange for name, exchange in EXCHANGES[listener].items() if "reset" in ending or not waits(listener, name)]
    for exchange in exchanges:
        for visitor in [exchange(listeners) for _ in range(EACH)]:
            GONE[ending](visitor.say_last())
    visitors = [exchange(listeners) for exchange in exchanges for _ in range(EACH)]
    with listeners.held_up():
        for visitor in visitors:
            GONE[ending](visitor.say_last())
    nothing_left(listeners, before, LEAVE_SECONDS)


def test_who_left_when_his_time_was_up_leaves_nothing_behind(listeners):
    """A listener that looks at its clock before it looks at its clients speaks to those who are gone."""
    before = listeners.held()
    visitors = {ending: [] for ending in ("closed", "reset")}
    for ending, those in visitors.items():
        for listener, exchanges in EXCHANGES.items():
            those += [exchange(listeners) for name, exchange in exchanges.items() if ending == "reset" or not waits(listener, name)]
    with listeners.held_up():
        until = time.monotonic() + LIMIT_SECONDS
        for ending, those in visitors.items():
            for visitor in those:
                GONE[ending](visitor)
        wait_until(lambda: time.monotonic() > until, 2 * LIMIT_SECONDS, "the time is up")
    nothing_left(listeners, before, LEAVE_SECONDS)


# ---- who is silent ------------------------------------------------------------------------------------------------------

SILENT = {"half-closed": Visitor.half_close, "notified": Visitor.notify, "silent": lambda visitor: None}
# What may last for as long as both sides like.
LASTING = ("events", "a websocket", "half a websocket frame", "a websocket not switched yet", "tcp", "tcp, the service silent", "tcp, the service deaf")
# The API listener leaves those who do not read to the kernel (30 s), and hears no TLS while it answers.
UNHEARD = ("a download", "a download not begun", "events")


def may_last(listener, name, ending):
    unheard = listener == "api" and name in UNHEARD and ending != "half-closed"
    return unheard or waits(listener, name) or (ending == "silent" and name in LASTING)


def test_who_is_silent_is_ended(listeners):
    before, silent = listeners.held(), {}
    try:
        for listener, exchanges in EXCHANGES.items():
            for name, exchange in exchanges.items():
                for ending, leave in SILENT.items():
                    if may_last(listener, name, ending):
                        continue
                    visitor = silent[listener, name, ending] = exchange(listeners)
                    leave(visitor.say_last())
        try:
            nothing_left(listeners, before, SILENCE_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"not ended: {[what for what, visitor in silent.items() if not visitor.was_ended()]}") from error
    finally:
        for visitor in silent.values():
            visitor.sock.close()


# ---- in the end ---------------------------------------------------------------------------------------------------------


def test_in_the_end_all_is_as_before(listeners):
    """Also what came so late that the test it came from had passed; and nobody holds a socket that no gauge counts."""
    nothing_left(listeners, listeners.before, LEAVE_SECONDS)

    def few():
        more = {name: count - listeners.descriptors_before[name] for name, count in listeners.descriptors().items()}
        assert max(more.values()) <= KEPT, more
        return True

    wait_until(few, LEAVE_SECONDS, "no descriptors are left")
