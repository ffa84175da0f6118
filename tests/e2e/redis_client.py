"""Redis as an attacker sees it who may read and write everything in it: one connection, any bytes."""

import socket
import urllib.parse


class Redis:
    def __init__(self, url, context=None):
        parts = urllib.parse.urlsplit(url)
        self.sock = socket.create_connection((parts.hostname, parts.port), timeout=10)
        if context:
            self.sock = context.wrap_socket(self.sock, server_hostname=parts.hostname)
        self.file = self.sock.makefile("rb")
        user = [parts.username] if parts.username else []
        if parts.password:
            assert self("AUTH", *user, urllib.parse.unquote(parts.password)) == b"OK"

    @classmethod
    def of(cls, platform):
        return cls((platform.home / "redis.url").read_text().strip())

    def __call__(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.sock.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        return self._read()

    def _read(self):
        line = self.file.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self._read() for _ in range(int(rest))]
        return rest

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.file.close()
        self.sock.close()
