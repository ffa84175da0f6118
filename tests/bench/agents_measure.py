"""What tests/bench/agents measures with: memory and processor time of processes, a prober of the API, the floor of plain TLS."""

import http.client
import json
import pathlib
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse

import process_watch

PROBE_SECONDS = 0.025
PROBE_TIMEOUT = 30


def memory_kib(pid):
    """{"Rss": KiB, "Pss": KiB, ...} of /proc/<pid>/smaps_rollup."""
    found = {}
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, _, rest = line.partition(":")
        found[name] = int(rest.split()[0])
    return found


def family(pid):
    """A process and its children, of which PostgreSQL has one a connection."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def cpu_seconds(pids):
    """As process_watch.cpu_seconds, passing over processes that have ended."""
    total = 0
    for pid in pids:
        try:
            total += process_watch.cpu_seconds([pid])
        except OSError:
            pass
    return total


def cpu_seconds_ever(pid):
    """Of a process, its children, and the children that have ended."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ended = (int(fields[13]) + int(fields[14])) / process_watch.TICKS  # cutime and cstime, fields 16 and 17 of proc(5)
    return ended + cpu_seconds(family(pid))


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


class Prober:
    """GraphQL requests, one after the other on each of a few kept-alive connections, for as long as the `with` block lasts.

    `answers` is [(when it was sent, seconds it took)] of those that were answered well, `failures` [(when, why)]; a connection that
    is refused while the process is away is counted in `refused`.
    """

    def __init__(self, platform, runtime, connections=4):
        self._platform, self._runtime, self._connections = platform, runtime, connections
        self._stopping = threading.Event()
        self.answers, self.failures, self.refused = [], [], 0

    def _connect(self):
        parts = urllib.parse.urlsplit(self._platform.env["CULVERT_URL"])
        sock = socket.create_connection(("127.0.0.1", parts.port), timeout=PROBE_TIMEOUT)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # head and body leave apart
        connection = http.client.HTTPConnection(parts.hostname, parts.port)
        connection.sock = self._platform.context().wrap_socket(sock, server_hostname=parts.hostname)
        return connection

    def _ask(self, connection):
        query = "query($n: String!) { runtime(name: $n) { metadata { name } online } me { id } }"
        body = json.dumps({"query": query, "variables": {"n": self._runtime}})
        headers = {"Content-Type": "application/json", "Authorization": self._platform.env["CULVERT_API_KEY"]}
        connection.request("POST", "/2.0/api/graphql", body, headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200 or b'"errors"' in text:
            raise ValueError(f"status {answer.status}: {text[:200]!r}")

    def _run(self):
        connection = None
        while not self._stopping.wait(PROBE_SECONDS):
            sent = time.monotonic()
            try:
                connection = connection or self._connect()
                self._ask(connection)
                self.answers.append((sent, time.monotonic() - sent))
            except ConnectionRefusedError:
                self.refused += 1
                connection = None
            except (OSError, ssl.SSLError, http.client.HTTPException, ValueError) as error:
                self.failures.append((sent, repr(error)))
                connection = None

    def __enter__(self):
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(self._connections)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error):
        self._stopping.set()
        for thread in self._threads:
            thread.join()


class TlsFloor:
    """tests/bench/tls_floor.c: a server that holds TLS connections and does nothing else, and its client."""

    def __init__(self, program, port, certificate, key):
        self._program, self._port = program, port
        self._server = subprocess.Popen([program, "server", str(port), certificate, key], stdout=subprocess.DEVNULL)
        self._clients = []
        self._wait()

    def _wait(self):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.02)
        raise AssertionError("tls_floor does not listen")

    @property
    def pid(self):
        return self._server.pid

    def open(self, count, interval_ms):
        """So many more connections, each of which says something once in the interval and hears it echoed."""
        client = subprocess.Popen([self._program, "client", str(self._port), str(count), str(interval_ms)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._clients.append(client)
        if client.stdout.readline() != f"open {count}\n":
            raise AssertionError("tls_floor could not open its connections")

    def close(self):
        for client in self._clients:
            client.stdin.close()
            client.wait()
            client.stdout.close()
        self._server.terminate()
        self._server.wait()
