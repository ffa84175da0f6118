"""For tests that say exactly what they mean: a client of the ingress listener, over TLS, and reading to the end."""

import contextlib
import select
import socket
import ssl
import time


class RawClient:
    """A connection to the ingress listener that says exactly what it is given."""

    def __init__(self, platform):
        self.platform = platform
        self.host = platform.env["CULVERT_INGRESS_URL"].removeprefix("https://")
        self.sock = platform.raw(platform.env["CULVERT_INGRESS_URL"], platform.env["CULVERT_INGRESS_HOST"])
        self.have = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.sock.close()

    def send(self, head, *lines, body=b"", key=True):
        text = [f"{head} HTTP/1.1", f"Host: {self.host}", *lines]
        if key:
            text.append(f"Authorization: {self.platform.env['CULVERT_API_KEY']}")
        self.sock.sendall("\r\n".join([*text, "", ""]).encode() + body)

    def until(self, mark):
        """Everything up to and with the mark."""
        while mark not in self.have:
            data = self.sock.recv(1 << 16)
            assert data, f"ended before {mark}: {self.have[-300:]}"
            self.have += data
        head, _, self.have = self.have.partition(mark)
        return head + mark

    def head(self):
        return self.until(b"\r\n\r\n")

    def exactly(self, size):
        while len(self.have) < size:
            data = self.sock.recv(1 << 16)
            assert data, "ended early"
            self.have += data
        data, self.have = self.have[:size], self.have[size:]
        return data

    def echoed(self, data, seconds=60):
        """What comes back while data is sent. In one thread: an SSLSocket must not be used by two at once before Python 3.13."""
        sent, deadline = memoryview(data), time.monotonic() + seconds
        self.sock.setblocking(False)
        try:
            while len(self.have) < len(data):
                assert time.monotonic() < deadline, f"{len(self.have)} of {len(data)} bytes came in {seconds} s"
                wanted, progress = set(), False
                if sent:
                    try:
                        sent, progress = sent[self.sock.send(sent[:16384]) :], True
                    except ssl.SSLWantWriteError:
                        wanted.add("w")
                    except ssl.SSLWantReadError:
                        wanted.add("r")
                try:
                    piece = self.sock.recv(1 << 16)
                    assert piece, "ended early"
                    self.have, progress = self.have + piece, True
                except ssl.SSLWantReadError:
                    wanted.add("r")
                if not progress:
                    select.select([self.sock] if "r" in wanted else [], [self.sock] if "w" in wanted else [], [], 1)
        finally:
            self.sock.settimeout(30)
        return self.exactly(len(data))

    def to_the_end(self):
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            while data := self.sock.recv(1 << 16):
                self.have += data
        return self.have


def read_to_end(sock, seconds=15):
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
