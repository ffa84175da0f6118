"""culvertd as a process: its signals, its command line, and when it refuses to start."""

import http.client
import os
import pathlib
import signal
import socket
import subprocess
import threading

import pytest

from api_door_client import application, culvertd, demo_path, events_with, head, same_process  # noqa: F401
from platform_under_test import wait_until

# ---- signals ---------------------------------------------------------------------------------------------------------------------


def test_reload_takes_the_log_level(platform):
    file = platform.home / "culvertd.conf"
    before = file.read_text()

    def reload(said):
        seen = platform.log("culvertd").count(f'"msg":"{said}"')
        os.kill(platform.pid("culvertd"), signal.SIGHUP)
        wait_until(lambda: platform.log("culvertd").count(f'"msg":"{said}"') > seen, 5, said)

    try:
        reload("reloaded")
        file.write_text(before + "\nlog.level = nonsense\n")
        reload("reload_refused")
        file.write_text(before + "\nlog.level = error\n")
        os.kill(platform.pid("culvertd"), signal.SIGHUP)
        wait_until(lambda: platform.api("GET", "/api/ping").status == 200)
    finally:
        file.write_text(before)
        reload("reloaded")


@pytest.mark.usefixtures("platform")  # ends the process on purpose
def test_terminated_under_load(platform):
    """SIGTERM in the middle of everything: it ends in time and without a word of the sanitizers; the next one serves."""
    pid = platform.pid("culvertd")
    stop = threading.Event()

    def call(i):
        while not stop.is_set():
            try:
                if i % 4 == 0:
                    events_with(platform, platform.env["CULVERT_RUNTIME_TOKEN"], application(f"load-{i}"))
                elif i % 4 == 1:
                    platform.graphql_answer("{ runtimes { edges { node { online } } } }")
                else:
                    with platform.raw(platform.env["CULVERT_URL"]) as sock:
                        sock.sendall(head(platform, "GET " + demo_path(platform, ["/bytes/100000000", "/slow?seconds=60"][i % 2])))
                        sock.settimeout(3)
                        while sock.recv(65536) and not stop.is_set():
                            pass
            except (OSError, http.client.HTTPException):
                pass

    threads = [threading.Thread(target=call, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: platform.metric("culvert_tunnel_streams_open") > 3, 10, "there is load")
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: platform.pid("culvertd") != pid, 40, "it ends")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    wait_until(platform.online, 60, "the next one serves")
    log = platform.log("culvertd")
    assert "AddressSanitizer" not in log and "runtime error" not in log and "Assertion" not in log
    for i in range(0, 12, 4):
        gone = application(f"load-{i}")
        gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        assert events_with(platform, platform.env["CULVERT_RUNTIME_TOKEN"], gone).status == 200


# ---- the command line ----------------------------------------------------------------------------------------------------------


def test_config_commands(platform):
    checked = culvertd(platform, "--check-config")
    assert (checked.returncode, checked.stdout.strip()) == (0, "the configuration is fine"), checked.stderr
    printed = culvertd(platform, "--print-config")
    assert printed.returncode == 0 and f"api.listen = 127.0.0.1:{platform.port()}" in printed.stdout
    password = (platform.home / "database.url").read_text().strip()
    assert password not in printed.stdout
    secret = culvertd(platform, "--print-config", env={"CULVERT_DATABASE_URL": "host=x password=verysecret"})
    assert secret.returncode == 0 and "verysecret" not in secret.stdout + secret.stderr
    example = culvertd(platform, "--print-example", settings=False)
    assert example.returncode == 0 and "api.listen" in example.stdout
    assert culvertd(platform, "--version", settings=False).stdout.startswith("culvertd ")
    assert "create-key" in culvertd(platform, "--help", settings=False).stdout


def test_all_problems_at_once(platform, tmp_path):
    file = tmp_path / "bad.conf"
    file.write_text("no.such.key = 1\nloops = many\napi.body_max = 1\ntunnel.domain = UPPER\nlog.level = loud\n")
    refused = culvertd(platform, "--config", str(file), "--check-config", settings=False)
    assert refused.returncode == 2
    for word in ("no.such.key", "loops", "api.body_max", "log.level", "database.url", "tls.key_file"):
        assert word in refused.stderr, refused.stderr
    assert "bad.conf:1" in refused.stderr
    assert culvertd(platform, "--no-such-flag", "1").returncode == 2
    assert culvertd(platform, "nonsense").returncode == 2
    assert culvertd(platform, "admin", "nonsense").returncode == 2
    assert culvertd(platform, env={"CULVERT_NO_SUCH": "1"}, settings=True, *["--check-config"]).returncode in (0, 2)


def start_refused(platform, *words, env=None):
    """A culvertd on other ports that is expected not to come up."""
    ports = [f"--{door}.listen=127.0.0.1:0" for door in ("api", "admin", "tunnel", "ingress")]
    done = culvertd(platform, *ports, "--node.name=refused", *words, env=env)
    assert done.returncode == 1, (done.returncode, done.stderr)
    assert "LeakSanitizer" not in done.stderr and "AddressSanitizer" not in done.stderr, done.stderr
    return done.stderr


def owner_url(platform):
    return (platform.home / "database.url").read_text().strip()


def test_database_that_may_lose_data_is_refused(platform):
    role = "culvert_server"
    platform.psql(f"alter role {role} set synchronous_commit = off")
    try:
        said = start_refused(platform)
        assert "synchronous_commit" in said, said
    finally:
        platform.psql(f"alter role {role} reset synchronous_commit")


def test_database_without_fsync_is_refused(platform, tmp_path):
    """A server of our own: fsync is the server's setting."""
    tmp_path.chmod(0o755)
    for parent in list(tmp_path.parents)[:3]:
        if parent != pathlib.Path("/tmp") and parent.is_dir() and parent.owner() == "root" and parent != pathlib.Path("/"):
            parent.chmod(0o755)
    data = tmp_path / "data"
    data.mkdir()
    as_user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    if as_user:
        subprocess.run(["chown", "postgres", data], check=True)
    pg = "/usr/lib/postgresql/15/bin/"
    options = f"-c fsync=off -c listen_addresses='' -c unix_socket_directories={data}"
    subprocess.run([*as_user, pg + "initdb", "-D", data, "-U", "postgres", "-A", "trust"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([*as_user, pg + "pg_ctl", "-D", data, "-w", "-o", options, "-l", data / "log", "start"], check=True, stdout=subprocess.DEVNULL)
    try:
        said = start_refused(platform, env={"CULVERT_DATABASE_URL": f"host={data} user=postgres dbname=postgres"})
        assert "fsync" in said, said
    finally:
        subprocess.run([*as_user, pg + "pg_ctl", "-D", data, "-m", "immediate", "stop"], check=True, stdout=subprocess.DEVNULL)


def test_taken_port_is_refused(platform):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for door in ("api", "admin", "tunnel", "ingress"):
            said = start_refused(platform, f"--{door}.listen=127.0.0.1:{port}")
            assert str(port) in said or "listen" in said, said


def test_bad_certificate_is_refused(platform, tmp_path):
    file = tmp_path / "bad.pem"
    file.write_text("no certificate")
    assert "bad.pem" in start_refused(platform, f"--tls.certificate_file={file}")


def test_missing_migration_is_refused(platform):
    said = start_refused(platform, env={"CULVERT_DATABASE_URL": owner_url(platform).removesuffix("/culvert") + "/postgres"})
    assert "migrat" in said or "database" in said, said
