"""Reports that are wrong, hostile or merely odd, by both mouths. What is wrong is refused with the status that says so and leaves
nothing behind; what is odd is kept as it is; and all the while the reports of a good neighbour flow, in a platform whose
memory stays bounded."""

import base64
import copy
import ctypes
import datetime
import gzip
import json
import os
import struct
import sys
import threading
import uuid
import zlib

import pytest

import hostile_input
import report_tunnel
from platform_under_test import TOP, Connection, wait_until
from report_tunnel import ReportTunnel, record

sys.path.append(str(TOP / "tests/chaos"))

from evidence import ledger_faults  # noqa: E402
from ledger import Ledger  # noqa: E402
from load import TunnelWriter, Writer  # noqa: E402

EVENTS = "/2.0/api/events"
BAD = "bad-reports"
MEMORY_KIB_MAX = 1 << 20  # of growth; sanitizers keep what was freed, 256 MiB of it
MIB = 1 << 20


# ---- who talks -------------------------------------------------------------------------------------------------------------


class Runtime:
    def __init__(self, platform, name):
        query = "mutation($a: RuntimeInstallationArgs!) { createRuntime(installationArgs: $a) { newAccessToken } }"
        args = {"runtimeName": name, "cluster": "in-cluster", "runtimeVersion": "0.1.0", "componentNames": []}
        self.platform, self.name = platform, name
        self.token = platform.graphql(query, {"a": args})["createRuntime"]["newAccessToken"]
        wait_until(lambda: self.post(b"{}").status == 400, 20, "the new token is known")

    def delete(self):
        self.platform.graphql("mutation($n: String!) { deleteRuntime(name: $n) }", {"n": self.name})

    def post(self, body, path=EVENTS, **headers):
        headers = {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        return self.platform.api("POST", path, body, key=self.token, headers=headers, timeout=60)


@pytest.fixture(scope="module")
def bad(platform):
    runtime = Runtime(platform, f"bad-{uuid.uuid4().hex[:8]}")
    yield runtime
    runtime.delete()


@pytest.fixture(scope="module", autouse=True)
def neighbour(platform, tmp_path_factory):
    """Reports of a runtime beside the bad one, all the time, by both mouths: each is acknowledged, none is lost."""
    runtime = Runtime(platform, f"good-{uuid.uuid4().hex[:8]}")
    ledger = Ledger(tmp_path_factory.mktemp("good") / "ledger.jsonl")
    mine = copy.copy(platform)
    mine.env = {**platform.env, "CULVERT_RUNTIME_TOKEN": runtime.token}
    port = int(platform.env["CULVERT_URL"].rsplit(":", 1)[1])
    http = Writer(0, mine, lambda: Connection(mine, port, "localhost", True, 60), runtime.token, ledger, 10, 1)
    tunnel = TunnelWriter(0, platform, runtime.name, runtime.token, ledger, 10, 2, leaves=0)
    everybody = [http, tunnel]
    memory, culvertd = platform.rss_kib("culvertd"), platform.pid("culvertd")
    for each in everybody:
        each.start()
    yield ledger
    for each in everybody:
        each.stopping.set()
    for each in everybody:
        each.join(60)
    ledger.close()
    faults = ledger_faults(platform, ledger)
    runtime.delete()
    assert platform.pid("culvertd") == culvertd
    assert not [each.failure for each in everybody if each.failure]
    assert http.refused == 0 and tunnel.tunnels == 1 and not tunnel.rejected
    assert not any(faults.values()), {what: found[:10] for what, found in faults.items() if found}
    assert platform.rss_kib("culvertd") - memory < MEMORY_KIB_MAX


@pytest.fixture(autouse=True)
def neighbour_goes_on(neighbour):
    yield
    with neighbour.lock:
        had = dict(neighbour.sent)

    def goes_on():
        with neighbour.lock:
            news = [name for name, number in neighbour.acked.items() if number > had.get(name, 0)]
        return any(n.startswith("writer") for n in news) and any(n.startswith("tunnel") for n in news)

    wait_until(goes_on, 30, "the neighbour's reports flow")


# ---- what is said ------------------------------------------------------------------------------------------------------------


def manifest(name, size=0, **more):
    """size: bytes at least, of what is kept as it came (a ConfigMap's data is kept as digests)."""
    open_names = {"finalizers": ["x" * 200] * (size // 200)} if size else {}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": BAD, "uid": name, **open_names}, **more}


def now(ahead_seconds=0):
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=ahead_seconds)
    return at.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def event(body_object, **more):
    return json.dumps({"data": {"timestamp": now(), "object": body_object, **more}}).encode()


def fresh():
    return f"object-{uuid.uuid4().hex[:12]}"


def raw(name, text):
    """An event whose manifest has this JSON text as its data."""
    plain = json.dumps(manifest(name, data="MARK")).encode().replace(b'"MARK"', text)
    return b'{"data":{"object":' + plain + b"}}"


def nest(depth):
    return b'{"a":' * depth + b"1" + b"}" * depth


def flood(values, each=b"{}"):
    return b'{"list":[' + b",".join([each] * values) + b"]}"


def numbers(values):
    return b"[" + b",".join(b"%d" % (i * i) for i in range(values)) + b"]"


def rows(platform, name):
    """(runtime, api_group, version, kind, labels, size of the manifest) of the living rows of this name."""
    return platform.psql(
        "select r.runtime, r.api_group, r.version, r.kind, r.observed_at <= now() + interval '61 s', b.plain_bytes"
        " from resources r left join manifests b on b.account_id = r.account_id and b.sha256 = r.manifest_sha256"
        f" where r.name = '{name}' and not r.is_deleted"
    )


# ---- HTTP: refused -----------------------------------------------------------------------------------------------------------


def zipped(body, level=9):
    return gzip.compress(body, level)


BOMB = zlib.compressobj(9, wbits=31)
BOMB = BOMB.compress(b" " * (200 * MIB)) + BOMB.flush()

REFUSED = {
    # bombs
    "gzip of 200 MiB in 200 KiB": (413, lambda n: BOMB, {"Content_Encoding": "gzip"}),
    "gzip of a little more than may be": (413, lambda n: zipped(raw(n, b'"' + b"x" * (10 * MIB) + b'"'), 1), {"Content_Encoding": "gzip"}),
    "gzip in gzip": (400, lambda n: zipped(zipped(event(manifest(n)))), {"Content_Encoding": "gzip"}),
    "a bomb in gzip": (413, lambda n: zipped(BOMB), {"Content_Encoding": "gzip"}),
    "nested a little too deep": (413, lambda n: raw(n, nest(65)), {}),
    "nested 200 000 deep": (413, lambda n: raw(n, b"[" * 200000), {}),
    "nested inside base64": (413, lambda n: event(base64.b64encode(json.dumps(manifest(n)).encode()[:-1] + b',"x":' + nest(70) + b"}").decode()), {}),
    "a flood of {}": (413, lambda n: raw(n, flood(3 * MIB)), {}),
    "a flood of {} in gzip": (413, lambda n: zipped(raw(n, flood(2 * MIB)), 6), {"Content_Encoding": "gzip"}),
    "a flood of numbers": (413, lambda n: raw(n, flood(4 * MIB, b"1")), {}),
    "a flood of keys": (413, lambda n: raw(n, b"{" + b",".join(b'"%d":0' % i for i in range(260000)) + b"}"), {}),
    # mislabelled, truncated
    "says gzip and is not": (400, lambda n: event(manifest(n)), {"Content_Encoding": "gzip"}),
    "is gzip and does not say so": (400, lambda n: zipped(event(manifest(n))), {}),
    "gzip that ends early": (400, lambda n: zipped(event(manifest(n)))[:-9], {"Content_Encoding": "gzip"}),
    "gzip with a wrong sum": (400, lambda n: zipped(event(manifest(n)))[:-8] + bytes(8), {"Content_Encoding": "gzip"}),
    "gzip with something behind": (400, lambda n: zipped(event(manifest(n))) + b"x", {"Content_Encoding": "gzip"}),
    "two members of gzip": (400, lambda n: zipped(event(manifest(n))) + zipped(b" "), {"Content_Encoding": "gzip"}),
    "brotli": (415, lambda n: event(manifest(n)), {"Content_Encoding": "br"}),
    "gzip twice": (415, lambda n: zipped(zipped(event(manifest(n)))), {"Content_Encoding": "gzip, gzip"}),
    "plain text": (415, lambda n: event(manifest(n)), {"Content_Type": "text/plain"}),
    "a form": (415, lambda n: event(manifest(n)), {"Content_Type": "application/x-www-form-urlencoded"}),
    "nothing": (400, lambda n: b"", {}),
    "JSON that ends early": (400, lambda n: event(manifest(n))[:-2], {}),
    "JSON with something behind": (400, lambda n: event(manifest(n)) + b"{}", {}),
    "a list": (400, lambda n: b"[]", {}),
    "null": (400, lambda n: b"null", {}),
    "no data": (400, lambda n: b"{}", {}),
    "a key twice": (400, lambda n: raw(n, b'{"a":1,"a":2}'), {}),
    # base64 and what it holds
    "no base64": (400, lambda n: event("!!!!"), {}),
    "base64 without its end": (400, lambda n: event(base64.b64encode(json.dumps(manifest(n + "0")).encode()).decode()[:-3]), {}),
    "base64 of no JSON": (400, lambda n: event(base64.b64encode(b"manifest").decode()), {}),
    "base64 of a list": (400, lambda n: event(base64.b64encode(b"[1]").decode()), {}),
    "base64 of base64": (400, lambda n: event(base64.b64encode(base64.b64encode(json.dumps(manifest(n)).encode())).decode()), {}),
    "an object that is a number": (400, lambda n: event(1), {}),
    # identities
    "no kind": (400, lambda n: event({"apiVersion": "v1", "metadata": {"name": n}}), {}),
    "no name": (400, lambda n: event({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}), {}),
    "no version": (400, lambda n: event({"kind": "ConfigMap", "metadata": {"name": n}}), {}),
    "a version of three parts": (400, lambda n: event({**manifest(n), "apiVersion": "a/b/c"}), {}),
    "a name of 300 bytes": (422, lambda n: event({**manifest(n), "metadata": {"name": n + "x" * 300}}), {}),
    "a name of 3 000 bytes": (413, lambda n: event({**manifest(n), "metadata": {"name": n + "x" * 3000}}), {}),
    "a name with a line end": (400, lambda n: event({**manifest(n), "metadata": {"name": n + "\n"}}), {}),
    # bytes that are no text
    "NUL in a name": (400, lambda n: event({**manifest(n), "metadata": {"name": n + "\0"}}), {}),
    "NUL in a manifest": (400, lambda n: raw(n, b'"\\u0000"'), {}),
    "NUL as a byte": (400, lambda n: raw(n, b'"\0"'), {}),
    "no UTF-8": (400, lambda n: raw(n, b'"\xff\xfe"'), {}),
    "UTF-8 that is too long": (400, lambda n: raw(n, b'"\xc0\xaf"'), {}),
    "half a surrogate": (400, lambda n: raw(n, b'"\\ud800"'), {}),
    "UTF-16": (400, lambda n: event(manifest(n)).decode().encode("utf-16"), {}),
    # clocks
    "a time that is none": (400, lambda n: event(manifest(n), timestamp="yesterday"), {}),
    "a year of five digits": (400, lambda n: event(manifest(n), timestamp="12026-01-01T00:00:00Z"), {}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_over_http(platform, bad, case):
    status, make, headers = REFUSED[case]
    name = fresh()
    answer = bad.post(make(name), **headers)
    assert answer.status == status, answer.text()[:500]
    problem = answer.json()
    assert problem["status"] == status and problem["detail"] and len(answer.body) < 2000
    assert not platform.psql(f"select 1 from resources where name like '{name}%'")


def test_a_body_beyond_the_limit(bad):
    """Refused by its length: a client that goes on sending all the same may find the connection closed."""
    body = raw(fresh(), b'"' + b"x" * (11 * MIB) + b'"')
    for sent, headers in ((body, {}), (iter([body[:MIB]] * 40), {"Transfer_Encoding": "chunked"})):
        try:
            status = bad.post(sent, **headers).status
        except OSError:
            continue
        assert status == 413


def test_many_bombs_at_once(bad):
    """What one bomb may cost, many at the same time may cost so often and no more."""
    statuses = []

    def throw(case):
        _, make, headers = REFUSED[case]
        for _ in range(3):
            try:
                statuses.append(bad.post(make(fresh()), **headers).status)
            except OSError:  # took longer than a request may
                statuses.append("closed")

    bombs = ["gzip of 200 MiB in 200 KiB", "a flood of {}", "nested 200 000 deep", "a flood of {} in gzip"] * 2
    threads = [threading.Thread(target=throw, args=(case,)) for case in bombs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(statuses) == 24 and set(statuses) <= {413, 429, 503, "closed"} and 413 in statuses, statuses


# ---- HTTP: kept ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group, version, kind", [("", "v1", "Frobnicator"), ("example.com", "v99", "Thing"), ("argoproj.io", "v9", "Rollout"), ("apps", "v1", "ReplicaSet")])
def test_unknown_kinds_are_kept(platform, bad, group, version, kind):
    name = fresh()
    text = {**manifest(name), "apiVersion": f"{group}/{version}" if group else version, "kind": kind, "spec": "not what it should be", "status": [1]}
    assert bad.post(event(text)).status == 200
    found = rows(platform, name)
    assert [row[:4] for row in found] == [[bad.name, group, version, kind]], found
    assert int(found[0][5]) > 0  # as it came


def names(count):
    return [f"example.com/{i * i:012}" for i in range(count)]


# How they are sent, and how much of that is kept.
LARGE = {
    "one text of 9.9 MiB": (lambda n: raw(n, b'"' + base64.b64encode(os.urandom(int(9.9 * MIB * 3 / 4))) + b'"'), 0),
    "499 000 values": (lambda n: raw(n, numbers(499000)), 0),
    "300 000 names": (lambda n: event({**manifest(n), "metadata": {**manifest(n)["metadata"], "finalizers": names(300000)}}), 0.9),
    "60 deep": (lambda n: raw(n, nest(59)), 0.9),
}


@pytest.mark.parametrize("case", LARGE)
def test_large_manifests_are_kept(platform, bad, case):
    name = fresh()
    make, kept = LARGE[case]
    body = make(name)
    for sent, encoding in ((body, {}), (zipped(body, 1), {"Content_Encoding": "gzip"})):
        answer = bad.post(sent, **encoding)
        assert answer.status == 200, answer.text()
    found = rows(platform, name)
    assert len(found) == 1 and int(found[0][5]) > len(body) * kept, found


def test_the_token_alone_says_whose_it_is(platform, bad):
    name, other = fresh(), platform.env["CULVERT_RUNTIME"]
    labels = {"codefresh.io/runtime": other, "codefresh.io/account": "another"}
    claims = {"runtime": other, "account": "another", "accountId": "another"}
    text = {**manifest(name), **claims}
    text["metadata"] |= {"labels": labels, "annotations": labels, **claims}
    body = json.dumps({"data": {"timestamp": now(), "object": text, "source": {"appName": "", **claims}, **claims}, **claims}).encode()
    answer = bad.post(body, X_Runtime=other, Codefresh_Runtime=other, Culvert_Runtime=other, X_Account_Id="another")
    assert answer.status == 200, answer.text()
    assert [row[0] for row in rows(platform, name)] == [bad.name]
    assert platform.psql(f"select account_id from resources where name = '{name}'") == [[platform.env["CULVERT_ACCOUNT"]]]


DAY = 24 * 3600


@pytest.mark.parametrize("ahead", [10 * 365 * DAY, 3000 * 365 * DAY, 25 * 3600])
def test_a_clock_ahead_locks_nothing(platform, bad, ahead):
    name = fresh()
    assert bad.post(event(manifest(name, data={"a": "from the future"}), timestamp=now(ahead))).status == 200
    assert [row[4] for row in rows(platform, name)] == ["t"]
    assert bad.post(event(manifest(name, size=1000))).status == 200
    found = rows(platform, name)
    assert len(found) == 1 and int(found[0][5]) > 1000, found


def test_a_clock_a_little_ahead_locks_for_a_minute_at_most(platform, bad):
    name = fresh()
    assert bad.post(event(manifest(name), timestamp=now(20 * 3600))).status == 200
    assert [row[4] for row in rows(platform, name)] == ["t"]


@pytest.mark.parametrize("timestamp", ["1970-01-01T00:00:00.000Z", "1999-12-31T23:59:59Z"])
def test_a_clock_behind_is_believed_and_overtakes_nothing(platform, bad, timestamp):
    name = fresh()
    assert bad.post(event(manifest(name, size=1000), timestamp=timestamp)).status == 200
    assert len(rows(platform, name)) == 1
    assert bad.post(event(manifest(name, size=3000))).status == 200
    assert bad.post(event(manifest(name, size=5000), timestamp=timestamp)).status == 200
    found = rows(platform, name)
    assert len(found) == 1 and 3000 < int(found[0][5]) < 5000, found


def test_no_clock_is_no_mistake(platform, bad):
    """Go says "no time" as the first day of the year 1."""
    for timestamp in ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z", None, ""):
        name = fresh()
        assert bad.post(event(manifest(name), timestamp=timestamp)).status == 200
        assert platform.psql(f"select observed_at > now() - interval '1 minute' from resources where name = '{name}'") == [["t"]]


# ---- tunnel ------------------------------------------------------------------------------------------------------------------------


def zstd(data, contents_size=True):
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_compressBound.restype = library.ZSTD_compress2.restype = ctypes.c_size_t
    library.ZSTD_createCCtx.restype = ctypes.c_void_p
    library.ZSTD_compressBound.argtypes = [ctypes.c_size_t]
    library.ZSTD_freeCCtx.argtypes = [ctypes.c_void_p]
    library.ZSTD_CCtx_setParameter.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
    library.ZSTD_compress2.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    out = ctypes.create_string_buffer(library.ZSTD_compressBound(len(data)))
    context = library.ZSTD_createCCtx()
    library.ZSTD_CCtx_setParameter(context, 200, int(contents_size))  # ZSTD_c_contentSizeFlag
    size = library.ZSTD_compress2(context, out, len(out), data, len(data))
    library.ZSTD_freeCCtx(context)
    assert size <= len(out)
    return out.raw[:size]


def fields(name, text=None, **more):
    common = {"version": "v1", "kind": "ConfigMap", "ns": BAD, "name": name, "uid": name, "cluster": "in-cluster"}
    return {**common, "manifest": text if text is not None else json.dumps(manifest(name)).encode(), **more}


def packed(name, plain, frame=None, size=None):
    return fields(name, frame if frame is not None else zstd(plain), encoding=1, manifest_bytes=len(plain) if size is None else size)


def text_of(name, data=b'"x"'):
    return json.dumps(manifest(name, data="MARK")).encode().replace(b'"MARK"', data)


def frame_that_claims(size):
    """A zstd frame whose header says so much, with a block that repeats one byte 128 KiB times (RFC 8878, section 3.1.1)."""
    return struct.pack("<IBBQ", 0xFD2FB528, 0xC0, 0x70, size) + struct.pack("<I", (131072 << 3) | (1 << 1))[:3] + b" "


REJECTED = {
    "zstd of 10 MiB of blanks": lambda n: packed(n, b" " * (10 * MIB)),
    "zstd of 200 KiB of blanks": lambda n: packed(n, b" " * 200 * 1024),
    "zstd with bytes behind it": lambda n: packed(n, text_of(n), zstd(text_of(n)) + b"x"),
    "two frames of zstd": lambda n: packed(n, text_of(n), zstd(text_of(n)[:20]) + zstd(text_of(n)[20:])),
    "zstd that claims 1 TiB": lambda n: packed(n, b"", frame_that_claims(1 << 40), 100),
    "zstd that claims more than the record": lambda n: packed(n, b"", frame_that_claims(10 * MIB), 100),
    "zstd that gives more than it claims": lambda n: packed(n, b"", frame_that_claims(100), 100),
    "zstd of unknown size": lambda n: packed(n, text_of(n), zstd(text_of(n), contents_size=False)),
    "zstd that ends early": lambda n: packed(n, text_of(n), zstd(text_of(n))[:-5]),
    "zstd that is none": lambda n: packed(n, text_of(n), text_of(n)),
    "zstd in zstd": lambda n: packed(n, zstd(text_of(n))),
    "a flood of {}": lambda n: fields(n, text_of(n, flood(MIB))),
    "a flood of {} in zstd": lambda n: packed(n, text_of(n, flood(3 * MIB))),
    "nested too deep": lambda n: fields(n, text_of(n, nest(65))),
    "nested 1 000 000 deep in zstd": lambda n: packed(n, b"[" * MIB),
    "JSON that ends early": lambda n: fields(n, text_of(n)[:-2]),
    "a list": lambda n: fields(n, b"[]"),
    "a manifest that says zstd and is plain": lambda n: fields(n, text_of(n), encoding=1),
    "a manifest that is zstd and says plain": lambda n: fields(n, zstd(text_of(n))),
    "NUL": lambda n: fields(n, text_of(n, b'"\0"')),
    "NUL, escaped": lambda n: fields(n, text_of(n, b'"\\u0000"')),
    "no UTF-8": lambda n: fields(n, text_of(n, b'"\xff"')),
    "a name of 300 bytes": lambda n: {**fields(n), "name": n + "x" * 300},
}


@pytest.mark.parametrize("case", REJECTED)
def test_wrong_over_the_tunnel(platform, bad, case):
    """Refused by its sequence, with a reason; the session goes on, and what comes behind is taken."""
    name, behind = fresh(), fresh()
    with ReportTunnel(platform, bad.name, bad.token) as tunnel:
        wrong = tunnel.tell(report_tunnel.OBJECT, **REJECTED[case](name))
        tunnel.tell(report_tunnel.OBJECT, **fields(behind))
        tunnel.settle()
        refused = [(sequence, reason) for kind, sequence, reason, _ in tunnel.acks if kind == report_tunnel.REJECT]
        assert [each[0] for each in refused] == [wrong] and refused[0][1], tunnel.acks
    assert not platform.psql(f"select 1 from resources where name like '{name}%' and manifest_sha256 is not null")
    assert len(rows(platform, behind)) == 1


def test_a_flood_of_bombs_ends_the_session(platform, bad):
    """561 bytes that unpack to 10 MiB: none is unpacked, and who goes on sending them has no session any more."""
    bomb = zstd(b" " * (10 * MIB))
    before = hostile_input.cpu_seconds(platform.pid("culvertd"))
    with ReportTunnel(platform, bad.name, bad.token) as tunnel:
        with pytest.raises((EOFError, OSError)):
            for _ in range(400):
                tunnel.tell(report_tunnel.OBJECT, **packed(fresh(), b"", bomb, 10 * MIB))
            tunnel.until(lambda: False, 60)
    assert hostile_input.cpu_seconds(platform.pid("culvertd")) - before < 5, "17 on a released build when they were unpacked"
    assert platform.metric("culvert_reports_frames_refused_total", reason="too-large") > 100
    name = fresh()
    with ReportTunnel(platform, bad.name, bad.token) as tunnel:  # and the next one is served
        tunnel.tell(report_tunnel.OBJECT, **fields(name))
        tunnel.settle()
    assert len(rows(platform, name)) == 1


BREAKING = {
    "a manifest of 11 MiB": lambda n, s: struct.pack(">I", 11 * MIB),
    "a record of 4 GiB": lambda n, s: b"\xff\xff\xff\xff" + bytes(1000),
    "a record of nothing": lambda n, s: bytes(4),
    "a record of another version": lambda n, s: record(2, s, **fields(n))[:4] + b"\2" + record(2, s, **fields(n))[5:],
    "a record of an unknown type": lambda n, s: record(99, s, **fields(n)),
    "sequence 0": lambda n, s: record(2, 0, **fields(n)),
    "a second HELLO": lambda n, s: record(1, s, boot_id="x"),
    "a field twice": lambda n, s: (lambda r: struct.pack(">I", len(r) - 4 + 6) + r[4:] + b"\x04\0\0\0\x01x")(record(2, s, **fields(n))),
    "a field that is cut": lambda n, s: (lambda r: struct.pack(">I", len(r) - 4 + 5) + r[4:] + b"\x05\0\0\0\xff")(record(2, s, **fields(n))),
    "no manifest": lambda n, s: record(2, s, **{**fields(n), "hash": bytes(32), "manifest": b""}),
    "a name of 600 bytes": lambda n, s: record(2, s, **{**fields(n), "name": n + "x" * 600}),
    "a name that is no UTF-8": lambda n, s: record(2, s, **{**fields(n), "name": b"\xff"}),
    "a name with NUL": lambda n, s: record(2, s, **{**fields(n), "name": n + "\0"}),
    "an encoding that nobody knows": lambda n, s: record(2, s, **fields(n), encoding=7),
    "a size beyond all": lambda n, s: record(2, s, **fields(n), encoding=1, manifest_bytes=1 << 60),
    "a time beyond all": lambda n, s: record(2, s, **fields(n), observed_at=(1 << 64) - 1),
    "no record": lambda n, s: os.urandom(4096),
}


@pytest.mark.parametrize("case", BREAKING)
def test_what_is_no_record_ends_the_session(platform, bad, case):
    name, behind = fresh(), fresh()
    with ReportTunnel(platform, bad.name, bad.token) as tunnel:
        with pytest.raises((EOFError, OSError)):
            tunnel.say(BREAKING[case](name, tunnel.sequence + 1))
            tunnel.until(lambda: False, 20)
    with ReportTunnel(platform, bad.name, bad.token) as tunnel:  # and the next one is served
        tunnel.tell(report_tunnel.OBJECT, **fields(behind))
        tunnel.settle()
    assert len(rows(platform, behind)) == 1
    assert not platform.psql(f"select 1 from resources where name like '{name}%'")


YEAR_MS = 365 * DAY * 1000
ODD = {
    "an unknown kind": lambda n: {**fields(n), "group": "example.com", "version": "v99", "kind": "Thing"},
    "an unknown field": None,
    "a wrong hash": lambda n: fields(n, hash=bytes(31) + b"\1"),
    "another name inside": lambda n: fields(n, json.dumps(manifest("another", runtime="another", accountId="another")).encode()),
    "a clock of 1970": lambda n: fields(n, observed_at=1),
    "no clock": lambda n: fields(n),
    "a clock of the year 3000": lambda n: fields(n, observed_at=1030 * YEAR_MS),
    "a clock of the year 100 000 000": lambda n: fields(n, observed_at=100000000 * YEAR_MS),
    "a manifest of 9.9 MiB": lambda n: fields(n, text_of(n, b'"' + base64.b64encode(os.urandom(int(9.9 * MIB * 3 / 4))) + b'"')),
    "499 000 values": lambda n: packed(n, text_of(n, numbers(499000))),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_over_the_tunnel_is_kept(platform, bad, case):
    name = fresh()
    with ReportTunnel(platform, bad.name, bad.token) as tunnel:
        if ODD[case]:
            tunnel.tell(report_tunnel.OBJECT, **ODD[case](name))
        else:
            tunnel.sequence += 1
            text = record(report_tunnel.OBJECT, tunnel.sequence, **fields(name))
            tunnel.say(struct.pack(">I", len(text) - 4 + 8) + text[4:] + b"\xc8\0\0\0\x03xyz")
        tunnel.settle(60)
        assert not [each for each in tunnel.acks if each[0] == report_tunnel.REJECT], tunnel.acks
        found = rows(platform, name)
        assert len(found) == 1 and found[0][0] == bad.name and found[0][4] == "t" and int(found[0][5]) > 0, found
        # A later word wins, whatever the clock said.
        identity = (ODD[case] or fields)(name)
        tunnel.tell(report_tunnel.DELETED, **{key: identity[key] for key in ("group", "kind", "ns", "name", "uid", "cluster") if key in identity})
        tunnel.settle()
    assert not rows(platform, name)
