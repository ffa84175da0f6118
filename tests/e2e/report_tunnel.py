"""The reports stream of an agent, said exactly as a test wants it: TLS, WebSocket, HTTP/2 (python3-h2) and the records of
tunnel/wire/report.h. One at a time a connection, one thread."""

import base64
import hashlib
import os
import socket
import struct
import time
import uuid

import h2.config
import h2.connection
import h2.events

from tls_records import TlsRecords

HELLO, OBJECT, DELETED, SNAPSHOT_BEGIN, SNAPSHOT_END, CLUSTER = range(1, 7)
ACK, RESYNC, REJECT = range(1, 4)
TAGS = {
    name: i + 1
    for i, name in enumerate(
        "boot_id group version kind ns name uid cluster application_ns application_name sync_status health_status observed_at hash encoding manifest_bytes manifest count".split()
    )
}
BINARY, CLOSE, PING, PONG = 2, 8, 9, 10


def record(kind, sequence, /, **fields):
    """Bytes of one record. Numbers are 8 bytes (encoding: 1), texts UTF-8; bytes go as they are. hash is made of the manifest
    unless it is given."""
    if kind == OBJECT and "manifest" in fields and "hash" not in fields:
        fields["hash"] = hashlib.sha256(fields["manifest"]).digest()
    body = struct.pack(">BBQ", 1, kind, sequence)
    for name, value in fields.items():
        if isinstance(value, int):
            value = struct.pack(">B" if name == "encoding" else ">Q", value)
        elif isinstance(value, str):
            value = value.encode()
        body += struct.pack(">BI", TAGS[name], len(value)) + value
    return struct.pack(">I", len(body)) + body


class Refused(Exception):
    """The upgrade was answered with something else than 101."""

    def __init__(self, status):
        super().__init__(f"the upgrade was answered with {status}")
        self.status = status


class ReportTunnel:
    """Dials until the platform knows the token, and says HELLO. `acks` are (type, sequence, reason, offset): offset is the byte
    of the connection at which the TLS record that completed it began."""

    def __init__(self, platform, runtime, token, seconds=20):
        self.platform, self.runtime, self.token = platform, runtime, token
        self.boot_id, self.sequence, self.acks = str(uuid.uuid4()), 0, []
        deadline = time.monotonic() + seconds
        while True:
            try:
                self._open()
                break
            except Refused as refused:
                if refused.status != 503 or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        self.until(lambda: self.stream is not None, seconds)
        self.h2.send_headers(self.stream, [(":status", "200"), ("content-type", "application/octet-stream")])
        self.tell(HELLO, boot_id=self.boot_id)

    def close(self):
        self.tls.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- opening ---------------------------------------------------------------------------------------------------------

    def _open(self):
        port = int(self.platform.env["CULVERT_TUNNEL_URL"].rsplit(":", 1)[1].split("/")[0])
        self.tls = TlsRecords(port, self.platform.context(), "localhost")
        self.frames, self.records, self.stream = b"", b"", None
        head = {
            "Host": "localhost",
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
            "Sec-WebSocket-Protocol": "culvert.tunnel.1",
            "Authorization": f"Bearer {self.token}",
            "culvert-instance-id": f"test-{self.runtime}",
            "culvert-boot-id": self.boot_id,
            "culvert-agent-version": "0.1.0",
            "culvert-runtime": self.runtime,
        }
        self.tls.send("\r\n".join(["GET /tunnel/v1 HTTP/1.1", *(f"{k}: {v}" for k, v in head.items()), "", ""]).encode())
        answer, offset = b"", 0
        while b"\r\n\r\n" not in answer:
            piece, offset = self.tls.recv()
            answer += piece
        status = int(answer.split()[1])
        if status != 101:
            self.close()
            raise Refused(status)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8", validate_inbound_headers=False))
        self.h2.initiate_connection()
        self.h2.increment_flow_control_window(1 << 24)
        self.flush()
        self._take(answer.partition(b"\r\n\r\n")[2], offset)

    # ---- saying ----------------------------------------------------------------------------------------------------------

    def _frame(self, opcode, data):
        mask = os.urandom(4)
        size = bytes([0x80 | len(data)]) if len(data) < 126 else struct.pack(">BH", 0x80 | 126, len(data)) if len(data) < 65536 else struct.pack(">BQ", 0x80 | 127, len(data))
        key = int.from_bytes((mask * (len(data) // 4 + 1))[: len(data)], "big")
        masked = (int.from_bytes(data, "big") ^ key).to_bytes(len(data), "big")
        self.tls.send(bytes([0x80 | opcode]) + size + mask + masked)

    def flush(self):
        if data := self.h2.data_to_send():
            self._frame(BINARY, data)

    def say(self, data):
        """Bytes of the stream, as fast as its windows allow."""
        view = memoryview(data)
        while view:
            room = min(self.h2.local_flow_control_window(self.stream), self.h2.max_outbound_frame_size, len(view))
            if room <= 0:
                self.flush()
                self.step()
                continue
            self.h2.send_data(self.stream, bytes(view[:room]))
            view = view[room:]
        self.flush()

    def tell(self, kind, /, **fields):
        """One record with the next sequence, which is given back."""
        self.sequence += 1
        self.say(record(kind, self.sequence, **fields))
        return self.sequence

    # ---- hearing -----------------------------------------------------------------------------------------------------------

    def step(self):
        """Takes one TLS record with something in it."""
        self._take(*self.tls.recv())

    def _take(self, data, offset):
        self.frames += data
        while len(self.frames) >= 2:
            opcode, size, at = self.frames[0] & 15, self.frames[1] & 127, 2
            if size >= 126:
                wide = 2 if size == 126 else 8
                size, at = int.from_bytes(self.frames[2 : 2 + wide], "big"), 2 + wide
            if len(self.frames) < at + size:
                break
            payload, self.frames = self.frames[at : at + size], self.frames[at + size :]
            if opcode == PING:
                self._frame(PONG, payload)
            elif opcode == CLOSE:
                raise EOFError(f"the platform closed the tunnel: {payload[2:].decode(errors='replace')}")
            elif opcode != PONG:
                for event in self.h2.receive_data(payload):
                    self._on(event, offset)
        self.flush()

    def _on(self, event, offset):
        if isinstance(event, h2.events.RequestReceived) and dict(event.headers)[":path"] == "/culvert/reports":
            self.stream = event.stream_id
        elif isinstance(event, h2.events.StreamReset) and event.stream_id == self.stream:
            raise EOFError("the platform reset the reports stream")
        elif isinstance(event, h2.events.ConnectionTerminated):
            raise EOFError(f"the platform ended the tunnel: {event.additional_data}")
        elif isinstance(event, h2.events.DataReceived) and event.stream_id == self.stream:
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            self.records += event.data
            while len(self.records) >= 4 and len(self.records) >= 4 + int.from_bytes(self.records[:4], "big"):
                size = 4 + int.from_bytes(self.records[:4], "big")
                _, kind, sequence = struct.unpack(">BBQ", self.records[4:14])
                self.acks.append((kind, sequence, self.records[14:size].decode(), offset))
                self.records = self.records[size:]

    def until(self, condition, seconds=30):
        deadline = time.monotonic() + seconds
        try:
            while not condition():
                left = deadline - time.monotonic()
                assert left > 0, "the platform did not say what was waited for"
                self.tls.sock.settimeout(left)
                self.step()
        except socket.timeout:
            raise AssertionError("the platform did not say what was waited for") from None
        finally:
            self.tls.sock.settimeout(60)

    def acknowledged(self):
        return max((sequence for kind, sequence, *_ in self.acks if kind == ACK), default=0)

    def settle(self, seconds=30):
        """Until everything that was told is acknowledged."""
        self.until(lambda: self.acknowledged() >= self.sequence, seconds)
