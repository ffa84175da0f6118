"""A plain HTTP service inside the demo cluster: something to reach through a tunnel.

Written on sockets, because it is also what throughput is measured against: answers leave in 1 MiB writes from
one shared buffer, uploads are read into one buffer of each connection and never held whole.
"""

from __future__ import annotations

import hashlib
import json
import select
import socket
import threading
import time
import urllib.parse

from log import Log

GREETING = (
    "Hello from the demo cluster.\n"
    "This is not a real Kubernetes cluster, but the way here is real: browser, tunnel, agent, service.\n"
)
BUFFER_BYTES = 1024 * 1024
HEAD_BYTES_MAX = 64 * 1024
LINE_BYTES_MAX = 8 * 1024
CONNECTIONS_MAX = 1024
IDLE_SECONDS = 300.0
STREAM_BYTES_MAX = 2**50
SLOW_SECONDS_MAX = 300.0
EVENTS_MAX = 1_000_000
_PATTERN = memoryview(bytes(range(256)) * (BUFFER_BYTES // 256))


class BadRequest(Exception):
    """The request has more than one meaning, or none; the connection is closed after a 400."""


class ClientLeft(Exception):
    """The peer went away."""


class Head:
    """A request head, parsed."""

    def __init__(self, text: str):
        lines = text.split("\r\n")
        parts = lines[0].split(" ")
        if len(parts) != 3 or parts[2] not in ("HTTP/1.1", "HTTP/1.0"):
            raise BadRequest("request line")
        self.method, self.target, self.version = parts
        self.headers: list[tuple[str, str]] = []
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                raise BadRequest("header line")
            self.headers.append((name, value.strip()))
        split = urllib.parse.urlsplit(self.target)
        self.path = split.path
        self.query = dict(urllib.parse.parse_qsl(split.query, max_num_fields=64))
        self.body_bytes, self.chunked = self._body()

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name]

    def keeps_alive(self) -> bool:
        connection = ",".join(self.values("connection")).lower()
        return self.version == "HTTP/1.1" and "close" not in connection

    def _body(self) -> tuple[int, bool]:
        lengths, codings = self.values("content-length"), self.values("transfer-encoding")
        if codings:
            if lengths or len(codings) > 1 or codings[0].lower() != "chunked":
                raise BadRequest("transfer-encoding")
            return 0, True
        if not lengths:
            return 0, False
        if len(lengths) > 1 or not (lengths[0].isascii() and lengths[0].isdigit() and len(lengths[0]) < 18):
            raise BadRequest("content-length")
        return int(lengths[0]), False

    def number(self, name: str, default: float, maximum: float) -> float:
        try:
            value = float(self.query.get(name, default))
        except ValueError:
            raise BadRequest(name) from None
        if not 0 <= value <= maximum:
            raise BadRequest(name)
        return value


class Connection:
    """One client. Lives on its own thread."""

    def __init__(self, client: socket.socket, counters: Counters):
        self._socket = client
        self._counters = counters
        self._buffer = bytearray(64 * 1024)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0  # the bytes received and not consumed yet

    def run(self) -> None:
        self._socket.settimeout(IDLE_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        alive = True
        while alive:
            try:
                head = self._read_head()
                if head is None:
                    return
            except BadRequest as error:
                self._answer(None, 400, "text/plain", f"bad request: {error}\n".encode(), close=True)
                return
            self._counters.begin()
            completed = False
            try:
                alive = self._serve(head)
                completed = True
            except BadRequest as error:
                self._answer(None, 400, "text/plain", f"bad request: {error}\n".encode(), close=True)
                return
            finally:
                self._counters.end(completed)

    # -- requests --------------------------------------------------------------------------------------------

    def _serve(self, head: Head) -> bool:
        """Answers one request; whether the connection can be used again."""
        if head.values("expect") and head.values("expect")[0].lower() == "100-continue":
            self._socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        body_bytes, digest = self._drain(head, hashing=head.path == "/echo")
        first, _, rest = head.path.lstrip("/").partition("/")
        if head.path == "/":
            self._answer(head, 200, "text/plain; charset=utf-8", GREETING.encode())
        elif head.path == "/echo":
            self._answer_json(head, self._echo(head, body_bytes, digest))
        elif head.path == "/counters":
            self._answer_json(head, self._counters.snapshot())
        elif first == "bytes" and rest.isascii() and rest.isdigit() and int(rest[:20]) <= STREAM_BYTES_MAX:
            self._send_bytes(head, int(rest))
        elif first == "chunked" and rest.isascii() and rest.isdigit() and int(rest[:20]) <= STREAM_BYTES_MAX:
            self._send_chunks(head, int(rest))
        elif first == "status" and rest.isascii() and rest.isdigit() and 200 <= int(rest[:4]) <= 599:
            self._answer(head, int(rest), "text/plain", b"" if rest in ("204", "304") else f"{rest}\n".encode())
        elif head.path == "/sse":
            self._send_events(head)
            return False
        elif head.path == "/slow":
            seconds = head.number("seconds", 5.0, SLOW_SECONDS_MAX)
            self._pause(seconds)
            self._answer(head, 200, "text/plain", f"answered after {seconds:g} seconds\n".encode())
        else:
            self._answer(head, 404, "text/plain", b"the demo service has nothing here\n")
        return head.keeps_alive()

    @staticmethod
    def _echo(head: Head, body_bytes: int, digest: str) -> dict:
        return {
            "demo": True,
            "method": head.method,
            "target": head.target,
            "path": head.path,
            "query": head.query,
            "headers": [list(header) for header in head.headers],
            "bodyBytes": body_bytes,
            "sha256": digest,
        }

    def _send_bytes(self, head: Head, count: int) -> None:
        self._send_head(head, 200, "application/octet-stream", f"Content-Length: {count}")
        if head.method == "HEAD":
            return
        while count > 0:
            step = min(count, BUFFER_BYTES)
            self._socket.sendall(_PATTERN[:step])
            count -= step

    def _send_chunks(self, head: Head, count: int) -> None:
        if head.version != "HTTP/1.1":
            raise BadRequest("chunks need HTTP/1.1")
        self._send_head(head, 200, "application/octet-stream", "Transfer-Encoding: chunked")
        if head.method == "HEAD":
            return
        while count > 0:
            step = min(count, BUFFER_BYTES)
            self._socket.sendall(b"%x\r\n" % step)
            self._socket.sendall(_PATTERN[:step])
            self._socket.sendall(b"\r\n")
            count -= step
        self._socket.sendall(b"0\r\n\r\n")

    def _send_events(self, head: Head) -> None:
        """Server-sent events until the client leaves, or `count` of them."""
        interval = head.number("interval", 1.0, 60.0)
        count = int(head.number("count", EVENTS_MAX, EVENTS_MAX))
        self._send_head(head, 200, "text/event-stream", "Cache-Control: no-cache\r\nConnection: close")
        for number in range(1, count + 1):
            event = json.dumps({"number": number, "time": time.time(), "from": "demo cluster"})
            self._socket.sendall(f"id: {number}\nevent: tick\ndata: {event}\n\n".encode())
            if number < count:
                self._pause(interval)

    def _pause(self, seconds: float) -> None:
        """Waits, but not longer than the client does."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self._socket], [], [], left)[0]:
                return
            if self._socket.recv(1, socket.MSG_PEEK) == b"":
                raise ClientLeft()
            time.sleep(min(left, 0.05))  # a pipelined request waits its turn; keep looking for the end behind it

    # -- answers ---------------------------------------------------------------------------------------------

    def _send_head(self, head: Head | None, code: int, content_type: str, more: str) -> None:
        reason = "OK" if code == 200 else "Demo"
        if head is not None and not head.keeps_alive() and "Connection:" not in more:
            more += "\r\nConnection: close"
        self._socket.sendall(
            f"HTTP/1.1 {code} {reason}\r\nServer: culvert-demo-service\r\nX-Demo-Cluster: true\r\n"
            f"Content-Type: {content_type}\r\n{more}\r\n\r\n".encode()
        )

    def _answer(self, head: Head | None, code: int, content_type: str, content: bytes, close: bool = False) -> None:
        more = f"Content-Length: {len(content)}" if code not in (204, 304) else "X-Content: none"
        if close:
            more += "\r\nConnection: close"
        self._send_head(head, code, content_type, more)
        if content and not (head is not None and head.method == "HEAD"):
            self._socket.sendall(content)

    def _answer_json(self, head: Head, document: dict) -> None:
        self._answer(head, 200, "application/json", json.dumps(document).encode() + b"\n")

    # -- reading ---------------------------------------------------------------------------------------------

    def _receive(self) -> bool:
        """Receives more behind what is there; False at the end of the stream."""
        if self._start:
            self._buffer[: self._end - self._start] = self._buffer[self._start : self._end]
            self._end -= self._start
            self._start = 0
        count = self._socket.recv_into(self._view[self._end :])
        self._end += count
        return count > 0

    def _read_head(self) -> Head | None:
        while True:
            at = self._buffer.find(b"\r\n\r\n", self._start, self._end)
            if at >= 0:
                text = bytes(self._view[self._start : at]).decode("latin-1").lstrip("\r\n")
                self._start = at + 4
                return Head(text)
            if self._end - self._start >= HEAD_BYTES_MAX:
                raise BadRequest("head too long")
            if not self._receive():
                return None

    def _drain(self, head: Head, hashing: bool) -> tuple[int, str]:
        """Reads the whole body; its length and, when asked, its SHA-256."""
        digest = hashlib.sha256() if hashing else None
        if not head.chunked:
            self._take(head.body_bytes, digest)
            return head.body_bytes, digest.hexdigest() if digest else ""
        total = 0
        while True:
            size_text = self._line().partition(b";")[0].strip()
            if not size_text or len(size_text) > 15 or size_text.strip(b"0123456789abcdefABCDEF"):
                raise BadRequest("chunk size")
            size = int(size_text, 16)
            if size == 0:
                break
            self._take(size, digest)
            if self._line():
                raise BadRequest("chunk end")
            total += size
        for _ in range(64):
            if not self._line():
                return total, digest.hexdigest() if digest else ""
        raise BadRequest("too many trailers")

    def _line(self) -> bytes:
        while True:
            at = self._buffer.find(b"\r\n", self._start, self._end)
            if at >= 0:
                line = bytes(self._view[self._start : at])
                self._start = at + 2
                return line
            if self._end - self._start >= LINE_BYTES_MAX:
                raise BadRequest("line too long")
            if not self._receive():
                raise ClientLeft()

    def _take(self, count: int, digest) -> None:
        """Consumes `count` bytes of the body, buffered ones first, then straight from the socket."""
        buffered = min(count, self._end - self._start)
        if buffered:
            if digest:
                digest.update(self._view[self._start : self._start + buffered])
            self._start += buffered
            count -= buffered
        if not count:
            return
        big = memoryview(bytearray(min(count, BUFFER_BYTES)))
        while count > 0:
            received = self._socket.recv_into(big[: min(count, len(big))])
            if received == 0:
                raise ClientLeft()
            if digest:
                digest.update(big[:received])
            count -= received


class Counters:
    """How requests ended; `aborted` are those whose client left before the answer was complete."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = {"open": 0, "completed": 0, "aborted": 0}

    def begin(self) -> None:
        with self._lock:
            self._counts["open"] += 1

    def end(self, completed: bool) -> None:
        with self._lock:
            self._counts["open"] -= 1
            self._counts["completed" if completed else "aborted"] += 1

    def snapshot(self) -> dict:
        with self._lock:
            return dict(self._counts)


class DemoService:
    """The listener and its threads."""

    def __init__(self, listener: socket.socket, log: Log):
        self._listener = listener
        self._log = log
        self._counters = Counters()
        self._places = threading.BoundedSemaphore(CONNECTIONS_MAX)
        self._stopping = False
        self._thread = threading.Thread(target=self._accept, name="demo-service", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        try:
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        except OSError:
            pass
        self._listener.close()

    def _accept(self) -> None:
        while not self._stopping:
            try:
                client, _ = self._listener.accept()
            except OSError as error:
                if not self._stopping:
                    self._log.error("service_accept_failed", error=repr(error))
                    time.sleep(0.1)  # out of descriptors: let some connection end first
                continue
            if not self._places.acquire(blocking=False):
                client.close()
                continue
            threading.Thread(target=self._converse, args=(client,), daemon=True).start()

    def _converse(self, client: socket.socket) -> None:
        try:
            with client:
                Connection(client, self._counters).run()
        except (OSError, ClientLeft):
            pass  # the client's affair
        except Exception as error:  # noqa: BLE001
            self._log.error("service_request_failed", error=repr(error))
        finally:
            self._places.release()
