"""The ways from a client to the service: straight, through the tunnel, and through each peer. Starting and stopping them."""

import contextlib
import dataclasses
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import time
import typing

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests/e2e"), str(TOP / "tests/support")]

import process_watch  # noqa: E402
from fault_proxy import FaultProxy  # noqa: E402
from nghttpx_pair import NghttpxPair  # noqa: E402
from nginx_pair import NginxHttpPair, NginxStreamPair  # noqa: E402
from peer import Site  # noqa: E402
from platform_under_test import Platform, wait_until  # noqa: E402
from v2ray_pair import V2rayPair  # noqa: E402

IDLE_CORES_MAX, IDLE_SAMPLE_SECONDS, IDLE_SECONDS_MAX = 0.10, 0.3, 15

PEERS = (NginxStreamPair, NginxHttpPair, NghttpxPair, V2rayPair)
DIRECT, TUNNEL, ONE_TLS = "direct", "tunnel", "one TLS"
DESCRIPTIONS = {
    DIRECT: "client -> service, plain HTTP",
    TUNNEL: "client =TLS=> ingress listener of culvertd =WSS, HTTP/2=> culvert-agent -> service",
    ONE_TLS: "at 50 ms only: one plain TLS connection, client =TLS=> delay => nginx -> service",
}

COMPILE = "cc -std=c17 -D_GNU_SOURCE -O2 -Wall -Wextra".split()
PROGRAMS = {
    "origin": (["origin.c", "origin_live.c", "pattern.c", "histogram.c"], ["-lcrypto"]),
    "requests": (["requests.c", "client.c", "histogram.c"], ["-lssl", "-lcrypto"]),
    "bulk": (["bulk.c", "pattern.c", "client.c", "histogram.c"], ["-lssl", "-lcrypto"]),
    "readers": (["readers.c", "client.c", "histogram.c"], ["-lssl", "-lcrypto"]),
    "events": (["events.c", "client.c", "histogram.c"], ["-lssl", "-lcrypto"]),
    "messages": (["messages.c", "client.c", "histogram.c"], ["-lssl", "-lcrypto"]),
    "fault-proxy": (["../support/fault_proxy.c"], ["-luv"]),
}


def build_programs(folder):
    for name, (sources, libraries) in PROGRAMS.items():
        files = [TOP / "tests/bench" / source for source in sources]
        subprocess.run([*COMPILE, "-o", folder / name, *files, *libraries], check=True)


@dataclasses.dataclass
class Way:
    """`url` leads to the service's root; `pids()` are the processes that carry, {"near": [...], "far": [...]}."""

    name: str
    url: str
    pids: typing.Callable[[], dict]
    ca_file: str = ""
    header_file: str = ""

    def client_words(self, path):
        words = ["--url", self.url + path]
        words += ["--ca", self.ca_file] if self.ca_file else []
        return words + (["--header-file", self.header_file] if self.header_file else [])


class Ports:
    """Each one handed out once, below the range from which the kernel takes ports for clients."""

    def __init__(self):
        self._given = set()

    def __call__(self):
        for _ in range(1000):
            port = random.randrange(20000, 32000)
            with socket.socket() as probe, contextlib.suppress(OSError):
                if port not in self._given:
                    probe.bind(("127.0.0.1", port))
                    self._given.add(port)
                    return port
        raise RuntimeError("no free port")


class Ways:
    """A platform of its own, the origin, and the peers that are installed and wanted. `near` are the ways as they are;
    delayed() gives the same ways with a proxy between their two ends."""

    def __init__(self, folder, build, without, say, cleanup):
        self._folder, self._say, self._cleanup = folder, say, cleanup
        self._ports = Ports()
        self._agent_file = None
        self.platform = Platform(folder / "home", build)
        build_programs(folder)
        self._start_platform()
        self._start_origin()
        self._peers = []
        for kind in PEERS:
            why_not = f"--without {kind.name}" if kind.name in without else kind.missing()
            if why_not:
                say(f"left out: {kind.name}: {why_not}")
            else:
                self._peers.append(kind)
        self._servers = {}  # name of a peer -> its two ends, started for a case alone
        self.near = [Way(DIRECT, f"http://127.0.0.1:{self.origin_port}", lambda: {}), self._tunnel()]
        self.near += [self._peer(kind) for kind in self._peers]

    # ---- one case ----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def running(self, way, is_fresh=False):
        """The way's servers, those of no other peer. Peers are started afresh: some go on burning CPU when their clients have
        left. `is_fresh`: ours are started again, too, for a peak of memory. Fails unless all are idle when the case begins."""
        peer = self._servers.get(way.name)
        if peer:
            peer.start()
        try:
            if is_fresh and way.name == TUNNEL:
                self._restart_ours(way)
            self._wait_for_idle(way)
            yield
        finally:
            if peer:
                peer.stop()

    def _restart_ours(self, way):
        before = [self.platform.kill(name, signal.SIGTERM) for name in ("culvertd", "agent")]
        wait_until(lambda: not {self.platform.pid(name) for name in ("culvertd", "agent")} & set(before), 60, "the restart of both ends")
        wait_until(lambda: self.platform.ingress("GET", "/services/origin/1k").status == 200, 60, "the service origin")
        way.pids = self._tunnel().pids

    def _wait_for_idle(self, way):
        ours = self._tunnel().pids()
        pids = [pid for ends in (ours, way.pids()) for end in ends.values() for pid in end]
        busy = 0.0

        def is_idle():
            nonlocal busy
            before, began = process_watch.cpu_seconds(pids), time.monotonic()
            time.sleep(IDLE_SAMPLE_SECONDS)
            busy = (process_watch.cpu_seconds(pids) - before) / (time.monotonic() - began)
            return busy <= IDLE_CORES_MAX

        deadline = time.monotonic() + IDLE_SECONDS_MAX
        while not is_idle():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{way.name}: {busy:.2f} cores are busy before its case begins, at most {IDLE_CORES_MAX} may be")

    def program(self, name):
        return self._folder / name

    # ---- ours --------------------------------------------------------------------------------------------------------

    def _start_platform(self):
        self._say("starting a platform of its own")
        self._cleanup.callback(self.platform.reset)
        self.platform.start()
        self.platform.cluster("POST", "/demo/pause")  # its life would be noise
        self._agent_file = self.platform.home / "agent/agent.conf"

    def _start_origin(self):
        self.origin_port = self._ports()
        origin = subprocess.Popen([self.program("origin"), str(self.origin_port)], stdin=subprocess.DEVNULL)
        self._cleanup.callback(lambda: (origin.kill(), origin.wait()))
        self._set_agent(r"(?m)^(router\.services = .*)$", rf"\1, origin=http://127.0.0.1:{self.origin_port}")

    def _set_agent(self, pattern, replacement):
        """Another line in the agent's settings; it starts again with it (its supervisor sees to that)."""
        self._agent_file.write_text(re.sub(pattern, replacement, self._agent_file.read_text()))
        before = self.platform.kill("agent", signal.SIGTERM)
        wait_until(lambda: self.platform.pid("agent") != before, 30, "the agent's restart")
        wait_until(lambda: self.platform.ingress("GET", "/services/origin/1k").status == 200, 30, "the service origin")

    def _tunnel(self):
        pids = {"near": [self.platform.pid("culvertd")], "far": [self.platform.pid("agent")]}
        env = self.platform.env
        header_file = str(self.platform.home / "authorization.header")
        return Way(TUNNEL, f"{env['CULVERT_INGRESS_URL']}/services/origin", lambda: pids, env["CULVERT_CA"], header_file)

    # ---- peers -------------------------------------------------------------------------------------------------------

    def _site(self, place, leg=lambda port: port):
        folder = self._folder / place
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        return Site(folder, self.platform.home / "pki", self.origin_port, self._ports, leg)

    def _peer(self, kind):
        peer = self._servers[kind.name] = kind(self._site(f"peers/{kind.name.replace(' ', '-')}"))
        self._cleanup.callback(peer.stop)
        return Way(kind.name, f"https://localhost:{peer.port}", peer.pids, self.platform.env["CULVERT_CA"])

    def _start_peer(self, kind, place, cleanup, leg=lambda port: port):
        peer = kind(self._site(f"{place}/{kind.name.replace(' ', '-')}", leg))
        cleanup.callback(peer.stop)
        peer.start()
        pids = peer.pids()
        return Way(kind.name, f"https://localhost:{peer.port}", lambda: pids, self.platform.env["CULVERT_CA"])

    # ---- delayed -----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def delayed(self, commands):
        """The same ways with a proxy between their ends that has been told `commands`, and one plain TLS connection."""
        with contextlib.ExitStack() as cleanup:

            def leg(port):
                proxy = cleanup.enter_context(FaultProxy(self.program("fault-proxy"), port))
                proxy.say(*commands)
                return proxy.port

            ways, url = [], self.platform.env["CULVERT_TUNNEL_URL"]
            tunnel_port = int(url.rsplit(":", 1)[1])
            self._set_agent(r"(?m)^platform\.url = .*$", f"platform.url = wss://localhost:{leg(tunnel_port)}")
            cleanup.callback(self._set_agent, r"(?m)^platform\.url = .*$", f"platform.url = {url}")
            ways.append(self._tunnel())
            ways += [self._start_peer(kind, "delayed", cleanup, leg) for kind in self._peers]
            if NginxStreamPair in self._peers:
                pair = NginxStreamPair(self._site("delayed/one"))
                cleanup.callback(pair.stop)
                pair.start()
                url, pids = f"https://localhost:{leg(pair.far_port)}", {"far": pair.pids()["far"]}
                ways.append(Way(ONE_TLS, url, lambda: pids, self.platform.env["CULVERT_CA"]))
            yield ways
