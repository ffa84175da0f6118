"""What a process read and wrote, in the order in which it did, from strace's output (-f -yy, one file).

strace prints a call's line when the call enters the kernel and what it gave back when it leaves. Both are stops: the thread
goes on only after strace has printed. So a read whose result stands below a write's beginning had not been seen by anybody in
the process when that write began; and nothing that follows from a read can stand above it."""

import codecs
import collections
import ctypes
import re

CALLS = "read,readv,recvfrom,recvmsg,write,writev,sendto,sendmsg"
WRITES = {"write", "writev", "sendto", "sendmsg"}
SOCKET = re.compile(r"\d+<TCP:\[127\.0\.0\.1:(\d+)->127\.0\.0\.1:(\d+)\]>")
BEGIN = re.compile(r"(\d+) +(\w+)\((.*)$", re.S)
RESUMED = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>(.*)$", re.S)
RESULT = re.compile(r"\) += (-?\d+)(?: |$)")
TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"(\.\.\.)?', re.S)
UNFINISHED = " <unfinished ...>"


class Call:
    """One read or write on a TCP socket. began, ended: line numbers."""

    __slots__ = ("name", "local", "remote", "began", "ended", "text", "result")

    def __init__(self, name, local, remote, began, text):
        self.name, self.local, self.remote, self.began, self.text = name, local, remote, began, text

    def data(self):
        """The bytes that moved."""
        if self.result <= 0:
            return b""
        found = list(TEXT.finditer(self.text))
        assert found and not any(each.group(2) for each in found), f"the trace does not show what {self.name} moved"
        data = b"".join(codecs.escape_decode(each.group(1))[0] for each in found)
        assert len(data) >= self.result, f"{self.name} moved {self.result} bytes, the trace shows {len(data)}"
        return data[: self.result]


def calls(path):
    """Each finished Call on a TCP socket, in the order of their ends."""
    open_calls = {}
    with open(path, encoding="latin-1", newline="\n") as file:
        for number, line in enumerate(file):
            line = line.rstrip("\n")
            if resumed := RESUMED.match(line):
                call = open_calls.pop(resumed.group(1), None)
                if not call:
                    continue
                call.text += resumed.group(3)
            elif begun := BEGIN.match(line):
                socket = SOCKET.match(begun.group(3))
                if not socket:
                    continue
                call = Call(begun.group(2), int(socket.group(1)), int(socket.group(2)), number, begun.group(3))
                if line.endswith(UNFINISHED):
                    call.text = call.text[: -len(UNFINISHED)]
                    open_calls[begun.group(1)] = call
                    continue
            else:
                continue
            result = None
            for result in RESULT.finditer(call.text, max(0, len(call.text) - 200)):
                pass
            if result:  # else "= ?": the thread ended in it
                call.ended, call.result = number, int(result.group(1))
                yield call


class Transactions:
    """PostgreSQL's protocol (version 3) on one connection, both ways: which marks were in which transaction, and at which line
    the answer that it is committed was read. One Sync or simple query is one transaction; ReadyForQuery answers it, and with
    "idle" and no error before it, all of it is durable."""

    SSL_REQUEST, GSS_REQUEST, STARTUP = 80877103, 80877104, 196608

    def __init__(self, mark, statement, on_commit):
        self.mark, self.statement, self.on_commit = mark, statement, on_commit
        self.sent, self.got = bytearray(), bytearray()
        self.started, self.byte_answers = False, 0
        self.marks, self.is_wanted = set(), False
        self.waiting, self.failed = collections.deque(), False

    def wrote(self, data):
        self.sent += data
        at = 0
        while True:
            head = 5 if self.started else 4
            if len(self.sent) - at < head:
                break
            size = int.from_bytes(self.sent[at + head - 4 : at + head], "big") + head - 4
            if len(self.sent) - at < size:
                break
            self._said(bytes(self.sent[at : at + size]))
            at += size
        del self.sent[:at]

    def _said(self, message):
        if not self.started:
            code = int.from_bytes(message[4:8], "big")
            if code in (self.SSL_REQUEST, self.GSS_REQUEST):
                self.byte_answers += 1
                return
            assert code == self.STARTUP, f"a PostgreSQL connection that begins with {code}"
            self.started = True
            self.waiting.append(set())
        elif message[:1] == b"B":
            _portal, statement, rest = message[5:].split(b"\0", 2)
            self.is_wanted |= bool(self.statement.match(statement.decode()))
            self.marks.update(self.mark.findall(rest))
        elif message[:1] in b"SQ":
            self.waiting.append(self.marks if self.is_wanted else set())
            self.marks, self.is_wanted = set(), False

    def read(self, data, line):
        self.got += data
        at = 0
        while len(self.got) > at:
            if self.byte_answers:
                assert self.got[at : at + 1] == b"N", "the connection to PostgreSQL is encrypted: the trace cannot show it"
                self.byte_answers -= 1
                at += 1
                continue
            if len(self.got) - at < 5:
                break
            size = int.from_bytes(self.got[at + 1 : at + 5], "big") + 1
            if len(self.got) - at < size:
                break
            kind = self.got[at : at + 1]
            if kind == b"E":
                self.failed = True
            elif kind == b"Z":
                marks = self.waiting.popleft()
                if not self.failed and self.got[at + 5 : at + 6] == b"I" and marks:
                    self.on_commit(marks, line)
                self.failed = False
            at += size
        del self.got[:at]


def unpacked(data):
    """What zstd made of it before, of each frame that is in it; and the data itself."""
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_getFrameContentSize.restype = ctypes.c_ulonglong
    library.ZSTD_decompress.restype = ctypes.c_size_t
    found, at = data, 0
    while (at := data.find(b"\x28\xb5\x2f\xfd", at)) >= 0:
        frame = data[at:]
        size = library.ZSTD_getFrameContentSize(frame, ctypes.c_size_t(len(frame)))
        used = library.ZSTD_findFrameCompressedSize(frame, ctypes.c_size_t(len(frame)))
        if size < 1 << 30 and 0 < used <= len(frame):
            out = ctypes.create_string_buffer(size)
            if library.ZSTD_decompress(out, ctypes.c_size_t(size), frame, ctypes.c_size_t(used)) == size:
                found += b"\0" + out.raw
        at += 4
    return found


class Publications:
    """AMQP 0-9-1 on one connection, both ways: which marks were in which published message, and at which line RabbitMQ's confirm
    of it was read. Messages of a channel are counted from one; basic.ack names the last of those it confirms."""

    PUBLISH, RETURN, ACK, NACK = (60, 40), (60, 50), (60, 80), (60, 120)
    METHOD, HEADER, BODY = 1, 2, 3
    GREETING = b"AMQP\0\0\x09\x01"

    def __init__(self, mark, on_confirm):
        self.mark, self.on_confirm = mark, on_confirm
        self.sent, self.got = bytearray(), bytearray()
        self.tags = collections.Counter()  # of the messages, by channel
        self.open, self.body = {}, {}  # by channel: bytes that a message lacks; what there is of it
        self.waiting = collections.defaultdict(dict)  # channel: {tag: marks}

    def _frames(self, buffer):
        at = len(self.GREETING) if buffer[:4] == b"AMQP" and len(buffer) >= 8 else 0
        while len(buffer) - at >= 7:
            size = int.from_bytes(buffer[at + 3 : at + 7], "big")
            if len(buffer) - at < size + 8:
                break
            assert buffer[at + 7 + size] == 0xCE, "what was taken for AMQP is not"
            yield buffer[at], int.from_bytes(buffer[at + 1 : at + 3], "big"), bytes(buffer[at + 7 : at + 7 + size])
            at += size + 8
        del buffer[:at]

    @staticmethod
    def _method(payload):
        return int.from_bytes(payload[:2], "big"), int.from_bytes(payload[2:4], "big")

    def wrote(self, data):
        self.sent += data
        for kind, channel, payload in self._frames(self.sent):
            if kind == self.METHOD and self._method(payload) == self.PUBLISH:
                self.tags[channel] += 1
                self.body[channel] = b""
            elif kind == self.HEADER and channel in self.body:
                self.open[channel] = int.from_bytes(payload[4:12], "big")
            elif kind == self.BODY and channel in self.body:
                self.body[channel] += payload
                self.open[channel] -= len(payload)
                if self.open[channel] == 0:
                    self.waiting[channel][self.tags[channel]] = set(self.mark.findall(unpacked(self.body.pop(channel))))

    def read(self, data, line):
        self.got += data
        for kind, channel, payload in self._frames(self.got):
            method = self._method(payload) if kind == self.METHOD else None
            assert method not in (self.RETURN, self.NACK), "RabbitMQ took a message not, which this proof does not follow"
            if method != self.ACK:
                continue
            last, is_multiple = int.from_bytes(payload[4:12], "big"), payload[12] & 1
            waiting = self.waiting[channel]
            for tag in [tag for tag in waiting if tag == last or (is_multiple and (tag <= last or not last))]:
                if marks := waiting.pop(tag):
                    self.on_confirm(marks, line)


class Trace:
    """commits: {mark: line at which the answer of the first transaction or message with it was read}. Writes to clients by their
    port. rabbitmq_port: 0 for none."""

    def __init__(self, path, postgres_port, rabbitmq_port, mark, statement):
        self.commits, self.transactions, self.messages, self.writes = {}, 0, 0, collections.defaultdict(list)
        connections = {}
        sent = collections.Counter()
        for call in calls(path):
            if call.remote in (postgres_port, rabbitmq_port):
                connection = connections.get(call.local)
                if not connection:
                    is_postgres = call.remote == postgres_port
                    made = Transactions(mark, statement, self._on_commit) if is_postgres else Publications(mark, self._on_confirm)
                    connection = connections[call.local] = made
                if call.name in WRITES:
                    connection.wrote(call.data())
                else:
                    connection.read(call.data(), call.ended)
            elif call.name in WRITES and call.result > 0:
                key = (call.local, call.remote)
                self.writes[call.remote].append((sent[key], sent[key] + call.result, call.began))
                sent[key] += call.result

    def _on_commit(self, marks, line):
        self.transactions += 1
        for mark in marks:
            self.commits.setdefault(mark, line)

    def _on_confirm(self, marks, line):
        self.messages += 1
        for mark in marks:
            self.commits.setdefault(mark, line)

    def left_at(self, port, offset):
        """The line at which the write began that carried this byte to the client with this port."""
        for first, end, line in self.writes[port]:
            if first <= offset < end:
                return line
        return None
