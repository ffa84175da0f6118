"""Two replicas behind a balancer: a call that arrives at either reaches the runtime, whichever holds its tunnel."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import types
import uuid

import h2.events
import pytest

from conftest import build_folder
from platform_under_test import TOP, wait_until
from replicas_under_test import Replicas, calm, is_ready, load_of, restartable
from redis_client import Redis
from report_tunnel import ReportTunnel
from sse_client import Subscription
from test_live import WINDOW, Reporter

sys.path.insert(0, str(TOP / "tests/support"))
from fault_proxy import FaultProxy  # noqa: E402
from rolling_restart import restart, rolling_restart  # noqa: E402


class ProxiedReplicas(Replicas):
    """As replicas, with proxies that can be put between them."""

    def put_proxies_between(self):
        """From now on each reaches PostgreSQL, and is reached by the other, through a proxy that can be cut."""
        program = self.build / "tests/support/culvert-fault-proxy"
        self.database = [FaultProxy(program, self.port("POSTGRES")) for _ in (0, 1)]
        self.peer = [FaultProxy(program, self.port("PEER", number)) for number in (0, 1)]
        url = (self.home / "database.url").read_text()
        for number in (0, 1):
            own_url = self.home / f"database-{number}.url"
            own_url.write_text(url.replace(f":{self.port('POSTGRES')}/", f":{self.database[number].port}/"))
            own_url.chmod(0o600)
            config = self.home / f"culvertd-{number}.conf"
            text = config.read_text().replace(f"file:{self.home}/database.url", f"file:{own_url}")
            config.write_text(text.replace(f"peer.address = 127.0.0.1:{self.port('PEER', number)}", f"peer.address = 127.0.0.1:{self.peer[number].port}"))
            restart(lambda: self.pid(f"culvertd-{number}"), lambda: is_ready(self, number))

    def take_proxies_away(self):
        for proxy in [*self.database, *self.peer]:
            proxy.stop()


@pytest.fixture(scope="module")
def replicas():
    with tempfile.TemporaryDirectory(prefix="culvert-e2e.", dir="/var/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        under_test = ProxiedReplicas(pathlib.Path(folder) / "home", build_folder("asan"))
        try:
            under_test.start().put_proxies_between()
            yield under_test
            under_test.take_proxies_away()
        finally:
            under_test.reset()


def service(path):
    return "/services/demo" + path


def both(replicas):
    wait_until(lambda: replicas.owner() is not None, 60, "a tunnel")
    owner = replicas.owner()
    return owner, 1 - owner


def test_calls_arrive_by_either_replica(replicas):
    owner, other = both(replicas)
    body = bytes(range(256)) * 4096
    for number in (owner, other):
        hops = replicas.metric(number, "culvert_hop_total", result="answered")
        assert replicas.ingress_of(number, "GET", "/app-proxy/api/readyz").status == 200
        told = replicas.ingress_of(number, "POST", service("/echo"), body).json()
        assert told["sha256"] == hashlib.sha256(body).hexdigest()
        assert len(replicas.ingress_of(number, "GET", service("/bytes/3000000")).body) == 3000000
        assert replicas.ingress_of(number, "GET", service("/status/404")).status == 404
        runtime = replicas.env["CULVERT_RUNTIME"]
        assert replicas.api_of(number, "GET", f"/runtimes/{runtime}/proxy/app-proxy/api/readyz").status == 200
        assert replicas.metric(number, "culvert_hop_total", result="answered") - hops == (0 if number == owner else 5)


def test_causes_cross_the_hop(replicas):
    _, other = both(replicas)
    answer = replicas.ingress_of(other, "GET", "/services/unlisted/")
    assert (answer.status, answer.headers["culvert-cause"]) in ((404, "no-route"), (403, "not-allowed"))


def test_credentials_are_checked_where_the_call_came_in(replicas):
    _, other = both(replicas)
    hops = replicas.metric(other, "culvert_hop_total")
    assert replicas.ingress_of(other, "GET", service("/"), key="0" * 24 + "." + "0" * 64).status == 401
    assert replicas.metric(other, "culvert_hop_total") == hops


class Reluctant(ReportTunnel):
    """An agent at one replica that gets calls and answers those that it is told to."""

    def __init__(self, replicas, number, name, token):
        self.heads, self.whole, self.bodies = [], [], {}
        url = f"wss://localhost:{replicas.port('TUNNEL', number)}"
        super().__init__(types.SimpleNamespace(env={"CULVERT_TUNNEL_URL": url}, context=replicas.context), name, token)

    def _on(self, event, offset):
        if isinstance(event, h2.events.ConnectionTerminated):
            return  # it was superseded, and may finish what it has
        stream = getattr(event, "stream_id", None)
        if isinstance(event, h2.events.RequestReceived) and dict(event.headers)[":path"] != "/culvert/reports":
            self.heads.append(stream)
            self.bodies[stream] = b""
        elif isinstance(event, h2.events.DataReceived) and stream in self.bodies:
            self.h2.acknowledge_received_data(event.flow_controlled_length, stream)
            self.bodies[stream] += event.data
        elif isinstance(event, h2.events.StreamEnded) and stream in self.bodies:
            self.whole.append(stream)
        else:
            super()._on(event, offset)

    def answer(self):
        for stream in self.whole:
            self.h2.send_headers(stream, [(":status", "200")])
            self.h2.send_data(stream, hashlib.sha256(self.bodies[stream]).hexdigest().encode(), end_stream=True)
        self.flush()


def test_calls_that_an_agent_did_not_look_at(replicas):
    """Another agent has come by the time it says so: they are that one's, wherever they arrived."""
    name = f"leaves-{uuid.uuid4().hex[:8]}"
    before = [replicas.metric(number, "culvert_runtime_tokens") for number in (0, 1)]
    token = replicas.create_runtime(name)
    # Calls of a runtime that a replica has not heard of yet end at once.
    wait_until(lambda: all(replicas.metric(number, "culvert_runtime_tokens") > before[number] for number in (0, 1)), 20, "both know it")
    host = replicas.env["CULVERT_INGRESS_HOST"].replace(replicas.env["CULVERT_RUNTIME"], name)
    body = os.urandom(10000)
    asked = [(0, "GET", None), (1, "GET", None), (1, "POST", body)]
    with Reluctant(replicas, 0, name, token) as first, concurrent.futures.ThreadPoolExecutor(len(asked)) as clients:
        answers = [clients.submit(replicas.ingress_of, number, method, service("/x"), sent, host=host) for number, method, sent in asked]
        first.until(lambda: len(first.whole) == len(asked))
        with Reluctant(replicas, 1, name, token) as next_one:
            first.h2.close_connection(last_stream_id=first.stream)
            first.flush()
            next_one.until(lambda: len(next_one.whole) == len(asked))
            next_one.answer()
            for answer, (_, _, sent) in zip(answers, asked):
                told = answer.result(30)
                assert (told.status, told.text()) == (200, hashlib.sha256(sent or b"").hexdigest())
    replicas.graphql("mutation($n: String!) { deleteRuntime(name: $n) }", {"n": name})


def test_rolling_restarts_fail_no_plain_request(replicas):
    """As many as CULVERT_RESTARTS says, 4 by itself."""
    rounds = int(os.environ.get("CULVERT_RESTARTS", "4"))
    with load_of(replicas) as load:
        wait_until(lambda: load.done > 20, 30, "load")
        rolling_restart(restartable(replicas), rounds, lambda: calm(replicas))
    assert not load.failures, (len(load.failures), load.done, load.failures[:10])
    assert load.done > 20 * rounds


def test_owner_killed_under_load(replicas):
    """kill -9: what was under way may be lost; every call that comes 5 s later is answered again, by either replica."""
    owner, _ = both(replicas)
    epoch = int(replicas.psql("select max(epoch) from tunnel_sessions")[0][0])
    with load_of(replicas) as load:
        wait_until(lambda: load.done > 20, 30, "load")
        restart(lambda: replicas.pid(f"culvertd-{owner}"), lambda: is_ready(replicas, owner), signal.SIGKILL)
        wait_until(lambda: int(replicas.psql("select max(epoch) from tunnel_sessions where closed_at is null")[0][0] or 0) > epoch, 15, "a new session")
        wait_until(lambda: all(replicas.ingress_of(n, "GET", service("/status/200")).status == 200 for n in (0, 1)), 10, "calls by both")
        before, done = len(load.failures), load.done
        wait_until(lambda: load.done > done + 40, 30, "calls afterwards")
        assert len(load.failures) == before, load.failures[before:]
    # One request a client was under way; a few more may have met the dead port before the balancer noticed.
    assert len(load.failures) <= 24, load.failures


def cut(proxy):
    proxy.say("refuse", "cut")


def ok_by(replicas, number, path="/status/200"):
    return replicas.ingress_of(number, "GET", service(path)).status == 200


def test_redis_away(replicas):
    """The registry asks PostgreSQL; nothing fails, and a session that moves is found and its older self ended."""
    supervisor = int((replicas.home / "run/redis.pid.supervisor").read_text())
    os.kill(supervisor, signal.SIGSTOP)
    replicas.kill("redis")
    try:
        wait_until(lambda: all(replicas.admin_of(n, "/readyz/redis").status == 503 for n in (0, 1)), 20, "Redis is noticed to be away")
        _, other = both(replicas)
        asked = replicas.metric(other, "culvert_registry_lookup_total", result="postgres")
        with load_of(replicas) as load:
            wait_until(lambda: load.done > 100, 30, "load")
            assert all(ok_by(replicas, n) for n in (0, 1))
        assert not load.failures, load.failures[:10]
        wait_until(lambda: ok_by(replicas, other) and replicas.metric(other, "culvert_registry_lookup_total", result="postgres") > asked, 30, "PostgreSQL is asked")
        epoch = newest_epoch(replicas)
        replicas.kill("agent")
        wait_until(lambda: newest_epoch(replicas) > epoch and replicas.owner() is not None, 30, "a new session")
        wait_until(lambda: all(ok_by(replicas, n) for n in (0, 1)), 10, "calls by both")
    finally:
        os.kill(supervisor, signal.SIGCONT)
    wait_until(lambda: all(replicas.admin_of(n, "/readyz/redis").status == 200 for n in (0, 1)), 30, "Redis is back")


def test_lines_in_redis_that_somebody_else_wrote_move_nothing(replicas):
    """Whoever may write to Redis: places of tunnels, and messages that end sessions. No effect, and counted."""
    account, runtime, past = replicas.env["CULVERT_ACCOUNT"], replicas.env["CULVERT_RUNTIME"], newest_epoch(replicas)
    key = f"culvert:2:tunnel:{account}:{runtime}"
    with Redis.of(replicas) as attacker:  # which may have forgotten the line

        def has_line():
            """A session that opens before its loop's connection to Redis is back has no line: calls are looked up in PostgreSQL then."""
            replicas.kill("agent")
            wait_until(lambda: newest_epoch(replicas) > past and (attacker("GET", key) or b"").startswith(str(newest_epoch(replicas)).encode()), 15, "a line")
            return True

        wait_until(has_line, 60, "a session with a line")
    wait_until(lambda: all(ok_by(replicas, n) for n in (0, 1)), 30, "calls by both")
    owner, other = both(replicas)
    epoch, ends = newest_epoch(replicas), [ends_at(replicas, n) for n in (0, 1)]

    def refused(what):
        return [replicas.metric(n, "culvert_redis_refused_total", what=what) for n in (0, 1)]

    with socket.create_server(("127.0.0.1", 0)) as trap, Redis.of(replicas) as attacker:
        place = f"{epoch + 1000} replica-9 127.0.0.1:{trap.getsockname()[1]}"
        genuine = attacker("GET", key).decode()
        assert genuine.split()[0] == str(epoch), genuine
        signature = " ".join(genuine.split()[-2:])
        before, asked = refused("message"), refused("directory")
        messages = [f"open {account} {runtime} {place}", f"over {account} {runtime} {epoch}", f"open {account} {runtime} {place} {signature}",
                    f"over {account} {runtime} {epoch} {signature}", genuine, f"open {account} {runtime} {genuine}", "", "x" * 2000]
        for message in messages:
            assert attacker("PUBLISH", "culvert:2:tunnels", message) >= 2
        wait_until(lambda: all(now >= was + len(messages) for now, was in zip(refused("message"), before)), 20, "every message is refused by both")
        for line in (place, f"{place} {signature}", genuine.replace(str(epoch), str(epoch + 1), 1), "x" * 5000):

            def was_refused():
                attacker("SET", key, line)
                attacker("CLIENT", "KILL", "TYPE", "pubsub")  # what replicas remember is in doubt after that
                assert all(ok_by(replicas, n) for n in (0, 1))
                return refused("directory")[other] > asked[other]

            wait_until(was_refused, 30, "the line is looked at, and counted")
            asked = refused("directory")
        attacker("SET", key, genuine)
        trap.setblocking(False)
        with pytest.raises(BlockingIOError):
            trap.accept()
    assert (newest_epoch(replicas), replicas.owner(), [ends_at(replicas, n) for n in (0, 1)]) == (epoch, owner, ends)


def newest_epoch(replicas):
    return int(replicas.psql("select max(epoch) from tunnel_sessions")[0][0] or 0)


def test_owner_without_database_is_fenced_and_comes_back(replicas):
    """No calls for its sessions from the end of its lease on, however they arrive; the same session when all is well."""
    owner, other = both(replicas)
    epoch = newest_epoch(replicas)
    assert ok_by(replicas, other)
    cut(replicas.database[owner])
    try:
        wait_until(lambda: '"msg":"session_routing_stopped"' in replicas.log_of(owner), 25, "the fence")
        answer = replicas.ingress_of(other, "GET", service("/status/200"))
        assert (answer.status, answer.headers["culvert-cause"]) == (503, "no-tunnel") and answer.headers["retry-after"]
        assert replicas.metric(other, "culvert_hop_total", result="misdirected") > 0
        assert not ok_by(replicas, owner)
    finally:
        replicas.database[owner].calm()
    wait_until(lambda: ok_by(replicas, other) and ok_by(replicas, owner), 30, "calls again")
    assert (newest_epoch(replicas), replicas.owner()) == (epoch, owner)


def ends_at(replicas, number):
    """Lines about sessions that a newer one took over from, or that ended."""
    lines = [json.loads(line) for line in replicas.log_of(number).splitlines() if '"msg":"session_superseded"' in line or '"msg":"session_closed"' in line]
    return [line for line in lines if line["component"] == "tunnel"]


def test_cut_from_each_other_and_from_the_database(replicas):
    """A second agent of the runtime comes to the other replica while the owner knows of nothing: one of them answers."""
    owner, other = both(replicas)
    epoch = newest_epoch(replicas)
    fenced = replicas.log_of(owner).count('"msg":"session_routing_stopped"')  # before: tests before this one did that, too
    cut(replicas.database[owner])
    for proxy in replicas.peer:
        cut(proxy)
    twin = None
    try:
        config = replicas.home / "agent/agent.conf"
        text = config.read_text().replace(f"localhost:{replicas.port('TUNNEL')}", f"localhost:{replicas.port('TUNNEL', other)}")
        text = text.replace(f"reporter.state_dir = {replicas.home}/agent", f"reporter.state_dir = {replicas.home}/twin")
        text = text.replace(f"admin.listen = 127.0.0.1:{replicas.port('AGENT')}", "admin.listen = 127.0.0.1:0")
        (replicas.home / "twin").mkdir(mode=0o700, exist_ok=True)
        (replicas.home / "twin/agent.conf").write_text(text)
        with open(replicas.home / "log/twin.log", "ab") as log:
            twin = subprocess.Popen([replicas.build / "agent/culvert-agent", "--config", replicas.home / "twin/agent.conf"], stdout=log, stderr=log)
        wait_until(lambda: newest_epoch(replicas) > epoch and replicas.owner() == other, 30, "the newer session")
        wait_until(lambda: ok_by(replicas, other), 10, "calls by the one that has the newest session")
        wait_until(lambda: replicas.log_of(owner).count('"msg":"session_routing_stopped"') > fenced, 25, "the fence")
        for _ in range(5):
            assert ok_by(replicas, other)
            assert not ok_by(replicas, owner)
        for proxy in [*replicas.database, *replicas.peer]:
            proxy.calm()
        # The older session ends before its replica routes again: from now on both send calls to the newest.
        wait_until(lambda: all(ok_by(replicas, n) for n in (0, 1)), 30, "calls by both")
        wait_until(lambda: any(line["epoch"] == epoch for line in ends_at(replicas, owner)), 30, "the older one's end")
    finally:
        for proxy in [*replicas.database, *replicas.peer]:
            proxy.calm()
        if twin:
            twin.terminate()
            twin.wait(60)
    wait_until(lambda: replicas.owner() is not None and all(ok_by(replicas, n) for n in (0, 1)), 90, "the first agent serves again")


def test_peers_cut_from_each_other(replicas):
    """The owner serves what arrives there; the other says at once or after its wait that it cannot, and recovers."""
    owner, other = both(replicas)
    for proxy in replicas.peer:
        cut(proxy)
    try:
        assert ok_by(replicas, owner)
        answer = replicas.ingress_of(other, "GET", service("/status/200"))
        assert answer.status == 503 and answer.headers["culvert-cause"] == "no-tunnel"
    finally:
        for proxy in replicas.peer:
            proxy.calm()
    wait_until(lambda: ok_by(replicas, other), 10, "calls by both")


def test_strangers_are_not_let_in_at_the_peer_listener(replicas):
    """Neither without a certificate, nor with one of another CA."""
    for chain in (None, ("server.crt", "server.key")):
        context = ssl.create_default_context(cafile=str(replicas.home / "pki/peer-ca.crt"))
        context.check_hostname = False
        context.set_alpn_protocols(["culvert.peer.1"])
        if chain:
            context.load_cert_chain(*(str(replicas.home / "pki" / name) for name in chain))
        with pytest.raises(OSError):
            with socket.create_connection(("127.0.0.1", replicas.port("PEER", 0)), timeout=10) as plain:
                with context.wrap_socket(plain) as sock:
                    sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9))
                    while sock.recv(4096):  # in TLS 1.3 the refusal comes with the first read
                        pass
                    raise ConnectionError("closed")


def test_admin_tunnels(replicas):
    owner, _ = both(replicas)

    def measured():
        done = replicas.culvertd(0, "admin", "tunnels", "--json")
        nodes = [node for node in json.loads(done) if node["state"] == "live"]
        return nodes[0] if nodes and nodes[0]["bytesIn"] else None

    node = wait_until(measured, 30, "measures")
    assert node["runtime"] == replicas.env["CULVERT_RUNTIME"] and node["replica"] == f"quickstart-{owner}"
    assert node["epoch"] == newest_epoch(replicas) and node["version"]
    table = replicas.culvertd(1, "admin", "tunnels", "--account", "quickstart")
    assert "live" in table and f"quickstart-{owner}" in table


def test_second_process_on_the_same_ports_is_refused(replicas):
    done = subprocess.run([replicas.build / "server/culvertd", "--config", replicas.home / "culvertd-0.conf"], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "already listens" in done.stderr, done.stderr[-500:]
    assert is_ready(replicas, 0)


def test_clocks_that_differ_by_minutes(replicas):
    """PostgreSQL's clock counts alone: a replica that is seven minutes ahead keeps its lease and its sessions."""
    library = pathlib.Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
    if not library.exists():
        pytest.skip("libfaketime is not installed")
    name = "culvertd-1"
    os.kill(int((replicas.home / f"run/{name}.pid.supervisor").read_text()), signal.SIGTERM)
    wait_until(lambda: not (replicas.home / f"run/{name}.pid").exists(), 60, "the end of the one")
    words = [TOP / "deploy/lib/supervise", replicas.home / f"run/{name}.pid", replicas.home / f"log/{name}.log", "env", f"LD_PRELOAD={library}", "FAKETIME=+7m", "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1", "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0", replicas.build / "server/culvertd", "--config", replicas.home / f"{name}.conf"]
    subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    wait_until(lambda: is_ready(replicas, 1), 60, "it is ready")
    # The tunnel is taken to it, and away from it again; it stays for longer than a lease lasts.
    for wanted in (1, 0):
        def moved(wanted=wanted):
            if replicas.owner() == wanted:
                return True
            replicas.kill("agent")
            wait_until(lambda: replicas.owner() is not None, 30, "a tunnel")
            return replicas.owner() == wanted

        wait_until(moved, 90, f"the tunnel at replica {wanted}")
        until = time.monotonic() + 17
        with load_of(replicas, pause_seconds=0.05) as load:
            wait_until(lambda: time.monotonic() > until, 30, "longer than a lease")
            assert all(ok_by(replicas, n) for n in (0, 1))
        assert not load.failures, load.failures[:10]
        assert replicas.owner() == wanted


def test_a_subscriber_of_one_replica_sees_what_another_commits(replicas):
    reporter = Reporter(replicas)
    before = replicas.metric(1, "culvert_live_changes_received_total")
    url = f"https://localhost:{replicas.port('API', 1)}"
    with Subscription(replicas, WINDOW, {"ids": [reporter.id("first")]}, url=url) as stream:
        assert list(stream.window()[0]) == [reporter.id("first")]
        reporter.platform = types.SimpleNamespace(api=lambda *words, **more: replicas.api_of(0, *words, **more))
        reporter.report("first", "Degraded")
        assert stream.window(5)[0][reporter.id("first")]["healthStatus"] == "DEGRADED"
    assert replicas.metric(1, "culvert_live_changes_received_total") > before  # by Redis, not by reading again
    replicas.graphql("mutation($n: String!) { deleteRuntime(name: $n) }", {"n": reporter.name})
