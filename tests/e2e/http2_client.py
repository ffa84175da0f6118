"""An HTTP/2 client of the ingress listener on python3-h2, for what curl cannot do: frames and streams one by one."""

import contextlib
import socket
import ssl
import time

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings


class Reply:
    def __init__(self):
        self.status, self.headers, self.infos, self.body, self.trailers = None, {}, [], b"", None
        self.ended, self.reset = False, None


class Http2Client:
    def __init__(self, platform, timeout=20, window=1 << 20):
        self.platform = platform
        self.host = platform.env["CULVERT_INGRESS_HOST"]
        self.port = int(platform.env["CULVERT_INGRESS_URL"].rsplit(":", 1)[1])
        context = platform.context()
        context.set_alpn_protocols(["h2"])
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        self.sock = context.wrap_socket(sock, server_hostname=self.host)
        assert self.sock.selected_alpn_protocol() == "h2"
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8", validate_outbound_headers=False))
        self.h2.initiate_connection()
        self.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.h2.increment_flow_control_window(window * 16)
        self.replies, self.terminated, self.closed = {}, None, False
        self.consume = True
        self.flush()

    def close(self):
        with contextlib.suppress(OSError):
            self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def flush(self):
        if data := self.h2.data_to_send():
            self.sock.sendall(data)

    def request(self, method, path, headers=(), end=True, key=True, **pseudo):
        fields = [(":method", method), (":scheme", "https"), (":authority", pseudo.pop("authority", f"{self.host}:{self.port}")), (":path", path)]
        fields += [(f":{name}", value) for name, value in pseudo.items()]
        if key:
            fields.append(("authorization", self.platform.env["CULVERT_API_KEY"] if key is True else key))
        stream = self.h2.get_next_available_stream_id()
        self.replies[stream] = Reply()
        self.h2.send_headers(stream, [*fields, *headers], end_stream=end)
        self.flush()
        return stream

    def send(self, stream, data, end=False, own_half=False):
        """As fast as the other side's windows allow; own_half: also when the other side has ended."""
        view = memoryview(data)
        while view:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, len(view))
            if room <= 0:
                self.step()
                reply = self.replies[stream]
                if (reply.ended and not own_half) or reply.reset is not None:
                    return
                continue
            self.h2.send_data(stream, bytes(view[:room]))
            view = view[room:]
            self.flush()
        if end:
            self.h2.end_stream(stream)
            self.flush()

    def trailers(self, stream, headers):
        self.h2.send_headers(stream, headers, end_stream=True)
        self.flush()

    def reset(self, stream):
        self.h2.reset_stream(stream, 8)
        self.flush()

    def step(self):
        """Reads once and takes what has come."""
        data = self.sock.recv(1 << 16)
        if not data:
            self.closed = True
            raise ConnectionError("the listener ended the connection")
        for event in self.h2.receive_data(data):
            self._take(event)
        self.flush()

    def _take(self, event):
        reply = self.replies.get(getattr(event, "stream_id", None))
        if isinstance(event, h2.events.ConnectionTerminated):
            self.terminated = event.error_code
        elif reply is None:
            return
        elif isinstance(event, h2.events.InformationalResponseReceived):
            reply.infos.append(dict(event.headers)[":status"])
        elif isinstance(event, h2.events.ResponseReceived):
            reply.headers = dict(event.headers)
            reply.status = int(reply.headers[":status"])
        elif isinstance(event, h2.events.DataReceived):
            reply.body += event.data
            if self.consume and event.flow_controlled_length:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.TrailersReceived):
            reply.trailers = dict(event.headers)
        elif isinstance(event, h2.events.StreamEnded):
            reply.ended = True
        elif isinstance(event, h2.events.StreamReset):
            reply.reset = event.error_code

    def until(self, condition, seconds=20):
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "the other side did not say what was waited for"
            self.sock.settimeout(max(0.01, deadline - time.monotonic()))
            self.step()

    def reply(self, stream, seconds=20):
        reply = self.replies[stream]
        self.until(lambda: reply.ended or reply.reset is not None, seconds)
        return reply

    def ask(self, method, path, body=b"", headers=(), **more):
        stream = self.request(method, path, headers, end=not body, **more)
        if body:
            self.send(stream, body, end=True)
        return self.reply(stream)


def alpn(platform, *protocols):
    """What the listener chooses of these; None when it refuses the handshake."""
    context = platform.context()
    context.set_alpn_protocols(list(protocols))
    parts = platform.env["CULVERT_INGRESS_URL"].rsplit(":", 1)
    with socket.create_connection(("127.0.0.1", int(parts[1])), timeout=20) as sock:
        try:
            with context.wrap_socket(sock, server_hostname=platform.env["CULVERT_INGRESS_HOST"]) as tls:
                return tls.selected_alpn_protocol()
        except ssl.SSLError:
            return None
