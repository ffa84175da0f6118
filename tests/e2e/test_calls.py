"""Calls through the tunnel: any length, both directions, bounded memory, errors that say what went wrong."""

import concurrent.futures
import hashlib
import json

import pytest

from platform_under_test import Connection, wait_until
from raw_client import read_to_end

GIB = 1 << 30


def service(path):
    return "/services/demo" + path


def test_greeting_says_demo(platform):
    assert "demo" in platform.ingress("GET", service("/")).text().lower()


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 1 << 20, 5 << 20])
def test_upload_arrives_whole(platform, size):
    body = (bytes(range(256)) * (size // 256 + 1))[:size]
    told = platform.ingress("POST", service("/echo"), body).json()
    assert told["method"] == "POST"
    assert told["sha256"] == hashlib.sha256(body).hexdigest()


def test_chunked_upload(platform):
    pieces = [b"a" * 10, b"b" * 100000, b"c"]
    told = platform.ingress("POST", service("/echo"), iter(pieces), headers={"Transfer-Encoding": "chunked"}).json()
    assert told["sha256"] == hashlib.sha256(b"".join(pieces)).hexdigest()


@pytest.mark.parametrize("kind", ["bytes", "chunked"])
@pytest.mark.parametrize("size", [0, 1, 100000, 3 << 20])
def test_download_arrives_whole(platform, kind, size):
    answer = platform.ingress("GET", service(f"/{kind}/{size}"))
    assert answer.status == 200 and len(answer.body) == size


@pytest.mark.parametrize("status", [200, 204, 404, 418, 500, 503])
def test_status_passes(platform, status):
    answer = platform.ingress("GET", service(f"/status/{status}"))
    assert answer.status == status and "culvert-cause" not in answer.headers


def test_credential_ends_at_the_platform(platform):
    told = platform.ingress("GET", service("/echo"), headers={"X-Remote-User": "root", "Impersonate-User": "root", "Cookie": "a=b"}).json()
    names = {name.lower() for name, _ in told["headers"]}
    assert not names & {"authorization", "x-remote-user", "impersonate-user", "cookie", "culvert-identity", "x-access-token"}
    assert platform.env["CULVERT_API_KEY"] not in json.dumps(told)
    assert "x-forwarded-for" in names


def test_events_arrive_at_once(platform):
    """A server-sent event is flushed when it is made, long before the answer ends."""
    connection = Connection(platform, int(platform.env["CULVERT_INGRESS_URL"].rsplit(":", 1)[1]), platform.env["CULVERT_INGRESS_HOST"], True, 20)
    connection.request("GET", service("/sse"), headers={"Authorization": platform.env["CULVERT_API_KEY"]})
    answer = connection.getresponse()
    assert answer.status == 200
    first = answer.read1(4096)
    assert b"data:" in first
    connection.close()


@pytest.mark.parametrize(
    "key,status",
    [(False, 401), ("nonsense", 401), ("0" * 24 + "." + "0" * 64, 401)],
)
def test_without_a_valid_key(platform, key, status):
    for answer in (
        platform.ingress("GET", service("/"), key=key),
        platform.api("GET", f"/runtimes/{platform.env['CULVERT_RUNTIME']}/proxy/app-proxy/api/readyz", key=key),
        platform.graphql_answer("{ me { id } }", key=key),
    ):
        assert answer.status == status, answer.text()


def test_key_in_its_three_places(platform):
    key = platform.env["CULVERT_API_KEY"]
    for headers in ({"Authorization": key}, {"Authorization": f"Bearer {key}"}, {"X-Access-Token": key}):
        assert platform.ingress("GET", "/app-proxy/api/readyz", headers=headers, key=False).status == 200
        assert platform.graphql_answer("{ me { id } }", headers=headers, key=False).status == 200


def test_errors_say_why(platform):
    no_route = platform.ingress("GET", "/services/unlisted/")
    assert (no_route.status, no_route.headers["culvert-cause"]) in ((404, "no-route"), (403, "not-allowed"))
    no_webhook = platform.ingress("POST", "/webhooks/argo/unlisted", b"{}", key=False)
    assert (no_webhook.status, no_webhook.headers["culvert-cause"]) == (503, "unavailable")
    other = platform.env["CULVERT_INGRESS_HOST"].replace(platform.env["CULVERT_RUNTIME"], "nobody")
    unknown = platform.ingress("GET", "/app-proxy/api/readyz", host=other)
    assert unknown.status in (404, 503)


def test_names_that_are_made_up_cost_no_query(platform):
    """Webhooks need no credential: whoever makes up hosts must not reach Redis, PostgreSQL, or what is remembered of real runtimes."""
    looks = platform.metric("culvert_registry_lookup_total")

    def ask(number):
        other = platform.env["CULVERT_INGRESS_HOST"].replace(platform.env["CULVERT_RUNTIME"], f"nobody-{number}")
        for method, path, key, cause in (("POST", "/webhooks/argo/hook", False, "unavailable"), ("GET", "/services/demo/", True, "no-tunnel")):
            answer = platform.ingress(method, path, b"{}", host=other, key=key)
            assert (answer.status, answer.headers["culvert-cause"]) == (503, cause)
        foreign = platform.ingress("POST", "/webhooks/argo/hook", b"{}", host=f"{number:024x}-{other.partition('-')[2]}", key=False)
        assert (foreign.status, foreign.headers["culvert-cause"]) == (503, "unavailable")

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(25)))
    assert platform.metric("culvert_registry_lookup_total") == looks


def exchange(platform, head, host=None):
    """Sends raw bytes to the ingress listener, gives back what came until it closed or 5 s passed."""
    with platform.raw(platform.env["CULVERT_INGRESS_URL"], host or platform.env["CULVERT_INGRESS_HOST"]) as sock:
        sock.sendall(head)
        return read_to_end(sock, 5)


MALFORMED = {
    "length and chunked": "POST /x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": "POST /x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
    "two hosts": "GET /x HTTP/1.1\r\nHost: {host}\r\nHost: other\r\n\r\n",
    "no host": "GET /x HTTP/1.1\r\n\r\n",
    "folded": "GET /x HTTP/1.1\r\nHost: {host}\r\nX-A: b\r\n c\r\n\r\n",
    "space before colon": "GET /x HTTP/1.1\r\nHost : {host}\r\n\r\n",
    "bare LF": "GET /x HTTP/1.1\nHost: {host}\n\n",
    "bad chunk size": "POST /x HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
    "gzip, chunked": "POST /x HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "absolute form": "GET https://{host}/x HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "encoded slash": "GET /services%2fdemo/ HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "dot dot": "GET /services/demo/../other/ HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "HTTP/2 preface": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "garbage": "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
}


@pytest.mark.parametrize("name", sorted(MALFORMED))
def test_malformed_is_refused_and_closed(platform, name):
    host = platform.env["CULVERT_INGRESS_URL"].removeprefix("https://")
    text = MALFORMED[name].replace("{host}", host)
    text = text.replace("\r\n\r\n", f"\r\nAuthorization: {platform.env['CULVERT_API_KEY']}\r\n\r\n", 1) if "\r\n\r\n" in text else text
    got, closed = exchange(platform, text.encode("latin-1"))
    # A chunk size is read after the head has been acted upon; everything else is refused before.
    statuses = (b"HTTP/1.1 400", b"HTTP/1.1 404", b"HTTP/1.1 502", b"") if name == "bad chunk size" else (b"HTTP/1.1 400",)
    assert got.startswith(statuses) and closed, got[:200]


def test_head_too_large(platform):
    host = platform.env["CULVERT_INGRESS_URL"].removeprefix("https://")
    got, closed = exchange(platform, f"GET / HTTP/1.1\r\nHost: {host}\r\nX-A: {'a' * 40000}\r\n\r\n".encode())
    assert got.startswith(b"HTTP/1.1 431") and closed


def test_client_leaving_is_noticed(platform):
    """The far end is told when a client goes away in the middle of an endless answer."""
    port = int(platform.env["CULVERT_INGRESS_URL"].rsplit(":", 1)[1])
    open_before = streams_open(platform)
    connection = Connection(platform, port, platform.env["CULVERT_INGRESS_HOST"], True, 20)
    connection.request("GET", service("/sse"), headers={"Authorization": platform.env["CULVERT_API_KEY"]})
    connection.getresponse().read1(10)
    assert streams_open(platform) > open_before
    connection.close()
    wait_until(lambda: streams_open(platform) == open_before, 5, "the stream ends")


def streams_open(platform):
    for line in platform.admin("/metrics").text().splitlines():
        if line.startswith("culvert_tunnel_streams_open"):
            return int(line.split()[-1])
    raise AssertionError("no metric culvert_tunnel_streams_open")


def test_gibibyte_both_ways_in_bounded_memory(own_platform):
    port = int(own_platform.env["CULVERT_INGRESS_URL"].rsplit(":", 1)[1])
    headers = {"Authorization": own_platform.env["CULVERT_API_KEY"]}
    own_platform.ingress("GET", service("/bytes/10000000"))
    before = {name: own_platform.rss_kib(name) for name in ("culvertd", "agent")}

    connection = Connection(own_platform, port, own_platform.env["CULVERT_INGRESS_HOST"], True, 300)
    connection.request("GET", service(f"/bytes/{GIB}"), headers=headers)
    answer = connection.getresponse()
    left, highest = GIB, dict(before)
    while piece := answer.read(1 << 22):
        left -= len(piece)
        highest = {name: max(highest[name], own_platform.rss_kib(name)) for name in highest}
    assert left == 0
    connection.close()

    piece = bytes(1 << 22)

    def pieces():
        for _ in range(GIB // len(piece)):
            for name in highest:
                highest[name] = max(highest[name], own_platform.rss_kib(name))
            yield piece

    connection = Connection(own_platform, port, own_platform.env["CULVERT_INGRESS_HOST"], True, 300)
    connection.request("PUT", service("/echo"), body=pieces(), headers={**headers, "Content-Length": str(GIB)})
    told = json.loads(connection.getresponse().read())
    connection.close()
    expected = hashlib.sha256()
    for _ in range(GIB // len(piece)):
        expected.update(piece)
    assert told["sha256"] == expected.hexdigest()
    for name in before:
        assert highest[name] - before[name] < 32 * 1024, f"{name} grew from {before[name]} to {highest[name]} KiB"
