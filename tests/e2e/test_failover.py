"""A synchronous standby of PostgreSQL takes over from a primary that is killed under load, as a cluster manager does it: nothing
that was acknowledged is lost, and writes go on within 30 s without a restart of culvertd (docs/operations.md, "Failover")."""

import os
import random
import re
import signal
import subprocess
import sys
import time

import pytest

from conftest import TOP
from platform_under_test import Connection, wait_until

sys.path[:0] = [str(TOP / "tests/chaos"), str(TOP / "tests/support")]

from evidence import ledger_faults  # noqa: E402
from ledger import Ledger  # noqa: E402
from load import TunnelWriter, Writer  # noqa: E402
from servers import POSTGRES_BIN, _as_user, free_port  # noqa: E402

pytestmark = pytest.mark.long
SECONDS_MAX = 30


class Standby:
    """A copy of the platform's PostgreSQL that the primary waits for at each commit."""

    def __init__(self, platform, folder):
        self.platform, self.folder, self.port = platform, folder, free_port()
        self.primary_port = self._ports()["PORT_POSTGRES"]
        folder.mkdir()
        if os.getuid() == 0:
            subprocess.run(["chown", "postgres:", folder], check=True)
        words = ["-h", "127.0.0.1", "-p", self.primary_port, "-U", "culvert_super", "-D", folder / "data", "-R", "-X", "stream", "-c", "fast"]
        self._as_server("pg_basebackup", *words)
        settings = f"-c port={self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections=100 -c cluster_name=standby"
        self._as_server("pg_ctl", "-D", folder / "data", "-l", folder / "log", "-o", settings, "-w", "start")
        platform.psql("alter system set synchronous_standby_names = 'standby'")
        platform.psql("select pg_reload_conf()")
        wait_until(lambda: platform.psql("select sync_state from pg_stat_replication") == [["sync"]], 30, "the standby is synchronous")

    def _ports(self):
        return dict(line.split("=") for line in (self.platform.home / "ports").read_text().split())

    def _as_server(self, program, *words):
        password = (self.platform.home / "pg-super.secret").read_text().strip()
        done = subprocess.run([*_as_user("postgres"), POSTGRES_BIN / program, *words], env=dict(os.environ, PGPASSWORD=password), cwd="/", stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=120)
        assert done.returncode == 0, done.stderr

    def promote(self):
        """What the platform's psql() asks from now on."""
        self._as_server("pg_ctl", "-D", self.folder / "data", "-w", "promote")
        file = self.platform.home / "ports"
        file.write_text(re.sub(r"(?m)^PORT_POSTGRES=.*$", f"PORT_POSTGRES={self.port}", file.read_text()))

    def stop(self):
        self._as_server("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "-w", "stop")


@pytest.fixture()
def standby(own_platform):
    platform = own_platform
    server = Standby(platform, platform.home.parent / "standby")
    try:
        # Both, of which libpq takes the one that can be written to.
        file = platform.home / "database.url"
        both = f"127.0.0.1:{server.primary_port},127.0.0.1:{server.port}"
        file.write_text(file.read_text().strip().replace(f"127.0.0.1:{server.primary_port}", both) + "?target_session_attrs=read-write\n")
        before = platform.kill("culvertd", signal.SIGTERM)
        wait_until(lambda: platform.pid("culvertd") != before and platform.online(), 60, "culvertd knows both")
        yield server
    finally:
        server.stop()


def kill_primary(platform):
    """With its supervisor: it stays away."""
    for name in ("postgres.pid.supervisor", "postgres.pid"):
        os.kill(int((platform.home / "run" / name).read_text()), signal.SIGKILL)


def start_load(platform, ledger):
    draw = random.Random(int(os.environ.get("CULVERT_TEST_SEED", "1")))
    token = platform.create_runtime("failover-http")

    def connect():
        return Connection(platform, platform.port(), "localhost", True, 20)

    clients = [Writer(i, platform, connect, token, ledger, 40, draw.getrandbits(64)) for i in range(3)]
    clients += [TunnelWriter(i, platform, f"failover-{i}", platform.create_runtime(f"failover-{i}"), ledger, 40, draw.getrandbits(64)) for i in range(3)]
    for client in clients:
        client.start()
    return clients


@pytest.mark.parametrize("own_platform", ["asan"], indirect=True)
def test_a_standby_takes_over_and_nothing_acknowledged_is_lost(own_platform, standby, tmp_path):
    platform = own_platform
    ledger = Ledger(tmp_path / "ledger.jsonl")
    clients = start_load(platform, ledger)
    pid = platform.pid("culvertd")
    try:
        wait_until(lambda: ledger.count > 300, 60, "reports flow")
        kill_primary(platform)
        killed, before = time.monotonic(), ledger.count
        standby.promote()
        wait_until(lambda: ledger.count > before + 100, SECONDS_MAX, "reports flow again")
        took = time.monotonic() - killed
        wait_until(lambda: ledger.count > before + 600, 60, "reports go on")
    finally:
        for client in clients:
            client.stopping.set()
        for client in clients:
            client.join(60)
        ledger.close()
    assert took < SECONDS_MAX and platform.pid("culvertd") == pid
    assert [client.failure for client in clients if client.failure] == []
    assert {what: faults for what, faults in ledger_faults(platform, ledger).items() if faults} == {}
    assert platform.online() and platform.psql("select pg_is_in_recovery()") == [["f"]]
    print(f"writes went on {took:.1f} s after the kill; {ledger.count} acknowledged")
