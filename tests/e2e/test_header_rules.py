"""What of a request's headers goes into a cluster, and what of an answer's comes out: seen at both ends. Hundreds of spellings of what
must not pass, on every way in; and what must pass does."""

import itertools
import tempfile

import pytest

from origin_under_test import Account, read_responses, start_runtimes

WAYS = ["api", "platform host", "own host"]
numbers = itertools.count()


@pytest.fixture(scope="module")
def runtime(platform):
    with tempfile.TemporaryDirectory(prefix="culvert-headers.") as folder:
        [made] = start_runtimes(platform, folder, [(Account(platform, "quickstart"), "headers")])
        yield made
        made.close()


class Way:
    """One of the ways to the service: the platform's origin on either listener, or the runtime's own host."""

    def __init__(self, runtime, name):
        platform = runtime.platform
        self.runtime, self.name = runtime, name
        url = platform.env["CULVERT_URL" if name == "api" else "CULVERT_INGRESS_URL"]
        self.url, self.port = url, url.rsplit(":", 1)[1]
        self.sni = runtime.host if name == "own host" else "localhost"
        self.host = f"{self.sni}:{self.port}"
        self.prefix = "" if name == "own host" else f"/runtimes/{runtime.name}/proxy"

    def ask(self, path, fields=(), credential=True, method="GET"):
        """(status, headers, body), sent with these header lines (bytes or pairs), in their order."""
        lines = [b"%s %s%s HTTP/1.1" % (method.encode(), self.prefix.encode(), path.encode()), b"Host: " + self.host.encode()]
        if credential:
            lines.append(b"Authorization: " + self.runtime.account.key.encode())
        lines += [field if isinstance(field, bytes) else f"{field[0]}: {field[1]}".encode("latin-1") for field in fields]
        with self.runtime.platform.raw(self.url, self.sni) as sock:
            sock.sendall(b"\r\n".join(lines) + b"\r\n\r\n")
            found, _, _ = read_responses(sock, count=1, methods=(method,))
        assert len(found) == 1, lines
        return found[0]


def cases_of(name):
    swapped = "".join(c.upper() if i % 2 else c.lower() for i, c in enumerate(name))
    return {name, name.lower(), name.upper(), swapped}


def batches(items, size):
    """The spellings of one name go into different ones."""
    items = list(items)
    steps = -(-len(items) // size)
    return [items[i::steps] for i in range(steps)]


# ---- into the cluster ------------------------------------------------------------------------------------------------------

# Credentials, assertions of identity or of the way, hop-by-hop fields, other names for the same.
NEVER_IN = [
    "Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-Scopes", "Impersonate-Extra-x%2fy", "Impersonate-", "X-Remote-User", "X-Remote-Group", "X-Remote-Extra-Scopes", "X-Remote-Uid", "X-Remote-Addr",
    "Cookie", "Cookie2", "x-access-token", "Proxy-Authorization", "Proxy-Connection", "Proxy-Authenticate", "Keep-Alive", "HTTP2-Settings", "Trailer", "culvert-identity", "culvert-runtime", "culvert-account", "culvert-user", "Culvert-Cause",
    "X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Groups", "X-Forwarded-Access-Token", "X-Forwarded-Preferred-Username", "X-Forwarded-Client-Cert", "X-Forwarded-Port", "X-Forwarded-Server", "X-Forwarded-Ssl", "X-Forwarded-Scheme",
    "X-Auth-Request-User", "X-Auth-Request-Email", "X-Webauth-User", "X-Original-Url", "X-Original-Host", "X-Rewrite-Url", "X-Real-Ip", "X-Client-Ip", "True-Client-Ip", "X-Cluster-Client-Ip", "Cf-Connecting-Ip", "X-Ssl-Client-Dn", "Ssl-Client-Cert",
    "X-Client-Cert", "X-Goog-Authenticated-User-Email", "X-Amzn-Oidc-Identity", "X-Ms-Client-Principal", "Remote-User", "Remote-Groups", "Remote-Email", "Remote-Name", "X-Goog-Iap-Jwt-Assertion", "Cf-Access-Jwt-Assertion", "X-Pomerium-Claim-Email", "X-Authentik-Username", "X-Vouch-User", "Tailscale-User-Login", "X-Http-Method", "X-Method-Override", "X-Http-Method-Override", "Via",
    "Sec-WebSocket-Key", "Sec-WebSocket-Accept",
]  # fmt: skip
# The same with what many servers take for a dash, and one that no server should have.
UNDERSCORED = [name.replace("-", "_") for name in NEVER_IN if "-" in name] + ["Impersonate_User", "impersonate-User_", "X_Remote-User", "X-Remote_User", "x_forwarded_for", "_", "Authorization_", "x_y"]
# Made anew by the platform: the client's are gone, the platform's are there.
REPLACED = ["X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "X-Forwarded-Prefix"]
MUST_GO_IN = ["Accept", "Accept-Encoding", "Accept-Language", "User-Agent", "If-None-Match", "If-Match", "If-Modified-Since", "Range", "Cache-Control", "Content-Type", "Origin", "Referer", "X-Custom", "Traceparent", "Tracestate", "Baggage",
              "Idempotency-Key", "X-Requested-With", "Last-Event-ID", "Grpc-Timeout", "X-Api-Version", "Prefer", "Priority", "X.Dotted", "x~odd!#$%&'*+^`|"]  # fmt: skip


@pytest.fixture(params=WAYS)
def way(request, runtime):
    return Way(runtime, request.param)


def arrived(way, fields, **more):
    """The request as the service got it."""
    path = f"/services/w/{next(numbers)}"
    status, _, body = way.ask(path, fields, **more)
    assert status == 200, body
    [seen] = way.runtime.origin.at(path.removeprefix("/services/w"))
    return seen


def test_never_in(way):
    names = [spelling for name in NEVER_IN for spelling in sorted(cases_of(name))] + sorted(set(UNDERSCORED) | {n.lower() for n in UNDERSCORED})
    assert len(names) > 250
    for batch in batches(names, 30):
        seen = arrived(way, [(name, f"canary-{i}") for i, name in enumerate(batch)])
        assert b"canary" not in seen.head, seen.head
    key = way.runtime.account.key.encode()
    assert key not in arrived(way, [("x-access-token", "canary")]).head


def test_key_never_goes_in(way):
    """However it is given."""
    key = way.runtime.account.key
    for fields in ([("x-access-token", key)], [("Authorization", f"Bearer {key}")], [("Authorization", f"bearer {key}")], [("AUTHORIZATION", key)], [("X-ACCESS-TOKEN", key)]):
        assert key.split(".")[1].encode() not in arrived(way, fields, credential=False).head


def test_two_keys_are_none(way):
    """Which of them counts would depend on who reads; the one beside it, of another kind, is not looked for either."""
    key = way.runtime.account.key
    for other in (key, f"Bearer {key}", "x", "", key[:-1]):
        for fields in ([("Authorization", key), ("Authorization", other)], [("Authorization", other), ("authorization", key)], [("x-access-token", key), ("X-Access-Token", other)]):
            status, _, _ = way.ask("/services/w/two-keys", fields, credential=False)
            assert status == 401, (status, fields)
    assert way.runtime.origin.at("/two-keys") == []


def test_replaced(way):
    for name in REPLACED:
        for spelling in sorted(cases_of(name)):
            seen = arrived(way, [(spelling, "canary"), (spelling, "canary2")])
            assert b"canary" not in seen.head, seen.head
    seen = arrived(way, [])
    assert seen.values("x-forwarded-for") == ["127.0.0.1"] and seen.values("x-forwarded-proto") == ["https"]
    assert seen.values("x-forwarded-host") == [way.host] and len(seen.values("forwarded")) == 1
    assert seen.values("x-forwarded-prefix") == ([way.prefix] if way.prefix else [])
    assert len(seen.values("x-request-id")) == 1 and seen.values("culvert-identity") == []


def test_named_by_connection(way):
    """RFC 9110 section 7.6.1: what Connection names is for this hop only, in any spelling, in any of its lines, before or behind it."""
    for i, (listed, name) in enumerate(
        itertools.product(
            ["{0}", "close, {0}", "keep-alive,{0}", "{0} , x-other", ",{0},", "x-a,\t{0}", "{1}", "x-a\r\nConnection: {0}", "{0}\r\nConnection: keep-alive"],
            ["X-Custom", "x-custom-2", "Accept-Language", "Impersonate-User", "Range", "Traceparent"],
        )
    ):
        named = listed.format(name, name.swapcase())
        fields = [(name, "canary"), ("Connection", named)] if i % 2 else [("Connection", named), (name, "canary")]
        seen = arrived(way, fields + [("X-Stays", "stays")])
        assert b"canary" not in seen.head, (named, seen.head)
        assert seen.values("x-stays") == ["stays"]
        assert not any("x-custom" in value.lower() for value in seen.values("connection"))


def test_connection_cannot_take_the_platforms_own(way):
    """Else a caller could take away what the platform says about it."""
    for name in ["X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "X-Request-Id", "Host", "Culvert-Identity", "Content-Length", "Authorization"]:
        seen = arrived(way, [("Connection", name)])
        assert seen.values("x-forwarded-for") == ["127.0.0.1"] and seen.values("x-forwarded-host") == [way.host]
        assert len(seen.values("host")) == 1 and len(seen.values("x-request-id")) == 1 and len(seen.values("forwarded")) == 1


def test_malformed_fields_are_refused(way):
    """Not passed on for somebody else to mend."""
    before = way.runtime.origin.count()
    for name in ["Impersonate-User", "X-Remote-User", "Cookie", "X-Custom"]:
        for line in (f"{name} : c", f"{name}\t: c", f" {name}: c", f"\t{name}: c", f"X: y\r\n {name}: c", f"{name}\x00: c", f"{name}: c\x00", f"{name}: c\x0b", f"{name}\x0b: c", f"\"{name}\": c", f"{name}", f"X: y\r{name}: c", f"X: y\n{name}: c", f"{name}\xa0: c"):
            status, _, _ = way.ask("/services/w/malformed", [line.encode("latin-1")])
            assert status == 400, line
    assert way.runtime.origin.count() == before


def test_must_go_in(way):
    seen = arrived(way, [(name, f"value of {name}") for name in MUST_GO_IN])
    for name in MUST_GO_IN:
        assert seen.values(name) == [f"value of {name}"], name
    assert arrived(way, [("X-Twice", "a"), ("X-Twice", "b")]).values("x-twice") == ["a", "b"]
    assert arrived(way, [("X-Text", "caf\xe9 \t x")]).values("x-text") == ["caf\xe9 \t x"]


def test_webhook_credentials(runtime):
    """A webhook's own credential is for the event source; one of ours never is."""
    way, key = Way(runtime, "own host"), runtime.account.key
    runtime.origin.answers["/hook"] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    def hook(*fields):
        status, _, body = way.ask("/webhooks/argo/w/hook", fields, credential=False, method="POST")
        assert status == 200, body
        with runtime.origin.lock:
            return next(seen for target, of in runtime.origin.seen.items() if "hook" in target for seen in of[-1:])

    assert hook(("Authorization", "Basic dXNlcjpwYXNz"), ("X-Hub-Signature-256", "sha256=0"), ("X-GitHub-Event", "push")).values("authorization") == ["Basic dXNlcjpwYXNz"]
    for name, value in (("Authorization", key), ("Authorization", f"Bearer {key}"), ("Authorization", f"bearer  {key}"), ("x-access-token", key), ("Cookie", "a=canary"), ("Impersonate-User", "canary")):
        assert key.split(".")[1].encode() not in hook((name, value)).head and b"canary" not in hook((name, value)).head, name


# ---- out of the cluster ----------------------------------------------------------------------------------------------------

NEVER_OUT = [
    "Set-Cookie", "Set-Cookie2", "Link", "Refresh", "Content-Security-Policy-Report-Only", "Strict-Transport-Security", "NEL", "Report-To", "Reporting-Endpoints", "Alt-Svc", "Alt-Used", "Public-Key-Pins", "Public-Key-Pins-Report-Only", "Expect-CT",
    "Clear-Site-Data", "Service-Worker-Allowed", "Permissions-Policy", "Feature-Policy", "Origin-Trial", "Origin-Agent-Cluster", "Accept-CH", "Critical-CH", "Document-Policy", "Cross-Origin-Opener-Policy", "Cross-Origin-Embedder-Policy",
    "Cross-Origin-Resource-Policy", "Timing-Allow-Origin", "SourceMap", "X-SourceMap", "X-DNS-Prefetch-Control", "X-Accel-Redirect", "X-Accel-Buffering", "X-Sendfile", "X-LiteSpeed-Location", "X-Reproxy-URL", "Proxy-Authenticate", "Proxy-Authorization",
    "Proxy-Authentication-Info", "Proxy-Connection", "Proxy-Status", "Keep-Alive", "Upgrade", "HTTP2-Settings", "Via", "Server", "X-Powered-By", "Speculation-Rules", "Supports-Loading-Mode", "Activate-Storage-Access", "Content-Location", "No-Vary-Search",
    "Authentication-Info", "Impersonate-User", "X-Remote-User", "culvert-cause", "culvert-identity", "Culvert-Anything", "X-Request-Id", "X-Content-Type-Options", "X-Frame-Options", "X-XSS-Protection", "Sec-WebSocket-Accept", "Access-Control-Allow-Credentials",
    "Access-Control-Allow-Private-Network", "Set-Login", "Observe-Browsing-Topics", "Delta-Base", "Warning", "Location2", "X-Unknown",
]  # fmt: skip
# Only where the answer is on the runtime's own origin.
OWN_HOST_ONLY = ["Access-Control-Allow-Methods", "Access-Control-Allow-Headers", "Access-Control-Expose-Headers", "Access-Control-Max-Age"]
MUST_COME_OUT = {
    "Content-Type": "text/html; charset=utf-8", "Content-Language": "en", "Content-Disposition": "attachment; filename=x", "Cache-Control": "max-age=5", "ETag": '"abc"', "Last-Modified": "Sat, 21 Nov 2026 00:00:00 GMT", "Vary": "Accept",
    "Expires": "Sat, 21 Nov 2026 00:00:00 GMT", "Age": "5", "Accept-Ranges": "bytes", "Retry-After": "5", "Allow": "GET", "X-Total-Count": "7",
}  # fmt: skip
# The whole of what may be seen: what the service may say, and what the listeners say themselves.
MAY_COME_OUT = {name.lower() for name in MUST_COME_OUT} | {"content-encoding", "content-range", "pragma", "date", "www-authenticate", "location"} | {
    "server", "connection", "content-length", "transfer-encoding", "x-request-id", "x-content-type-options", "content-security-policy", "culvert-cause", "alt-svc-none"}  # fmt: skip


def answer_with(way, lines, status=b"200 OK", path=None):
    """What the client gets when the service answers with these header lines (bytes)."""
    path = path or f"/{next(numbers)}"
    way.runtime.origin.answers[path] = b"HTTP/1.1 " + status + b"\r\n" + b"".join(line + b"\r\n" for line in lines) + b"Content-Length: 2\r\n\r\nok"
    return way.ask("/services/w" + path)


def check_head(way, headers):
    names = [name.lower() for name, _ in headers]
    allowed = MAY_COME_OUT | ({name.lower() for name in OWN_HOST_ONLY} | {"access-control-allow-origin"} if way.name == "own host" else set())
    allowed = allowed | {"strict-transport-security"}  # the platform's own; what a service says of it has a canary
    assert set(names) <= allowed, set(names) - allowed
    for single in ("strict-transport-security", "content-length", "content-type", "x-request-id", "x-content-type-options", "content-security-policy", "location", "date"):
        assert names.count(single) <= 1, single
    told = {name.lower(): value for name, value in headers}
    assert told["x-content-type-options"] == "nosniff"
    if way.name != "own host":
        assert "sandbox" in told["content-security-policy"]
    assert not any("canary" in value for _, value in headers), headers


def test_never_out(way):
    names = [spelling for name in NEVER_OUT for spelling in sorted(cases_of(name))] + [name.replace("-", "_") for name in NEVER_OUT if "-" in name]
    names += [] if way.name == "own host" else OWN_HOST_ONLY + ["Access-Control-Allow-Origin"]
    assert len(names) > 250
    for batch in batches(names, 20):
        status, headers, body = answer_with(way, [f"{name}: canary={i}".encode() for i, name in enumerate(batch)] + [b"Upgrade-Not: x"])
        assert status == 200 and body == b"ok"
        check_head(way, headers)


def test_policies_are_the_platforms(way):
    for name in ("Content-Security-Policy", "content-security-policy", "X-Content-Type-Options", "Content-Security-Policy-Report-Only"):
        _, headers, _ = answer_with(way, [name.encode() + b": canary", name.encode() + b": default-src *"])
        check_head(way, headers)
        assert not any("default-src *" in value for _, value in headers)


def test_named_by_connection_does_not_come_out(way):
    for named in ("ETag", "etag, close", "x, ETag", ",etag,", "keep-alive, Cache-Control, ETAG"):
        status, headers, _ = answer_with(way, [b'ETag: "canary"', b"Connection: " + named.encode()])
        assert status == 200
        check_head(way, headers)


def test_malformed_answers_do_not_come_out(way):
    """Nothing is mended: the whole answer is worth nothing."""
    for line in (b"ETag : canary", b" ETag: canary", b"ETag: a\r\n canary", b"ETag\x00: canary", b"ETag: canary\x00", b"X: y\rSet-Cookie: canary", b"X: y\nSet-Cookie: canary", b"Set-Cookie\x0b: canary", b": canary", b"canary",
                 b"Content-Length: 2", b"Content-Length: 3", b"Transfer-Encoding: chunked", b"Transfer-Encoding: canary", b"Content-Length: +2"):
        status, headers, body = answer_with(way, [line])
        assert status == 502 and b"canary" not in body, line
        assert not any("canary" in value for _, value in headers)


def test_basic_authentication_does_not_come_out(way):
    """A browser would ask for a password in the platform's name."""
    for value in (b'Basic realm="canary"', b"Negotiate canary", b"NTLM canary", b'Digest realm="canary"', b'basic realm="canary"', b'Bearerx realm="canary"', b'Bearer', b'Bearer\trealm="canary"', b'Bearer=canary',
                  b'Bearer realm="x", Basic realm="canary"', b'Bearer realm="x",Negotiate canary', b'Bearer Basic realm="canary"', b'Bearer, Basic realm="canary"', b'Bearer realm="x\\", Basic realm="canary"'):
        status, headers, _ = answer_with(way, [b"WWW-Authenticate: " + value], b"401 Unauthorized")
        assert status == 401
        check_head(way, headers)
    for value in ("Bearer", 'Bearer realm="x"', 'bearer realm="a, Basic b", error="invalid_token"'):
        _, headers, _ = answer_with(way, [b"WWW-Authenticate: " + value.encode()], b"401 Unauthorized")
        assert ("www-authenticate", value) in [(name.lower(), text) for name, text in headers]


LOCATIONS_ELSEWHERE = ["https://evil.example/", "http://evil.example", "//evil.example/x", "///evil.example", "/\\evil.example", "\\\\evil.example", "/\t/evil.example", "javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "vbscript:x", "ftp://{host}/",
                       "https:evil.example", "https:/evil.example", "https://{host}@evil.example/", "https://{host}.evil.example/", "https://evil.example/{host}", "https://{host}:1/", "http:\\\\evil.example", "/x\\..\\y", "blob:x", "file:///etc/passwd", "https://",
                       "mailto:x@y"]  # fmt: skip


def test_locations(way):
    for value in LOCATIONS_ELSEWHERE:
        _, headers, _ = answer_with(way, [b"Location: " + value.replace("{host}", way.host).encode()], b"302 Found")
        told = [text for name, text in headers if name.lower() == "location"]
        # What is left, if anything, is a path of ours.
        assert all(text.startswith("/") and text[1:2] not in ("/", "\\", "\t") and "\\" not in text and "evil" not in text for text in told), (value, told)
        check_head(way, headers)
    for value, wanted in (("/a?b#c", way.prefix + "/a?b#c"), (f"https://{way.host}/a", way.prefix + "/a"), ("a/b", "a/b"), ("?x", "?x")):
        _, headers, _ = answer_with(way, [b"Location: " + value.encode()], b"302 Found")
        assert [text for name, text in headers if name.lower() == "location"] == [wanted], value


def test_must_come_out(way):
    status, headers, body = answer_with(way, [f"{name}: {value}".encode() for name, value in MUST_COME_OUT.items()])
    told = {name.lower(): value for name, value in headers}
    assert status == 200 and body == b"ok"
    for name, value in MUST_COME_OUT.items():
        assert told.get(name.lower()) == value, name
    check_head(way, headers)
    if way.name == "own host":
        _, headers, _ = answer_with(way, [f"{name}: x".encode() for name in OWN_HOST_ONLY])
        assert {name.lower() for name in OWN_HOST_ONLY} <= {name.lower() for name, _ in headers}


def test_trailers(way):
    """Behind a chunked answer nothing else passes than in front of it."""
    path = f"/{next(numbers)}"
    trailers = b"Set-Cookie: canary\r\nLocation: https://evil.example/canary\r\nContent-Type: canary/x\r\nContent-Length: 7\r\nTransfer-Encoding: canary\r\nculvert-cause: canary\r\nLink: canary\r\n"
    way.runtime.origin.answers[path] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Set-Cookie\r\n\r\n2\r\nok\r\n0\r\n" + trailers + b"\r\n"
    with way.runtime.platform.raw(way.url, way.sni) as sock:
        sock.sendall(f"GET {way.prefix}/services/w{path} HTTP/1.1\r\nHost: {way.host}\r\nTE: trailers\r\nAuthorization: {way.runtime.account.key}\r\nConnection: close\r\n\r\n".encode())
        got = b""
        while piece := sock.recv(65536):
            got += piece
    assert b"200" in got[:20] and b"ok" in got and b"canary" not in got, got


def test_the_lists_are_long_enough():
    into = sum(len(cases_of(name)) for name in NEVER_IN) + len(set(UNDERSCORED)) + 54 + 56
    out = sum(len(cases_of(name)) for name in NEVER_OUT) + len(NEVER_OUT) + len(LOCATIONS_ELSEWHERE)
    assert into >= 300 and out >= 250 and into + out >= 500
