"""What the platform's own answers give away to callers without a credential, and what all of them have in common."""

import json
import re
import time

import pytest

import hostile_input as hostile
from http2_client import Http2Client
from platform_under_test import wait_until
from tunnel_listener_client import knock, request_of

CANARY = "canary7f3a"
ROUTES = {"", "app-proxy", "services", "webhooks", "workflows", "tcp", "other"}


def webhook_answer(platform, host, path="/webhooks/argo/unlisted"):
    """All that a caller sees of it but the request's own id, and how long it took."""
    began = time.monotonic()
    answer = platform.ingress("POST", path, b"{}", host=host, key=False)
    seconds = time.monotonic() - began
    headers = {name.lower(): value for name, value in answer.headers.items() if name.lower() not in ("x-request-id", "content-length")}
    body = answer.json()
    body.pop("traceId")
    return (answer.status, headers, body), seconds


def test_webhooks_do_not_show_what_exists(platform):
    """The same for a runtime that is connected and has no such webhook, one that is not connected, one that does not exist, and other accounts'."""
    host, account, runtime = platform.env["CULVERT_INGRESS_HOST"], platform.env["CULVERT_ACCOUNT"], platform.env["CULVERT_RUNTIME"]
    platform.create_runtime("never-connected")
    hosts = [host, host.replace(runtime, "never-connected"), host.replace(runtime, "missing"), host.replace(account, "0" * 24)]
    answers = [webhook_answer(platform, each) for each in hosts]
    answers += [webhook_answer(platform, host, path) for path in ("/webhooks/argo", "/webhooks/argo/unlisted/more?x=1")]
    assert answers[0][0][0] == 503
    for answer, _ in answers[1:]:
        assert answer == answers[0][0]
    # None is answered before the others could be.
    assert all(seconds >= 0.2 for _, seconds in answers), answers
    with Http2Client(platform) as client:
        seen = [client.ask("POST", "/webhooks/argo/unlisted", b"{}", key=False, authority=f"{each}:{client.port}") for each in hosts]
    causes = {(reply.status, reply.headers["culvert-cause"], json.loads(reply.body)["detail"]) for reply in seen}
    platform.graphql("mutation($n: String!) { deleteRuntime(name: $n) }", {"n": "never-connected"})
    assert len(causes) == 1 and causes.pop()[:2] == (503, "unavailable")


def test_strict_transport_security(platform):
    """On every answer over TLS, whoever it is of; not on the admin listener, which has none."""
    answers = [
        platform.api("GET", "/api/ping"),
        platform.api("GET", "/nothing"),
        platform.graphql_answer("{ me { id } }", key="wrong"),
        platform.api("GET", f"/runtimes/{platform.env['CULVERT_RUNTIME']}/proxy/services/demo/"),
        platform.ingress("GET", "/services/demo/"),
        platform.ingress("GET", "/services/demo/", key=False),
        platform.ingress("GET", "/..%2f"),
    ]
    for answer in answers:
        assert answer.headers.get_all("strict-transport-security") == ["max-age=31536000"], (answer.status, answer.headers)
    with Http2Client(platform) as client:
        for key in (True, False):
            assert client.ask("GET", "/services/demo/", key=key).headers["strict-transport-security"] == "max-age=31536000"
    assert platform.admin("/livez").headers["strict-transport-security"] is None


@pytest.mark.parametrize("method", ["BREW", "get", "PRI", "X-" + CANARY])
def test_unknown_methods(platform, method):
    """RFC 9110 section 9.1: 501, and nothing is carried."""
    for path in ("/services/demo/", "/webhooks/argo/x"):
        answer = platform.ingress(method, path)
        assert (answer.status, answer.headers["culvert-cause"]) == (501, "not-implemented")
    for path in ("/api/ping", "/2.0/api/graphql", "/nothing", f"/runtimes/{platform.env['CULVERT_RUNTIME']}/proxy/services/demo/"):
        assert platform.api(method, path).status == 501
    assert platform.call(method, platform.env["CULVERT_ADMIN_URL"], "/livez", key=False).status == 501
    with Http2Client(platform) as client:
        assert client.ask(method, "/services/demo/").status == 501


def test_known_methods_that_are_not_for_this(platform):
    for answer in (platform.api("DELETE", "/api/ping"), platform.call("POST", platform.env["CULVERT_ADMIN_URL"], "/livez", key=False)):
        assert answer.status == 405 and "GET" in answer.headers["allow"]
    assert platform.ingress("TRACE", "/services/demo/").status == 405


def test_refused_handshakes_are_summed_up_in_the_log(platform):
    """One line an interval and reason, however many are refused."""
    before = platform.log("culvertd").count('"handshake_refused"')
    for _ in range(60):
        assert knock(platform, request_of("nobody", f"{CANARY}.x")).status in (401, 403, 503)
    lines = platform.log("culvertd").count('"handshake_refused"') - before
    assert lines <= 10, "a line for (nearly) each"
    wait_until(lambda: knock(platform, request_of("nobody", f"{CANARY}.x")) and any(int(n) > 5 for n in re.findall(r'"handshake_refused".*?"count":(\d+)', platform.log("culvertd"))), 60, "a line says how many there were")


def test_labels_are_of_closed_sets(platform):
    """What callers and agents send never becomes a label of a metric."""
    for path in (f"/services/{CANARY}/", f"/{CANARY}/x", f"/app-proxy/{CANARY}", f"/webhooks/{CANARY}/y", f"/tcp/{CANARY}", f"/workflows/{CANARY}"):
        platform.ingress("GET", path)
        platform.api("GET", f"/runtimes/{platform.env['CULVERT_RUNTIME']}/proxy{path}")
        platform.api("GET", path)
        platform.admin(path)
    platform.ingress(f"X-{CANARY}".upper(), "/services/demo/")
    platform.graphql_answer(f"query {CANARY} {{ {CANARY} }}")
    platform.ingress("GET", "/services/demo/", host=platform.env["CULVERT_INGRESS_HOST"].replace(platform.env["CULVERT_RUNTIME"], CANARY))
    knock(platform, request_of(CANARY, CANARY, culvert_agent_version=CANARY, culvert_instance_id=CANARY))
    target = hostile.Target(platform, platform.port("CULVERT_INGRESS_URL"), alpn="h2", name=platform.env["CULVERT_INGRESS_HOST"])
    hostile.strike(target, [hostile.OPENING, hostile.head_frames(1, hostile.pseudo(CANARY.encode()))], connections=1)
    text = platform.admin("/metrics").text()
    assert CANARY not in text.lower()
    routes = set(re.findall(r'^culvert_tunnel_streams_total{route="([^"]*)"', text, re.M))
    assert routes and routes <= ROUTES, routes
