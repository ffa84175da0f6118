"""Restarts replicas one after the other, as a deploy does, while clients make plain requests through the balancer.

Used by tests/e2e/test_replicas.py and by benchmarks. A request is plain when it is neither a WebSocket nor endless; none
of them may fail: not refused, not cut, no status but the one that was asked for. Clients keep their connections as long
as the listener lets them, and never repeat a request.
"""

import collections
import hashlib
import http.client
import os
import signal
import socket
import ssl
import threading
import time

REQUEST_SECONDS_MAX = 20


class Listener(http.client.HTTPConnection):
    """To a TLS listener on loopback, whatever the name in the URL."""

    def __init__(self, port, name, context):
        super().__init__(name, port, timeout=REQUEST_SECONDS_MAX)
        self.name, self.context = name, context

    def connect(self):
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=self.timeout)
        self.sock = self.context.wrap_socket(sock, server_hostname=self.name)


class Load:
    """Clients, each with one request at a time: small GETs, small and larger POSTs, downloads.

    failures: what went wrong, in words, with the moment; slowest: the longest a request took, in seconds.
    """

    def __init__(self, port, host, ca_file, key, clients=4, pause_seconds=0.0, service="/services/demo"):
        self.port, self.host, self.key, self.service = port, host, key, service
        self.context = ssl.create_default_context(cafile=ca_file)
        self.pause_seconds = pause_seconds
        self.done, self.failures, self.slowest = 0, [], 0.0
        self.statuses = collections.Counter()
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(clients)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error):
        self._stop.set()
        for thread in self._threads:
            thread.join(2 * REQUEST_SECONDS_MAX)

    def _request(self, listener, turn):
        """One request; raises or returns what is wrong with its answer."""
        headers = {"Authorization": self.key, "Host": f"{self.host}:{self.port}"}
        kind = turn % 4
        if kind == 0:
            body = hashlib.sha256(str(turn).encode()).digest() * (64 if turn % 8 else 4096)
            listener.request("POST", self.service + "/echo", body=body, headers=headers)
            answer = listener.getresponse()
            told = answer.read()
            wrong = hashlib.sha256(body).hexdigest().encode() not in told
        else:
            size = (0, 1000, 1000, 200000)[kind]
            listener.request("GET", f"{self.service}/bytes/{size}", headers=headers)
            answer = listener.getresponse()
            told = answer.read()
            wrong = len(told) != size
        if answer.status != 200:
            return f"status {answer.status} {answer.headers.get('culvert-cause')}: {told[:300]}", True
        return ("another body" if wrong else None), answer.will_close

    def _run(self, number):
        listener, turn = None, number
        while not self._stop.is_set():
            began, fault, closes = time.monotonic(), None, True
            fresh = listener is None
            try:
                listener = listener or Listener(self.port, self.host, self.context)
                fault, closes = self._request(listener, turn)
            except Exception as error:
                fault = f"{type(error).__name__}: {error} ({'a new' if fresh else 'a kept'} connection)"
            took = time.monotonic() - began
            with self._lock:
                self.done += 1
                self.slowest = max(self.slowest, took)
                if fault:
                    self.failures.append(f"{time.strftime('%H:%M:%S')} client {number} turn {turn} after {took:.3f} s: {fault}")
            if (closes or fault) and listener:
                listener.close()
                listener = None
            turn += 1
            if self.pause_seconds:
                self._stop.wait(self.pause_seconds)
        if listener:
            listener.close()


def wait(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except (OSError, ValueError, http.client.HTTPException):
            pass  # it is restarting, and its pid file being written
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.02)


def restart(pid_of, is_ready, signal_number=signal.SIGTERM, seconds=60):
    """Ends one replica and waits until its supervisor's next one is ready. Returns how long it was away, in seconds."""
    pid = pid_of()
    began = time.monotonic()
    os.kill(pid, signal_number)
    wait(lambda: pid_of() != pid and is_ready(), seconds, "the replica's return")
    return time.monotonic() - began


def rolling_restart(replicas, rounds, settled, seconds=60, tell=None):
    """rounds restarts, one replica after the other.

    replicas: a list of (pid_of, is_ready), callables; settled(): true when the next one may go (the balancer has seen
    the last one come back, and the runtimes have their tunnels); tell(seconds) hears of each restart when it is done.
    Returns the seconds of each.
    """
    times = []
    for turn in range(rounds):
        pid_of, is_ready = replicas[turn % len(replicas)]
        times.append(restart(pid_of, is_ready, seconds=seconds))
        wait(settled, seconds, "calm after a restart")
        if tell:
            tell(times[-1])
    return times
