"""Servers that stand at the two ends of a way: started on loopback, watched, stopped by pid."""

import dataclasses
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import typing

PROGRAMS = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"
START_SECONDS = 15
STOP_SECONDS = 10
WORKERS = min(os.cpu_count() or 1, 16)  # as many as the platform has loops


@dataclasses.dataclass
class Site:
    """What a peer needs to know: where it may write, whom it may trust, what it leads to.

    `leg(port)` is where the near end is to dial in order to reach the far end's port: the port itself, or a proxy's.
    """

    folder: pathlib.Path
    pki: pathlib.Path
    origin_port: int
    free_port: typing.Callable[[], int]
    leg: typing.Callable[[int], int] = lambda port: port


def program(name):
    return shutil.which(name, path=PROGRAMS)


def descendants(pid):
    found = [pid]
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += descendants(child)
    return found


class Peer:
    """A pair of servers, "near" (where clients connect) and "far" (beside the service). `port` is where clients connect.

    What is derived from it writes its configuration, calls run() for each server and says in missing() why it cannot run here.
    """

    name = description = ""

    def __init__(self, site):
        self.site, self.port = site, site.free_port()
        self._processes = []
        site.folder.mkdir(parents=True, exist_ok=True)

    @classmethod
    def missing(cls):
        return None

    def run(self, end, command, *ports):
        """Starts a server and waits until it listens on its ports."""
        log = self.site.folder / f"{end}.log"
        with log.open("a") as output:
            process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.site.folder)
        self._processes.append((end, process))
        deadline = time.monotonic() + START_SECONDS
        for port in ports:
            while not self._answers(port):
                if time.monotonic() > deadline or process.poll() is not None:
                    raise RuntimeError(f"{self.name} does not start:\n{log.read_text()[-2000:]}")
                time.sleep(0.05)

    @staticmethod
    def _answers(port):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return True
        except OSError:
            return False

    def pids(self):
        """{"near": [...], "far": [...]}, with all their children."""
        found = {"near": [], "far": []}
        for end, process in self._processes:
            found[end] += descendants(process.pid)
        return found

    def stop(self):
        for _, process in self._processes:
            process.send_signal(signal.SIGTERM)
        for _, process in self._processes:
            children = descendants(process.pid)[1:] if process.poll() is None else []
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                for pid in [*children, process.pid]:
                    os.kill(pid, signal.SIGKILL)
                process.wait()
        self._processes.clear()
