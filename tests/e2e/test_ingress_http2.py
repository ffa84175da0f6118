"""HTTP/2 at the ingress listener: what curl and python3-h2 can do with it, and what hostile clients cannot."""

import hashlib
import random
import struct
import subprocess

import h2.exceptions
import pytest

from http2_client import Http2Client, alpn
from platform_under_test import wait_until

SIZES = [1, 16383, 16384, 16385, 65535, 65537, 1000003, 7654321]


def noise(size, seed=1):
    return random.Random(seed).randbytes(size)


def curl(platform, path, *words):
    host, port = platform.env["CULVERT_INGRESS_HOST"], platform.env["CULVERT_INGRESS_URL"].rsplit(":", 1)[1]
    command = ["curl", "-sS", "--http2", "--max-time", "60", "--resolve", f"{host}:{port}:127.0.0.1", "--cacert", platform.env["CULVERT_CA"]]
    command += ["-H", f"@{platform.home}/authorization.header", "-w", "%{stderr}%{http_version} %{http_code}", *words]
    done = subprocess.run([*command, f"{platform.env['CULVERT_INGRESS_URL']}{path}"], capture_output=True, timeout=90)
    assert done.returncode == 0, done.stderr
    return done.stderr.decode(), done.stdout


def test_both_are_offered(platform):
    assert alpn(platform, "h2", "http/1.1") == "h2"
    assert alpn(platform, "http/1.1", "h2") == "h2"
    assert alpn(platform, "http/1.1") == "http/1.1"
    assert alpn(platform, "h3", "spdy/1") is None


@pytest.mark.parametrize("size", SIZES)
def test_curl_uploads_whole(ingress, tmp_path, size):
    data = noise(size)
    (tmp_path / "data").write_bytes(data)
    told, body = curl(ingress.platform, "/services/probe/up", "-T", str(tmp_path / "data"))
    assert told == "2 200"
    assert body.decode() == f"{size} {hashlib.sha256(data).hexdigest()}\n"


@pytest.mark.parametrize("size", SIZES)
def test_curl_downloads_whole(platform, size):
    for kind in ("bytes", "chunked"):
        told, body = curl(platform, f"/services/demo/{kind}/{size}")
        same = platform.ingress("GET", f"/services/demo/{kind}/{size}").body
        assert told == "2 200" and len(body) == size
        assert hashlib.sha256(body).digest() == hashlib.sha256(same).digest()


def test_streams_share_a_connection(ingress):
    with Http2Client(ingress.platform) as client:
        bodies = {}
        for i in range(24):
            data = noise(50000 + 777 * i, i)
            stream = client.request("POST", f"/services/probe/up?{i}", end=False)
            bodies[stream] = data
        for stream, data in bodies.items():
            client.send(stream, data, end=True)
        for stream, data in bodies.items():
            reply = client.reply(stream)
            assert reply.status == 200
            assert reply.body.decode() == f"{len(data)} {hashlib.sha256(data).hexdigest()}\n"


def test_many_downloads_share_a_connection(platform):
    with Http2Client(platform, window=1 << 23) as client:
        streams = [client.request("GET", "/services/demo/bytes/3000001") for _ in range(24)]
        for stream in streams:
            reply = client.reply(stream, 120)
            assert reply.status == 200 and len(reply.body) == 3000001


def test_every_stream_is_authenticated(ingress):
    with Http2Client(ingress.platform) as client:
        for key, status in ((True, 200), (False, 401), ("nonsense", 401), (True, 200), ("0" * 24 + "." + "0" * 64, 401)):
            assert client.ask("GET", "/services/probe/", key=key).status == status


def test_an_authority_has_one_meaning(ingress):
    with Http2Client(ingress.platform) as client:
        host = f"{client.host}:{client.port}"
        assert client.ask("GET", "/services/probe/", headers=[("host", host)]).status == 200
        assert client.ask("GET", "/services/probe/", headers=[("host", "elsewhere")]).status == 400
        assert client.ask("GET", "/services/probe/", authority="elsewhere.example").status == 404
        assert client.ask("GET", "/services/probe/", authority=f"{client.host}:1\"").status in (400, None)
        assert client.ask("GET", "/services/probe/..%2f", headers=[]).status == 400


def test_hop_by_hop_and_identity_stay_out(ingress):
    with Http2Client(ingress.platform) as client:
        headers = [("x-remote-user", "root"), ("impersonate-user", "root"), ("x-forwarded-for", "1.2.3.4"), ("cookie", "a=b"), ("cookie", "c=d"), ("x-kept", "yes")]
        assert client.ask("GET", "/services/probe/seen", headers=headers).status == 200
    seen = ingress.origin.last("/seen").headers
    assert seen["x-kept"] == "yes"
    assert not set(seen) & {"x-remote-user", "impersonate-user", "cookie", "authorization", "culvert-identity"}
    assert "1.2.3.4" not in seen["x-forwarded-for"]


def test_large_header_lists_are_refused(ingress):
    with Http2Client(ingress.platform) as client:
        headers = [(f"x-{i}", "a" * 1000) for i in range(40)]
        reply = client.ask("GET", "/services/probe/", headers=headers)
        assert reply.status == 431 and reply.headers["culvert-cause"] == "head-too-large"
        assert client.ask("GET", "/services/probe/", headers=[(f"x-{i}", "a") for i in range(120)]).status == 431
        assert client.ask("GET", "/services/probe/").status == 200


def test_plain_connect_is_refused(ingress):
    with Http2Client(ingress.platform) as client:
        assert client.ask("TRACE", "/services/probe/").status == 405
        assert client.ask("CONNECT", "/services/probe/", protocol="connect-udp").status == 501


def test_interim_answers_and_trailers(ingress):
    with Http2Client(ingress.platform) as client:
        reply = client.ask("GET", "/services/probe/trailers", headers=[("te", "trailers")])
        assert reply.status == 200 and reply.body == b"body"
        assert reply.trailers == {"server-timing": "db;dur=1"}
        reply = client.ask("GET", "/services/probe/hints")
        assert reply.infos == ["103"] and reply.status == 200
        stream = client.request("POST", "/services/probe/wait", [("expect", "100-continue")], end=False)
        client.until(lambda: client.replies[stream].infos == ["100"])
        client.send(stream, b"now", end=True)
        assert client.reply(stream).body.startswith(b"3 ")


def test_request_trailers_reach_the_service(ingress):
    with Http2Client(ingress.platform) as client:
        stream = client.request("POST", "/services/probe/trailed", end=False)
        client.send(stream, b"abc")
        client.trailers(stream, [("digest", "sha-256=x"), ("authorization", "no")])
        assert client.reply(stream).status == 200
    assert ingress.origin.last("/trailed").trailers == {"digest": "sha-256=x"}


def test_a_reset_cancels_at_the_service(ingress):
    with Http2Client(ingress.platform) as client:
        for path in ("/nothing", "/endless", "/flood"):
            stream = client.request("GET", f"/services/probe{path}")
            wait_until(lambda: ingress.origin.last(path), 20, "the request arrives")
            client.reset(stream)
            assert ingress.origin.last(path).left.wait(20), path
        stream = client.request("POST", "/services/probe/half", end=False)
        client.send(stream, b"x" * 100000)
        wait_until(lambda: ingress.origin.last("/half"), 20, "the request arrives")
        client.reset(stream)
        assert ingress.origin.last("/half").left.wait(20)
        assert client.ask("GET", "/services/probe/").status == 200


def test_a_closed_connection_cancels_all_of_it(ingress):
    client = Http2Client(ingress.platform)
    for i in range(5):
        client.request("GET", f"/services/probe/nothing?all{i}")
    mine = lambda: [seen for seen in ingress.origin.requests if seen.path.startswith("/nothing?all")]  # noqa: E731
    wait_until(lambda: len(mine()) == 5, 20, "the requests arrive")
    client.close()
    assert all(seen.left.wait(20) for seen in mine())


def test_a_broken_answer_is_seen_as_broken(ingress):
    with Http2Client(ingress.platform) as client:
        reply = client.ask("GET", "/services/probe/gone")
        assert reply.reset is not None and not reply.ended


def test_an_early_answer_ends_the_upload(ingress):
    with Http2Client(ingress.platform) as client:
        stream = client.request("POST", "/services/probe/refuse", [("content-length", "50000000")], end=False)
        reply = client.replies[stream]
        client.until(lambda: reply.ended or reply.reset is not None)
        assert reply.status == 413 and reply.ended and reply.body == b"no\n"
        assert client.ask("GET", "/services/probe/").status == 200


def test_one_slow_stream_stops_no_other(ingress):
    with Http2Client(ingress.platform, window=65535) as client:
        client.consume = False
        slow = client.request("GET", "/services/probe/flood")
        client.until(lambda: len(client.replies[slow].body) >= 65535)
        client.consume = True
        for _ in range(20):
            assert client.ask("GET", "/services/probe/").status == 200
        assert len(client.replies[slow].body) == 65535


def test_no_more_streams_than_allowed(ingress):
    with Http2Client(ingress.platform) as client:
        client.until(lambda: client.h2.remote_settings.max_concurrent_streams <= 100)
        limit = client.h2.remote_settings.max_concurrent_streams
        for _ in range(limit):
            client.request("GET", "/services/probe/nothing")
        with pytest.raises(h2.exceptions.TooManyStreamsError):
            client.request("GET", "/services/probe/nothing")


# ---- what only hostile clients send ----------------------------------------------------------------------------------


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def rapid_resets(client):
    for _ in range(3000):
        stream = client.h2.get_next_available_stream_id()
        client.request("GET", "/services/probe/nothing")
        client.h2.reset_stream(stream, 8)
    client.flush()


def raw(client, data):
    client.sock.sendall(data)


FLOODS = {
    "rapid reset": rapid_resets,
    "ping": lambda client: raw(client, frame(6, 0, 0, b"12345678") * 30000),
    "settings": lambda client: raw(client, frame(4, 0, 0) * 30000),
    "empty data": lambda client: (client.request("POST", "/services/probe/up", end=False), raw(client, frame(0, 0, 1) * 30000)),
    "empty data with padding": lambda client: (client.request("POST", "/services/probe/up", end=False), raw(client, frame(0, 8, 1, b"\3\0\0\0") * 30000)),
    "unknown types": lambda client: raw(client, b"".join(frame(kind, 0, 0, b"?") for kind in range(10, 256)) * 100),
    "window updates": lambda client: raw(client, frame(8, 0, 0, b"\0\0\0\1") * 30000),
    "priority": lambda client: raw(client, frame(2, 0, 1, b"\0\0\0\0\x10") * 30000),
    "continuation": lambda client: raw(client, frame(1, 0, 1, b"\x82") + frame(9, 0, 1, b"") * 30000),
    "made you reset": lambda client: [(client.request("GET", "/services/probe/nothing"), raw(client, frame(8, 0, 2 * i + 1, b"\0\0\0\0"))) for i in range(3000)],
}


@pytest.mark.parametrize("name", FLOODS)
def test_floods_end_the_connection(ingress, name):
    client = Http2Client(ingress.platform, timeout=60)
    with client:
        try:
            FLOODS[name](client)
            client.until(lambda: client.terminated is not None, 60)
        except (OSError, h2.exceptions.ProtocolError):
            pass  # cut before it was told
        else:
            assert client.terminated != 0
    with Http2Client(ingress.platform) as other:
        assert other.ask("GET", "/services/probe/").status == 200


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        frame(0, 0, 1, b"data before headers"),
        frame(1, 4, 2, b"\x82"),
        frame(1, 4, 1, b"\xff\xff\xff\xff\xff\xff\xff\xff"),
        frame(8, 0, 0, b"\x7f\xff\xff\xff"),
        frame(9, 4, 1, b"\x82"),
        frame(5, 4, 1, b"\0\0\0\2\x82"),
        b"\xff\xff\xff\1\4\0\0\0\1" + bytes(1 << 15),
    ],
    ids=["http/1", "data first", "even stream", "bad hpack", "window overflow", "lone continuation", "push", "giant frame"],
)
def test_broken_frames_end_the_connection(ingress, data):
    with Http2Client(ingress.platform) as client:
        client.until(lambda: client.h2.remote_settings.max_concurrent_streams <= 100)
        raw(client, data)
        try:
            client.until(lambda: client.terminated is not None)
        except (OSError, h2.exceptions.ProtocolError):
            return
        assert client.terminated != 0


# ---- extended CONNECT ------------------------------------------------------------------------------------------------


def masked(opcode, payload):
    head = bytes((0x80 | opcode,))
    if len(payload) < 126:
        head += bytes((0x80 | len(payload),))
    else:
        head += bytes((0x80 | 127,)) + struct.pack(">Q", len(payload))
    return head + b"\0\0\0\0" + payload  # a mask of zeros changes nothing


def test_websocket_by_extended_connect(ingress):
    headers = [("sec-websocket-version", "13"), ("sec-websocket-protocol", "chat")]
    with Http2Client(ingress.platform) as client:
        client.until(lambda: client.h2.remote_settings.enable_connect_protocol == 1)
        stream = client.request("CONNECT", "/services/socket/", headers, end=False, protocol="websocket")
        reply = client.replies[stream]
        client.until(lambda: reply.status is not None)
        assert reply.status == 200 and reply.headers["sec-websocket-protocol"] == "chat"
        client.send(stream, masked(1, b"hello"))
        client.until(lambda: reply.body == b"\x81\x05hello")
        client.send(stream, masked(2, noise(200000)))
        client.until(lambda: reply.body[7:].endswith(noise(200000)))
        closed = len(ingress.socket.closed)
        client.send(stream, masked(8, struct.pack(">H", 4001)))
        wait_until(lambda: ingress.socket.has_closed(4001, closed), 20, "the service sees the close")
        refused = client.ask("CONNECT", "/services/socket/", headers=[("sec-websocket-version", "8")], protocol="websocket")
        assert refused.status == 426


def test_websocket_that_is_not_switched_by_extended_connect(ingress):
    """The service's 200 would say here that it switched: the client is told that it did not."""
    for path in ("plain", "trailers"):
        with Http2Client(ingress.platform) as client:
            client.until(lambda: client.h2.remote_settings.enable_connect_protocol == 1)
            stream = client.request("CONNECT", f"/services/probe/{path}", [("sec-websocket-version", "13")], end=False, protocol="websocket")
            reply = client.reply(stream)
            assert reply.status == 502 and reply.headers["culvert-cause"] == "upstream-failed"
            assert client.ask("GET", "/services/probe/").status == 200
