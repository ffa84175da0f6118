"""The API listener: what is malformed is refused with a place, what is too much is bounded, who leaves is noticed."""

import gzip
import json
import os
import pathlib
import socket
import threading
import time

import pytest

from api_listener_client import EVENTS, GRAPHQL, JSON, demo_path, events, exchange, head, host_of, same_process  # noqa: F401
from platform_under_test import wait_until
from raw_client import read_to_end

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
        ("PUT", GRAPHQL, {}, 405),
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


def unread(port):
    """Bytes that wait in the kernel for the program at the other end of our connection from this port."""
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, _, remote, _, queues, *_ = line.split()
        if int(remote.split(":")[1], 16) == port:
            return int(queues.split(":")[1], 16)
    return None


def test_pieces_that_fill_what_is_read_at_once(platform):
    """Each piece of the body ends where a read of the server does, and nothing follows until it has looked for more."""
    record, pieces = 8192 - 22, 40  # with what TLS 1.3 puts around it: two pages
    with platform.raw(platform.env["CULVERT_URL"]) as sock:
        assert sock.version() == "TLSv1.3"
        sock.sendall(head(platform, f"POST {GRAPHQL}", "Content-Type: application/json", f"Content-Length: {record * pieces}", "Connection: close"))
        query = json.dumps({"query": "{ me { id } }"}).encode()
        for piece in [query.ljust(record), *[b" " * record] * (pieces - 1)]:
            wait_until(lambda: unread(sock.getsockname()[1]) == 0, what="the server reads")
            sock.sendall(piece)
        got, closed = read_to_end(sock)
    assert got.startswith(b"HTTP/1.1 200") and closed


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
    with context.wrap_socket(socket.create_connection(("127.0.0.1", platform.port())), server_hostname="localhost") as sock:
        assert sock.selected_alpn_protocol() in ("http/1.1", None)
    got, _ = exchange(platform, head(platform, "GET /api/ping", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"))
    assert got.startswith(b"HTTP/1.1 200") and b"101" not in got.split(b"\r\n")[0]


def test_plain_http_gets_nothing(platform):
    with socket.create_connection(("127.0.0.1", platform.port())) as sock:
        sock.sendall(b"GET /api/ping HTTP/1.1\r\nHost: localhost\r\n\r\n")
        got, closed = read_to_end(sock)
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
        got, _ = read_to_end(sock)
    assert got.startswith(b"HTTP/1.1 200")


def test_500_connections_at_once(platform):
    context = platform.context()
    socks = []
    try:
        for _ in range(500):
            sock = socket.create_connection(("127.0.0.1", platform.port()), timeout=60)
            socks.append(context.wrap_socket(sock, server_hostname="localhost"))
        for sock in socks:
            sock.sendall(head(platform, "GET /api/user"))
        for sock in socks:
            assert sock.recv(65536).startswith(b"HTTP/1.1 200")
    finally:
        for sock in socks:
            sock.close()
    wait_until(lambda: platform.connections("api") < 10, 10, "the connections are gone")


@pytest.mark.parametrize("how", ["close", "reset", "lingering_close"])
def test_clients_that_close_leave_nothing(platform, how):
    """Before a request, after an answer; with TLS' lingering_close, without, and with a reset."""
    wait_until(lambda: platform.connections("api") == 0, 10, "nobody is there")
    for requests in (0, 1):
        socks = [platform.raw(platform.env["CULVERT_URL"]) for _ in range(10)]
        assert platform.connections("api") == 10
        for sock in socks:
            for _ in range(requests):
                sock.sendall(head(platform, "GET /api/user"))
                assert sock.recv(65536).startswith(b"HTTP/1.1 200")
            if how == "lingering_close":
                try:
                    sock = sock.unwrap()
                except OSError:  # what was on its way to us comes before the answer
                    pass
            elif how == "reset":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            sock.close()
        wait_until(lambda: platform.connections("api") == 0, 5, "the connections are gone")


def test_request_ids(platform):
    for good in ("abc-DEF_0123", "short", "a.b", "a" * 64):
        assert platform.api("GET", "/api/ping", headers={"X-Request-Id": good}).headers["x-request-id"] == good
    for bad in ("a" * 65, "with space 123", "a,b", "a;b", "a/b", ""):
        assert platform.api("GET", "/api/ping", headers={"X-Request-Id": bad}).headers["x-request-id"] != bad


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


# ---- who leaves ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["close", "reset", "half"])
@pytest.mark.parametrize("rest,wait", [("/bytes/1000000000", 1), ("/chunked/1000000000", 1), ("/bytes/1000000000", 200000), ("/sse", 1), ("/slow?seconds=20", 0)])
def test_client_leaves_in_the_middle(platform, rest, wait, how):
    """The tunnel's stream is free again soon, whether the answer has begun or not, flows, or waits for the client."""
    streams = platform.metric("culvert_tunnel_streams_open")
    sock = platform.raw(platform.env["CULVERT_URL"])
    sock.sendall(head(platform, "GET " + demo_path(platform, rest)))
    wait_until(lambda: platform.metric("culvert_tunnel_streams_open") > streams, 5, "the call is open")
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
        wait_until(lambda: platform.metric("culvert_tunnel_streams_open") <= streams, 5, "the stream ends")
        plain.close()
    else:
        sock.close()
    wait_until(lambda: platform.metric("culvert_tunnel_streams_open") <= streams, 5, "the stream ends")


def test_many_leave_at_random(platform):
    streams = platform.metric("culvert_tunnel_streams_open")

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
    wait_until(lambda: platform.metric("culvert_tunnel_streams_open") <= streams, 10, "the streams end")


def test_slow_reader_gets_all(platform):
    """Back-pressure: a reader that pauses gets every byte, and others are served meanwhile."""
    size = 20_000_000
    with platform.raw(platform.env["CULVERT_URL"]) as sock:
        sock.sendall(head(platform, "GET " + demo_path(platform, f"/bytes/{size}"), "Connection: close"))
        for _ in range(50):
            assert platform.api("GET", "/api/ping").status == 200
        got, closed = read_to_end(sock)
    assert closed and len(got.split(b"\r\n\r\n", 1)[1]) == size


def test_upload_through_the_proxy(platform):
    import hashlib

    for size in (1, 65536, 200_001, 5_000_000):
        body = os.urandom(size)
        told = platform.api("POST", demo_path(platform, "/echo"), body).json()
        assert told["sha256"] == hashlib.sha256(body).hexdigest()
