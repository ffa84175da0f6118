"""The API door: what is malformed is refused with a place, what is too much is bounded, who leaves is noticed."""

import base64
import gzip
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time
import uuid

import pytest

from platform_under_test import wait_until

GRAPHQL = "/2.0/api/graphql"
EVENTS = "/2.0/api/events"
API_CONNECTIONS = 'culvert_http_connections{door="api"}'
JSON = {"Content-Type": "application/json"}


def host_of(platform):
    return platform.env["CULVERT_URL"].removeprefix("https://")


def port_of(platform, door="CULVERT_URL"):
    return int(platform.env[door].rsplit(":", 1)[1])


def head(platform, line, *headers):
    return "\r\n".join([f"{line} HTTP/1.1", f"Host: {host_of(platform)}", f"Authorization: {platform.env['CULVERT_API_KEY']}", *headers, "", ""]).encode()


def read_all(sock, seconds=15):
    """What comes until the other side closes, and whether it did."""
    sock.settimeout(seconds)
    got = b""
    try:
        while piece := sock.recv(65536):
            got += piece
    except (socket.timeout, TimeoutError):
        return got, False
    except OSError:
        pass
    return got, True


def exchange(platform, data, seconds=15):
    with platform.raw(platform.env["CULVERT_URL"]) as sock:
        try:
            sock.sendall(data)
        except OSError:
            pass  # it was refused before all had been sent
        return read_all(sock, seconds)


def metric(platform, name):
    for line in platform.admin("/metrics").text().splitlines():
        if line.split(" ")[0] == name:
            return float(line.split()[-1])
    raise AssertionError(f"no metric {name}")


def alive(platform, pid):
    assert platform.pid("culvertd") == pid and platform.api("GET", "/api/ping").status == 200


@pytest.fixture(autouse=True)
def same_process(request, platform):
    """Whatever a test sends, the process that served it serves on."""
    pid = platform.pid("culvertd")
    yield
    if not request.node.get_closest_marker("usefixtures"):
        alive(platform, pid)


# ---- bodies and routes -------------------------------------------------------------------------------------------------

BAD_GRAPHQL = {
    "not JSON": (b"{", 400),
    "JSON cut": (b'{"query":"{ me { id } }"', 400),
    "garbage behind": (b'{"query":"{ me { id } }"} x', 400),
    "duplicate key": (b'{"query":"{ me { id } }","query":"{ me { name } }"}', 400),
    "not UTF-8": (b'{"query":"\xff"}', 400),
    "an array": (b'[{"query":"{ me { id } }"}]', 400),
    "no query": (b"{}", 400),
    "query is a number": (b'{"query":1}', 400),
    "variables are a list": (b'{"query":"{ me { id } }","variables":[]}', 400),
    "operationName is a number": (b'{"query":"{ me { id } }","operationName":7}', 400),
    "deep JSON": (b'{"query":"{ me { id } }","variables":{"a":' + b"[" * 100000 + b"]" * 100000 + b"}}", 400),
    "syntax": (b'{"query":"{ me { id "}', 400),
    "unknown field": (b'{"query":"{ nothing }"}', 400),
    "unknown argument": (b'{"query":"{ runtime(nonsense: 1) { online } }"}', 400),
    "a value where fields belong": (b'{"query":"{ me }"}', 400),
    "deep selection": (json.dumps({"query": "{ me " + "{ activeAccount " * 60 + "}" * 61}).encode(), 400),
    "many tokens": (json.dumps({"query": "{ " + "me { id } " * 2000 + "}"}).encode(), 400),
    "missing variable": (b'{"query":"query($n: String!) { runtime(name: $n) { online } }"}', (200, 400)),
}


@pytest.mark.parametrize("name", sorted(BAD_GRAPHQL))
def test_bad_graphql(platform, name):
    body, status = BAD_GRAPHQL[name]
    answer = platform.api("POST", GRAPHQL, body, headers=JSON)
    assert answer.status in (status if isinstance(status, tuple) else (status,)), answer.text()
    errors = answer.json()["errors"]
    assert errors and all(error["message"] for error in errors)
    if name in ("not JSON", "JSON cut", "garbage behind", "duplicate key"):
        assert "line" in errors[0]["message"] or "position" in errors[0]["message"] or "column" in errors[0]["message"], errors
    if name in ("syntax", "unknown field"):  # where it is
        assert "line" in json.dumps(errors[0])


def test_good_answers_have_no_errors(platform):
    for query in ("{ me { id } }", "{ runtimes { edges { node { online } } } }", '{ runtime(name: "nobody") { online } }'):
        assert "errors" not in platform.graphql_answer(query).json()


@pytest.mark.parametrize(
    "method,path,headers,status",
    [
        ("POST", GRAPHQL, {"Content-Type": "text/plain"}, 415),
        ("POST", GRAPHQL, {}, 415),
        ("POST", GRAPHQL, {**JSON, "Content-Encoding": "gzip"}, 415),
        ("POST", EVENTS, {**JSON, "Content-Encoding": "br"}, (403, 415)),
        ("GET", GRAPHQL, {}, 405),
        ("DELETE", EVENTS, {}, 405),
        ("PUT", "/api/user", {}, 405),
        ("POST", "/api/nothing", JSON, 404),
        ("GET", "/2.0/nothing", {}, 404),
        ("GET", "/nothing", {}, 404),
        ("GET", "/runtimes/", {}, (400, 404)),
        ("GET", "/runtimes/nobody/proxy/x", {}, 503),
        ("POST", EVENTS, JSON, 403),
    ],
)
def test_wrong_route(platform, method, path, headers, status):
    answer = platform.api(method, path, b"{}" if method in ("POST", "PUT") else None, headers=headers)
    assert answer.status in (status if isinstance(status, tuple) else (status,)), answer.text()
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == answer.status
    assert (answer.headers["allow"] is not None) == (answer.status == 405)


@pytest.mark.parametrize("key", [False, "", "x", "Bearer", "Bearer x", "Basic YTpi", "0" * 24 + "." + "0" * 64, "a" * 8000, "0" * 24 + "." + "0" * 63 + "é"])
def test_bad_credential(platform, key):
    text = key.encode("utf-8").decode("latin-1") if isinstance(key, str) else key
    answer = platform.graphql_answer("{ me { id } }", key=text or False)
    assert answer.status == 401, answer.text()
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert "0" * 64 not in answer.text()


def test_id_right_secret_wrong(platform):
    key = platform.env["CULVERT_API_KEY"]
    wrong = key[:-1] + ("0" if key[-1] != "0" else "1")
    assert platform.graphql_answer("{ me { id } }", key=wrong).status == 401
    assert key.split(".")[1] not in platform.log("culvertd") and wrong.split(".")[1] not in platform.log("culvertd")


def test_bodies_too_large(platform):
    mib = 1 << 20
    query = json.dumps({"query": "{ me { id } }"})
    fits = query + " " * (mib - len(query))
    assert platform.api("POST", GRAPHQL, fits, headers=JSON).status == 200
    over = platform.api("POST", GRAPHQL, fits + " ", headers=JSON)
    assert over.status == 413 and str(mib) in over.text()
    got, closed = exchange(platform, head(platform, f"POST {EVENTS}", "Content-Type: application/json", f"Content-Length: {10 * mib + 1}"))
    assert got.startswith(b"HTTP/1.1 413") and closed
    got, closed = exchange(platform, head(platform, f"POST {EVENTS}", "Content-Type: application/json", "Expect: 100-continue", f"Content-Length: {10 * mib + 1}"))
    assert got.startswith(b"HTTP/1.1 413") and closed
    chunks = head(platform, f"POST {EVENTS}", "Content-Type: application/json", "Transfer-Encoding: chunked") + (b"%x\r\n" % mib + b" " * mib + b"\r\n") * 11
    got, closed = exchange(platform, chunks)
    assert got.startswith(b"HTTP/1.1 413") and closed


def events(platform, body, **headers):
    return platform.api("POST", EVENTS, body, key=platform.env["CULVERT_RUNTIME_TOKEN"], headers={**JSON, **{k.replace("_", "-"): v for k, v in headers.items()}})


def test_gzip(platform):
    bomb = gzip.compress(b" " * (64 << 20))
    answer = events(platform, bomb, Content_Encoding="gzip")
    assert answer.status == 413 and "gzip at byte" in answer.text()
    for broken in (b"not gzip", gzip.compress(b"{}")[:-5], gzip.compress(b"{}") + b"x", gzip.compress(b"{}") * 2, b""):
        answer = events(platform, broken, Content_Encoding="gzip")
        assert answer.status == 400 and "gzip at byte" in answer.text(), answer.text()


# ---- HTTP itself ---------------------------------------------------------------------------------------------------------

MALFORMED = {
    "two lengths": b"POST /api/ping HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
    "length and chunked": b"POST /api/ping HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bad length": b"POST /api/ping HTTP/1.1\r\nHost: {host}\r\nContent-Length: -1\r\n\r\n",
    "gzip, chunked": b"POST /api/ping HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "bad chunk": b"POST /api/ping HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
    "two hosts": b"GET /api/ping HTTP/1.1\r\nHost: {host}\r\nHost: other\r\n\r\n",
    "no host": b"GET /api/ping HTTP/1.1\r\n\r\n",
    "folded": b"GET /api/ping HTTP/1.1\r\nHost: {host}\r\nX-A: b\r\n c\r\n\r\n",
    "space before colon": b"GET /api/ping HTTP/1.1\r\nHost: {host}\r\nX-A : b\r\n\r\n",
    "control character": b"GET /api/ping HTTP/1.1\r\nHost: {host}\r\nX-A: \x00\r\n\r\n",
    "no version": b"GET /api/ping\r\nHost: {host}\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "garbage": b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    "too many headers": b"GET /api/ping HTTP/1.1\r\nHost: {host}\r\n" + b"".join(b"X-%d: a\r\n" % i for i in range(200)) + b"\r\n",
}


@pytest.mark.parametrize("name", sorted(MALFORMED))
def test_malformed_is_refused_and_closed(platform, name):
    got, closed = exchange(platform, MALFORMED[name].replace(b"{host}", host_of(platform).encode()))
    status = b"431" if name == "too many headers" else b"400"
    assert got.startswith(b"HTTP/1.1 " + status) and got.count(b"HTTP/1.1 ") == 1 and closed, got
    assert b"application/problem+json" in got


def test_head_too_large(platform):
    got, closed = exchange(platform, head(platform, "GET /api/ping", "X-A: " + "a" * 40000))
    assert got.startswith(b"HTTP/1.1 431") and closed
    got, closed = exchange(platform, head(platform, "GET /api/ping", "X-A: " + "a" * 3000000))
    assert got.startswith(b"HTTP/1.1 431") and closed


def test_http2_is_not_offered(platform):
    context = platform.context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with context.wrap_socket(socket.create_connection(("127.0.0.1", port_of(platform))), server_hostname="localhost") as sock:
        assert sock.selected_alpn_protocol() in ("http/1.1", None)
    got, _ = exchange(platform, head(platform, "GET /api/ping", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"))
    assert got.startswith(b"HTTP/1.1 200") and b"101" not in got.split(b"\r\n")[0]


def test_plain_http_gets_nothing(platform):
    with socket.create_connection(("127.0.0.1", port_of(platform))) as sock:
        sock.sendall(b"GET /api/ping HTTP/1.1\r\nHost: localhost\r\n\r\n")
        got, closed = read_all(sock)
    assert closed and b"200" not in got


def test_pipelining_keeps_order(platform):
    body = json.dumps({"query": "{ me { id } }"})
    one = head(platform, f"POST {GRAPHQL}", "Content-Type: application/json", f"Content-Length: {len(body)}") + body.encode()
    last = head(platform, "GET /api/user", "Connection: close")
    got, closed = exchange(platform, (one + head(platform, "GET /api/ping")) * 20 + last)
    assert closed and got.count(b"HTTP/1.1 200 OK") == 41
    assert got.count(b"pong") == 20 and got.count(b'{"data":{"me"') == 20 and b'"_id"' in got.rsplit(b"\r\n\r\n", 1)[1]


def test_head_requests(platform):
    proxy = f"/runtimes/{platform.env['CULVERT_RUNTIME']}/proxy/services/demo"
    paths = ["/api/ping", "/api/user", "/nothing", f"{proxy}/bytes/1000", f"{proxy}/chunked/1000", f"{proxy}/status/204", f"{proxy}/status/304"]
    got, closed = exchange(platform, b"".join(head(platform, f"HEAD {path}") for path in paths) + head(platform, "GET /api/ping", "Connection: close"))
    assert closed and got.count(b"HTTP/1.1 ") == len(paths) + 1
    for answer in got.split(b"HTTP/1.1 ")[1:-1]:
        assert answer.endswith(b"\r\n\r\n") and answer.count(b"\r\n\r\n") == 1, answer


@pytest.mark.parametrize("status", [204, 304])
def test_answers_without_a_body_through_the_proxy(platform, status):
    request = head(platform, f"GET /runtimes/{platform.env['CULVERT_RUNTIME']}/proxy/services/demo/status/{status}")
    got, closed = exchange(platform, request + head(platform, "GET /api/ping", "Connection: close"))
    first, second = got.split(b"HTTP/1.1 ")[1:]
    assert closed and first.startswith(str(status).encode()) and first.endswith(b"\r\n\r\n") and b"chunked" not in first.lower()
    assert second.endswith(b"pong")


def test_expect_continue(platform):
    body = json.dumps({"query": "{ me { id } }"}).encode()
    with platform.raw(platform.env["CULVERT_URL"]) as sock:
        sock.sendall(head(platform, f"POST {GRAPHQL}", "Content-Type: application/json", "Expect: 100-continue", "Connection: close", f"Content-Length: {len(body)}"))
        sock.settimeout(10)
        assert sock.recv(65536).startswith(b"HTTP/1.1 100")
        sock.sendall(body)
        got, _ = read_all(sock)
    assert got.startswith(b"HTTP/1.1 200")


def test_500_connections_at_once(platform):
    context = platform.context()
    socks = []
    try:
        for _ in range(500):
            sock = socket.create_connection(("127.0.0.1", port_of(platform)), timeout=60)
            socks.append(context.wrap_socket(sock, server_hostname="localhost"))
        for sock in socks:
            sock.sendall(head(platform, "GET /api/user"))
        for sock in socks:
            assert sock.recv(65536).startswith(b"HTTP/1.1 200")
    finally:
        for sock in socks:
            sock.close()
    wait_until(lambda: metric(platform, API_CONNECTIONS) < 10, 10, "the connections are gone")


@pytest.mark.parametrize("how", ["close", "reset", "farewell"])
def test_clients_that_close_leave_nothing(platform, how):
    """Before a request, after an answer; with TLS' farewell, without, and with a reset."""
    wait_until(lambda: metric(platform, API_CONNECTIONS) == 0, 10, "nobody is there")
    for requests in (0, 1):
        socks = [platform.raw(platform.env["CULVERT_URL"]) for _ in range(10)]
        assert metric(platform, API_CONNECTIONS) == 10
        for sock in socks:
            for _ in range(requests):
                sock.sendall(head(platform, "GET /api/user"))
                assert sock.recv(65536).startswith(b"HTTP/1.1 200")
            if how == "farewell":
                try:
                    sock = sock.unwrap()
                except OSError:  # what was on its way to us comes before the answer
                    pass
            elif how == "reset":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            sock.close()
        wait_until(lambda: metric(platform, API_CONNECTIONS) == 0, 5, "the connections are gone")


def test_request_ids(platform):
    assert platform.api("GET", "/api/ping", headers={"X-Request-Id": "abc-DEF_0123"}).headers["x-request-id"] == "abc-DEF_0123"
    for bad in ("short", "a" * 65, "with space 123"):
        assert platform.api("GET", "/api/ping", headers={"X-Request-Id": bad}).headers["x-request-id"] != bad


# ---- who leaves ------------------------------------------------------------------------------------------------------------


def demo_path(platform, rest):
    return f"/runtimes/{platform.env['CULVERT_RUNTIME']}/proxy/services/demo{rest}"


@pytest.mark.parametrize("how", ["close", "reset", "half"])
@pytest.mark.parametrize("rest,wait", [("/bytes/1000000000", 1), ("/chunked/1000000000", 1), ("/bytes/1000000000", 200000), ("/sse", 1), ("/slow?seconds=20", 0)])
def test_client_leaves_in_the_middle(platform, rest, wait, how):
    """The tunnel's stream is free again soon, whether the answer has begun or not, flows, or waits for the client."""
    streams = metric(platform, "culvert_tunnel_streams_open")
    sock = platform.raw(platform.env["CULVERT_URL"])
    sock.sendall(head(platform, "GET " + demo_path(platform, rest)))
    wait_until(lambda: metric(platform, "culvert_tunnel_streams_open") > streams, 5, "the call is open")
    sock.settimeout(10)
    got = 0
    while got < wait:
        got += len(sock.recv(65536))
    if how == "reset":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    if how == "half":
        raw = sock.detach()
        plain = socket.socket(fileno=raw)
        plain.shutdown(socket.SHUT_WR)
        wait_until(lambda: metric(platform, "culvert_tunnel_streams_open") <= streams, 5, "the stream ends")
        plain.close()
    else:
        sock.close()
    wait_until(lambda: metric(platform, "culvert_tunnel_streams_open") <= streams, 5, "the stream ends")


def test_many_leave_at_random(platform):
    streams = metric(platform, "culvert_tunnel_streams_open")

    def leave(i):
        with platform.raw(platform.env["CULVERT_URL"]) as sock:
            sock.sendall(head(platform, "GET " + demo_path(platform, ["/bytes/30000000", "/chunked/30000000", "/slow?seconds=3", "/status/200"][i % 4])))
            sock.settimeout(0.005 * (i % 20) + 0.001)
            try:
                while sock.recv(65536):
                    pass
            except (TimeoutError, OSError):
                pass

    for _ in range(3):
        threads = [threading.Thread(target=leave, args=(i,)) for i in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    wait_until(lambda: metric(platform, "culvert_tunnel_streams_open") <= streams, 10, "the streams end")


def test_slow_reader_gets_all(platform):
    """Back-pressure: a reader that pauses gets every byte, and others are served meanwhile."""
    size = 20_000_000
    with platform.raw(platform.env["CULVERT_URL"]) as sock:
        sock.sendall(head(platform, "GET " + demo_path(platform, f"/bytes/{size}"), "Connection: close"))
        for _ in range(50):
            assert platform.api("GET", "/api/ping").status == 200
        got, closed = read_all(sock)
    assert closed and len(got.split(b"\r\n\r\n", 1)[1]) == size


def test_upload_through_the_proxy(platform):
    import hashlib

    for size in (1, 65536, 200_001, 5_000_000):
        body = os.urandom(size)
        told = platform.api("POST", demo_path(platform, "/echo"), body).json()
        assert told["sha256"] == hashlib.sha256(body).hexdigest()


# ---- keys and runtimes that end ----------------------------------------------------------------------------------------------


def culvertd(platform, *words, env=None, settings=True):
    config = ["--config", str(platform.home / "culvertd.conf")] if settings else []
    environment = {**{k: v for k, v in os.environ.items() if not k.startswith("CULVERT_")}, **(env or {})}
    return subprocess.run([platform.build / "server/culvertd", *config, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, env=environment)


def account_and_user(platform):
    me = platform.graphql("{ me { name activeAccount { name } } }")["me"]
    return me["activeAccount"]["name"], me["name"]


def test_revoked_key_stops(platform):
    account, user = account_and_user(platform)
    made = culvertd(platform, "admin", "create-key", "--account", account, "--user", user, f"test-{uuid.uuid4()}")
    assert made.returncode == 0, made.stderr
    key = json.loads(made.stdout)
    assert platform.graphql_answer("{ me { id } }", key=key["token"]).status == 200
    revoked = culvertd(platform, "admin", "revoke-key", "--account", account, key["id"])
    assert revoked.returncode == 0, revoked.stderr
    time_of_grace = time.monotonic() + 2  # the answers that loops remember
    wait_until(lambda: time.monotonic() > time_of_grace, 3, "the time of grace ends")
    for _ in range(20):  # whichever loop takes it
        assert platform.graphql_answer("{ me { id } }", key=key["token"]).status == 401
        assert platform.api("GET", demo_path(platform, "/"), key=key["token"]).status == 401
    assert culvertd(platform, "admin", "revoke-key", "--account", account, key["id"]).returncode in (0, 3)
    assert culvertd(platform, "admin", "revoke-key", "--account", account, "0" * 24).returncode == 3
    assert culvertd(platform, "admin", "revoke-key", "--account", "nobody", key["id"]).returncode == 3
    assert key["token"].split(".")[1] not in platform.log("culvertd")


def create_runtime(platform, name):
    query = "mutation($a: RuntimeInstallationArgs!) { createRuntime(installationArgs: $a) { name newAccessToken } }"
    args = {"runtimeName": name, "cluster": "in-cluster", "runtimeVersion": "0.1.0", "componentNames": []}
    return platform.graphql(query, {"a": args})["createRuntime"]["newAccessToken"]


def dial(platform, name, token):
    """The status of the tunnel door's answer, and the socket."""
    sock = platform.raw(platform.env["CULVERT_TUNNEL_URL"].replace("wss://", "https://"))
    key = base64.b64encode(os.urandom(16)).decode()
    sock.sendall(
        "\r\n".join(
            [
                "GET /tunnel/v1 HTTP/1.1",
                f"Host: localhost:{port_of(platform, 'CULVERT_TUNNEL_URL')}",
                "Upgrade: websocket",
                "Connection: Upgrade",
                "Sec-WebSocket-Version: 13",
                f"Sec-WebSocket-Key: {key}",
                f"Sec-WebSocket-Protocol: {SUBPROTOCOL}",
                f"Authorization: Bearer {token}",
                "culvert-instance-id: test",
                f"culvert-boot-id: {uuid.uuid4()}",
                "culvert-agent-version: 0.1.0",
                f"culvert-runtime: {name}",
                "",
                "",
            ]
        ).encode()
    )
    sock.settimeout(10)
    answer = sock.recv(4096)
    return int(answer.split()[1]), sock


SUBPROTOCOL = "culvert.tunnel.1"


def test_deleted_runtime_loses_its_tunnel(platform):
    name = f"gone-{uuid.uuid4().hex[:8]}"
    token = create_runtime(platform, name)

    def dialed():
        status, sock = dial(platform, name, token)
        if status == 101:
            return sock
        sock.close()
        assert status == 503, status

    sock = wait_until(dialed, 5, "the tunnel opens")
    assert platform.graphql('mutation($n: String!) { deleteRuntime(name: $n) }', {"n": name})["deleteRuntime"] == 1
    sock.settimeout(10)
    while sock.recv(65536):
        pass
    sock.close()

    def refused():
        status, again = dial(platform, name, token)
        again.close()
        return status == 401

    wait_until(refused, 2, "the token is refused")
    assert events_with(platform, token, application("nothing")).status == 401


def test_unknown_token_at_the_tunnel_door(platform):
    def refused():
        status, sock = dial(platform, "nobody", "0123456789abcdef01234567." + "1" * 64)
        sock.close()
        assert status in (401, 503)
        return status == 401

    wait_until(refused, 3, "the unknown token is refused")
    status, sock = dial(platform, "other", platform.env["CULVERT_RUNTIME_TOKEN"])
    sock.close()
    assert status == 403


# ---- events ------------------------------------------------------------------------------------------------------------------


def application(name, **more):
    metadata = {"name": name, "namespace": "over-http", "uid": str(uuid.uuid4())}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": metadata,
        "spec": {"source": {"repoURL": "https://git.example/x"}},
        "status": {"sync": {"status": "Synced"}, "health": {"status": "Healthy"}},
        **more,
    }


def events_with(platform, token, manifest, shape="object", **call):
    text = json.dumps(manifest)
    value = {"object": manifest, "text": text, "base64": base64.b64encode(text.encode()).decode()}[shape]
    body = json.dumps({"data": {"object": value}}).encode()
    headers = {**JSON, **call.pop("headers", {})}
    if call.pop("chunked", False):
        body = iter([gzip.compress(body)[i : i + 50] for i in range(0, len(gzip.compress(body)), 50)])
        headers.update({"Content-Encoding": "gzip", "Transfer-Encoding": "chunked"})
    return platform.api("POST", EVENTS, body, key=token, headers=headers)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("shape", ["object", "text", "base64"])
def test_event_shows_up(platform, shape, chunked):
    name = f"app-{uuid.uuid4().hex[:8]}"
    answer = events_with(platform, platform.env["CULVERT_RUNTIME_TOKEN"], application(name), shape, chunked=chunked)
    assert answer.status == 200, answer.text()
    # 200 is said after COMMIT: it is there at once.
    assert platform.applications()["over-http", name] == ("SYNCED", "HEALTHY")
    gone = application(name)
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert events_with(platform, platform.env["CULVERT_RUNTIME_TOKEN"], gone, shape, chunked=chunked).status == 200
    wait_until(lambda: ("over-http", name) not in platform.applications(), 5, "it is gone")


def test_draft_event_shows_up(platform):
    """The paths of a later reporter: no `data` around the payload, and a clear word about what is missing."""
    token = platform.env["CULVERT_RUNTIME_TOKEN"]
    name = f"app-{uuid.uuid4().hex[:8]}"
    body = json.dumps({"timestamp": "2026-01-02T03:04:05.000Z", "actualManifest": json.dumps(application(name))}).encode()
    answer = platform.api("POST", "/2.0/api/applications", gzip.compress(body), key=token, headers={**JSON, "Content-Encoding": "gzip"})
    assert answer.status == 200, answer.text()
    assert platform.applications()["over-http", name] == ("SYNCED", "HEALTHY")
    gone = application(name)
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    answer = platform.api("POST", "/2.0/api/applications", json.dumps({"actualManifest": gone}).encode(), key=token, headers=JSON)
    assert answer.status == 200, answer.text()
    assert ("over-http", name) not in platform.applications()
    empty = json.dumps({"actualManifest": "", "desiredManifest": "", "source": {}}).encode()
    answer = platform.api("POST", "/2.0/api/resources", empty, key=token, headers=JSON)
    assert answer.status == 400 and "desiredManifest" in answer.json()["detail"], answer.text()


STORED = "select (select count(*) from applications where name like 'wrong%') + (select count(*) from resources where name like 'wrong%')"

WRONG_EVENTS = {
    "not JSON": b"{",
    "empty": b"",
    "an array": b"[]",
    "no data": b"{}",
    "data is a number": b'{"data":1}',
    "no object": b'{"data":{}}',
    "object is base64 of nothing": json.dumps({"data": {"object": base64.b64encode(b"no JSON").decode()}}).encode(),
    "no kind": json.dumps({"data": {"object": {"apiVersion": "v1", "metadata": {"name": "wrong"}}}}).encode(),
    "no name": json.dumps({"data": {"object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}}}).encode(),
    "bad time": json.dumps({"data": {"timestamp": "yesterday", "object": application("wrong")}}).encode(),
    "a name with NUL": json.dumps({"data": {"object": application("wrong\0name")}}).encode(),
    "a very long name": json.dumps({"data": {"object": application("wrong" * 1000)}}).encode(),
    "too deep": b'{"data":{"object":' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}}",
}


@pytest.mark.parametrize("name", sorted(WRONG_EVENTS))
def test_wrong_event_is_refused(platform, name):
    before = platform.psql(STORED)
    answer = events(platform, WRONG_EVENTS[name])
    assert 400 <= answer.status < 500, answer.text()
    assert answer.json()["detail"] and answer.json()["code"]
    assert platform.psql(STORED) == before == [["0"]]
    assert not any(key[1].startswith("wrong") for key in platform.applications())


def test_slow_head_is_cut(platform):
    """A head that trickles in ends with the time-out of the whole request, however lively it is."""
    with platform.raw(platform.env["CULVERT_URL"]) as sock:
        began = time.monotonic()
        sock.settimeout(1)
        sock.sendall(b"GET /api/ping HTTP/1.1\r\n")
        with pytest.raises(OSError):
            while time.monotonic() - began < 60:
                sock.sendall(b"X: y\r\n")
                try:
                    if not sock.recv(100):
                        raise OSError("closed")
                except (TimeoutError, socket.timeout):
                    pass
        assert 20 < time.monotonic() - began < 45


# ---- signals ---------------------------------------------------------------------------------------------------------------------


def test_reload_takes_the_log_level(platform):
    file = platform.home / "culvertd.conf"
    before = file.read_text()

    def reload(said):
        seen = platform.log("culvertd").count(f'"msg":"{said}"')
        os.kill(platform.pid("culvertd"), signal.SIGHUP)
        wait_until(lambda: platform.log("culvertd").count(f'"msg":"{said}"') > seen, 5, said)

    try:
        reload("reloaded")
        file.write_text(before + "\nlog.level = nonsense\n")
        reload("reload_refused")
        file.write_text(before + "\nlog.level = error\n")
        os.kill(platform.pid("culvertd"), signal.SIGHUP)
        wait_until(lambda: platform.api("GET", "/api/ping").status == 200)
    finally:
        file.write_text(before)
        reload("reloaded")


@pytest.mark.usefixtures("platform")  # ends the process on purpose
def test_terminated_under_load(platform):
    """SIGTERM in the middle of everything: it ends in time and without a word of the sanitizers; the next one serves."""
    pid = platform.pid("culvertd")
    stop = threading.Event()

    def call(i):
        while not stop.is_set():
            try:
                if i % 4 == 0:
                    events_with(platform, platform.env["CULVERT_RUNTIME_TOKEN"], application(f"load-{i}"))
                elif i % 4 == 1:
                    platform.graphql_answer("{ runtimes { edges { node { online } } } }")
                else:
                    with platform.raw(platform.env["CULVERT_URL"]) as sock:
                        sock.sendall(head(platform, "GET " + demo_path(platform, ["/bytes/100000000", "/slow?seconds=60"][i % 2])))
                        sock.settimeout(3)
                        while sock.recv(65536) and not stop.is_set():
                            pass
            except (OSError, http.client.HTTPException):
                pass

    threads = [threading.Thread(target=call, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: metric(platform, "culvert_tunnel_streams_open") > 3, 10, "there is load")
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: platform.pid("culvertd") != pid, 40, "it ends")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    wait_until(platform.online, 60, "the next one serves")
    log = platform.log("culvertd")
    assert "AddressSanitizer" not in log and "runtime error" not in log and "Assertion" not in log
    for i in range(0, 12, 4):
        gone = application(f"load-{i}")
        gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        assert events_with(platform, platform.env["CULVERT_RUNTIME_TOKEN"], gone).status == 200


# ---- the command line ----------------------------------------------------------------------------------------------------------


def test_config_commands(platform):
    checked = culvertd(platform, "--check-config")
    assert (checked.returncode, checked.stdout.strip()) == (0, "the configuration is fine"), checked.stderr
    printed = culvertd(platform, "--print-config")
    assert printed.returncode == 0 and f"api.listen = 127.0.0.1:{port_of(platform)}" in printed.stdout
    password = (platform.home / "database.url").read_text().strip()
    assert password not in printed.stdout
    secret = culvertd(platform, "--print-config", env={"CULVERT_DATABASE_URL": "host=x password=verysecret"})
    assert secret.returncode == 0 and "verysecret" not in secret.stdout + secret.stderr
    example = culvertd(platform, "--print-example", settings=False)
    assert example.returncode == 0 and "api.listen" in example.stdout
    assert culvertd(platform, "--version", settings=False).stdout.startswith("culvertd ")
    assert "create-key" in culvertd(platform, "--help", settings=False).stdout


def test_all_problems_at_once(platform, tmp_path):
    file = tmp_path / "bad.conf"
    file.write_text("no.such.key = 1\nloops = many\napi.body_max = 1\ntunnel.domain = UPPER\nlog.level = loud\n")
    refused = culvertd(platform, "--config", str(file), "--check-config", settings=False)
    assert refused.returncode == 2
    for word in ("no.such.key", "loops", "api.body_max", "log.level", "database.url", "tls.key_file"):
        assert word in refused.stderr, refused.stderr
    assert "bad.conf:1" in refused.stderr
    assert culvertd(platform, "--no-such-flag", "1").returncode == 2
    assert culvertd(platform, "nonsense").returncode == 2
    assert culvertd(platform, "admin", "nonsense").returncode == 2
    assert culvertd(platform, env={"CULVERT_NO_SUCH": "1"}, settings=True, *["--check-config"]).returncode in (0, 2)


def start_refused(platform, *words, env=None):
    """A culvertd on other ports that is expected not to come up."""
    ports = [f"--{door}.listen=127.0.0.1:0" for door in ("api", "admin", "tunnel", "ingress")]
    done = culvertd(platform, *ports, "--node.name=refused", *words, env=env)
    assert done.returncode == 1, (done.returncode, done.stderr)
    assert "LeakSanitizer" not in done.stderr and "AddressSanitizer" not in done.stderr, done.stderr
    return done.stderr


def owner_url(platform):
    return (platform.home / "database.url").read_text().strip()


def test_database_that_may_lose_data_is_refused(platform):
    role = "culvert_server"
    platform.psql(f"alter role {role} set synchronous_commit = off")
    try:
        said = start_refused(platform)
        assert "synchronous_commit" in said, said
    finally:
        platform.psql(f"alter role {role} reset synchronous_commit")


def test_database_without_fsync_is_refused(platform, tmp_path):
    """A server of our own: fsync is the server's setting."""
    tmp_path.chmod(0o755)
    for parent in list(tmp_path.parents)[:3]:
        if parent != pathlib.Path("/tmp") and parent.is_dir() and parent.owner() == "root" and parent != pathlib.Path("/"):
            parent.chmod(0o755)
    data = tmp_path / "data"
    data.mkdir()
    as_user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    if as_user:
        subprocess.run(["chown", "postgres", data], check=True)
    pg = "/usr/lib/postgresql/15/bin/"
    options = f"-c fsync=off -c listen_addresses='' -c unix_socket_directories={data}"
    subprocess.run([*as_user, pg + "initdb", "-D", data, "-U", "postgres", "-A", "trust"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([*as_user, pg + "pg_ctl", "-D", data, "-w", "-o", options, "-l", data / "log", "start"], check=True, stdout=subprocess.DEVNULL)
    try:
        said = start_refused(platform, env={"CULVERT_DATABASE_URL": f"host={data} user=postgres dbname=postgres"})
        assert "fsync" in said, said
    finally:
        subprocess.run([*as_user, pg + "pg_ctl", "-D", data, "-m", "immediate", "stop"], check=True, stdout=subprocess.DEVNULL)


def test_taken_port_is_refused(platform):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for door in ("api", "admin", "tunnel", "ingress"):
            said = start_refused(platform, f"--{door}.listen=127.0.0.1:{port}")
            assert str(port) in said or "listen" in said, said


def test_bad_certificate_is_refused(platform, tmp_path):
    file = tmp_path / "bad.pem"
    file.write_text("no certificate")
    assert "bad.pem" in start_refused(platform, f"--tls.certificate_file={file}")


def test_missing_migration_is_refused(platform):
    said = start_refused(platform, env={"CULVERT_DATABASE_URL": owner_url(platform).removesuffix("/culvert") + "/postgres"})
    assert "migrat" in said or "database" in said, said
