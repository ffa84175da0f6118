"""No request reaches another runtime than the one it names, and none of another account. Every service signs its answers with its
runtime's account and name; what a request names is worked out here, apart from the platform, from its Host or path alone."""

import concurrent.futures
import json
import os
import random
import re
import socket
import ssl
import tempfile

import pytest

from origin_under_test import Account, read_responses, start_runtimes
from platform_under_test import wait_until

TUPLES = int(os.environ.get("CULVERT_TEST_TUPLES", "10000"))
THREADS = 4


@pytest.fixture(scope="module")
def runtimes(platform):
    mine, theirs = Account(platform, "quickstart"), Account(platform, "others")
    wanted = [(mine, "prod"), (mine, "prod-2"), (mine, "web"), (theirs, "prod"), (theirs, "stage"), (theirs, "web")]
    with tempfile.TemporaryDirectory(prefix="culvert-misrouting.") as folder:
        made = start_runtimes(platform, folder, wanted)
        yield made
        for runtime in made:
            runtime.close()


class Client:
    """Keep-alive connections to both listeners, opened with whatever name in SNI."""

    def __init__(self, platform, seed, names):
        self.platform, self.random, self.names = platform, random.Random(seed), names
        self.ports = {"api": int(platform.env["CULVERT_URL"].rsplit(":", 1)[1]), "ingress": int(platform.env["CULVERT_INGRESS_URL"].rsplit(":", 1)[1])}
        self.socks = {}
        self.context = ssl.create_default_context(cafile=platform.env["CULVERT_CA"])
        self.context.check_hostname = False

    def ask(self, listener, data):
        """(status, headers, body) of one request."""
        for attempt in range(2):
            sock = self.socks.pop(listener, None)
            fresh = sock is None
            if fresh:
                raw = socket.create_connection(("127.0.0.1", self.ports[listener]), timeout=30)
                sock = self.context.wrap_socket(raw, server_hostname=self.random.choice(self.names))
            try:
                sock.sendall(data)
                found, closed, rest = read_responses(sock, count=1, seconds=30)
            except OSError:
                found, closed, rest = [], True, b""
            if not found and not fresh:
                sock.close()
                continue  # it had idled too long
            assert len(found) == 1 and not rest, (data, found, rest)
            status, headers, body = found[0]
            gone = closed or any(name.lower() == "connection" and "close" in value.lower() for name, value in headers)
            if gone or status == 400:
                sock.close()
            else:
                self.socks[listener] = sock
            return status, headers, body
        raise AssertionError("the listener closes fresh connections")

    def close(self):
        for sock in self.socks.values():
            sock.close()


class Tuples:
    """Makes requests, and says who may answer each."""

    def __init__(self, platform, runtimes, seed):
        self.random, self.runtimes = random.Random(seed), runtimes
        self.accounts = list({id(r.account): r.account for r in runtimes}.values())
        self.hosts = {r.host: r for r in runtimes}
        self.ports = {"api": platform.env["CULVERT_URL"].rsplit(":", 1)[1], "ingress": platform.env["CULVERT_INGRESS_URL"].rsplit(":", 1)[1]}
        self.platform_host = platform.env["CULVERT_URL"].split("//")[1].rsplit(":", 1)[0]
        self.serial = 0

    def any_case(self, text):
        return "".join(self.random.choice((c.lower(), c.upper())) for c in text)

    def host(self):
        """(Host, is it as people write it)"""
        r = self.random
        one, two = r.sample(self.runtimes, 2)
        label, domain = one.host.split(".", 1)
        port = ":" + self.ports["ingress"]
        plain = [one.host + port, one.host, self.any_case(one.host) + port, one.host + "." + port, one.host + ":443", one.host + ":1"]
        if r.random() < 0.5:
            return r.choice(plain), True
        odd = [
            f"{two.account.id}-{one.name}.{domain}", f"{one.account.id}-{two.name}.{domain}", f"{one.account.id}-nobody.{domain}", f"{'0' * 24}-{one.name}.{domain}",
            f"{label}.{two.host}", f"{one.host}.{two.host}", f"{label}.{domain}.evil.example", f"x.{one.host}", f"{label}x.{domain}", f"x{label}.{domain}", f"{label}-.{domain}",
            f"{label}..{domain}", f"{one.host}..", f".{one.host}", f"{one.host}:", f"{one.host}:0", f"{one.host}:99999", f"{one.host}:{two.host}", f"{two.host}@{one.host}", f"{one.host}/{two.name}",
            f"{one.host},{two.host}", f"{one.host} {two.host}", f"{one.host}%2f{two.name}", f"{one.host}%00.{two.host}", f"{one.host}#{two.host}", f"{one.host}?{two.host}", f"[{one.host}]", "[::1]", "localhost", domain,
            f"{one.account.id[:-1]}-{one.name}.{domain}", f"{one.account.id}{one.name}.{domain}", f"{one.account.id}_{one.name}.{domain}", f"{one.account.id}-{one.name}_{two.name}.{domain}", f"{one.name}.{domain}",
            f"{one.account.name}-{one.name}.{domain}", f"{one.account.id}-{one.name}-{two.account.id}-{two.name}.{domain}", f"{one.account.id}--{one.name}.{domain}", f"\t{one.host}\t", f"{label}\xad.{domain}", "",
        ]  # fmt: skip
        return r.choice(odd), False

    def service_path(self):
        """(path below the runtime, is it canonical)"""
        r = self.random
        self.serial += 1
        two = r.choice(self.runtimes)
        plain = [f"/services/w/{self.serial}", f"/services/w/{self.serial}/a/b", f"/services/w/{self.serial}?x=../../{two.name}/proxy/", f"/services/w/{self.serial}/%252e%252e%252f", f"/services/w/a%20b/{self.serial}", f"/services/w/{self.serial}/...", f"/services/w/{self.serial}/a;b"]
        if r.random() < 0.6:
            return r.choice(plain), True
        return r.choice([
            f"/services/w/../../{two.name}/proxy/services/w/{self.serial}", f"/services/w/..%2f..%2f{two.name}/{self.serial}", f"/services/w/%2e%2e/%2e%2e/{two.name}", f"/services//w/{self.serial}", f"//services/w/{self.serial}", f"/./services/w/{self.serial}",
            f"/services/w/%2f{self.serial}", f"/services/w/%5c{self.serial}", f"/services/w/\\..\\{self.serial}", f"/services/w/{self.serial}/..;/x", f"/services/w/.%2e/{self.serial}", f"/services/w/%00{self.serial}", f"/services/w/%0d%0aHost:%20{two.host}", f"/services/w/%zz",
            f"/runtimes/{two.name}/proxy/services/w/{self.serial}", f"/services/{two.name}/{self.serial}", f"/Services/w/{self.serial}", f"/services/w%2f{self.serial}", f"/services/w/{self.serial}/.", f"/services/w/{self.serial}/..", f"https://{two.host}/services/w/{self.serial}", f"{two.host}/services/w/{self.serial}", f"/services/w;/{self.serial}",
        ]), False  # fmt: skip

    def spoofs(self):
        """Headers that name somebody else."""
        two = self.random.choice(self.runtimes)
        names = [
            ("X-Forwarded-Host", two.host), ("X-Forwarded-Server", two.host), ("X-Host", two.host), ("Forwarded", f"host={two.host}"), ("X-Original-URL", f"/runtimes/{two.name}/proxy/services/w/spoofed"), ("X-Rewrite-URL", "/services/w/spoofed"),
            ("X-Original-Host", two.host), ("culvert-runtime", two.name), ("culvert-account", two.account.id), ("Culvert-Identity", "x"), (":authority", two.host), (":path", "/services/w/spoofed"), ("X-Http-Method-Override", "PUT"), ("X-Runtime", two.name),
            ("X-Request-Id", two.name + "-12345678"), ("X-Forwarded-For", "10.0.0.1"), ("X-Forwarded-Prefix", f"/runtimes/{two.name}/proxy"), ("Host", two.host), ("host", two.host), ("Host ", two.host), ("X-Host\t", two.host), ("X_Forwarded_Host", two.host),
        ]  # fmt: skip
        return self.random.sample(names, self.random.choice((0, 0, 1, 2, 3)))

    def credential(self, account):
        """(header lines, the account they stand for)"""
        r = self.random
        other = r.choice([a for a in self.accounts if a is not account])
        kind = r.choice(("right",) * 8 + ("other", "other", "none", "wrong", "both"))
        lines = {
            "right": [r.choice([("Authorization", account.key), ("Authorization", f"Bearer {account.key}"), ("x-access-token", account.key)])],
            "other": [("Authorization", other.key)],
            "none": [],
            "wrong": [("Authorization", account.key[:-1] + ("0" if account.key[-1] != "0" else "1"))],
            "both": [("Authorization", account.key), ("x-access-token", other.key)],
        }[kind]
        return lines, {"right": account, "other": other, "both": account}.get(kind)

    def make(self):
        """(listener, bytes, the runtime that may answer or None, must it)"""
        r = self.random
        way = r.choice(("host", "host", "api", "api", "platform host"))
        path, canonical = self.service_path()
        spoofs = self.spoofs()
        clean = not any(name.strip().lower() == "host" or name.startswith(":") or name != name.strip() for name, _ in spoofs)
        if way == "host":
            host, plain = self.host()
            named = self.hosts.get(re.sub(r":\d*$", "", host.strip()).lower().removesuffix("."))
            lines, account = self.credential(named.account if named else r.choice(self.accounts))
            right = named if named and account is named.account else None
            below = re.match("/runtimes/([^/]+)/proxy/", path)
            if host == self.platform_host and below:  # the path names it, then
                right = next((one for one in self.runtimes if one.account is account and one.name == below.group(1)), None)
            must = bool(right) and plain and canonical and clean
            return "ingress", self.request(path, host, lines, spoofs), right, must
        base = r.choice(self.runtimes)
        segment, canonical_name = self.segment(base)
        lines, account = self.credential(base.account)
        right = next((one for one in self.runtimes if one.account is account and one.name == segment), None)
        listener = "api" if way == "api" else "ingress"
        host = f"{self.platform_host}:{self.ports[listener]}"
        must = bool(right) and canonical and canonical_name and clean
        return listener, self.request(f"/runtimes/{segment}/proxy{path}", host, lines, spoofs), right, must

    def segment(self, one):
        """(what stands for the runtime in a path, is it a plain name)"""
        two = self.random.choice(self.runtimes)
        if self.random.random() < 0.6:
            return one.name, True
        return self.random.choice([
            one.name.upper(), one.name + ".", "." + one.name, one.name + "%20", one.name + "%00", f"{one.name}%2f..%2f{two.name}", f"{one.name}/../{two.name}", f"../runtimes/{two.name}", f"{one.name};{two.name}", f"{one.name}/proxy/../../{two.name}", f"{two.account.id}-{two.name}",
            f"{two.account.name}/{two.name}", f"{two.host}", f"{one.name}?/proxy/", f"{one.name},{two.name}", "%70rod", "nobody", "", ".", "..", "*", f"{one.name}%", f"{one.name}\\{two.name}", f"{one.name}//", "a" * 300,
        ]), False  # fmt: skip

    def request(self, target, host, lines, spoofs):
        fields = [("Host", host)] + lines + spoofs
        self.random.shuffle(fields)
        head = f"GET {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields)
        return (head + "\r\n").encode("latin-1")


def check(client, made):
    listener, data, right, must = made
    status, headers, body = client.ask(listener, data)
    if status != 200:
        assert not must, (status, body, data)
        assert 400 <= status <= 504 and status not in (500, 501), (status, body, data)
        assert b'"origin"' not in body
        return 0
    answer = json.loads(body)
    assert right is not None, f"answered by {answer['origin']}, although nobody was named: {data}"
    assert answer["origin"] == right.signature, f"answered by {answer['origin']} for {right.signature}: {data}"
    target = data.split(b" ")[1].decode().split("/proxy", 1)[-1] if b"/proxy" in data.split(b" ")[1].split(b"?")[0] else data.split(b" ")[1].decode()
    assert "/services/w" + answer["target"] == target, (answer, data)
    return 1


def test_ten_thousand_tuples(platform, runtimes):
    seed = int(os.environ.get("CULVERT_TEST_SEED") or random.randrange(1 << 32))
    print(f"CULVERT_TEST_SEED={seed}")
    names = [r.host for r in runtimes] + ["localhost"]
    tuples = Tuples(platform, runtimes, seed)
    all_of = [tuples.make() for _ in range(TUPLES)]
    before, open_before = [r.origin.count() for r in runtimes], platform.connections("ingress")

    def run(part):
        client = Client(platform, seed + part, names)
        try:
            return sum(check(client, made) for made in all_of[part::THREADS])
        finally:
            client.close()

    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        served = sum(pool.map(run, range(THREADS)))
    arrived = sum(r.origin.count() for r in runtimes) - sum(before)
    print(f"{TUPLES} tuples, {served} answered by a runtime, by the right one every time")
    assert arrived == served, "as many requests arrived as were answered"
    assert served >= sum(must for _, _, _, must in all_of) > TUPLES // 8
    for runtime in runtimes:
        assert not runtime.origin.at("/spoofed")
    wait_until(lambda: platform.connections("ingress") <= open_before, 10, "no connection outlives its client")


def shape(answer):
    """What a caller can tell answers apart by."""
    status, headers, body = answer
    kept = sorted((name.lower(), value) for name, value in headers if name.lower() not in ("date", "x-request-id"))
    text = re.sub(rb'"traceId":"[^"]*"', b"", body)
    return status, [pair for pair in kept if pair[0] != "content-length"], text


@pytest.mark.parametrize("way", ["host", "platform host", "api"])
def test_foreign_is_like_missing(platform, runtimes, way):
    """A runtime of another account, one that nobody has, and an account that nobody has: the same answer, but for the id."""
    client = Client(platform, 1, ["localhost"])
    mine, theirs = runtimes[0], next(r for r in runtimes if r.name == "stage")
    domain = mine.host.split(".", 1)[1]
    tuples = Tuples(platform, runtimes, 1)

    def ask(account_id, name):
        if way == "host":
            data = tuples.request("/services/w/x", f"{account_id}-{name}.{domain}", [("Authorization", mine.account.key)], [])
        else:
            listener = "api" if way == "api" else "ingress"
            data = tuples.request(f"/runtimes/{name}/proxy/services/w/x", f"{tuples.platform_host}:{tuples.ports[listener]}", [("Authorization", mine.account.key)], [])
        return client.ask("api" if way == "api" else "ingress", data)

    foreign = ask(theirs.account.id, theirs.name)
    assert foreign[0] in (404, 503)
    assert shape(ask(theirs.account.id, "nobody")) == shape(foreign)
    assert shape(ask("f" * 24, theirs.name)) == shape(foreign)
    assert theirs.origin.at("/x") == []
    client.close()
