"""Redis over TLS as docs/operations.md describes it: an ACL user with its password in a file, and the CA of the server."""

import pathlib
import re
import signal
import sys
import tempfile

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/support"))

from api_listener_client import culvertd  # noqa: E402
from conftest import build_folder  # noqa: E402
from platform_under_test import Platform, wait_until  # noqa: E402
from redis_client import Redis as RedisClient  # noqa: E402
from servers import Redis  # noqa: E402

PASSWORD = "correct-4bd1c3f0"
LIST = "{ rollouts { edges { node { metadata { name } } } } }"


def acl():
    """The command that the documentation gives."""
    line = re.search(r"(?m)^ {4}ACL SETUSER culvert (.*)$", (TOP / "docs/operations.md").read_text())[1]
    return line.replace(">PASSWORD", ">" + PASSWORD).split()


def write(file, text):
    file.touch(mode=0o600)
    file.write_text(text)


@pytest.fixture(scope="module")
def secured():
    """A platform whose Redis is only reachable that way. `password_file` and `ca_file` are what culvertd reads."""
    with tempfile.TemporaryDirectory(prefix="culvert-redis.", dir="/var/tmp") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        with Redis(folder / "redis") as redis:
            with RedisClient(redis.url) as administrator:
                administrator("ACL", "SETUSER", "culvert", "reset", *acl())
            platform = Platform(folder / "home", build_folder("asan"))
            platform.redis, platform.password_file, platform.ca_file = redis, folder / "redis.password", folder / "redis-ca.crt"
            write(platform.password_file, PASSWORD + "\n")
            write(platform.ca_file, redis.ca_file.read_text())
            platform.settings.update(
                CULVERT_REDIS_URL=f"rediss://culvert@localhost:{redis.tls_port}/0",
                CULVERT_REDIS_PASSWORD_FILE=str(platform.password_file),
                CULVERT_REDIS_TLS_CA_FILE=str(platform.ca_file),
                CULVERT_CACHE_SLOWER_THAN="1ms",
            )
            try:
                yield platform.start()
            finally:
                platform.reset()


def restart(platform):
    """culvertd's log of its new life."""
    written, old = len(platform.log("culvertd")), platform.kill("culvertd", signal.SIGTERM)
    wait_until(lambda: platform.pid("culvertd") != old and platform.admin("/livez").status == 200, 40, "culvertd is started again")
    return lambda: platform.log("culvertd")[written:]


def is_served(platform):
    return platform.admin("/readyz/redis").status == 200


def hits(platform):
    return platform.metric("culvert_answer_cache_looks_total", result="hit")


def keeps_answers(platform):
    before = hits(platform)

    def hit():
        platform.graphql(LIST)
        return hits(platform) > before

    wait_until(hit, 30, "an answer comes from Redis")


def test_everything_works_with_what_is_documented(secured):
    wait_until(lambda: is_served(secured), 20, "Redis is ready")
    secured.cluster("POST", "/demo/pause")  # its reports would change the account's version
    keeps_answers(secured)
    with RedisClient(secured.redis.url) as administrator:
        assert b"user=culvert" in administrator("CLIENT", "LIST")
        assert administrator("KEYS", "culvert:2:answer:*")
        denied = administrator("ACL", "LOG")
        assert not denied, "a command or a key that the documented ACL does not allow"
    arguments = pathlib.Path(f"/proc/{secured.pid('culvertd')}/cmdline").read_bytes()
    assert PASSWORD.encode() not in arguments and PASSWORD not in secured.log("culvertd")


@pytest.mark.parametrize("wrong", ["password", "CA"])
def test_it_goes_on_without_a_redis_that_cannot_be_trusted(secured, wrong):
    """It is reported with its reason, calls are answered without Redis, and no password reaches a server that another CA signed."""
    file, text, reason = {
        "password": (secured.password_file, "another-77aa\n", "Redis refused the login"),
        "CA": (secured.ca_file, pathlib.Path(secured.env["CULVERT_CA"]).read_text(), r'Redis: TLS: [^"]*certificate'),
    }[wrong]
    right = file.read_text()
    with RedisClient(secured.redis.url) as administrator:
        administrator("ACL", "LOG", "RESET")
        file.write_text(text)
        try:
            log = restart(secured)
            wait_until(lambda: '"msg":"connection_failed"' in log() and re.search(reason, log()), 20, "it is logged")
            wait_until(lambda: secured.admin("/readyz").status == 200, 20, "it is ready without Redis")
            assert secured.admin("/readyz/redis").status == 503
            assert len(secured.graphql(LIST)["rollouts"]["edges"]) > 0
            attempts = administrator("ACL", "LOG")
            assert bool(attempts) == (wrong == "password"), attempts
            assert PASSWORD not in log() and text.strip() not in log()
        finally:
            file.write_text(right)
            restart(secured)
    wait_until(lambda: is_served(secured), 20, "Redis is ready again")
    keeps_answers(secured)


@pytest.mark.parametrize("text, reason", [(None, "cannot be read"), ("", "must contain a password")])
def test_a_password_file_without_a_password_is_refused_at_start(secured, text, reason, tmp_path):
    file = tmp_path / "password"
    if text is not None:
        write(file, text)
    ports = [f"--{listener}.listen=127.0.0.1:0" for listener in ("api", "admin", "tunnel", "ingress")]
    done = culvertd(secured, *ports, "--node.name=refused", env={**secured.settings, "CULVERT_REDIS_PASSWORD_FILE": str(file)})
    assert done.returncode in (1, 2) and reason in done.stderr and str(file) in done.stderr, (done.returncode, done.stderr)
