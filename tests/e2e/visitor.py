"""A client of any listener, with TLS or without, that can leave at any moment and in any way."""

import contextlib
import select
import socket
import ssl
import struct

import h2.config
import h2.connection
import h2.settings


class Visitor:
    def __init__(self, platform, port):
        self.platform = platform
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = self.h2 = None
        self.last_words = b""

    # ---- what it says ------------------------------------------------------------------------------------------------

    def hello(self, name="localhost", protocol=None, half=False):
        """The first flight of a TLS handshake, or a part of it."""
        context = self.platform.context()
        context.check_hostname = False
        if protocol:
            context.set_alpn_protocols([protocol])
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=name)
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        flight = self.outgoing.read()
        self.sock.sendall(flight[: len(flight) // 2] if half else flight)
        return self

    def shake_hands(self, name="localhost", protocol=None):
        self.hello(name, protocol)
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._receive()
        self.sock.sendall(self.outgoing.read())
        return self

    def last(self, data):
        """What it says when it is heard again, or leaves."""
        self.last_words += data
        return self

    def say_last(self):
        words, self.last_words = self.last_words, b""
        return self.say(words) if words else self

    def say(self, data):
        if self.tls:
            self.tls.write(data)
            data = self.outgoing.read()
        self.sock.sendall(data)
        return self

    def say_on(self, data, pieces):
        """The same again and again until nobody takes it any more; at most so often."""
        self.say_last()
        self.sock.settimeout(0.2)
        with contextlib.suppress(OSError):
            for _ in range(pieces):
                self.say(data)
        self.sock.settimeout(20)
        return self

    def request(self, method, path, headers=(), end=True, window=None, **pseudo):
        """Over HTTP/2, whose preface goes first. window: what the listener may send of an answer."""
        if not self.h2:
            self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8", validate_outbound_headers=False))
            self.h2.initiate_connection()
            if window is not None:
                self.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
        stream = self.h2.get_next_available_stream_id()
        fields = [(":method", method), (":scheme", "https"), (":path", path), *((f":{name}", value) for name, value in pseudo.items()), *headers]
        self.h2.send_headers(stream, fields, end_stream=end)
        return self.last(self.h2.data_to_send())

    def send_data(self, data):
        """Of the first stream, as much as it may."""
        self.h2.send_data(1, data)
        return self.last(self.h2.data_to_send())

    # ---- what it hears -----------------------------------------------------------------------------------------------

    def _receive(self):
        data = self.sock.recv(1 << 16)
        if not data:
            raise ConnectionError("the listener ended the connection")
        self.incoming.write(data)

    def _read(self):
        if not self.tls:
            return self.sock.recv(1 << 16)
        while True:
            try:
                return self.tls.read(1 << 16)
            except ssl.SSLWantReadError:
                self._receive()

    def hear(self, mark):
        self.say_last()
        have = b""
        while mark not in have:
            data = self._read()
            assert data, f"ended before {mark}: {have[-300:]}"
            have += data
            if self.h2:
                self.h2.receive_data(data)
        return self

    def hear_all(self):
        """What has come already."""
        self.sock.setblocking(False)
        with contextlib.suppress(OSError):
            while self.sock.recv(1 << 16):
                pass

    def was_ended(self):
        """Has the other side ended the connection? What came before that is dropped."""
        self.sock.setblocking(False)
        try:
            while self.sock.recv(1 << 16):
                pass
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    # ---- how it leaves -----------------------------------------------------------------------------------------------

    def close(self):
        """FIN, with nothing left unread."""
        self.hear_all()
        self.sock.close()

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close_unread(self):
        """Once something has come, if anything does: the kernel makes a reset of it."""
        select.select([self.sock], [], [], 0.02)
        self.sock.close()

    def half_close(self):
        """FIN, and silence."""
        self.sock.shutdown(socket.SHUT_WR)

    def notify(self):
        """TLS's end without TCP's, if there is TLS already, and silence."""
        with contextlib.suppress(ssl.SSLError, AttributeError):
            self.tls.unwrap()
        with contextlib.suppress(OSError):
            self.sock.sendall(self.outgoing.read())

    def half_close_then_reset(self):
        self.half_close()
        self.reset()
