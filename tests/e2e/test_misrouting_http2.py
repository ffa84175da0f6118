"""HTTP/2 at the ingress listener: pseudo-fields and fields that name two runtimes, or more than one request, reach nobody, or the one that
:authority names; what would be a line of HTTP/1 behind it never becomes one."""

import json
import random
import os
import socket
import ssl
import tempfile

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import pytest

from origin_under_test import Account, start_runtimes

REQUESTS = int(os.environ.get("CULVERT_TEST_TUPLES", "2000"))


@pytest.fixture(scope="module")
def runtimes(platform):
    mine, theirs = Account(platform, "quickstart"), Account(platform, "others")
    with tempfile.TemporaryDirectory(prefix="culvert-misrouting2.") as folder:
        made = start_runtimes(platform, folder, [(mine, "blue"), (mine, "green"), (theirs, "blue")])
        yield made
        for runtime in made:
            runtime.close()


class Client:
    """One connection, opened again when the listener ends it."""

    def __init__(self, platform, names, seed):
        self.platform, self.names, self.random = platform, names, random.Random(seed)
        self.port = int(platform.env["CULVERT_INGRESS_URL"].rsplit(":", 1)[1])
        self.context = ssl.create_default_context(cafile=platform.env["CULVERT_CA"])
        self.context.check_hostname = False
        self.context.set_alpn_protocols(["h2"])
        self.sock = None

    def open(self):
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        self.sock = self.context.wrap_socket(raw, server_hostname=self.random.choice(self.names))
        # Nothing is put right on the way out: the listener has to see it as it is.
        config = h2.config.H2Configuration(client_side=True, validate_outbound_headers=False, normalize_outbound_headers=False, header_encoding="latin-1")
        self.h2 = h2.connection.H2Connection(config)
        self.h2.initiate_connection()
        self.sock.sendall(self.h2.data_to_send())

    def close(self):
        if self.sock:
            self.sock.close()
            self.sock = None

    def ask(self, headers, body=b""):
        """(status or None when it was reset, body)"""
        if not self.sock:
            self.open()
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, headers, end_stream=not body)
        if body:
            self.h2.send_data(stream, body, end_stream=True)
        status, got, over = None, b"", False
        try:
            self.sock.sendall(self.h2.data_to_send())
            while not over:
                data = self.sock.recv(65536)
                if not data:
                    raise ConnectionError
                for event in self.h2.receive_data(data):
                    if getattr(event, "stream_id", stream) not in (0, stream):
                        raise AssertionError(f"an answer to a request that nobody made: {event}")
                    if isinstance(event, h2.events.ResponseReceived):
                        status = int(dict(event.headers)[":status"])
                    elif isinstance(event, h2.events.DataReceived):
                        got += event.data
                        self.h2.acknowledge_received_data(event.flow_controlled_length, stream)
                    elif isinstance(event, (h2.events.StreamEnded, h2.events.StreamReset)):
                        over = True
                        status = None if isinstance(event, h2.events.StreamReset) and status is None else status
                    elif isinstance(event, h2.events.ConnectionTerminated):
                        over = True
                        self.close()
                        break
                if self.sock:
                    self.sock.sendall(self.h2.data_to_send())
        except (ConnectionError, ssl.SSLError):
            self.close()
        return status, got


def request(one, path, *fields, authority=True, method="GET"):
    headers = [(":method", method), (":scheme", "https"), (":path", path)]
    headers += [(":authority", f"{one.host}:{one.port}")] if authority else []
    return headers + [("authorization", one.account.key), *fields]


def odd_requests(one, two, serial):
    """[(headers, the runtime that must answer, or None: nobody)]"""
    here, there = f"{one.host}:{one.port}", f"{two.host}:{one.port}"
    path = f"/services/w/{serial}"
    line = f"x\r\nHost: {two.host}\r\n\r\nGET /services/w/hidden HTTP/1.1\r\nHost: {two.host}\r\n\r\n"
    plain = request(one, path)
    return [
        (plain, one),
        (request(one, path, ("host", here)), one),
        (request(one, path, ("host", there)), None),
        (request(one, path, ("host", here), ("host", there)), None),
        (request(one, path, ("host", there), ("host", here)), None),
        (request(one, path, ("host", there), authority=False), two if two.account is one.account else None),
        (request(one, path, authority=False), None),
        (plain[:3] + [(":authority", there), (":authority", here)] + plain[4:], None),
        (plain + [(":authority", there)], None),
        (plain[:3] + [(":authority", f"{here},{there}")] + plain[4:], None),
        (plain[:3] + [(":authority", f"{two.host}@{here}")] + plain[4:], None),
        (plain[:3] + [(":authority", f"{here}/services")] + plain[4:], None),
        (plain[:3] + [(":authority", f"{here} {there}")] + plain[4:], None),
        (plain[:3] + [(":authority", f"{here}\r\nhost: {there}")] + plain[4:], None),
        (plain[:3] + [(":authority", "")] + plain[4:], None),
        (plain[:2] + [(":path", f"https://{there}{path}")] + plain[3:], None),
        (plain[:2] + [(":path", f"{path} HTTP/1.1\r\nHost: {two.host}")] + plain[3:], None),
        (plain[:2] + [(":path", f"{path}?{line}")] + plain[3:], None),
        (plain[:2] + [(":path", "*")] + plain[3:], None),
        (plain[:2] + [(":path", "")] + plain[3:], None),
        (plain[:2] + [(":path", path), (":path", "/services/w/hidden")] + plain[3:], None),
        (plain[:2] + [(":path", f"/services/w/..%2f..%2f{serial}")] + plain[3:], None),
        (plain[:2] + plain[3:], None),
        ([(":method", f"GET {path} HTTP/1.1\r\nHost: {two.host}\r\n\r\nGET")] + plain[1:], None),
        ([(":method", "GET "), *plain[1:]], None),
        ([(":method", "CONNECT"), *plain[1:]], None),
        ([(":method", "GET"), *plain], None),
        (plain + [("x-a", line)], None),
        (plain + [("x-a", "b\nhost: " + two.host)], None),
        (plain + [("x-a\r\nhost", two.host)], None),
        (plain + [("x-a: b\r\nhost", two.host)], None),
        (plain + [("X-Upper", "a")], None),
        (plain + [("", "a")], None),
        (plain + [("x a", "b")], None),
        (plain + [("x-a", "b\x00c")], None),
        (plain + [(":x", "a")], None),
        (plain + [(":status", "200")], None),
        (plain + [("transfer-encoding", "chunked")], None),
        (plain + [("connection", "close")], None),
        (plain + [("connection", "authorization, x-forwarded-for")], None),
        (plain + [("upgrade", "h2c")], None),
        (plain + [("keep-alive", "x")], None),
        (plain + [("proxy-connection", "x")], None),
        (plain + [("te", "chunked")], None),
        (plain + [("content-length", "5")], None),
        (plain + [("content-length", "0"), ("content-length", "5")], None),
        (plain + [("content-length", "-1")], None),
        (plain + [("content-length", "0, 0")], None),
        ([("x-early", "a"), *plain], None),
        (plain + [("x-forwarded-host", there), ("x-original-url", "/services/w/hidden"), ("culvert-runtime", two.name)], one),
    ]  # fmt: skip


def test_two_meanings_reach_nobody(platform, runtimes):
    seed = int(os.environ.get("CULVERT_TEST_SEED") or random.randrange(1 << 32))
    print(f"CULVERT_TEST_SEED={seed}")
    choose = random.Random(seed)
    client = Client(platform, [r.host for r in runtimes], seed)
    for runtime in runtimes:
        runtime.port = client.port
    served = 0
    before = sum(r.origin.count() for r in runtimes)
    for serial in range(REQUESTS):
        one, two = choose.sample(runtimes, 2)
        odd = odd_requests(one, two, serial)
        headers, right = odd[serial % len(odd)]
        status, body = client.ask(headers)
        if status == 200:
            answer = json.loads(body)
            assert right, f"served by {answer}, although it has two meanings: {headers}"
            assert answer["origin"] == right.signature and answer["target"] == f"/{serial}", (headers, answer)
            served += 1
        else:
            assert not right, (status, headers, body)
            assert status is None or 400 <= status < 500, (status, headers)
    client.close()
    assert served == sum(r.origin.count() for r in runtimes) - before
    assert served >= REQUESTS // 25
    assert not any(r.origin.at("/hidden") for r in runtimes)


@pytest.mark.parametrize("length", ["4", "6", "0", "50"])
def test_length_that_is_not_the_datas(platform, runtimes, length):
    """RFC 9113 section 8.1.1: malformed; nothing of it is left over for the next request on the way."""
    client = Client(platform, ["localhost"], 1)
    one = runtimes[0]
    one.port = client.port
    for i in range(5):
        status, _ = client.ask(request(one, f"/services/w/length-{length}-{i}", ("content-length", length), method="POST"), b"hello")
        assert status is None or 400 <= status < 600 and status != 500
        status, body = client.ask(request(one, f"/services/w/length-{length}-{i}-next"))
        assert status == 200 and json.loads(body)["target"] == f"/length-{length}-{i}-next"
    assert not any(one.origin.at(f"/length-{length}-{i}") for i in range(5))
    client.close()
