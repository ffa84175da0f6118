"""Lists of HTTP/1 requests that some server somewhere reads in two ways. A case is raw text with one meaning, or none: built from
the parts of a listener (see Case.bytes), always followed by another request on the same connection, the sentinel, and with a request
hidden in its body that must never be seen as one."""

import dataclasses

# What must come of it. REFUSED: 4xx or 501, then close. TAKEN: answered, with the body that is named. TAKEN_WITHOUT_BODY: answered;
# its payload is then no request, which is refused.
REFUSED, TAKEN, TAKEN_WITHOUT_BODY, EITHER = "refused", "taken", "taken without body", "either"


@dataclasses.dataclass
class Case:
    name: str
    expect: str
    head: bytes  # with {host}, {auth}, {path} to be filled in; its empty line included
    payload: bytes = b""
    body: bytes = b""  # what the service must get when it is taken
    closes: bool = False  # taken, and then closed for its own reasons: the sentinel is not answered

    def bytes(self, host, auth, path, sentinel):
        def fill(data):
            return data.replace(b"{host}", host).replace(b"{auth}", auth).replace(b"{path}", path)

        return fill(self.head) + fill(self.payload) + fill(sentinel)


START = b"POST {path}/main HTTP/1.1\r\n"
COMMON = b"Host: {host}\r\nAuthorization: {auth}\r\n"
# Lengths must not depend on what is filled in, so the hidden request is cut short; a server that took it for one would say so.
HIDDEN = b"GET /services/w/hidden HTTP/1.1\r\nHost: hidden\r\n\r\n"
CHUNKED_HIDDEN = b"%x\r\n%s\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN)
CONTROLS = [bytes([c]) for c in range(0x20) if c not in (9, 10, 13)] + [b"\x7f"]


def show(data):
    return data.decode("latin-1").encode("unicode_escape").decode()


def transfer_encodings():
    """[(header lines, what they are: "chunked" a Transfer-Encoding of one meaning, "other" none at all, "bad")]"""
    name, lines = b"Transfer-Encoding", []

    def add(kind, *all_of):
        lines.extend((line + b"\r\n", kind) for line in all_of)

    add("chunked", *(name + b": " + value for value in (b"chunked", b"Chunked", b"CHUNKED", b"cHuNkEd")))
    add("chunked", *(name + b":" + value for value in (b"chunked", b"\tchunked", b"  chunked", b" chunked ", b" chunked\t", b" \t chunked \t ")))
    add("chunked", *(n + b": chunked" for n in (b"transfer-encoding", b"TRANSFER-ENCODING", b"tRANSFER-eNCODING")))
    add("other", *(n + b": chunked" for n in (b"Transfer_Encoding", b"TransferEncoding", b"Transfer-Encoding-X", b"X-Transfer-Encoding", b"Transfer--Encoding")))
    add("other", b"Content-Encoding: chunked", b"X: Transfer-Encoding: chunked", b"Trailer: Transfer-Encoding", b"X-Y: chunked")
    for control in CONTROLS:
        add("bad", name + b": " + control + b"chunked", name + b": chunked" + control, name + b": chu" + control + b"nked", name + control + b": chunked")
    for value in (b"chunked, chunked", b"chunked,chunked", b"identity, chunked", b"chunked, identity", b"gzip, chunked", b"chunked, gzip", b", chunked",
                  b"chunked,", b",chunked,", b"x, chunked", b"chunked, x", b"deflate, chunked", b"compress, chunked", b"trailers, chunked", b"chunked\t,\tchunked",
                  b"identity", b"gzip", b"", b" ", b"x", b"chunke", b"chunkedd", b"xchunked", b"chunked x", b"x chunked", b"chunked;q=1", b"chunked;a", b"chunked;",
                  b"chunked ;", b'"chunked"', b"'chunked'", b"(chunked)", b"chunked(x)", b"chunked#", b"chunked/1", b"chunked=1", b"=chunked", b"chunk ed", b"chu\tnked",
                  b"%63hunked", b"\\chunked", b"chunked\\", b"[chunked]", b"{chunked}", b"<chunked>", b"chunked:", b":chunked", b"none", b"null", b"false", b"0", b"1",
                  b"chun\xe2\x84\xaaed", b"\xef\xbb\xbfchunked", b"chunked\xa0", b"\xa0chunked", b"\x85chunked", b"chunked\xe2\x80\x8b", b"\xc3\xa7hunked"):
        add("bad", name + b": " + value)
    for fold in (b"\r\n ", b"\r\n\t", b"\r\n  "):
        add("bad", name + b":" + fold + b"chunked", name + b": chunked" + fold + b", identity", name + b": x" + fold + b"chunked", b"X: y" + fold + name + b": chunked")
    for n in (b"Transfer-Encoding ", b"Transfer-Encoding\t", b" Transfer-Encoding", b"\tTransfer-Encoding", b"Transfer Encoding", b'"Transfer-Encoding"', b"Transfer-Encoding;",
              b":Transfer-Encoding", b"Transfer-Encodin\xc4\xa1", b"Trans\xadfer-Encoding", b"Transfer\xe2\x80\x91Encoding", b"(Transfer-Encoding)", b"Transfer-Encoding\\", b"Transfer/Encoding"):
        add("bad", n + b": chunked")
    add("bad", name + b":: chunked", name + b" chunked", name + b"=chunked", name, name + b"\xff: chunked")
    for between in (b"\r", b"\n", b"\r\r\n", b"\n\r\n"[:2], b"\x00", b"\x0b\r\n"):
        add("bad", b"X: y" + between + name + b": chunked")
    add("bad", name + b": chunked\r", name + b": chunked\n" + b"X: y", name + b": chun\rked", name + b":\rchunked", name + b":\nchunked")
    twice = lambda a, b, sep=b"": name + b": " + a + b"\r\n" + sep + b.replace(b"{n}", name)  # noqa: E731
    add("bad", twice(b"chunked", b"{n}: chunked"), twice(b"chunked", b"{n}: identity"), twice(b"identity", b"{n}: chunked"), twice(b"x", b"{n}: chunked"), twice(b"chunked", b"{n}: x"),
        twice(b"chunked", b"transfer-encoding: chunked"), twice(b"chunked", b"{n}: chunked", b"X: y\r\n"), twice(b"chunked", b"{n}:"), twice(b"", b"{n}: chunked"),
        twice(b"chunked", b"{n}: chunked\r\n{n}: chunked"), twice(b"gzip", b"{n}: chunked"))
    return lines


def transfer_encoding_cases():
    for line, kind in transfer_encodings():
        alone = {"chunked": TAKEN, "other": TAKEN_WITHOUT_BODY, "bad": REFUSED}[kind]
        yield Case(f"TE {show(line)}", alone, START + COMMON + line + b"\r\n", CHUNKED_HIDDEN, HIDDEN if kind == "chunked" else b"")
        length = b"Content-Length: %d\r\n" % len(CHUNKED_HIDDEN)
        both = TAKEN if kind == "other" else REFUSED
        yield Case(f"CL, TE {show(line)}", both, START + COMMON + length + line + b"\r\n", CHUNKED_HIDDEN, CHUNKED_HIDDEN)
        yield Case(f"TE {show(line)}, CL", both, START + COMMON + line + length + b"\r\n", CHUNKED_HIDDEN, CHUNKED_HIDDEN)
    yield Case("TE in HTTP/1.0", REFUSED, START.replace(b"1.1", b"1.0") + COMMON + b"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n", CHUNKED_HIDDEN)


def chunk_cases():
    head = START + COMMON + b"Transfer-Encoding: chunked\r\n\r\n"

    def case(name, expect, payload):
        return Case(f"chunks {name} {show(payload[:60])}", expect, head, payload, b"hello")

    for size in (b"5", b"05", b"0000005", b"5;a", b"5;a=b", b'5;a="b"', b"5;" + b"a" * 200):
        yield case("size", TAKEN, size + b"\r\nhello\r\n0\r\n\r\n")
    for size in (b"0x5", b"0X5", b"+5", b"-5", b" 5", b"5 ", b"\t5", b"5\t", b"5 ;a", b"5_", b"5,", b"g", b"", b"5\r", b"5\x00", b"\x005", b"5\x0b", b"\x0b5", b"5\x0c", b"FFFFFFFFFFFFFFFF5", b"10000000000000005",
                 b"00000000000000000005", b"8000000000000005", b"\xef\xbc\x95", b"5.0", b"5e0 ", b"5h", b"#5", b"5=", b'"5"', b"5;", b"5;\x00", b"5;a\x00", b"5;a\rb", b"5\xa0", b"%35", b"five",
                 b"5;" + b"a" * 300, b"-0", b"$5", b"5\\", b"5:", b"5;=a\r", b"\xff"):
        yield case("size", REFUSED, size + b"\r\nhello\r\n0\r\n\r\n")
    for end in (b"\n", b"\r", b"", b"xx", b"\n\r", b" \r\n", b"\r\r\n", b"\x00\r\n", b"\r\n\r\n", b"world\r\n", b"\t\r\n", b"\rx", b"x\r\n"):
        yield case("data end", REFUSED, b"5\r\nhello" + end + b"0\r\n\r\n")
    for line in (b"5\n", b"5;a\n", b"5\r", b"\n5\r\n", b"\r\n5\r\n"):
        yield case("line end", REFUSED, line + b"hello\r\n0\r\n\r\n")
    for last in (b"0\r\n\r\n", b"000\r\n\r\n", b"0;a\r\n\r\n", b"0\r\nX: y\r\n\r\n", b"0\r\nX: y\r\nZ:\r\n\r\n", b"0\r\nContent-Length: 5\r\n\r\n", b"0\r\nTransfer-Encoding: chunked\r\n\r\n", b"0\r\nHost: other\r\n\r\n"):
        yield case("last", TAKEN, b"5\r\nhello\r\n" + last)
    for last in (b"0\n\n", b"0\r\n\n", b"0\n\r\n", b"0\r\nX : y\r\n\r\n", b"0\r\n X: y\r\n\r\n", b"0\r\n\tX: y\r\n\r\n", b"0\r\nX: y\n\r\n", b"0\r\nX: y\r\n z\r\n\r\n", b"0\r\nX\r\n\r\n", b"0\r\n: y\r\n\r\n", b"0\r\nX: \x00\r\n\r\n",
                 b"+0\r\n\r\n", b"-0\r\n\r\n", b"0x0\r\n\r\n", b"0 \r\n\r\n", b" 0\r\n\r\n", b"0\r\rX", b"0\r\n\rX", b"0\r\nX: " + b"a" * 9000 + b"\r\n\r\n"):
        yield case("last", REFUSED, b"5\r\nhello\r\n" + last)


def length_cases():
    def case(line, expect, payload=b"hello", body=b"hello", version=b"1.1", closes=False):
        return Case(f"CL {show(line)}", expect, START.replace(b"1.1", version) + COMMON + line + b"\r\n\r\n", payload, body, closes)

    name = b"Content-Length"
    for line in (name + b": 5", name + b":5", name + b": 5 ", name + b":\t5\t", b"CONTENT-LENGTH: 5", b"content-length: 5"):
        yield case(line, TAKEN)
    yield case(name + b": 0", TAKEN, b"", b"")
    yield case(name + b": 5", TAKEN, version=b"1.0", closes=True)
    for value in (b"+5", b"-5", b"5,5", b"5, 5", b"5,", b",5", b"5,6", b"5 5", b"0x5", b"5.0", b"5.", b"5e0", b"05", b"005", b"00", b"5;", b"5;a", b'"5"', b"", b" ", b"\xef\xbc\x95", b"99999999999999999999", b"18446744073709551621",
                  b"9223372036854775812", b"1000000000000000000", b"1_0", b"five", b"0b101", b"5h", b"(5)", b"5#", b"5/1", b"NaN", b"-0", b"+0", b"5\xa0", b"\xa05", b"0 5", b"5\r\n 6", b"5\r\n\t", b"\r\n 5", b"5%", b"=5"):
        yield case(name + b": " + value, REFUSED)
    for control in CONTROLS:
        yield case(name + b": 5" + control, REFUSED)
        yield case(name + b": " + control + b"5", REFUSED)
    for n in (b"Content-Length ", b"Content-Length\t", b" Content-Length", b"\tContent-Length", b"Content Length", b"Content-Length\x00", b"Content-Length\x0b"):
        yield case(n + b": 5", REFUSED)
    for n in (b"Content_Length", b"ContentLength", b"X-Content-Length"):  # others: no body, and the payload is no request
        yield case(n + b": 5", TAKEN_WITHOUT_BODY, b"hel:o", b"")
    for first, second in ((b"5", b"5"), (b"5", b"6"), (b"0", b"5"), (b"5", b"0"), (b"5", b""), (b"", b"5")):
        yield case(name + b": " + first + b"\r\n" + name + b": " + second, REFUSED)
        yield case(name + b": " + first + b"\r\nX: y\r\n" + name.lower() + b": " + second, REFUSED)


def head_cases():
    end = COMMON + b"\r\n"

    def case(name, expect, head, **more):
        return Case(f"head {name}", expect, head, **more)

    yield case("plain", TAKEN, b"GET {path}/main HTTP/1.1\r\n" + end)
    yield case("HTTP/1.0", TAKEN, b"GET {path}/main HTTP/1.0\r\n" + end, closes=True)
    for line in (b"GET http://{host}{path}/main HTTP/1.1", b"GET https://{host}{path}/main HTTP/1.1", b"GET HTTP://other/ HTTP/1.1", b"GET  {path}/main HTTP/1.1", b"GET {path}/main  HTTP/1.1", b"GET\t{path}/main HTTP/1.1",
                 b"GET {path}/main\tHTTP/1.1", b" GET {path}/main HTTP/1.1", b"\tGET {path}/main HTTP/1.1", b"GET {path}/main HTTP/1.1 ", b"GET {path}/main HTTP/1.1\t", b"GET {path}/main http/1.1", b"GET {path}/main Http/1.1",
                 b"GET {path}/main HTTP/1.2", b"GET {path}/main HTTP/1.9", b"GET {path}/main HTTP/2.0", b"GET {path}/main HTTP/2", b"GET {path}/main HTTP/3", b"GET {path}/main HTTP/0.9", b"GET {path}/main HTTP/1", b"GET {path}/main HTTP/11",
                 b"GET {path}/main HTTP/01.1", b"GET {path}/main HTTP/1.01", b"GET {path}/main HTTP/1.10", b"GET {path}/main HTTP/1.1x", b"GET {path}/main xHTTP/1.1", b"GET {path}/main HTTP /1.1", b"GET {path}/main HTTP/ 1.1",
                 b"GET {path}/main HTTP/1,1", b"GET {path}/main HTTPS/1.1", b"GET {path}/main ICY/1.1", b"GET {path}/main HTTP\x001.1", b"GET {path}/main", b"GET", b"GET ", b"", b"{path}/main HTTP/1.1", b"GET HTTP/1.1", b"GET  HTTP/1.1",
                 b"G ET {path}/main HTTP/1.1", b"GE\x00T {path}/main HTTP/1.1", b"\x00GET {path}/main HTTP/1.1", b"G\x0bET {path}/main HTTP/1.1", b"G(E)T {path}/main HTTP/1.1", b"GET: {path}/main HTTP/1.1", b"\xefGET {path}/main HTTP/1.1",
                 b"A" * 33 + b" {path}/main HTTP/1.1", b"GET {path}/main/a b HTTP/1.1", b"GET {path}/main\x00 HTTP/1.1", b"GET {path}/main\x7f HTTP/1.1", b"GET {path}/main\x80 HTTP/1.1", b"GET {path}/main\x0b HTTP/1.1", b"GET {path}/main#a HTTP/1.1",
                 b"GET * HTTP/1.1", b"POST * HTTP/1.1", b"CONNECT {host} HTTP/1.1", b"CONNECT {path}/main HTTP/1.1", b"GET {host} HTTP/1.1", b"GET main HTTP/1.1", b"GET ?x HTTP/1.1", b"PRI * HTTP/2.0", b"GET \\{path}/main HTTP/1.1",
                 b"GET ://{path}/main HTTP/1.1", b"GET file:{path}/main HTTP/1.1", b"GET /runtimes/\xc3\xa9/main HTTP/1.1", b"\xef\xbb\xbfGET {path}/main HTTP/1.1", b"GET\xa0{path}/main HTTP/1.1", b"GET\x0c{path}/main\x0cHTTP/1.1"):
        yield case(f"line {show(line)}", REFUSED, line + b"\r\n" + end)
    for lead in (b"\r\n", b"\n", b"\r", b"\r\n\r\n", b" \r\n", b"\x00", b"\x00\r\n"):
        yield case(f"lead {show(lead)}", REFUSED, lead + b"GET {path}/main HTTP/1.1\r\n" + end)
    plain = b"GET {path}/main HTTP/1.1\r\n" + end
    yield case("LF only", REFUSED, plain.replace(b"\r\n", b"\n"))
    yield case("CR only", REFUSED, plain.replace(b"\r\n", b"\r"))
    yield case("LF in the request line", REFUSED, plain.replace(b"\r\n", b"\n", 1))
    yield case("LF in a field", REFUSED, b"GET {path}/main HTTP/1.1\r\nX: y\n" + end)
    yield case("LF at the end", REFUSED, b"GET {path}/main HTTP/1.1\r\n" + COMMON + b"\n")
    yield case("CR in a field", REFUSED, b"GET {path}/main HTTP/1.1\r\nX: y\rz\r\n" + end)
    yield case("CR CR LF", REFUSED, b"GET {path}/main HTTP/1.1\r\nX: y\r\r\n" + end)
    yield case("CR CR LF at the end", REFUSED, b"GET {path}/main HTTP/1.1\r\n" + COMMON + b"\r\r\n")
    for line in (b"X y", b": y", b"X : y", b"X\t: y", b" X: y", b"\tX: y", b"X: y\r\n z", b"X: y\r\n\tz", b"X: \x00", b"X\x00: y", b"X: y\x7f", b"X\xc3\xa9: y", b"X[]: y", b'"X": y', b"X/Y: z", b"X@: y", b"X;: y", b"X=y", b"=", b"\x80: y", b"X:\x0by"):
        yield case(f"field {show(line)}", REFUSED, b"GET {path}/main HTTP/1.1\r\n" + COMMON + line + b"\r\n\r\n")
        yield case(f"first field {show(line)}", REFUSED, b"GET {path}/main HTTP/1.1\r\n" + line + b"\r\n" + end)
    yield case("101 fields", REFUSED, b"GET {path}/main HTTP/1.1\r\n" + COMMON + b"".join(b"X-%d: y\r\n" % i for i in range(101)) + b"\r\n")
    yield case("long field", REFUSED, b"GET {path}/main HTTP/1.1\r\n" + COMMON + b"X: " + b"y" * 40000 + b"\r\n\r\n")
    yield case("long name", REFUSED, b"GET {path}/main HTTP/1.1\r\n" + COMMON + b"y" * 40000 + b": z\r\n\r\n")
    yield case("long target", REFUSED, b"GET {path}/main?" + b"y" * 40000 + b" HTTP/1.1\r\n" + end)
    for value in (b"two", b"100-continue, x", b"200-ok", b'"100-continue"'):
        yield case(f"expect {show(value)}", REFUSED, START + COMMON + b"Expect: " + value + b"\r\nContent-Length: 5\r\n\r\n", payload=b"hello")
    yield case("expect twice", REFUSED, START + COMMON + b"Expect: 100-continue\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", payload=b"hello")
    for connection in (b"a b", b"close; x", b"\x22close\x22", b"clo\xc3\xa9se"):
        yield case(f"connection {show(connection)}", REFUSED, b"GET {path}/main HTTP/1.1\r\n" + COMMON + b"Connection: " + connection + b"\r\n\r\n")
    for connection in (b"keep-alive, close", b"close, keep-alive", b"close\r\nConnection: keep-alive", b"keep-alive\r\nConnection: close", b"CLOSE", b",close,"):
        yield case(f"connection {show(connection)}", TAKEN, b"GET {path}/main HTTP/1.1\r\n" + COMMON + b"Connection: " + connection + b"\r\n\r\n", closes=True)


def host_cases():
    def case(lines):
        return Case(f"host {show(lines)}", REFUSED, b"GET {path}/main HTTP/1.1\r\nAuthorization: {auth}\r\n" + lines + b"\r\n")

    for value in (b"", b" ", b"a b", b"{host} x", b"{host},{host}", b"{host}, other", b"user@{host}", b"{host}/x", b"{host}?x", b"{host}#x", b"{host}:443x", b"other:", b"other:0", b"other:99999", b"other:8x", b"other:-1", b"other:80:80", b":443",
                  b"[::1", b"::1]", b"[::1]x", b"[]", b"[::1]:x", b"ho\x00st", b"h\xc3\xb6st", b"{host}\x0b", b"\x0b{host}", b"%68ost", b"ho%00st", b"https://{host}", b"//{host}", b"(host)", b"host!", b"ho;st", b"ho=st", b"ho'st", b"ho\\st", b"{host}\xa0",
                  b"a" * 300):
        yield case(b"Host: " + value + b"\r\n")
    for lines in (b"", b"Host: {host}\r\nHost: {host}\r\n", b"Host: {host}\r\nHost: other\r\n", b"Host: other\r\nHost: {host}\r\n", b"Host: {host}\r\nhost: {host}\r\n", b"Host: {host}\r\nX: y\r\nHOST: other\r\n", b"Host : {host}\r\n", b"Host\t: {host}\r\n",
                  b" Host: {host}\r\n", b"Host:\r\n {host}\r\n", b"Host: {host}\r\n other\r\n", b"Host\x00: {host}\r\n", b"Hos\xc5\xa5: {host}\r\n", b"Host: {host}\rHost: other\r\n", b"Host: {host}\nHost: other\r\n", b"X-Host: {host}\r\n",
                  b"Host:\r\nHost: {host}\r\n", b"Host: {host}\r\nHost:\r\n", b"Host {host}\r\n"):
        yield case(lines)


LISTS = {"transfer-encoding": transfer_encoding_cases, "chunks": chunk_cases, "content-length": length_cases, "head": head_cases, "host": host_cases}
