"""The agent's way to the platform: proxies, pinned keys, moving to another replica without losing a call."""

import base64
import hashlib
import http.server
import json
import os
import pathlib
import queue
import select
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import urllib.request

import pytest

from conftest import build_folder
from platform_under_test import wait_until

TOKEN = "0123456789abcdef01234567." + "ab" * 32
PASSWORD = "s3cret@/word"
WAIT_SECONDS = 30


class Service(http.server.ThreadingHTTPServer):
    """GET /hold answers when it is let go, everything else at once."""

    daemon_threads = True

    def __init__(self):
        self.let_go, self.held = threading.Event(), threading.Event()
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/hold":
            self.server.held.set()
            self.server.let_go.wait(WAIT_SECONDS)
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"done")

    def log_message(self, *_words):
        pass


class Relay:
    """A TCP listener that carries connections to whatever `target` is at the time; with `answer`, an HTTP CONNECT proxy."""

    def __init__(self, target=None, answer=None):
        self.target, self.answer, self.heads = target, answer, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve_quietly, args=(near,), daemon=True).start()

    def _serve_quietly(self, near):
        try:
            self._serve(near)
        except OSError:  # either end has gone
            near.close()

    def _serve(self, near):
        target = self.target
        if self.answer:
            head = b""
            while b"\r\n\r\n" not in head:
                head += near.recv(4096)
            self.heads.append(head.decode())
            reply = self.answer(head.decode())
            near.sendall(reply)
            if not reply.startswith(b"HTTP/1.1 200"):
                near.close()
                return
            target = int(head.split(b" ")[1].rsplit(b":", 1)[1])
        far = socket.create_connection(("127.0.0.1", target))
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    @staticmethod
    def _carry(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def stop(self):
        self.listener.close()


class TlsEnd(Relay):
    """Has the platform's name and a certificate for it; what it hears it says again to the platform, if there is one."""

    def __init__(self, folder, target=None):
        self.heard = b""
        self.near_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.near_tls.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
        self.far_tls = ssl.create_default_context(cafile=folder / "certificate.pem")
        super().__init__(target)

    def _serve(self, near):
        with self.near_tls.wrap_socket(near, server_side=True) as near:
            if not self.target:
                self._pretend(near)
                return
            with socket.create_connection(("127.0.0.1", self.target)) as far, self.far_tls.wrap_socket(far, server_hostname="localhost") as far:
                ends = {near: far, far: near}
                while True:
                    ready = [end for end in ends if end.pending()] or select.select(list(ends), [], [])[0]
                    for end in ready:
                        if not (data := end.recv(65536)):
                            return
                        self.heard += data if end is near else b""
                        ends[end].sendall(data)

    def _pretend(self, near):
        while b"\r\n\r\n" not in self.heard:
            self.heard += near.recv(4096)
        key = self.heard.split(b"Sec-WebSocket-Key: ")[1].split(b"\r\n")[0]
        accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        near.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept + b"\r\nSec-WebSocket-Protocol: culvert.tunnel.1\r\nculvert-proof: " + b"ab" * 32 + b"\r\n\r\n")
        near.recv(4096)


class Host:
    """A culvert-tunnel-host: a platform's tunnel without the platform."""

    def __init__(self, folder):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        program = build_folder("asan") / "tests/support/culvert-tunnel-host"
        words = [program, f"127.0.0.1:{self.port}", folder / "certificate.pem", folder / "key.pem", TOKEN]
        self.log = open(folder / f"host-{self.port}.log", "w")
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, bufsize=1)
        self.lines, self.seen, self.passed_over = queue.Queue(), [], []
        threading.Thread(target=lambda: [self.lines.put(line.rstrip("\n")) for line in self.process.stdout], daemon=True).start()
        self.expect("ready")

    def say(self, command):
        self.process.stdin.write(command + "\n")

    def expect(self, start):
        """The first line that begins so and was not asked for yet, whatever came before it."""
        for line in self.passed_over:
            if line.startswith(start):
                self.passed_over.remove(line)
                return line
        while True:
            line = self.lines.get(timeout=WAIT_SECONDS)
            self.seen.append(line)
            if line.startswith(start):
                return line
            self.passed_over.append(line)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


class World:
    def __init__(self, folder):
        self.folder, self.parts, self.agents = folder, [], []
        (folder / "token").write_text(TOKEN + "\n")
        words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test -addext subjectAltName=DNS:localhost"
        subprocess.run(["openssl", *words.split(), "-keyout", "key.pem", "-out", "certificate.pem"], cwd=folder, check=True, capture_output=True)
        self.service = Service()

    def host(self):
        self.parts.append(Host(self.folder))
        return self.parts[-1]

    def relay(self, *words, **more):
        self.parts.append(Relay(*words, **more))
        return self.parts[-1]

    def tls_end(self, *words):
        self.parts.append(TlsEnd(self.folder, *words))
        return self.parts[-1]

    def agent(self, port, settings="", environment=None):
        """Starts an agent whose platform is on that port; the path of its log."""
        number = len(self.agents)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.admin_port = probe.getsockname()[1]
        file, log = self.folder / f"agent-{number}.conf", self.folder / f"agent-{number}.log"
        file.write_text(f"""platform.url = wss://localhost:{port}
platform.ca_file = {self.folder}/certificate.pem
runtime.name = demo
runtime.token_file = {self.folder}/token
reporter.enabled = false
router.services = svc=http://127.0.0.1:{self.service.server_port}
admin.listen = 127.0.0.1:{self.admin_port}
{settings}
""")
        plain = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        program = build_folder("asan") / "agent/culvert-agent"
        with log.open("w") as sink:
            self.agents.append(subprocess.Popen([program, "--config", file], env={**plain, **(environment or {})}, stdout=sink, stderr=sink))
        return log

    def metric(self, start):
        text = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://127.0.0.1:{self.admin_port}/metrics", timeout=10).read().decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(start))

    def stop(self):
        self.service.let_go.set()
        for agent in self.agents:
            agent.send_signal(signal.SIGTERM)
        for log in sorted(self.folder.glob("*.log")):  # pytest shows it when the test failed
            print(f"--- {log.name}", log.read_text()[-4000:], sep="\n")
        statuses = [agent.wait(WAIT_SECONDS) for agent in self.agents]
        for part in self.parts:
            part.stop()
        self.service.shutdown()
        self.service.server_close()
        assert statuses == [0] * len(statuses), "an agent did not end cleanly"


@pytest.fixture()
def world():
    with tempfile.TemporaryDirectory(prefix="culvert-agent.", dir="/var/tmp") as folder:
        under_test = World(pathlib.Path(folder))
        yield under_test
        under_test.stop()


def logged(log, word):
    return wait_until(lambda: word in log.read_text(), WAIT_SECONDS, f"{word!r} in the agent's log")


def pin(folder):
    der = subprocess.run("openssl x509 -in certificate.pem -pubkey -noout | openssl pkey -pubin -outform der", shell=True, cwd=folder, capture_output=True, check=True)
    return "sha256/" + base64.b64encode(hashlib.sha256(der.stdout).digest()).decode()


def test_new_tunnel_before_the_old_one_ends(world):
    old, new = world.host(), world.host()
    relay = world.relay(old.port)
    world.agent(relay.port)
    old.expect("open")
    old.say("get 0 /services/svc/hold")
    assert world.service.held.wait(WAIT_SECONDS)
    relay.target = new.port
    old.say("drain")
    new.expect("open")
    new.say("get 0 /services/svc/x")
    new.expect("head 200")
    assert not [line for line in old.seen if line.startswith("closed")], "the old tunnel ended before its call"
    world.service.let_go.set()
    old.expect("head 200")
    old.expect("closed")
    wait_until(lambda: world.metric("culvert_agent_tunnel_online") == 1, WAIT_SECONDS, "the agent online")


def test_reconnect_resumes_tls(world):
    host = world.host()
    relay = world.relay(host.port)
    world.agent(relay.port)
    host.expect("open")
    host.say("revoke")  # ends the session
    host.expect("closed")
    host.expect("open")
    assert world.metric('culvert_agent_tls_handshakes_total{resumed="yes"') > 0


@pytest.mark.parametrize("where", ["file", "environment", "file of its own"])
def test_proxy_with_credential(world, where):
    host = world.host()
    proxy = world.relay(answer=lambda head: b"HTTP/1.1 200 Connection established\r\nProxy-Agent: test\r\n\r\n")
    url = f"http://me:s3cret%40%2Fword@127.0.0.1:{proxy.port}/"
    (world.folder / "proxy").write_text(url + "\n")
    settings = {"file": f"proxy.url = {url}", "file of its own": f"proxy.url = file:{world.folder}/proxy", "environment": ""}[where]
    log = world.agent(host.port, settings, {"HTTPS_PROXY": url, "NO_PROXY": "10.0.0.0/8,.example.org"} if where == "environment" else None)
    host.expect("open")
    head = proxy.heads[0]
    assert head.startswith(f"CONNECT localhost:{host.port} HTTP/1.1\r\n")
    assert f"Proxy-Authorization: Basic {base64.b64encode(f'me:{PASSWORD}'.encode()).decode()}\r\n" in head
    assert TOKEN not in head
    assert "s3cret" not in log.read_text() and "s3cret" not in pathlib.Path(f"/proc/{world.agents[0].pid}/cmdline").read_text()


@pytest.mark.parametrize("exclude", ["localhost", "*", "x, .localhost", "localhost:{port}"])
def test_no_proxy(world, exclude):
    host = world.host()
    world.agent(host.port, environment={"https_proxy": "http://127.0.0.1:1", "no_proxy": exclude.format(port=host.port)})
    host.expect("open")


@pytest.mark.parametrize(
    "answer, word",
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", "407"),
        (b"HTTP/1.1 503 Busy\r\n\r\n", "503"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "proxy"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 40000 + b"\r\n\r\n", "proxy"),
        (b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 101 Switching Protocols\r\n\r\n", "before the TLS handshake"),
        (b"", "proxy"),
    ],
)
def test_proxy_that_misbehaves(world, answer, word):
    proxy = world.relay(answer=lambda head: answer)
    log = world.agent(9, f"proxy.url = http://me:s3cret@127.0.0.1:{proxy.port}")
    logged(log, word)
    lines = [json.loads(line) for line in log.read_text().splitlines() if "disconnected" in line]
    assert lines and "proxy" in lines[0]["error"]
    assert "s3cret" not in log.read_text()
    assert all(TOKEN not in head for head in proxy.heads)


def test_pinned_key(world):
    host = world.host()
    wrong = "sha256/" + base64.b64encode(b"x" * 32).decode()
    log = world.agent(host.port, f"platform.pin = {wrong}")
    logged(log, "platform.pin")
    assert not [line for line in host.seen if line.startswith("open")]
    world.agent(host.port, f"platform.pin = {wrong}, {pin(world.folder)}")
    host.expect("open")


def test_who_has_the_name_but_not_the_token_learns_nothing(world):
    impostor = world.tls_end()
    log = world.agent(impostor.port)
    logged(log, "did not prove")
    assert b"Authorization: Culvert " in impostor.heard
    assert TOKEN.split(".")[1].encode() not in impostor.heard
    assert world.metric("culvert_agent_tunnel_online") == 0


def test_a_way_that_ends_tls_has_to_be_allowed(world):
    host = world.host()
    between = world.tls_end(host.port)
    log = world.agent(between.port)
    logged(log, "platform.sealed_token")  # a token that is sealed for the other connection is no token there
    assert not [line for line in host.seen if line.startswith("open")]
    assert TOKEN.split(".")[1].encode() not in between.heard
    world.agent(between.port, "platform.sealed_token = false")
    host.expect("open")
    assert TOKEN.encode() in between.heard
