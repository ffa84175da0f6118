"""What is measured on a way. Each case adds figures to the result table, and says what failed."""

import contextlib
import json
import pathlib
import signal
import subprocess

import process_watch

GIB = 2**30
ENDLESS_BYTES = 2**40
TRANSFER_SECONDS_MAX, STOP_SECONDS = 90, 10
SMALL_CONNECTIONS, SMALL_SECONDS, SINGLE_SECONDS, LIVE_SECONDS = 64, 3, 2, 2
BESIDE_DOWNLOADS, BESIDE_CONNECTIONS, BESIDE_SECONDS = 2, 4, 2
READERS, READER_BYTES_PER_SECOND, READER_SECONDS, OTHERS = (1, 30, 100), 20_000, 4, 4
EVENTS_PER_SECOND = 100
ROUND_TRIP_MS = 50
DELAYED_BYTES_MAX = 256 * 2**20
BOTH = "both ends"


def tcp_window_bytes():
    """What the kernel lets one TCP connection have under way at most, by the smaller of its two defaults."""
    folder = pathlib.Path("/proc/sys/net/ipv4")
    return min(int((folder / name).read_text().split()[2]) for name in ("tcp_rmem", "tcp_wmem"))


def delay_commands():
    return f"delay {ROUND_TRIP_MS // 2}", f"window {tcp_window_bytes()}"


def size_text(count):
    return f"{count / GIB:g} GiB" if count >= GIB else f"{count / 2**20:g} MiB"


class Cases:
    def __init__(self, program, table, bytes_of_bulk):
        self._program, self._table, self._bytes = program, table, bytes_of_bulk
        self.failures = []  # (name of the way, what)

    # ---- clients -----------------------------------------------------------------------------------------------------

    def _failed(self, way, what):
        self.failures.append((way.name, what))

    def _client(self, way, program, path, *words, seconds_max=TRANSFER_SECONDS_MAX):
        """What a client printed, or None when it failed."""
        command = [self._program(program), *way.client_words(path), *map(str, words)]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds_max)
        except subprocess.TimeoutExpired:
            return self._failed(way, f"{program} {path}: not within {seconds_max} s")
        if done.returncode:
            return self._failed(way, f"{program} {path}: {done.stderr.strip() or done.returncode}")
        return json.loads(done.stdout)

    @contextlib.contextmanager
    def _background(self, way, program, path, *words):
        """A client that runs beside others until _end(), or is killed."""
        command = [self._program(program), *way.client_words(path), *map(str, words)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True) as process:
            try:
                yield process
            finally:
                process.kill()

    def _end(self, way, process):
        process.send_signal(signal.SIGTERM)
        try:
            out, errors = process.communicate(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            return self._failed(way, f"{process.args[0].name} does not end")
        if process.returncode:
            return self._failed(way, f"{process.args[0].name}: {errors.strip() or process.returncode}")
        return json.loads(out)

    def _requests(self, way, connections, seconds, may_refuse=False):
        result = self._client(way, "requests", "/1k", "--connections", connections, "--seconds", seconds)
        if result and (result["failed"] or (result["refused"] and not may_refuse)):
            return self._failed(way, f"small requests: {result['failed']} connections broke, {result['refused']} refused")
        return result

    def _bulk(self, way, path, count, *words):
        """Seconds that it took, or None."""
        result = self._client(way, "bulk", path, *words)
        if result and (result["status"] != 200 or result["bytes"] != count or not result["exact"]):
            return self._failed(way, f"bulk {path}: {result}")
        return result and result["seconds"]

    @contextlib.contextmanager
    def _watched(self, way, unit, units):
        """Adds what the way's ends used of CPU, by `units()`, and by how much their memory grew."""
        ends = way.pids()
        before = {end: process_watch.cpu_seconds(pids) for end, pids in ends.items()}
        with process_watch.PeakRss(ends) as memory:
            yield
        count = units()
        if not ends or not count:
            return
        used = {end: (process_watch.cpu_seconds(pids) - before[end]) / count for end, pids in ends.items()}
        self._add(way, f"CPU-s of {BOTH} {unit}", sum(used.values()), 2, ratio=True)
        for end in used:
            self._add(way, f"  the {end} end", used[end], 2)
        self._add(way, f"growth of RSS while it ran, {BOTH}, MiB", sum(memory.growth_mib.values()), 1)

    def _add(self, way, row, figure, decimals, ratio=False):
        self._table.add(f"  {row}", way.name, figure, decimals, ratio)

    # ---- small requests ------------------------------------------------------------------------------------------------

    def many(self, way):
        self._table.section(f"1 KiB answers, {SMALL_CONNECTIONS} connections")
        result = {}
        with self._watched(way, "per 10 000", lambda: result.get("requests", 0) / 1e4):
            result = self._requests(way, SMALL_CONNECTIONS, SMALL_SECONDS) or {}
        self._add_requests(way, result)

    def single(self, way):
        self._table.section("1 KiB answers, 1 connection")
        self._add_requests(way, self._requests(way, 1, SINGLE_SECONDS))

    def _add_requests(self, way, result):
        if result:
            self._add(way, "requests/s", result["requests"] / result["seconds"], 0, ratio=True)
            self._add(way, "p50, ms", result["p50_us"] / 1e3, 3, ratio=True)
            self._add(way, "p99, ms", result["p99_us"] / 1e3, 2, ratio=True)

    # ---- big transfers -------------------------------------------------------------------------------------------------

    def _transfer(self, way, transfer):
        moved = []
        with self._watched(way, "per GiB", lambda: sum(moved) / GIB):
            seconds = transfer()
            if seconds:
                moved.append(self._bytes)
        if seconds:
            self._add(way, "MB/s", self._bytes / 1e6 / seconds, 0, ratio=True)

    def get(self, way):
        self._table.section(f"{size_text(self._bytes)} down (GET)")
        self._transfer(way, lambda: self._bulk(way, f"/bytes/{self._bytes}", self._bytes))

    def put(self, way):
        self._table.section(f"{size_text(self._bytes)} up (PUT)")
        self._transfer(way, lambda: self._bulk(way, "/sink", self._bytes, "--put", self._bytes))

    def delayed(self, way):
        """On ways whose ends are far apart."""
        count = min(self._bytes, DELAYED_BYTES_MAX)
        window = size_text(tcp_window_bytes())
        self._table.section(f"1 stream at {ROUND_TRIP_MS} ms round trip, {window} of TCP window, {size_text(count)}")
        for row, path, words in (("MB/s down", f"/bytes/{count}", ()), ("MB/s up", "/sink", ("--put", count))):
            seconds = self._bulk(way, path, count, *words)
            if seconds:
                self._add(way, row, count / 1e6 / seconds, 1, ratio=True)

    def beside(self, way):
        self._table.section(f"1 KiB answers, {BESIDE_CONNECTIONS} connections, beside {BESIDE_DOWNLOADS} downloads")
        rate = 0
        with contextlib.ExitStack() as stack:
            downloads = [stack.enter_context(self._background(way, "bulk", f"/bytes/{ENDLESS_BYTES}")) for _ in range(BESIDE_DOWNLOADS)]
            result = self._requests(way, BESIDE_CONNECTIONS, BESIDE_SECONDS)
            for told in [self._end(way, download) for download in downloads]:
                if told and not told["exact"]:
                    self._failed(way, f"a download beside small requests: {told}")
                rate += told["bytes"] / 1e6 / told["seconds"] if told else 0
        self._add_requests(way, result)
        self._add(way, "the downloads together, MB/s", rate, 0)

    # ---- slow readers --------------------------------------------------------------------------------------------------

    def readers(self, way, count):
        """Others alone, then beside slow readers. Straight to the service there is nothing to learn."""
        if not way.pids():
            return
        plural = "s" if count > 1 else ""
        alone = self._requests(way, OTHERS, SINGLE_SECONDS)
        self._table.section(f"{count} reader{plural} at {READER_BYTES_PER_SECOND // 1000} kB/s for {READER_SECONDS} s, {OTHERS} connections of others")
        self._readers(way, count, alone)

    def _readers(self, way, count, alone):
        words = ["--connections", count, "--rate", READER_BYTES_PER_SECOND]
        with process_watch.PeakRss(way.pids()) as memory, self._background(way, "readers", f"/bytes/{ENDLESS_BYTES}", *words) as readers:
            readers.stdout.readline()
            beside = self._requests(way, OTHERS, READER_SECONDS, may_refuse=True)
            told = self._end(way, readers)
        if told and (told["cut"] or told["answered"] < count):
            self._failed(way, f"of {count} slow readers {told['answered']} were answered and {told['cut']} cut off")
        self._add(way, f"growth of RSS, {BOTH}, MiB", sum(memory.growth_mib.values()), 1)
        for end, growth in memory.growth_mib.items():
            self._add(way, f"  the {end} end", growth, 1)
        if told:
            self._add(way, "slowest reader took, kB/s", told["slowest"] / 1e3 / told["seconds"], 1)
        beside = beside or {"per_second": [0], "refused": 0, "requests": 0, "seconds": READER_SECONDS, "p99_us": 0}
        if alone:
            self._add(way, "others: fewest answers in a second", min(beside["per_second"]), 0)
            self._add(way, "others: refused", beside["refused"], 0)
            self._add(way, "others: requests/s beside / alone", beside["requests"] / beside["seconds"] * alone["seconds"] / max(1, alone["requests"]), 2)
            if beside["requests"]:
                self._add(way, "others: p99 beside / alone", beside["p99_us"] / max(1, alone["p99_us"]), 2)

    # ---- what goes on ----------------------------------------------------------------------------------------------------

    def events(self, way):
        self._table.section(f"server-sent events, {EVENTS_PER_SECOND} a second")
        result = self._client(way, "events", f"/events/{EVENTS_PER_SECOND}", "--seconds", LIVE_SECONDS)
        if result:
            self._add(way, "events/s that arrived", result["events"] / result["seconds"], 0)
            self._add(way, "p50 from write to read, ms", result["p50_us"] / 1e3, 3, ratio=True)
            self._add(way, "p99 from write to read, ms", result["p99_us"] / 1e3, 2, ratio=True)

    def messages(self, way):
        self._table.section("WebSocket, 1 KiB messages sent back, 1 connection")
        result = self._client(way, "messages", "/socket", "--seconds", LIVE_SECONDS)
        if result:
            self._add(way, "messages/s", result["messages"] / result["seconds"], 0, ratio=True)
            self._add(way, "p50, ms", result["p50_us"] / 1e3, 3, ratio=True)
            self._add(way, "p99, ms", result["p99_us"] / 1e3, 2, ratio=True)
