"""PostgreSQL's disk is full, or fails: reports are refused with 503 and Retry-After or wait in their tunnels, nothing is
acknowledged that is not there afterwards, and all goes on when there is room again.

The databases live on a small file system of their own, in a mount namespace of their own; failing writes are made by strace."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

from conftest import build_folder
from platform_under_test import TOP, Connection, Platform, wait_until

sys.path.append(str(TOP / "tests/chaos"))

from evidence import ledger_faults  # noqa: E402
from ledger import Ledger  # noqa: E402
from load import TunnelWriter, Writer  # noqa: E402

DISK = "320m"
RECOVERY_SECONDS = 10  # what is promised, from the moment there is room
MOUNT = 'mkdir -p "$0" && mount -t tmpfs -o mode=755,size=' + DISK + ' none "$0" && exec "$@"'

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")


class SmallDisk(Platform):
    def quickstart(self, *words, check=True):
        environment = dict(os.environ, CULVERT_HOME=str(self.home), CULVERT_BUILD=str(self.build))
        inside = ["unshare", "-m", "--propagation", "private", "sh", "-c", MOUNT, self.home / "data"] if not words else []
        done = subprocess.run([*inside, TOP / "deploy/quickstart", "--no-install", *words], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240)
        assert done.returncode == 0 or not check, f"{done.stdout}\n{self.logs()}"
        return done

    def fill_file(self):
        return pathlib.Path(f"/proc/{self.pid('culvertd')}/root{self.home}/data/fill")

    @contextlib.contextmanager
    def full(self):
        file = self.fill_file()
        try:
            with open(file, "wb", buffering=0) as out, contextlib.suppress(OSError):
                while out.write(bytes(1 << 20)):
                    pass
            with open(file, "ab", buffering=0) as out, contextlib.suppress(OSError):
                while out.write(bytes(512)):
                    pass
            yield
        finally:
            file.unlink()

    @contextlib.contextmanager
    def failing_writes(self):
        """Every write of every PostgreSQL process fails with EIO, as long as this PostgreSQL lives."""
        master = self.pid("postgres")
        pids = [master, *map(int, pathlib.Path(f"/proc/{master}/task/{master}/children").read_text().split())]
        words = ["strace", "-f", "-o", "/dev/null", "-e", "trace=pwrite64", "-e", "inject=pwrite64:error=EIO"]
        for pid in pids:
            words += ["-p", str(pid)]
        tracer = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        try:
            yield
        finally:
            tracer.terminate()
            tracer.wait(30)


class Strict(Writer):
    """Whatever is no 2xx must be a 503 that says when to come again."""

    wrong = ()

    def on_refused(self, answer):
        super().on_refused(answer)
        if answer.status != 503 or not (answer.headers["Retry-After"] or "").isdigit():
            self.wrong += (f"{answer.status}, Retry-After {answer.headers['Retry-After']}",)


@pytest.fixture()
def small_disk():
    if shutil.which("strace") is None:
        pytest.skip("no strace")
    with tempfile.TemporaryDirectory(prefix="culvert-e2e.", dir="/var/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        under_test = SmallDisk(pathlib.Path(folder) / "home", build_folder("asan"))
        try:
            yield under_test.start()
        except BaseException:
            print(under_test.logs(40))
            raise
        finally:
            under_test.reset()


def test_full_and_failing_disk(small_disk, tmp_path):
    platform = small_disk
    ledger = Ledger(tmp_path / "ledger.jsonl")
    port = int(platform.env["CULVERT_URL"].rsplit(":", 1)[1])
    token = platform.create_runtime("full-disk-http")
    writers = [Strict(i, platform, lambda: Connection(platform, port, "localhost", True, 60), token, ledger, 20, i) for i in range(3)]
    tunnel = TunnelWriter(0, platform, "full-disk", platform.create_runtime("full-disk"), ledger, 20, 1)
    everybody = [*writers, tunnel]
    culvertd = platform.pid("culvertd")

    def flows(seconds, what):
        """New acknowledgements by both mouths, of what was sent after now."""
        with ledger.lock:
            had = dict(ledger.sent)
        def came():
            with ledger.lock:
                news = [name for name, number in ledger.acked.items() if number > had.get(name, 0)]
            return any(n.startswith("writer") for n in news) and any(n.startswith("tunnel") for n in news)
        wait_until(came, seconds, what)

    def refusals():
        return sum(w.refused for w in writers)

    def wait_for_refusals():
        had = refusals()
        wait_until(lambda: refusals() >= had + 5, 60, "reports are refused")

    for each in everybody:
        each.start()
    try:
        flows(30, "reports flow")
        with platform.full():  # tables cannot grow
            wait_for_refusals()
        flows(RECOVERY_SECONDS, "reports flow again")
        with platform.full():  # there is no room for the write-ahead log, which ends PostgreSQL
            postgres = platform.pid("postgres")
            for _ in range(3):
                with contextlib.suppress(AssertionError):
                    platform.psql("select pg_switch_wal()")
            wait_until(lambda: platform.pid("postgres") != postgres, 60, "PostgreSQL has ended")
            wait_for_refusals()
        flows(RECOVERY_SECONDS, "reports flow again")
        postgres, had = platform.pid("postgres"), refusals()
        with platform.failing_writes():  # it ends itself, and the next one is not traced
            wait_until(lambda: platform.pid("postgres") != postgres and refusals() > had, 60, "PostgreSQL has ended")
        flows(RECOVERY_SECONDS, "reports flow again")
    finally:
        for each in everybody:
            each.stopping.set()
        for each in everybody:
            each.join(60)
        ledger.close()
    assert not [each.failure for each in everybody if each.failure]
    assert not tunnel.rejected and not [w.wrong for w in writers if w.wrong]
    assert platform.pid("culvertd") == culvertd
    faults = ledger_faults(platform, ledger)
    assert not any(faults.values()), {what: found[:10] for what, found in faults.items() if found}
