"""culvert-agent with a kubeconfig that cannot be used: one message, and it goes on by itself once the file is right."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from conftest import build_folder
from platform_under_test import TOP
from waiting import wait_until

sys.path.insert(0, str(TOP / "tests/support"))
from servers import free_port  # noqa: E402

GOOD = {
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
}


@pytest.fixture(params=[json.dumps({**GOOD, "contexts": []})])
def agent(request, tmp_path):
    port = free_port()
    (tmp_path / "token").write_text("0123456789abcdef01234567." + "ab" * 32)
    (tmp_path / "token").chmod(0o600)
    if request.param:
        (tmp_path / "kubeconfig").write_text(request.param)
    words = [build_folder("asan") / "agent/culvert-agent", "--platform.url=wss://localhost:1", "--runtime.name=r", f"--runtime.token_file={tmp_path}/token"]
    words += [f"--kubeconfig={tmp_path}/kubeconfig", "--kubeconfig.retry_interval=100ms", f"--admin.listen=127.0.0.1:{port}"]
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)
    process.port, process.folder = port, tmp_path
    yield process
    process.kill()
    process.wait()


def ready(agent):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{agent.port}/readyz", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return None, str(error)


def lines(agent, event):
    found = []
    for line in (agent.folder / "log").read_text().splitlines():
        if line.startswith("{") and json.loads(line)["msg"] == event:
            found.append(json.loads(line))
    return found


def test_a_kubeconfig_that_cannot_be_used_is_waited_for(agent):
    def says(text):
        assert agent.poll() is None, (agent.folder / "log").read_text()
        code, body = ready(agent)
        return code == 503 and text in body and "A kubeconfig for the agent" in body

    wait_until(lambda: says("current-context names a context that is not in the file"), 20, "/readyz has the reason")
    (agent.folder / "kubeconfig").write_text("{}")
    wait_until(lambda: says("current-context is not set"), 20, "it was read again")
    # Each reason once, however often the file was read.
    assert len(lines(agent, "kubeconfig_unusable")) == 2
    (agent.folder / "kubeconfig").write_text(json.dumps(GOOD))
    wait_until(lambda: lines(agent, "kubeconfig_usable"), 20, "it can be used")
    wait_until(lambda: "current-context" not in ready(agent)[1] and "tunnel: " in ready(agent)[1], 20, "the agent dials")
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(30) == 0


@pytest.mark.parametrize("agent", [None], indirect=True, ids=["missing"])
def test_a_missing_kubeconfig_is_waited_for(agent):
    def says(text):
        assert agent.poll() is None, (agent.folder / "log").read_text()
        code, body = ready(agent)
        return code == 503 and text in body and "A kubeconfig for the agent" in body

    wait_until(lambda: says("kubeconfig: No such file or directory"), 20, "/readyz has the reason")
    assert "kubeconfig: No such file or directory" in lines(agent, "kubeconfig_unusable")[-1]["error"]
    (agent.folder / "kubeconfig").write_text(json.dumps(GOOD))
    wait_until(lambda: lines(agent, "kubeconfig_usable"), 20, "it can be used")


def test_it_ends_while_it_waits(agent):
    wait_until(lambda: lines(agent, "kubeconfig_unusable"), 20, "it waits")
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(30) == 0
