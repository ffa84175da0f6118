"""The HTTPS listener: TLS, one thread a connection, bearer tokens, bodies in, JSON documents and streams out.

What a request means is decided by the routes handed in; this module knows HTTP only. Limits: connections at
once, bytes of a body, seconds a peer may be silent within a request.
"""

from __future__ import annotations

import hmac
import json
import select
import socket
import socketserver
import ssl
import threading
import urllib.parse
import uuid
from http.server import BaseHTTPRequestHandler
from typing import Callable

import status
from log import Log
from status import ApiError

CONNECTIONS_MAX = 512
BODY_BYTES_MAX = 3 * 1024 * 1024  # as the Kubernetes API server
HANDSHAKE_SECONDS = 10.0
IDLE_SECONDS = 300.0
WRITE_SECONDS = 30.0
LINGER_SECONDS = 2.0
LINGER_BYTES_MAX = 16 * 1024 * 1024
PROBE_PATHS = ("/livez", "/readyz", "/healthz")


class Query:
    """The parameters of a request, each at most once."""

    def __init__(self, text: str):
        try:
            pairs = urllib.parse.parse_qsl(text, keep_blank_values=True, max_num_fields=64)
        except ValueError as error:
            raise status.bad_request(str(error)) from error
        self._values: dict[str, str] = {}
        for name, value in pairs:
            self._values.setdefault(name, value)

    def text(self, name: str) -> str:
        return self._values.get(name, "")

    def flag(self, name: str) -> bool:
        return self._values.get(name, "false").lower() in ("true", "1")

    def number(self, name: str, default: int = 0, maximum: int = 2**31 - 1) -> int:
        text = self._values.get(name, "")
        if not text:
            return default
        if not (text.isascii() and text.isdigit()) or int(text[:20]) > maximum:
            raise status.bad_request(f"invalid value for {name}: {text[:40]!r}")
        return int(text)


class Exchange:
    """One request and its answer. Lives on the connection's thread."""

    def __init__(self, handler: ListenerHandler, body: bytes):
        split = urllib.parse.urlsplit(handler.path)
        self._handler = handler
        self.method = handler.command
        self.path = urllib.parse.unquote(split.path)
        self.query = Query(split.query)
        self.headers = handler.headers
        self.body = body
        self._chunked = False

    def answer(self, code: int, document: object) -> None:
        self.answer_bytes(code, "application/json", json.dumps(document, separators=(",", ":")).encode() + b"\n")

    def answer_text(self, code: int, text: str) -> None:
        self.answer_bytes(code, "text/plain; charset=utf-8", text.encode())

    def answer_bytes(self, code: int, content_type: str, content: bytes) -> None:
        self._head(code, content_type)
        self._handler.send_header("Content-Length", str(len(content)))
        self._handler.end_headers()
        if self.method != "HEAD":
            self._handler.wfile.write(content)

    def begin_stream(self, content_type: str) -> None:
        """Starts an answer without a length; `send` adds to it, `end_stream` completes it."""
        self._head(200, content_type)
        self._chunked = self._handler.request_version == "HTTP/1.1"
        if self._chunked:
            self._handler.send_header("Transfer-Encoding", "chunked")
        else:
            self._handler.close_connection = True
        self._handler.end_headers()
        self._handler.connection.settimeout(WRITE_SECONDS)

    def send(self, content: bytes) -> None:
        if self._chunked:
            content = b"%x\r\n%b\r\n" % (len(content), content)
        self._handler.wfile.write(content)

    def send_pending(self) -> None:
        """Lets everything sent so far leave now."""
        self._handler.wfile.flush()

    def end_stream(self) -> None:
        if self._chunked:
            self._handler.wfile.write(b"0\r\n\r\n")
        self._handler.connection.settimeout(IDLE_SECONDS)

    def cut(self) -> None:
        """Ends the connection in the middle, as a broken network would."""
        self._handler.close_connection = True
        try:
            self._handler.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def client_left(self) -> bool:
        """Whether the peer closed; bytes it sends while an answer is streaming are not expected and not read."""
        connection = self._handler.connection
        if not connection.pending() and not select.select([connection], [], [], 0)[0]:
            return False
        try:
            connection.settimeout(0)
            received = connection.recv(1)
            self._handler.close_connection = True  # what it sent has no place in the order of requests any more
            return received == b""
        except (ssl.SSLWantReadError, BlockingIOError):
            return False
        except OSError:
            return True
        finally:
            connection.settimeout(WRITE_SECONDS)

    def _head(self, code: int, content_type: str) -> None:
        self._handler.send_response(code)
        self._handler.send_header("Audit-Id", str(uuid.uuid4()))
        self._handler.send_header("Cache-Control", "no-cache, private")
        self._handler.send_header("Content-Type", content_type)
        if self._handler.close_connection:
            self._handler.send_header("Connection", "close")


Route = Callable[[Exchange], None]


class Listener(socketserver.ThreadingTCPServer):
    """The listener. `route` answers an authenticated exchange or raises ApiError."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], tls: ssl.SSLContext, token: str, route: Route, log: Log):
        self.tls = tls
        self.route = route
        self.log = log
        self._token = token.encode()
        self._places = threading.BoundedSemaphore(CONNECTIONS_MAX)
        super().__init__(address, ListenerHandler, bind_and_activate=True)

    def knows(self, authorization: str) -> bool:
        scheme, _, token = authorization.partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self._token)

    def process_request(self, request, client_address) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread to be had
            self._places.release()
            self.shutdown_request(request)

    def process_request_thread(self, request, client_address) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request, client_address) -> None:
        pass  # broken connections are a client's affair; failures of ours are logged in ListenerHandler

    def server_bind(self) -> None:
        super().server_bind()
        self.port: int = self.socket.getsockname()[1]


class ListenerHandler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Listener
    _body_left_unread = False
    wbufsize = -1  # head and body of a small answer leave in one record

    def setup(self) -> None:
        self.request.settimeout(HANDSHAKE_SECONDS)
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request = self.server.tls.wrap_socket(self.request, server_side=True)
        self.request.settimeout(IDLE_SECONDS)
        super().setup()

    def finish(self) -> None:
        try:
            super().finish()
            if self._body_left_unread:
                self._read_away()
            self.connection.settimeout(0)
            self.connection.unwrap()  # says goodbye without waiting for the peer's
        except (OSError, ValueError):
            pass
        finally:
            self.connection.close()  # the TLS socket took the descriptor over from the one socketserver closes

    def _read_away(self) -> None:
        """Takes in some of a refused body: closing on unread bytes resets the connection, and our answer with it."""
        self.connection.settimeout(LINGER_SECONDS)
        left = LINGER_BYTES_MAX
        while left > 0 and (received := len(self.connection.recv(65536))):
            left -= received

    def version_string(self) -> str:
        return "culvert-demo-cluster"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        pass

    def _serve(self) -> None:
        try:
            body = self._read_body()
            exchange = Exchange(self, body)
            if exchange.path not in PROBE_PATHS and not self.server.knows(self.headers.get("Authorization", "")):
                raise status.unauthorized()
            self.server.route(exchange)
        except ApiError as error:
            self._refuse(error)
        except (ConnectionError, TimeoutError, ssl.SSLError):
            self.close_connection = True
        except Exception as error:  # noqa: BLE001 - one request must not end the others
            self.server.log.error("request_failed", method=self.command, path=self.path[:200], error=repr(error))
            self._refuse(ApiError(500, "InternalError", "Internal error occurred"))
        finally:
            try:
                self.wfile.flush()
            except OSError:
                self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = _serve

    def _refuse(self, error: ApiError) -> None:
        content = json.dumps(error.document()).encode() + b"\n"
        self.send_response(error.code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if error.code == 401:
            self.send_header("WWW-Authenticate", 'Bearer realm="culvert-demo-cluster"')
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _read_body(self) -> bytes:
        lengths = self.headers.get_all("Content-Length", [])
        codings = self.headers.get_all("Transfer-Encoding", [])
        if not lengths and not codings:
            return b""
        self._body_of_doubt(lengths, codings)
        if codings:
            return self._read_chunks()
        length = int(lengths[0])
        if length > BODY_BYTES_MAX:
            self._leave_unread()
            raise status.request_entity_too_large(BODY_BYTES_MAX)
        body = self.rfile.read(length)
        if len(body) < length:
            raise ConnectionError("body cut short")
        return body

    def _leave_unread(self) -> None:
        self.close_connection = self._body_left_unread = True

    def _body_of_doubt(self, lengths: list[str], codings: list[str]) -> None:
        """A body of which two readers could think differently is refused."""
        good = (
            len(lengths) == 1 and not codings and lengths[0].isascii() and lengths[0].isdigit() and len(lengths[0]) < 19
        ) or (not lengths and len(codings) == 1 and codings[0].strip().lower() == "chunked")
        if not good:
            self._leave_unread()
            raise status.bad_request("the length of the body is ambiguous")

    def _read_chunks(self) -> bytes:
        body = bytearray()
        while True:
            line = self.rfile.readline(64).rstrip(b"\r\n").partition(b";")[0]
            try:
                size = int(line, 16)
            except ValueError:
                size = -1
            if size < 0 or len(body) + size > BODY_BYTES_MAX:
                self._leave_unread()
                if size > 0:
                    raise status.request_entity_too_large(BODY_BYTES_MAX)
                raise status.bad_request("malformed chunk")
            if size == 0:
                break
            body += self.rfile.read(size)
            self.rfile.readline(8)
        for _ in range(64):
            if self.rfile.readline(8192) in (b"\r\n", b"\n", b""):
                return bytes(body)
        self._leave_unread()
        raise status.bad_request("too many trailers")
