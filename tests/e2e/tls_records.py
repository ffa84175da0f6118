"""A TLS client that knows at which byte of its connection a piece of plain text arrived: whoever looks at the other side's
writes can then say which of them carried it, without a key."""

import socket
import ssl

HEAD_BYTES = 5  # of a TLS record: type, version, length


class TlsRecords:
    def __init__(self, port, context, name, timeout=60):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port = self.sock.getsockname()[1]  # ours: what the other side's descriptor is known by
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=name)
        self.unread, self.offset = b"", 0
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._flush()
                self._feed()
        self._flush()

    def _flush(self):
        if data := self.outgoing.read():
            self.sock.sendall(data)

    def _feed(self):
        """Gives one record to TLS; returns where it began."""
        while len(self.unread) < HEAD_BYTES or len(self.unread) < HEAD_BYTES + int.from_bytes(self.unread[3:5], "big"):
            data = self.sock.recv(1 << 16)
            if not data:
                raise EOFError("the other side ended the connection")
            self.unread += data
        size = HEAD_BYTES + int.from_bytes(self.unread[3:5], "big")
        self.incoming.write(self.unread[:size])
        self.unread = self.unread[size:]
        began, self.offset = self.offset, self.offset + size
        return began

    def send(self, data):
        self.tls.write(data)
        self._flush()

    def recv(self):
        """The plain text of the next record that has some, and where that record began."""
        while True:
            began = self._feed()
            try:
                if data := self.tls.read(1 << 16):
                    return data, began
                raise EOFError("the other side ended TLS")
            except ssl.SSLWantReadError:
                continue  # a session ticket

    def close(self):
        self.sock.close()
