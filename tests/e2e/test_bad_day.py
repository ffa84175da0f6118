"""Everything is killed once while the demo cluster lives; it recovers by itself, and the database ends equal to the cluster."""

import os
import signal

import pytest

from platform_under_test import settled, wait_until


@pytest.mark.parametrize("name", ["agent", "culvertd", "redis", "postgres"])
def test_killed(platform, name):
    assert wait_until(platform.online, 60, "online before")
    killed = platform.kill(name)
    wait_until(lambda: platform.pid(name) != killed, 30, f"{name} runs again")
    wait_until(platform.online, 90, "online again")
    assert settled(platform)


def test_watch_expired_and_dropped(platform):
    platform.cluster("POST", "/demo/expire")
    platform.cluster("POST", "/demo/drop-watches")
    assert settled(platform)


def test_readiness_follows_postgres_and_liveness_does_not(own_platform):
    assert own_platform.admin("/readyz").status == 200
    pid = own_platform.pid("postgres")
    # The supervisor is held so that it stays away until it is let go.
    supervisor = int((own_platform.home / "run/postgres.pid.supervisor").read_text())
    os.kill(supervisor, signal.SIGSTOP)
    os.kill(pid, signal.SIGINT)
    try:
        wait_until(lambda: own_platform.admin("/readyz").status == 503, 20, "not ready")
        assert own_platform.admin("/livez").status == 200
        assert own_platform.admin("/readyz/redis").status == 200
        answer = own_platform.graphql_answer("{ me { id } }")
        assert answer.status in (500, 503) or answer.json()["errors"]
    finally:
        os.kill(supervisor, signal.SIGCONT)
    wait_until(lambda: own_platform.admin("/readyz").status == 200, 60, "ready again")
    wait_until(own_platform.online, 60, "online again")


def test_redis_away_changes_no_answer(platform):
    supervisor = int((platform.home / "run/redis.pid.supervisor").read_text())
    os.kill(supervisor, signal.SIGSTOP)
    platform.kill("redis")
    try:
        wait_until(lambda: platform.admin("/readyz/redis").status == 503, 20, "redis is noticed to be away")
        assert platform.admin("/readyz").status == 200
        assert platform.online()
        assert platform.ingress("GET", "/app-proxy/api/readyz").status == 200
    finally:
        os.kill(supervisor, signal.SIGCONT)
    wait_until(lambda: platform.admin("/readyz/redis").status == 200, 30, "redis is back")


def test_agent_away_is_shown_and_calls_say_why(platform):
    supervisor = int((platform.home / "run/agent.pid.supervisor").read_text())
    os.kill(supervisor, signal.SIGSTOP)
    platform.kill("agent")
    try:
        wait_until(lambda: not platform.online(), 30, "offline is shown")
        answer = platform.ingress("GET", "/app-proxy/api/readyz")
        assert answer.status == 503 and answer.headers["culvert-cause"] == "no-tunnel" and answer.headers["retry-after"]
    finally:
        os.kill(supervisor, signal.SIGCONT)
    wait_until(platform.online, 60, "online again")


def test_terminated_ends_cleanly(own_platform):
    """SIGTERM drains: the processes end by themselves, with status told in the log, and come back."""
    killed = own_platform.kill("culvertd", signal.SIGTERM)
    wait_until(lambda: own_platform.pid("culvertd") != killed, 60, "culvertd runs again")
    assert '"msg":"stopped"' in own_platform.log("culvertd")
    wait_until(own_platform.online, 60, "online again")
    own_platform.stop()
    status = own_platform.quickstart("--status", check=False)
    assert status.returncode == 1 and "running, pid" not in status.stdout
    for name in ("postgres", "redis", "culvertd", "demo", "agent"):
        assert not (own_platform.home / "run" / f"{name}.pid").exists()
    own_platform.start()
    assert settled(own_platform)
