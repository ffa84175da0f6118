"""Two hundred simulated agents: all connect, each answers its own calls, and all come back by themselves when culvertd is killed."""

import sys

import pytest

from platform_under_test import TOP, wait_until

sys.path.insert(0, str(TOP / "tests/support"))
import agent_swarm  # noqa: E402

AGENTS = 200

pytestmark = pytest.mark.alone  # a storm of connections takes the whole machine


@pytest.fixture()
def swarm(own_platform, tmp_path):
    agents = agent_swarm.make_runtimes(own_platform, AGENTS)
    running = agent_swarm.Swarm(agent_swarm.build(own_platform.build, tmp_path), own_platform, agents, tmp_path)
    try:
        yield running
    finally:
        status = running.close()
    assert status == 0, running.log_path.read_text(errors="replace")


def open_sessions(platform):
    """{runtime: epoch} of the sessions that are open; no runtime has two."""
    rows = platform.psql("select runtime, epoch from tunnel_sessions where closed_at is null and runtime like 'swarm-%'")
    assert len(rows) == len({runtime for runtime, _ in rows})
    return {runtime: int(epoch) for runtime, epoch in rows}


def all_serve(platform, swarm):
    """Every agent has been told its epoch, and the database has one open session for each."""
    wait_until(lambda: swarm.stats()["serving"] == AGENTS, 60, "all agents serve")
    return wait_until(lambda: len(found := open_sessions(platform)) == AGENTS and found, 10, "a session for each")


def check_answers(platform, agents):
    for agent in agents:
        answer = platform.api("GET", f"/runtimes/{agent[1]}/proxy/some/path?of={agent[1]}")
        assert answer.status == 200, answer.text()
        said = answer.json()
        assert said["runtime"] == agent[1] and said["path"] == f"/some/path?of={agent[1]}"
        assert said["signature"] == agent_swarm.signature(agent, "GET", said["path"], said["id"])


@pytest.mark.parametrize("own_platform", ["asan"], indirect=True)
def test_all_are_back_after_a_kill(own_platform, swarm):
    swarm.do("mark")
    swarm.do("start", 0, AGENTS, 1000)
    before = all_serve(own_platform, swarm)
    check_answers(own_platform, swarm.agents[::10])

    killed = own_platform.kill("culvertd")
    wait_until(lambda: own_platform.pid("culvertd") != killed, 30, "culvertd runs again")
    wait_until(lambda: swarm.stats()["lost"] == AGENTS, 30, "every agent has noticed")
    after = all_serve(own_platform, swarm)
    assert all(after[runtime] > epoch for runtime, epoch in before.items())
    check_answers(own_platform, swarm.agents[::10])

    stats = swarm.stats()
    assert stats["protocol_errors"] == 0 and stats["calls_refused"] == 0
    assert stats["refused_401"] == stats["refused_403"] == stats["refused_other"] == 0


@pytest.mark.parametrize("own_platform", ["asan"], indirect=True)
def test_silent_agents_are_noticed_and_taken_over_from(own_platform, swarm):
    swarm.do("start", 0, AGENTS, 500)
    before = all_serve(own_platform, swarm)
    agent = swarm.agents[7]
    swarm.do("stall", 3, 5)  # connected still, but they read and write nothing
    swarm.do("redial", 7, 1)  # one of them from a new connection, while the old one is there
    wait_until(lambda: open_sessions(own_platform)[agent[1]] > before[agent[1]], 15, "the newer session is open")
    wait_until(lambda: own_platform.api("GET", f"/runtimes/{agent[1]}/proxy/x").json().get("epoch", 0) > before[agent[1]], 5, "it answers")
    wait_until(lambda: len(open_sessions(own_platform)) == AGENTS - 4, 30, "the other four are noticed")
    assert not own_platform.online(swarm.agents[3][1]) and own_platform.online(agent[1])
