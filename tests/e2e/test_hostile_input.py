"""What input without a credential costs the server, listener by listener, for a list of attacks (hostile_input.py).

The price list is what a client has to be able to cause: a TLS handshake, reading a record, answering a request; and for
everything else a bound per KB, so that a head of 144 KB costs 0.02 CPU-seconds at most. On the release build; the same
attacks are played against the one with sanitizers, where only survival counts."""

import pathlib
import tempfile

import pytest

import hostile_input as hostile
from conftest import build_folder
from replicas_under_test import Replicas, calm
from waiting import wait_until

# Seconds of CPU. What one costs is a third of this or less on an idle machine.
HANDSHAKE_SECONDS = 0.005
RECORD_SECONDS = 40e-6
ANSWER_SECONDS = 100e-6
KB_SECONDS = 0.02 / 144


@pytest.fixture(scope="module")
def released():
    """Two replicas, so that there is a peer listener."""
    with tempfile.TemporaryDirectory(prefix="culvert-e2e.", dir="/var/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        replicas = Replicas(pathlib.Path(folder) / "home", build_folder("release"))
        try:
            replicas.start()
            wait_until(lambda: calm(replicas), 60, "both replicas serve")
            replicas.cluster("POST", "/demo/pause")
            yield replicas
        finally:
            replicas.reset()


def listeners(platform, ports, process):
    """{name: (target, attacks)}"""
    name = platform.env["CULVERT_INGRESS_HOST"]
    host = f"{name}:{ports['INGRESS']}".encode()

    def at(listener, **more):
        return hostile.Target(platform, ports[listener], process=process, **more)

    found = {
        "ingress, HTTP/2": (at("INGRESS", alpn="h2", name=name), hostile.http2_attacks(host)),
        "ingress, HTTP/1": (at("INGRESS", name=name), hostile.http1_attacks(host)),
        "ingress, webhooks": (at("INGRESS", name=name), hostile.http1_attacks(host, b"/webhooks/x/y", b"/webhooks/x/y")),
        "API": (at("API"), hostile.http1_attacks(b"localhost", b"/2.0/api/x", b"/2.0/api/graphql")),
        "tunnel": (at("TUNNEL"), {**hostile.http1_attacks(b"localhost", b"/tunnel/v1", b"/tunnel/v1"), **hostile.websocket_attacks(b"localhost")}),
        "admin": (at("ADMIN", tls=False), hostile.http1_attacks(b"localhost", b"/livez", b"/metrics")),
    }
    for listener in ("INGRESS", "API", "TUNNEL", "PEER"):
        if listener in ports:
            found[f"{listener.lower()}, TLS"] = (at(listener, tls=False), hostile.tls_attacks())
    return found


def price(bill):
    return bill.connections * HANDSHAKE_SECONDS + bill.records * RECORD_SECONDS + bill.answers * ANSWER_SECONDS + bill.kb * KB_SECONDS


def expensive(target, attacks):
    """What costs more than its price, looked at again: a busy machine may have counted what was not the attack's."""
    found = []
    for name, pieces in attacks.items():
        for _ in range(3):
            bill = hostile.strike(target, pieces)
            if bill.cpu <= price(bill):
                break
        else:
            found.append(f"{name}: {bill}, its price is {price(bill) * 1000:.1f} ms")
    return found


NAMES = ["ingress, HTTP/2", "ingress, HTTP/1", "ingress, webhooks", "API", "tunnel", "admin", "ingress, TLS", "api, TLS", "tunnel, TLS", "peer, TLS"]


@pytest.mark.parametrize("name", NAMES)
def test_what_it_costs(released, name):
    if "asan" in str(released.build):
        pytest.skip("sanitizers cost what they cost: CULVERT_RELEASE_BUILD names a build with them")
    ports = {listener: released.port(listener, 0) for listener in ("API", "ADMIN", "TUNNEL", "INGRESS", "PEER")}
    target, attacks = listeners(released, ports, "culvertd-0")[name]
    pid = released.pid("culvertd-0")
    found = expensive(target, attacks)
    assert not found, "\n".join(found)
    assert released.pid("culvertd-0") == pid and released.admin_of(0, "/readyz").status == 200


@pytest.mark.parametrize("name", [name for name in NAMES if name != "peer, TLS"])
def test_it_survives(platform, name):
    """Under ASan and UBSan, each attack once."""
    ports = {listener: platform.port(f"CULVERT_{listener}_URL" if listener != "API" else "CULVERT_URL") for listener in ("API", "ADMIN", "TUNNEL", "INGRESS")}
    target, attacks = listeners(platform, ports, "culvertd")[name]
    pid = platform.pid("culvertd")
    for pieces in attacks.values():
        hostile.strike(target, pieces, connections=1, quiet=0.02)
    assert platform.pid("culvertd") == pid and platform.api("GET", "/api/ping").status == 200
    assert "Sanitizer" not in platform.log("culvertd") and "runtime error" not in platform.log("culvertd")


ABUSE = ["HPACK bomb of cookies", "HPACK bombs, each a little too large", "PING", "SETTINGS", "WINDOW_UPDATE", "PRIORITY", "unknown frames", "empty DATA", "rapid reset"]


@pytest.mark.parametrize("attack", ABUSE)
def test_abuse_ends_the_connection(platform, attack):
    """With a GOAWAY that says ENHANCE_YOUR_CALM (RFC 9113 section 7)."""
    target, attacks = listeners(platform, {"INGRESS": platform.port("CULVERT_INGRESS_URL"), "API": 1, "TUNNEL": 1, "ADMIN": 1}, "culvertd")["ingress, HTTP/2"]
    pieces = attacks[attack]
    if attack == "HPACK bomb of cookies":  # four of these heads are too much
        block = hostile.bomb(target.name.encode(), name=b"cookie", size=100000)
        pieces = [hostile.OPENING, b"".join(hostile.head_frames(stream, block) for stream in (1, 3, 5, 7, 9))]
    sock, got = target.connect(), []
    try:
        hostile.play(sock, pieces, got, quiet=10, done=lambda: hostile.goaway_code(b"".join(got)) is not None)
    finally:
        sock.close()
    assert hostile.goaway_code(b"".join(got)) == hostile.ENHANCE_YOUR_CALM


def test_a_large_head_is_answered(platform):
    """Up to twice the limit the client learns why, and the connection goes on."""
    target, _ = listeners(platform, {"INGRESS": platform.port("CULVERT_INGRESS_URL"), "API": 1, "TUNNEL": 1, "ADMIN": 1}, "culvertd")["ingress, HTTP/2"]
    ask = hostile.pseudo(f"{target.name}:{target.port}".encode())
    large = hostile.head_frames(1, ask + hostile.field(b"x", b"y" * 16000) * 3)
    sock, got = target.connect(), []
    try:
        hostile.play(sock, [hostile.OPENING, large, hostile.head_frames(3, ask)], got, quiet=10, done=lambda: hostile.count_answers(b"".join(got), True) == 2)
    finally:
        sock.close()
    data = b"".join(got)
    assert hostile.count_answers(data, True) == 2 and hostile.goaway_code(data) is None
