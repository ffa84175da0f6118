"""Subscriptions: what changed is sent, nothing else is; they end with the right that opened them."""

import datetime
import json
import socket
import time
import urllib.parse
import uuid

import pytest

from api_listener_client import culvertd
from sse_client import Subscription
from test_browser_sessions import COOKIE, SESSION, by_link
from test_ingress_revocation import Key
from test_roles import create_user, key_of
from waiting import wait_until

WINDOW = """subscription($ids: [ID!]!, $filters: ApplicationsFilterArgs) { applicationsWindow(ids: $ids, filters: $filters) {
  reset removed deltas { id node { metadata { name runtime namespace } healthStatus syncStatus sequence freshness } } } }"""
ONE = """subscription($r: String!, $s: String!, $n: String!) { application(runtime: $r, namespace: $s, name: $n) {
  reset removed deltas { id node { healthStatus healthMessage actualManifest } } } }"""
SECONDS = 5  # sooner than most streams are read again
REFRESH = 12  # everything was read again


class Reporter:
    """A runtime that these tests alone report for, over HTTP."""

    def __init__(self, platform):
        self.platform, self.name, self.at_ms = platform, f"live-{uuid.uuid4().hex[:8]}", 0
        self.token = platform.create_runtime(self.name)
        wait_until(lambda: self.report("first") or True, 10, "the new token is known")

    def id(self, name):
        return f"{self.name}/argocd/{name}"

    def report(self, name, health="Healthy", gone=False, padding=""):
        self.at_ms = max(self.at_ms + 1, int(time.time() * 1000))
        metadata = {"name": name, "namespace": "argocd", "uid": f"{self.name}-{name}", "resourceVersion": str(self.at_ms)}
        if gone:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        status = {"health": {"status": health, "message": padding}, "sync": {"status": "Synced"}}
        manifest = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": metadata, "spec": {"project": "default"}, "status": status}
        at = datetime.datetime.fromtimestamp(self.at_ms / 1000, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        body = json.dumps({"data": {"timestamp": at, "object": manifest}})
        answer = self.platform.api("POST", "/2.0/api/events", body, key=self.token, headers={"Content-Type": "application/json"})
        assert answer.status == 200, answer.text()

    def window(self, *names, **more):
        filters = more.pop("filters", None)
        return Subscription(self.platform, WINDOW, {"ids": [self.id(name) for name in names], "filters": filters}, **more)


@pytest.fixture(scope="module")
def reporter(platform):
    under_test = Reporter(platform)
    for name in ("a", "b", "c"):
        under_test.report(name)
    yield under_test
    platform.graphql("mutation($n: String!) { deleteRuntime(name: $n) }", {"n": under_test.name})


def test_a_window_follows_what_it_names(platform, reporter):
    reporter.report("a"), reporter.report("b"), reporter.report("new", gone=True)
    with reporter.window("a", "b", "new") as stream:
        nodes, removed, reset = stream.window()
        assert reset and sorted(nodes) == [reporter.id("a"), reporter.id("b")] and removed == [reporter.id("new")]
        assert nodes[reporter.id("a")]["metadata"] == {"name": "a", "runtime": reporter.name, "namespace": "argocd"}
        reporter.report("c", "Degraded")  # not in the window
        reporter.report("b", "Degraded")
        nodes, removed, reset = stream.window(SECONDS)
        assert list(nodes) == [reporter.id("b")] and nodes[reporter.id("b")]["healthStatus"] == "DEGRADED" and not removed and not reset
        reporter.report("new")
        assert list(stream.window(SECONDS)[0]) == [reporter.id("new")]
        reporter.report("new", gone=True)
        assert stream.window(SECONDS)[:2] == ({}, [reporter.id("new")])
        wait_until(lambda: stream.beats, 10, "a heartbeat")
        assert set(stream.beats[0]) == {"time", "build"} and stream.is_quiet()


def test_filters_hold_for_a_window(platform, reporter):
    reporter.report("a"), reporter.report("b", "Degraded")
    with reporter.window("a", "b", filters={"healthStatuses": ["DEGRADED"]}) as stream:
        assert stream.window()[:2] == ({reporter.id("b"): stream_node(reporter, "b")}, [reporter.id("a")])
        reporter.report("a", "Degraded")
        assert list(stream.window(SECONDS)[0]) == [reporter.id("a")]
        reporter.report("b", "Healthy")
        assert stream.window(SECONDS)[:2] == ({}, [reporter.id("b")])


def stream_node(reporter, name):
    text = "query($f: ApplicationsFilterArgs) { applications(filters: $f) { edges { node { metadata { name runtime namespace } healthStatus syncStatus sequence freshness } } } }"
    (edge,) = reporter.platform.graphql(text, {"f": {"ids": [reporter.id(name)]}})["applications"]["edges"]
    return edge["node"]


def test_a_stream_continues_where_it_ended(platform, reporter):
    for name in ("a", "b", "c"):
        reporter.report(name)
    with reporter.window("a", "b", "c") as stream:
        stream.window()
        last = stream.last_id
    with reporter.window("a", "b", "c", last=last) as stream:
        assert stream.window() == ({}, [], False)
    reporter.report("b", "Degraded"), reporter.report("c", gone=True)
    with reporter.window("a", "b", "c", last=last) as stream:
        nodes, removed, reset = stream.window()
        assert (list(nodes), removed, reset) == ([reporter.id("b")], [reporter.id("c")], False)
    for other in ("AAAA", "%%%", last[:-4], last + "AAAA", "A" * 4000):
        with reporter.window("a", "b", "c", last=other) as stream:
            assert stream.window()[2] is True
    with reporter.window("b", "a", "c", last=last) as stream:  # another operation
        assert stream.window()[2] is True


def test_one_application(platform, reporter):
    reporter.report("a")
    with Subscription(platform, ONE, {"r": reporter.name, "s": "argocd", "n": "a"}) as stream:
        nodes, _, _ = stream.window()
        assert '"name":"a"' in nodes[reporter.id("a")]["actualManifest"]
        reporter.report("a", "Missing")
        assert stream.window(SECONDS)[0][reporter.id("a")]["healthStatus"] == "MISSING"


def test_what_nothing_announced_is_seen_all_the_same(platform, reporter):
    reporter.report("a"), reporter.report("b")
    with reporter.window("a", "b") as stream:
        stream.window()
        platform.psql(f"update applications set health_message = 'silent' where runtime = '{reporter.name}' and name = 'b'")
        with Subscription(platform, ONE, {"r": reporter.name, "s": "argocd", "n": "b"}) as other:  # more are read again, each in its turn
            assert other.window()[0][reporter.id("b")]["healthMessage"] == "silent"
            platform.psql(f"update applications set health_status = 'MISSING' where runtime = '{reporter.name}' and name = 'b'")
            assert stream.window(REFRESH)[0][reporter.id("b")]["healthStatus"] == "MISSING"
            assert other.window(REFRESH)[0][reporter.id("b")]["healthStatus"] == "MISSING"
    reporter.report("b")


def test_what_cannot_begin_is_answered(platform, reporter):
    def refused(query, variables=None, status=200, **more):
        with Subscription(platform, query, variables, **more) as stream:
            assert stream.answer is not None and stream.status == status, (stream.status, stream.answer)
            return stream.answer.get("errors", [stream.answer])[0]

    body = "applicationsWindow(ids: %s) { deltas { id node { healthStatus } } }"
    wrong = {
        "subscription { " + body % '["x"]' + " }": "invalid id",
        "subscription { " + body % '["a/b/c", "a/b/c"]' + " }": "twice",
        "subscription { " + body % "[]" + " }": "1 to 200",
        "subscription { " + body % json.dumps([f"a/b/{i}" for i in range(201)]) + " }": "1 to 200",
        'subscription { applicationsWindow(ids: ["a/b/c"]) { reset } }': "select deltas",
        'subscription { applicationsWindow(ids: ["a/b/c"]) { deltas { a: node { size } b: node { path } } } }': "once",
        'subscription { applicationsWindow(ids: ["a/b/c"], filters: { ids: ["a/b/d"] }) { deltas { node { size } } } }': "filters.ids",
    }
    for query, text in wrong.items():
        error = refused(query)
        assert text in error["message"] and error["extensions"]["code"] == "BAD_USER_INPUT", error
    assert "Syntax" in refused("subscription {", status=400)["message"]
    assert "exactly one" in refused("subscription { x: " + body % '["a/b/c"]' + " y: " + body % '["a/b/d"]' + " }", status=400)["message"]
    assert refused("subscription { " + body % '["a/b/c"]' + " }", key=False, status=401)["code"] == "unauthenticated"
    answer = platform.graphql_answer("subscription { " + body % '["a/b/c"]' + " }")
    assert answer.status == 400 and "text/event-stream" in answer.text()
    with Subscription(platform, "{ me { name } }") as stream:  # a query over the same
        assert stream.next()[1]["data"]["me"] and stream.next()[0] == "complete" and stream.next()[0] == "end"


def test_a_right_that_is_taken_ends_what_it_opened(platform, reporter):
    user, browser, key = create_user(platform, "MEMBER"), by_link(platform), Key(platform)
    role_key = key_of(platform, user)["token"]
    variables = {"ids": [reporter.id("a")]}
    headers = {"Cookie": f"{COOKIE}={browser.cookie}", "Sec-Fetch-Site": "same-origin", "X-CSRF-Token": browser.csrf}
    streams = [Subscription(platform, WINDOW, variables, key=key.token), Subscription(platform, WINDOW, variables, key=role_key),
               Subscription(platform, WINDOW, variables, key=False, headers=headers)]
    update = "mutation($i: String!) { updateUser(id: $i, role: READ_ONLY) { role } }"
    with Subscription(platform, WINDOW, variables) as other:
        other.window()
        for stream, end in zip(streams, (key.revoke, lambda: platform.graphql(update, {"i": user["id"]}), lambda: browser.ask("DELETE", SESSION))):
            with stream:
                stream.window()
                end()
                name, data = stream.next(10)
                assert name == "next" and data["errors"][0]["extensions"]["code"] == "UNAUTHENTICATED"
                assert stream.next()[0] == "complete" and stream.next()[0] == "end"
        reporter.report("a", "Progressing")
        assert other.window(SECONDS)[0]
    with Subscription(platform, WINDOW, variables, key=role_key) as stream:  # with what the user may do now
        assert stream.window()[0]


def test_another_account_sees_nothing(platform, reporter):
    account = f"live-{uuid.uuid4().hex[:8]}"
    for words in (("create-account", account), ("create-user", "--account", account, "eve", f"{account}@example.org")):
        made = culvertd(platform, "admin", *words)
        assert made.returncode == 0, made.stderr
    made = culvertd(platform, "admin", "create-key", "--account", account, "--user", "eve", "k")
    with reporter.window("a", key=json.loads(made.stdout)["token"]) as stream:
        assert stream.window() == ({}, [reporter.id("a")], True)
        reporter.report("a", "Degraded")
        with reporter.window("a") as own:  # a change that was committed later is seen here
            own.window()
            reporter.report("a", "Healthy")
            assert own.window(SECONDS)[0]
        assert stream.is_quiet()


def test_limits(platform, reporter):
    user = create_user(platform)
    key = key_of(platform, user)["token"]
    opened = [reporter.window("a", key=key) for _ in range(50)]
    try:
        assert all(stream.answer is None for stream in opened)
        with reporter.window("a", key=key) as stream:
            error = stream.answer["errors"][0]
            assert error["extensions"]["code"] == "TOO_MANY_REQUESTS" and "live.streams_per_user_max" in error["message"], error
        with reporter.window("a") as stream:
            assert stream.window()[0]
        opened.pop().close()

        def again():
            with reporter.window("a", key=key) as stream:
                return stream.answer is None

        wait_until(again, 10, "a place is free")
    finally:
        for stream in opened:
            stream.close()
    assert platform.metric("culvert_live_refused_total", limit="user") >= 1


def test_a_client_that_takes_nothing_is_cut(platform, reporter):
    before = platform.metric("culvert_live_ended_total", reason="slow")
    reporter.report("large", padding="x")
    query = ONE.replace("healthMessage", " ".join(f"m{i}: healthMessage" for i in range(29)))  # 116 KiB an event
    body = json.dumps({"query": query, "variables": {"r": reporter.name, "s": "argocd", "n": "large"}}).encode()
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.connect(("127.0.0.1", platform.port()))
    with platform.context().wrap_socket(plain, server_hostname=urllib.parse.urlsplit(platform.env["CULVERT_URL"]).hostname) as client:
        head = ["POST /2.0/api/graphql HTTP/1.1", "Host: x", f"Authorization: {platform.env['CULVERT_API_KEY']}", "Accept: text/event-stream",
                "Content-Type: application/json", f"Content-Length: {len(body)}"]
        client.sendall("\r\n".join([*head, "", ""]).encode() + body)

        def is_cut():
            reporter.report("large", padding=uuid.uuid4().hex * 2_000)
            return platform.metric("culvert_live_ended_total", reason="slow") > before

        wait_until(is_cut, 20, "the client is cut")
