"""Twins: two agents with one token, each at its own replica. They come to rest; who is left serves; an update takes over."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import pytest

from conftest import build_folder
from platform_under_test import wait_until
from replicas_under_test import Replicas

REDIAL_SECONDS_MAX = 10  # a superseded agent is back by then


@pytest.fixture(scope="module")
def replicas():
    with tempfile.TemporaryDirectory(prefix="culvert-e2e.", dir="/var/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        under_test = Replicas(pathlib.Path(folder) / "home", build_folder("asan"))
        try:
            under_test.start()
            # Its own agent stays out of it: the tests have theirs, each with a replica of its own.
            os.kill(int((under_test.home / "run/agent.pid.supervisor").read_text()), signal.SIGTERM)
            wait_until(lambda: under_test.owner() is None, 60, "the first agent has gone")
            yield under_test
        finally:
            under_test.reset()


class Agent:
    """An agent of the runtime, named so, whose tunnel goes to that replica and no other."""

    def __init__(self, replicas, name, number):
        self.folder = replicas.home / f"twin-{name}"
        self.folder.mkdir(mode=0o700)
        command = [replicas.build / "agent/culvert-agent", "--config", replicas.home / "agent/agent.conf", f"--platform.url=wss://localhost:{replicas.port('TUNNEL', number)}",
                   "--admin.listen=127.0.0.1:0", f"--instance.id={name}", f"--reporter.state_dir={self.folder}"]
        with open(self.folder / "log", "wb") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def said(self, message):
        lines = (self.folder / "log").read_text(errors="replace").splitlines()
        return len([line for line in lines if line.startswith("{") and json.loads(line)["msg"] == message])

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(60)


@contextlib.contextmanager
def agents(replicas, **numbers):
    made = []

    def add(name, number):
        made.append(Agent(replicas, name, number))
        return made[-1]

    try:
        for name, number in numbers.items():
            add(name, number)
        yield add, made
    finally:
        for agent in made:
            if agent.process.poll() is None:
                agent.end(signal.SIGKILL)
            agent.folder.rename(agent.folder.with_name(agent.folder.name + f"-{time.monotonic_ns()}"))
        wait_until(lambda: replicas.owner() is None, 60, "all have gone")
        replicas.psql("update runtime_epochs set rivals_until = null; delete from tunnel_sessions")


def newest(replicas):
    return replicas.psql("select instance_id, epoch from tunnel_sessions where closed_at is null order by epoch desc limit 1")


def ok_by_both(replicas):
    return all(replicas.ingress_of(n, "GET", "/app-proxy/api/readyz").status == 200 for n in (0, 1))


def at_rest(replicas, spare):
    """It stands by, once; for longer than a redial takes nobody takes over, and every call is answered."""
    wait_until(lambda: spare.said("session_standby"), 60, "one stands by")
    before, until = newest(replicas), time.monotonic() + REDIAL_SECONDS_MAX + 2
    while time.monotonic() < until:
        assert ok_by_both(replicas)
        assert newest(replicas) == before
    assert spare.said("session_standby") == 1


def test_twins_come_to_rest_and_the_spare_takes_over(replicas):
    """At two replicas; the one that serves is killed, then its successor is stopped properly."""
    with agents(replicas, alpha=0) as (add, made):
        alpha = made[0]
        wait_until(lambda: newest(replicas)[0][0] == "alpha", 30, "the first serves")
        beta = add("beta", 1)
        at_rest(replicas, beta)
        assert newest(replicas)[0][0] == "alpha" and alpha.said("superseded") <= 2
        assert "session_standby" in replicas.log_of(1) and replicas.metric(1, "culvert_tunnels", state="standby") == 1
        assert replicas.metric(1, "culvert_tunnel_flaps_total") >= 1
        alpha.end(signal.SIGKILL)
        wait_until(lambda: newest(replicas)[0][0] == "beta" and ok_by_both(replicas), 5, "the spare serves")
        alpha = add("alpha2", 0)  # a lower id: it serves, and the other one stands by again
        wait_until(lambda: newest(replicas)[0][0] == "alpha2", 30, "the lower one serves")
        wait_until(lambda: beta.said("session_standby") == 2, 60, "the other one stands by")
        alpha.end()
        wait_until(lambda: newest(replicas)[0][0] == "beta" and ok_by_both(replicas), 5, "the spare serves")


def test_spare_takes_over_when_the_replica_dies_with_its_agent(replicas):
    """Nobody says that the session is over: the spare finds out when the replica's lease has run out."""
    with agents(replicas, alpha=0) as (add, made):
        wait_until(lambda: newest(replicas)[0][0] == "alpha", 30, "the first serves")
        beta = add("beta", 1)
        wait_until(lambda: beta.said("session_standby"), 60, "one stands by")
        supervisor = int((replicas.home / "run/culvertd-0.pid.supervisor").read_text())
        os.kill(supervisor, signal.SIGSTOP)
        try:
            made[0].process.send_signal(signal.SIGSTOP)  # it says no more either
            replicas.kill("culvertd-0")
            wait_until(lambda: newest(replicas)[0][0] == "beta", 40, "the spare serves")
            wait_until(lambda: replicas.ingress_of(1, "GET", "/app-proxy/api/readyz").status == 200, 10, "calls")
        finally:
            os.kill(supervisor, signal.SIGCONT)
        wait_until(lambda: replicas.admin_of(0, "/readyz").status == 200, 60, "the replica is back")


def test_update_is_an_ordinary_take_over(replicas):
    """Each new pod comes beside the old one, serves at once, and only then the old one is stopped."""
    with agents(replicas, old=0) as (add, made):
        wait_until(lambda: newest(replicas)[0][0] == "old", 30, "the first serves")
        for step, name in enumerate(["zeta", "eta", "theta"]):
            pod = add(name, (step + 1) % 2)
            wait_until(lambda name=name: newest(replicas)[0][0] == name, 10, f"{name} serves")
            wait_until(lambda: ok_by_both(replicas), 10, "calls")
            made[-2].end()
            assert pod.said("session_standby") == 0 and newest(replicas)[0][0] == name
