"""Clients that take an endless download at a trickle: what makes a careless tunnel buffer without end, or stop."""

import socket
import ssl
import threading
import time

STEP_SECONDS = 0.1
RECEIVE_BUFFER_BYTES = 64 * 1024  # little room in the client's kernel, so that the door feels the trickle


class SlowReaders:
    """`count` TLS clients, a thread each, from start() to stop(). `taken` is what each has read, `errors` what went wrong."""

    def __init__(self, count, bytes_per_second, port, host, ca_file, request):
        self._context = ssl.create_default_context(cafile=ca_file)
        self._step, self._port, self._host, self._request = int(bytes_per_second * STEP_SECONDS), port, host, request
        self._stopping = threading.Event()
        self._under_way = threading.Semaphore(0)
        self._threads = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(count)]
        self.taken = [0] * count
        self.errors = []

    def start(self, seconds_max=20):
        """Returns when every reader has the head of its answer."""
        deadline = time.monotonic() + seconds_max
        for thread in self._threads:
            thread.start()
        for _ in self._threads:
            if not self._under_way.acquire(timeout=max(0, deadline - time.monotonic())):
                self.errors.append("not every slow reader got an answer")
                return

    def stop(self):
        self._stopping.set()
        for thread in self._threads:
            thread.join(30)

    def _run(self, number):
        try:
            with socket.socket() as plain:
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
                plain.settimeout(30)
                plain.connect(("127.0.0.1", self._port))
                with self._context.wrap_socket(plain, server_hostname=self._host) as secure:
                    secure.sendall(self._request)
                    self._read(number, secure)
        except OSError as error:
            self.errors.append(f"a slow reader: {error!r}")
        finally:
            self._under_way.release()

    def _read(self, number, secure):
        head = secure.recv(self._step)
        if not head.startswith(b"HTTP/1.1 200 "):
            self.errors.append(f"a slow reader got {head[:60]!r}")
            return
        self._under_way.release()
        while not self._stopping.wait(STEP_SECONDS):
            part = secure.recv(self._step)
            if not part:
                self.errors.append("a slow reader was cut off")
                return
            self.taken[number] += len(part)
