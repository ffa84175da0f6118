"""culvertd as a process: its signals, its command line, and when it refuses to start."""

import hashlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading

import pytest

from api_listener_client import application, culvertd, demo_path, events_with, head, same_process  # noqa: F401
from platform_under_test import TOP, wait_until

sys.path.insert(0, str(TOP / "tests/support"))
from servers import Redis  # noqa: E402

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
    ports = [f"--{listener}.listen=127.0.0.1:0" for listener in ("api", "admin", "tunnel", "ingress")]
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
        for listener in ("api", "admin", "tunnel", "ingress"):
            said = start_refused(platform, f"--{listener}.listen=127.0.0.1:{port}")
            assert str(port) in said or "listen" in said, said


def test_bad_certificate_is_refused(platform, tmp_path):
    file = tmp_path / "bad.pem"
    file.write_text("no certificate")
    assert "bad.pem" in start_refused(platform, f"--tls.certificate_file={file}")


def test_login_with_more_than_it_needs_is_refused(platform):
    """What it has itself, what it has by a role, and what only SET ROLE would give it."""
    role = "culvert_server"
    cases = [(f"alter role {role} {word}", f"alter role {role} no{word}", word.upper()) for word in ("superuser", "bypassrls", "createrole", "createdb", "replication")]
    for group in ("pg_execute_server_program", "pg_write_server_files", "pg_read_server_files", "pg_write_all_data", "pg_read_all_data", "culvert_lookup", "culvert_owner"):
        cases.append((f"grant {group} to {role}", f"revoke {group} from {role}", "ownership" if group == "culvert_owner" else group))
    platform.psql("create role e2e_hidden nologin createrole; create role e2e_between nologin noinherit; grant e2e_hidden to e2e_between")
    cases.append((f"grant e2e_between to {role}", f"revoke e2e_between from {role}", "CREATEROLE"))
    cases.append(("alter table culvert.accounts owner to e2e_hidden; alter role e2e_hidden nocreaterole; grant e2e_hidden to culvert_server",
                  "alter table culvert.accounts owner to culvert_owner; revoke e2e_hidden from culvert_server", "ownership of the schema culvert"))
    try:
        for give, take, word in cases:
            platform.psql(give)
            try:
                said = start_refused(platform)
                assert role in said and word in said and "print-roles" in said, (give, said)
            finally:
                platform.psql(take)
    finally:
        platform.psql("drop role e2e_between; drop role e2e_hidden")


def test_owner_credential_in_the_settings_is_refused(platform, tmp_path):
    config = tmp_path / "culvertd.conf"
    config.write_text((platform.home / "culvertd.conf").read_text() + f"database.migrate_url = file:{platform.home}/database-owner.url\n")
    for done in (culvertd(platform, "--config", str(config), settings=False),
                 culvertd(platform, "--check-config", env={"CULVERT_DATABASE_MIGRATE_URL": "host=x"})):
        assert done.returncode == 2 and "must not have the owner's credential" in done.stderr, done.stderr
    assert "database-owner" not in (platform.home / "culvertd.conf").read_text()


def test_roles_are_made_once_by_the_administrator(platform, tmp_path):
    """print-roles, twice, then a first migration by an owner that may make no roles; it is refused as the server's login."""
    names = ("--owner", "e2e_owner", "--login", "e2e_login", "--database", "e2e_roles")
    printed = culvertd(platform, "admin", "print-roles", *names, settings=False)
    assert printed.returncode == 0, printed.stderr
    for bad in ("a b", "x;drop", "1x", "", "x" * 64, "e2e_login"):
        assert culvertd(platform, "admin", "print-roles", *names[2:], "--owner", bad, settings=False).returncode == 2
    ports = dict(line.split("=") for line in (platform.home / "ports").read_text().split())
    environment = dict(os.environ, PGPASSWORD=(platform.home / "pg-super.secret").read_text().strip())
    words = ["psql", "-X", "-q", "-h", "127.0.0.1", "-p", ports["PORT_POSTGRES"], "-U", "culvert_super", "-d", "postgres"]
    try:
        for _ in range(2):
            done = subprocess.run(words, input=printed.stdout + "alter role e2e_owner password 'x';", capture_output=True, text=True, env=environment)
            assert done.returncode == 0, done.stderr
        rows = platform.psql("select rolname from pg_roles where rolname in ('e2e_owner', 'e2e_login') and (rolcreaterole or rolcreatedb or rolsuper or rolbypassrls or rolreplication)")
        assert not rows
        url = tmp_path / "owner.url"
        url.write_text(f"postgresql://e2e_owner:x@127.0.0.1:{ports['PORT_POSTGRES']}/e2e_roles\n")
        for words_of_it in (("migrate",), ("migrate", "--url-file"), ("migrate", "x")):
            assert culvertd(platform, *words_of_it, settings=False).returncode == 2
        for _ in range(2):
            migrated = culvertd(platform, "migrate", "--url-file", str(url), settings=False)
            assert migrated.returncode == 0, migrated.stderr
        said = start_refused(platform, env={"CULVERT_DATABASE_URL": url.read_text().strip()})
        assert "e2e_owner" in said and "ownership" in said
    finally:
        for sql in ("drop database if exists e2e_roles with (force)", "drop role if exists e2e_owner, e2e_login"):
            subprocess.run([*words, "-c", sql], env=environment, check=True)


def test_a_dump_has_no_key_that_signs_identities(platform):
    """Whoever reads the tables: no column has the hash that signs callers' identities and proves the platform to the agent."""
    token_id, secret = platform.env["CULVERT_RUNTIME_TOKEN"].split(".")
    key = hashlib.sha256(secret.encode()).hexdigest()
    raw = hashlib.sha256(bytes.fromhex(secret)).hexdigest()
    stored = platform.psql(f"select encode(secret_sha256, 'hex') from runtime_tokens where token_id = '{token_id}'")[0][0]
    assert len(stored) == 2 * 76
    ports = dict(line.split("=") for line in (platform.home / "ports").read_text().split())
    words = ["pg_dump", "-h", "127.0.0.1", "-p", ports["PORT_POSTGRES"], "-U", "culvert_super", "-d", "culvert", "--data-only"]
    dump = subprocess.run(words, capture_output=True, text=True, check=True, env=dict(os.environ, PGPASSWORD=(platform.home / "pg-super.secret").read_text().strip())).stdout
    assert token_id in dump and secret not in dump and key not in dump and raw not in dump
    # As an older version would have left it: it works, is reported, and the command encrypts it.
    plain = key if events_with(platform, platform.env["CULVERT_RUNTIME_TOKEN"], application("dump")).status == 200 else None
    assert plain
    platform.psql(f"update runtime_tokens set secret_sha256 = decode('{plain}', 'hex') where token_id = '{token_id}'")
    wait_until(lambda: '"msg":"runtime_tokens_not_encrypted"' in platform.log("culvertd"), 20, "it is reported")
    assert events_with(platform, platform.env["CULVERT_RUNTIME_TOKEN"], application("dump")).status == 200
    done = culvertd(platform, "admin", "encrypt-tokens")
    assert done.returncode == 0 and '{"encrypted":1}' in done.stdout, (done.stdout, done.stderr)
    assert len(platform.psql(f"select encode(secret_sha256, 'hex') from runtime_tokens where token_id = '{token_id}'")[0][0]) == 2 * 76
    assert '{"encrypted":0}' in culvertd(platform, "admin", "encrypt-tokens").stdout
    wait_until(platform.online, 30, "the agent is there")
    gone = application("dump")
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert events_with(platform, platform.env["CULVERT_RUNTIME_TOKEN"], gone).status == 200


def test_a_restored_copy_is_checked(platform, tmp_path):
    """Its schema, the deployment key, the audit log of each account."""

    def check(**settings):
        done = culvertd(platform, "admin", "check-database", env={f"CULVERT_{name}": str(value) for name, value in settings.items()})
        found = json.loads(done.stdout)
        assert done.returncode == (1 if found["problems"] else 0), done
        # The accounts of other tests are theirs: test_audit leaves one whose log it altered.
        found["problems"] = [each for each in found["problems"] if not re.match(r"account (?!quickstart:)", each)]
        return found

    whole = check()
    mine = {each["name"]: each for each in whole["accounts"]}["quickstart"]
    assert whole["problems"] == [] and whole["runtimeTokens"]["valid"] >= 1 and whole["runtimeTokens"]["unreadable"] == 0
    assert mine["applications"] > 0 and mine["users"] > 0 and mine["runtimes"] > 0 and mine["newestReport"] and mine["audit"]["firstBad"] is None

    key = tmp_path / "key"
    assert culvertd(platform, "admin", "create-deployment-key", str(key), settings=False).returncode == 0
    other = check(SECURITY_DEPLOYMENT_KEY_FILE=key)
    assert len(other["problems"]) == 1 and "another deployment key" in other["problems"][0] and other["runtimeTokens"]["unreadable"] > 0

    account = platform.graphql("{ me { activeAccount { id } } }")["me"]["activeAccount"]["id"]
    dump, ports = platform.dump(), dict(line.split("=") for line in (platform.home / "ports").read_text().split())
    words = ["psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", ports["PORT_POSTGRES"], "-U", "culvert_super"]
    environment = dict(os.environ, PGPASSWORD=(platform.home / "pg-super.secret").read_text().strip())

    def copy(sql):
        subprocess.run([*words, "-d", "restored", "-c", sql], env=environment, check=True)
        return check(DATABASE_URL=f"file:{url}")["problems"]

    url = tmp_path / "url"
    url.touch(mode=0o600)
    url.write_text(re.sub(r"/culvert\b(?=[?\s]|$)", "/restored", (platform.home / "database.url").read_text()))
    try:
        subprocess.run([*words, "-d", "culvert", "-c", "create database restored"], env=environment, check=True)
        subprocess.run([*words, "-d", "restored"], input=dump, stdout=subprocess.DEVNULL, env=environment, check=True)
        assert copy("select 1") == []
        assert copy(f"update culvert.audit_entries set action = 'x' where number = 2 and account_id = '{account}'") == ["account quickstart: the audit log was altered, see entry 2"]
        (problem,) = copy("delete from culvert.schema_migrations where version = (select max(version) from culvert.schema_migrations)")
        assert problem.startswith("schema: ")
    finally:
        subprocess.run([*words, "-d", "culvert", "-c", "drop database if exists restored with (force)"], env=environment, check=True)
    (problem,) = check(DATABASE_URL=f"file:{url}")["problems"]
    assert "restored" in problem or "database" in problem


def test_redis_over_tls(platform, tmp_path):
    """As a user of an ACL, by the CA that is set and by no other; in the clear only where nobody listens."""
    with Redis(tmp_path / "redis") as redis:
        environment = {"CULVERT_REDIS_URL": redis.tls_url, "CULVERT_REDIS_TLS_CA_FILE": str(redis.ca_file)}
        read = culvertd(platform, "admin", "traffic", env=environment)
        assert read.returncode == 0 and len(read.stdout.splitlines()) == 5, read.stderr
        for wrong in ({"CULVERT_REDIS_TLS_CA_FILE": platform.env["CULVERT_CA"]}, {"CULVERT_REDIS_TLS_CA_FILE": ""},
                      {"CULVERT_REDIS_URL": redis.tls_url.replace("localhost", "127.0.0.2")}, {"CULVERT_REDIS_URL": redis.tls_url.replace("culvert:", "other:")}):
            refused = culvertd(platform, "admin", "traffic", env={**environment, **wrong})
            assert refused.returncode == 1 and not refused.stdout, (wrong, refused.stdout)
    for url in ("redis://:x@redis.example:6379", "redis://:x@127.example.com"):
        assert "allow_plaintext" in start_refused(platform, env={"CULVERT_REDIS_URL": url})


def test_deployment_key_that_is_none_is_refused(platform, tmp_path):
    key = tmp_path / "key"
    for text, mode, word in (("", 0o600, "0 bytes"), ("short", 0o600, "5 bytes"), ("0" * 64, 0o600, "not random"),
                             ((platform.home / "deployment-key.secret").read_text(), 0o644, "mode 0644")):
        key.write_text(text)
        key.chmod(mode)
        for setting in ("deployment_key_file", "deployment_key_previous_file"):
            said = start_refused(platform, f"--security.{setting}={key}")
            assert "deployment key" in said and word in said and (len(text) < 6 or text.strip() not in said), said
        key.unlink()
    missing = culvertd(platform, f"--security.deployment_key_file={key}", "--check-config")
    assert missing.returncode == 2 and "security.deployment_key_file" in missing.stderr


def test_deployment_key_is_created_without_settings_and_never_replaced(platform, tmp_path):
    file = tmp_path / "key"
    done = culvertd(platform, "admin", "create-deployment-key", str(file), settings=False)
    assert done.returncode == 0 and file.stat().st_mode & 0o777 == 0o600, done.stderr
    made = file.read_text()
    assert len(made) == 65 and made.strip() not in done.stdout + done.stderr
    assert culvertd(platform, "admin", "create-deployment-key", str(file), settings=False).returncode == 3
    assert file.read_text() == made
    assert culvertd(platform, f"--security.deployment_key_file={file}", "--check-config").returncode == 0


def test_missing_migration_is_refused(platform):
    said = start_refused(platform, env={"CULVERT_DATABASE_URL": owner_url(platform).removesuffix("/culvert") + "/postgres"})
    assert "migrat" in said or "database" in said, said


def test_services_of_the_quickstart_inherit_no_descriptor():
    """A lock or a pipe of whoever started it, kept by a database that runs for weeks, is never released."""
    with tempfile.TemporaryDirectory() as folder, open(f"{folder}/held", "w") as held:
        os.set_inheritable(held.fileno(), True)
        far = os.dup2(held.fileno(), 300)
        supervise = pathlib.Path(__file__).resolve().parents[2] / "deploy/lib/supervise"
        process = subprocess.Popen([supervise, f"{folder}/pid", f"{folder}/log", "sleep", "600"], stdin=subprocess.DEVNULL, pass_fds=(held.fileno(), far))
        try:
            pid = wait_until(lambda: pathlib.Path(f"{folder}/pid").exists() and pathlib.Path(f"{folder}/pid").read_text().strip(), 20, "the service")
            wait_until(lambda: pathlib.Path(f"/proc/{pid}/comm").read_text() == "sleep\n", 20, "its program")
            assert sorted(os.listdir(f"/proc/{pid}/fd")) == ["0", "1", "2"]
        finally:
            process.terminate()
            process.wait()
            os.close(far)
