"""What processes use: CPU-seconds and resident memory, read from /proc."""

import os
import pathlib
import threading

TICKS = os.sysconf("SC_CLK_TCK")
SAMPLE_SECONDS = 0.020


def cpu_seconds(pids):
    """User and system time of these processes, all threads; they must be alive."""
    total = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])  # utime and stime, fields 14 and 15 of proc(5)
    return total / TICKS


def rss_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError(f"process {pid} has no VmRSS")


class PeakRss:
    """Samples the memory of processes {name: pid} on a thread of its own for as long as the `with` block lasts.

    `peak_kib` is {name: KiB}. A process that ends meanwhile keeps the peak it had; that it ended is for others to notice.
    """

    def __init__(self, pids):
        self._pids = pids
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.peak_kib = dict.fromkeys(pids, 0)

    def _sample(self):
        for name, pid in self._pids.items():
            try:
                self.peak_kib[name] = max(self.peak_kib[name], rss_kib(pid))
            except (OSError, RuntimeError):
                pass

    def _run(self):
        while not self._stopping.wait(SAMPLE_SECONDS):
            self._sample()

    def __enter__(self):
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *_error):
        self._stopping.set()
        self._thread.join()
        self._sample()
