"""The tunnel listener against WebSocket frames that may not be, and frames of any shape that may."""

import pytest

from tunnel_listener_client import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, WebSocket, close_frame, frame, same_process, stranger  # noqa: F401

SETTINGS = b"\0\0\0\4\0\0\0\0\0"  # the agent is the HTTP/2 server: its first frame


UNKNOWN = b"\0\0\0\xf0\0\0\0\0\0"


def filler(length):
    """The SETTINGS, then HTTP/2 frames of a type that nobody knows, so many bytes in all."""
    out = SETTINGS
    while (left := length - len(out)) > 0:
        take = left if left <= 16384 + 9 else min(16384 + 9, left - 9)
        out += (take - 9).to_bytes(3, "big") + b"\xf0\0\0\0\0\0" + bytes(take - 9)
    return out


def pieces_of(data, *cuts):
    edges = [0, *cuts, len(data)]
    parts = [data[a:b] for a, b in zip(edges, edges[1:])]
    return [frame(BINARY if i == 0 else CONTINUATION, part, fin=i == len(parts) - 1) for i, part in enumerate(parts)]


def bad_frames():
    cases = {}
    for opcode in (CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG):
        cases[f"unmasked, opcode {opcode}"] = ([frame(opcode, b"\x03\xe8" if opcode == CLOSE else b"xx", masked=False)], 1002)
    for rsv in range(1, 8):
        for opcode in (BINARY, PING, CLOSE):
            cases[f"reserved bits {rsv}, opcode {opcode}"] = ([frame(opcode, b"\x03\xe8", rsv=rsv)], 1002)
    for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15):
        cases[f"reserved opcode {opcode}"] = ([frame(opcode)], 1002)
        cases[f"reserved opcode {opcode} with bytes"] = ([frame(opcode, b"hello")], 1002)
    for opcode in (CLOSE, PING, PONG):
        cases[f"control {opcode} of 126"] = ([frame(opcode, bytes(126))], 1002)
        cases[f"control {opcode} of 65536"] = ([frame(opcode, bytes(65536))], 1002)
        cases[f"control {opcode} of 1 in a long form"] = ([frame(opcode, bytes(1), form=16)], 1002)
        cases[f"control {opcode} in pieces"] = ([frame(opcode, b"", fin=False), frame(CONTINUATION)], 1002)
    cases["continuation of nothing"] = ([frame(CONTINUATION, b"x")], 1002)
    cases["continuation of nothing, not the last"] = ([frame(CONTINUATION, b"x", fin=False)], 1002)
    cases["continuation of nothing, empty"] = ([frame(CONTINUATION)], 1002)
    cases["continuation behind a whole message"] = ([*pieces_of(SETTINGS, 4), frame(CONTINUATION, b"x")], 1002)
    cases["message in a message"] = ([frame(BINARY, SETTINGS, fin=False), frame(BINARY, b"x")], 1002)
    cases["message in a message, in pieces"] = ([frame(BINARY, SETTINGS, fin=False), frame(BINARY, b"x", fin=False)], 1002)
    cases["message in a message behind a ping"] = ([frame(BINARY, SETTINGS, fin=False), frame(PING), frame(BINARY, b"x")], 1002)
    cases["text in a message"] = ([frame(BINARY, SETTINGS, fin=False), frame(TEXT, b"x")], 1002)
    for name, payload in {"text": b"hello", "empty text": b"", "text that is not UTF-8": b"\xff\xfe", "long text": b"a" * 70000}.items():
        cases[name] = ([frame(TEXT, payload)], 1003)
    cases["text in pieces"] = ([frame(TEXT, b"hel", fin=False), frame(CONTINUATION, b"lo")], 1003)
    cases["text behind bytes"] = ([frame(BINARY, SETTINGS), frame(TEXT, b"x")], 1003)
    for length in (2**63, 2**63 + 1, 2**64 - 1):
        cases[f"length {length}"] = ([frame(BINARY, form=64, length=length)], 1002)
    for form, length in ((16, 0), (16, 125), (64, 0), (64, 126), (64, 65535)):
        cases[f"length {length} in {form} bits"] = ([frame(BINARY, bytes(length), form=form)], 1002)
    cases["close of one byte"] = ([frame(CLOSE, b"\x03")], 1002)
    for code in (0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535):
        cases[f"close code {code}"] = ([close_frame(code)], 1002)
    for name, reason in {"a lone byte": b"\xff", "cut": b"\xe2\x82", "overlong": b"\xc0\xaf", "surrogate": b"\xed\xa0\x80", "too high": b"\xf4\x90\x80\x80"}.items():
        cases[f"close reason: {name}"] = ([close_frame(1000, reason)], 1007)
    return cases


def good_closes():
    cases = {"close without a code": ([close_frame()], 1005)}
    for code in (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999):
        cases[f"close {code}"] = ([close_frame(code)], code)
    cases["close with a reason"] = ([close_frame(1000, "Grüße, κόσμε 🙂".encode())], 1000)
    cases["close with the longest reason"] = ([close_frame(1000, b"a" * 123)], 1000)
    cases["close twice"] = ([close_frame(1000), close_frame(1001)], 1000)
    cases["bytes behind the close"] = ([close_frame(1000) + frame(BINARY, b"x") + frame(PING, b"y")], 1000)
    cases["close in the middle of a message"] = ([frame(BINARY, SETTINGS, fin=False), close_frame(1000)], 1000)
    cases["close in single bytes"] = ([bytes([b]) for b in close_frame(1000, b"why")], 1000)
    return cases


def good_frames():
    """Messages in every shape; behind each the connection answers a ping."""
    whole = filler(100)
    cases = {f"message of {n}": [frame(BINARY, filler(n))] for n in (9, 18, 125, 126, 127, 128, 65535, 65536, 65537, 300000)}
    cases["empty message"] = [frame(BINARY), frame(BINARY, SETTINGS)]
    cases["empty pieces"] = [frame(BINARY, fin=False), frame(CONTINUATION, fin=False), frame(CONTINUATION, SETTINGS, fin=False), frame(CONTINUATION)]
    for cuts in ([1], [9], [99], [1, 2, 3], [10, 10, 50], list(range(1, 100))):
        cases[f"cut at {cuts[:3]} of {len(cuts)}"] = pieces_of(whole, *cuts)
    cases["pieces with pings between"] = [part for piece in pieces_of(whole, 3, 50) for part in (piece, frame(PING, b"between"), frame(PONG))]
    cases["single bytes"] = [bytes([b]) for b in frame(BINARY, whole)]
    cases["header in two"] = (lambda data: [data[:3], data[3:]])(frame(BINARY, filler(300)))
    cases["mask in two"] = (lambda data: [data[:6], data[6:]])(frame(BINARY, filler(300)))
    cases["many in one write"] = [frame(BINARY, SETTINGS) + b"".join(frame(BINARY, UNKNOWN) for _ in range(500))]
    cases["zero mask"] = [bytes([0x82, 0x80 | 9]) + bytes(4) + SETTINGS]
    cases["unasked pong"] = [frame(PONG), frame(PONG, b"x" * 125), frame(BINARY, SETTINGS)]
    return cases


BAD_FRAMES, GOOD_CLOSES, GOOD_FRAMES = bad_frames(), good_closes(), good_frames()
PINGS = {"empty": b"", "one byte": b"x", "text": b"hello", "bytes": bytes(range(125)), "zeros": bytes(8), "the longest": b"\xff" * 125}


def test_enough_frames():
    assert len(BAD_FRAMES) + len(GOOD_CLOSES) + len(GOOD_FRAMES) + len(PINGS) >= 100


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_bad_frame_gets_its_close_code(platform, stranger, name):
    pieces, code = BAD_FRAMES[name]
    with WebSocket(platform, stranger) as ws:
        ws.send(*pieces)
        assert ws.read_close() == code


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_bad_frame_in_single_bytes(platform, stranger, name):
    pieces, code = BAD_FRAMES[name]
    data = b"".join(pieces)
    if len(data) > 200:
        data = data[:200]  # the head is what counts
    with WebSocket(platform, stranger) as ws:
        ws.send(*(data[i : i + 1] for i in range(len(data))))
        assert ws.read_close() == code


@pytest.mark.parametrize("name", GOOD_CLOSES)
def test_close_is_answered(platform, stranger, name):
    pieces, code = GOOD_CLOSES[name]
    with WebSocket(platform, stranger) as ws:
        ws.send(*pieces)
        assert ws.read_close() == code


@pytest.mark.parametrize("name", GOOD_FRAMES)
def test_any_shape_is_taken(platform, stranger, name):
    with WebSocket(platform, stranger) as ws:
        ws.send(*GOOD_FRAMES[name], frame(PING, b"are you there?"))
        while (found := ws.read()) != (PONG, b"are you there?"):
            assert found in ((PONG, b"between"), (PONG, b"")), found  # an empty one answers an empty one
        ws.send(close_frame(1000))
        assert ws.read_close() == 1000


@pytest.mark.parametrize("name", PINGS)
def test_ping_is_echoed(platform, stranger, name):
    with WebSocket(platform, stranger) as ws:
        ws.send(frame(PING, PINGS[name]))
        assert ws.read() == (PONG, PINGS[name])


def test_ten_pings_ten_pongs(platform, stranger):
    with WebSocket(platform, stranger) as ws:
        ws.send(b"".join(frame(PING, b"%d" % i) for i in range(10)))
        assert [ws.read() for _ in range(10)] == [(PONG, b"%d" % i) for i in range(10)]


def test_pings_of_a_peer_that_does_not_read(platform, stranger):
    """Of many pings that nobody reads the answers to some stay unanswered (RFC 6455 section 5.5.3); then all goes on."""
    many = 100 * 500
    with WebSocket(platform, stranger) as ws:
        for _ in range(100):
            ws.send(b"".join(frame(PING, bytes(125)) for _ in range(500)))
        ws.send(frame(BINARY, SETTINGS))
        ws.sock.settimeout(1)
        answered = 0
        while ws.read() == (PONG, bytes(125)):
            answered += 1
        assert answered > 0
        ws.sock.settimeout(20)
        ws.send(frame(PING, b"still there?"))
        while (found := ws.read()) == (PONG, bytes(125)):  # it was busy for longer than we waited
            answered += 1
        assert found == (PONG, b"still there?") and answered <= many


def test_http2_that_is_none_ends_the_session(platform, stranger):
    with WebSocket(platform, stranger) as ws:
        ws.send(frame(BINARY, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        assert ws.read_close() == 1002
