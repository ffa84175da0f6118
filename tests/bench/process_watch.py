"""What processes use: CPU-seconds and resident memory, read from /proc."""

import os
import pathlib
import threading

TICKS = os.sysconf("SC_CLK_TCK")
PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20
SAMPLE_SECONDS = 0.020


def cpu_seconds(pids):
    """User and system time of these processes, all threads; they must be alive."""
    total = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])  # utime and stime, fields 14 and 15 of proc(5)
    return total / TICKS


def rss_mib(pids):
    """Resident memory of these processes together; they must be alive."""
    return sum(int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids) * PAGE_MIB


class PeakRss:
    """Samples the memory of {name: pids} on a thread of its own for as long as the `with` block lasts.

    `growth_mib` is {name: MiB} from the beginning to the peak. A process that ends meanwhile keeps the peak it had; that it
    ended is for others to notice.
    """

    def __init__(self, ends):
        self._ends = ends
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.growth_mib = dict.fromkeys(ends, 0.0)

    def _sample(self):
        for name, pids in self._ends.items():
            try:
                self.growth_mib[name] = max(self.growth_mib[name], rss_mib(pids) - self._before[name])
            except (OSError, IndexError):
                pass

    def _run(self):
        while not self._stopping.wait(SAMPLE_SECONDS):
            self._sample()

    def __enter__(self):
        self._before = {name: rss_mib(pids) for name, pids in self._ends.items()}
        self._thread.start()
        return self

    def __exit__(self, *_error):
        self._stopping.set()
        self._thread.join()
        self._sample()
