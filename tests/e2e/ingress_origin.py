"""Services behind the tunnel that a test can look into: an HTTP/1.1 server that does what its path says and notes what it
saw, a WebSocket echo and a TCP echo. Each on a thread of its own, on loopback."""

import asyncio
import hashlib
import re
import signal
import socket
import threading
import time

import websockets

from platform_under_test import wait_until


class Seen:
    """What a request to the origin looked like; `left` is set when its client is gone."""

    def __init__(self, method, path, headers):
        self.method, self.path, self.headers, self.trailers = method, path, headers, {}
        self.body_bytes, self.sha256 = 0, hashlib.sha256()
        self.whole = False
        self.left = threading.Event()
        self.left_at = None

    def leave(self):
        self.left_at = time.monotonic()
        self.left.set()


class Origin:
    """`requests` has everything that came, oldest first."""

    def __init__(self):
        self.requests = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self):
        self._listener.close()

    def last(self, path):
        return next(seen for seen in reversed(self.requests) if seen.path.split("?")[0] == path)

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, connection.makefile("rb") as stream:
            while True:
                try:
                    if not self._one(connection, stream):
                        return
                except (OSError, ValueError):
                    return

    def _one(self, connection, stream):
        line = stream.readline().decode()
        if not line.strip():
            return False
        method, path, _ = line.split(" ", 2)
        seen = Seen(method, path, self._fields(stream))
        self.requests.append(seen)
        if path == "/refuse":  # before the body
            connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n")
            return False
        if "100-continue" in seen.headers.get("expect", "") and path != "/silent":
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            self._body(seen, stream)
        except (OSError, ValueError):
            seen.leave()
            raise
        return self._answer(connection, stream, seen)

    def _fields(self, stream):
        fields = {}
        while (line := stream.readline().decode().strip()) != "":
            name, _, value = line.partition(":")
            fields[name.lower()] = value.strip()
        return fields

    def _take(self, seen, data):
        seen.body_bytes += len(data)
        seen.sha256.update(data)

    def _body(self, seen, stream):
        if "chunked" in seen.headers.get("transfer-encoding", ""):
            while size := int(self._need(stream.readline()).split(b";")[0], 16):
                left = size
                while left:
                    data = self._need(stream.read1(min(left, 1 << 16)))
                    self._take(seen, data)
                    left -= len(data)
                stream.readline()
            seen.trailers = self._fields(stream)
        else:
            left = int(seen.headers.get("content-length", "0"))
            while left:
                data = self._need(stream.read1(min(left, 1 << 16)))
                self._take(seen, data)
                left -= len(data)
        seen.whole = True

    @staticmethod
    def _need(data):
        if not data:
            raise ValueError("the request ended early")
        return data

    def _answer(self, connection, stream, seen):
        path = seen.path.split("?")[0]
        if path == "/endless":
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n")
            self._wait_for_end(stream, seen)
            return False
        if path == "/nothing":
            self._wait_for_end(stream, seen)
            return False
        if path == "/flood":
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            try:
                while True:
                    connection.sendall(b"10000\r\n" + bytes(0x10000) + b"\r\n")
            except OSError:
                seen.leave()
            return False
        if path == "/gone":  # breaks its own answer in the middle
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            return False
        if path == "/trailers":
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Server-Timing\r\n\r\n4\r\nbody\r\n0\r\n"
                b"Server-Timing: db;dur=1\r\nSet-Cookie: a=b\r\n\r\n"
            )
            return True
        if path == "/hints":
            connection.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n")
        text = f"{seen.body_bytes} {seen.sha256.hexdigest()}\n".encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
        return True

    @staticmethod
    def _wait_for_end(stream, seen):
        try:
            while stream.read1(4096):
                pass
        except OSError:
            pass
        seen.leave()


class WebSocketEcho:
    """Says back what it hears; "close <code>" ends it from its side, "leave" without a word. `closed` has the codes of those that ended."""

    def __init__(self):
        self.closed = []
        self.port = None
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        threading.Thread(target=self._run, args=(ready,), daemon=True).start()
        ready.wait(10)

    def _run(self, ready):
        asyncio.set_event_loop(self._loop)
        start = websockets.serve(self._serve, "127.0.0.1", 0, max_size=1 << 25, subprotocols=["chat"], ping_interval=None)
        server = self._loop.run_until_complete(start)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self._loop.run_forever()

    async def _serve(self, socket_, _path="/"):
        try:
            async for message in socket_:
                if isinstance(message, str) and message.startswith("close "):
                    await socket_.close(int(message.split()[1]), "as asked")
                    break
                if message == "leave":
                    socket_.transport.close()
                    break
                await socket_.send(message)
        except websockets.ConnectionClosed:
            pass
        self.closed.append((socket_.close_code, time.monotonic()))

    def has_closed(self, code, since):
        """Has one ended with that code since so many had? Others of earlier tests may still be about to."""
        return code in [closed[0] for closed in self.closed[since:]]

    def stop(self):
        self._loop.call_soon_threadsafe(self._loop.stop)


class TcpService:
    """Serves each connection in a thread of its own."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._keep, args=(connection,), daemon=True).start()

    def _keep(self, connection):
        with connection:
            self.serve(connection)

    def stop(self):
        self._listener.close()


class TcpEcho(TcpService):
    """Says back what it hears, and ends when the other side ends, after the word "end"."""

    def __init__(self):
        self.ended = []
        super().__init__()

    def serve(self, connection):
        try:
            while data := connection.recv(1 << 16):
                connection.sendall(data)
            connection.sendall(b"end")
        except OSError:
            pass
        self.ended.append(time.monotonic())


class TcpLeaver(TcpService):
    """Ends first. Told "half", it says "done", ends its half and notes in `heard` what comes until the other side ends;
    told "gone", it says "done" and hears nothing more."""

    def __init__(self):
        self.heard = []
        super().__init__()

    def serve(self, connection):
        try:
            word = connection.recv(4, socket.MSG_WAITALL)
            connection.sendall(b"done")
            if word == b"half":
                connection.shutdown(socket.SHUT_WR)
                heard = b""
                while data := connection.recv(1 << 16):
                    heard += data
                self.heard.append(heard)
        except OSError:
            self.heard.append(None)


class IngressServices:
    """These services behind a platform's tunnel: /services/probe/, /services/socket/, /tcp/echo and /tcp/leaver."""

    def __init__(self, platform):
        self.platform = platform
        self.origin, self.socket, self.echo, self.leaver = Origin(), WebSocketEcho(), TcpEcho(), TcpLeaver()

    def __enter__(self):
        services = f"probe=http://127.0.0.1:{self.origin.port}, socket=http://127.0.0.1:{self.socket.port}"
        self._set_up(services, f"tcp.allow = echo=127.0.0.1:{self.echo.port}, leaver=127.0.0.1:{self.leaver.port}\n")
        return self

    def add_service(self, name, url):
        self._set_up(f"{name}={url}")

    def _set_up(self, services, more=""):
        """The agent starts again with them: its supervisor sees to that."""
        file = self.platform.home / "agent/agent.conf"
        file.write_text(re.sub(r"(?m)^(router\.services = .*)$", rf"\1, {services}", file.read_text()) + more)
        before = self.platform.kill("agent", signal.SIGTERM)
        wait_until(lambda: self.platform.pid("agent") != before, 30, "the agent's restart")
        wait_until(lambda: self.platform.ingress("GET", "/services/probe/").status == 200, 30, "the services")

    def __exit__(self, *_):
        for service in (self.origin, self.socket, self.echo, self.leaver):
            service.stop()
