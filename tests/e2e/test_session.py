"""Sessions: who may open one, who wins, and what both ends say about it."""

import contextlib
import json
import secrets
import subprocess

import pytest

from platform_under_test import wait_until


@contextlib.contextmanager
def second_agent(platform, folder, token, *words):
    """Another culvert-agent beside the platform's own; yields a function that gives its log lines so far."""
    token_file = folder / "token"
    token_file.write_text(token)
    token_file.chmod(0o600)
    log = folder / "agent.log"
    command = [platform.build / "agent/culvert-agent", "--config", platform.home / "agent/agent.conf", f"--runtime.token_file={token_file}",
               "--admin.listen=127.0.0.1:0", "--instance.id=second", f"--reporter.state_dir={folder}", *words]
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield lambda: [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    finally:
        process.terminate()
        assert process.wait(30) == 0, log.read_text()


def unknown_token():
    return f"{secrets.token_hex(12)}.{secrets.token_hex(32)}"


def wrong_secret(platform):
    return platform.env["CULVERT_RUNTIME_TOKEN"].split(".")[0] + "." + secrets.token_hex(32)


@pytest.mark.parametrize("kind", ["unknown", "wrong secret"])
def test_bad_token_gets_401_and_a_line_at_both_ends(platform, tmp_path, kind):
    token = unknown_token() if kind == "unknown" else wrong_secret(platform)
    refusals = platform.metric("culvert_tunnel_handshakes_total", result="401")
    with second_agent(platform, tmp_path, token) as lines:
        refused = wait_until(lambda: [line for line in lines() if line["msg"] == "platform_refused_token"], 30, "the agent says so")
        assert refused[0]["status"] == 401 and "token" in refused[0]["hint"]
        assert not [line for line in lines() if line["msg"] == "connected"]
    # Refusals for one reason share a line a minute.
    wait_until(lambda: platform.metric("culvert_tunnel_handshakes_total", result="401") > refusals, 10, "the platform counts it")
    wait_until(lambda: '"status":401' in platform.log("culvertd"), 10, "the platform says so")
    assert token.split(".")[1] not in platform.log("culvertd") and token.split(".")[1] not in (tmp_path / "agent.log").read_text()
    assert platform.online()


def test_platform_of_a_stranger_is_not_trusted(platform, tmp_path):
    """A certificate that the agent's CA did not sign ends the dial; there is no switch to go on."""
    stranger = tmp_path / "stranger.crt"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=stranger",
                    "-keyout", tmp_path / "stranger.key", "-out", stranger], check=True, capture_output=True)
    with second_agent(platform, tmp_path, platform.env["CULVERT_RUNTIME_TOKEN"], f"--platform.ca_file={stranger}") as lines:
        wait_until(lambda: [line for line in lines() if "certificate" in line.get("error", "")], 30, "the agent refuses")
        assert not [line for line in lines() if line["msg"] == "connected"]
    assert platform.online()


def epoch(platform):
    query = "query($n: String!) { runtime(name: $n) { tunnelEpoch } }"
    return platform.graphql(query, {"n": platform.env["CULVERT_RUNTIME"]})["runtime"]["tunnelEpoch"]


def test_newest_wins_and_the_first_returns(platform, tmp_path):
    before = epoch(platform)
    with second_agent(platform, tmp_path, platform.env["CULVERT_RUNTIME_TOKEN"]) as lines:
        wait_until(lambda: [line for line in lines() if line["msg"] == "connected"], 30, "the second is connected")
        wait_until(lambda: epoch(platform) > before, 10, "the epoch moved on")
        assert platform.ingress("GET", "/app-proxy/api/readyz").status == 200
        assert '"msg":"superseded"' in platform.log("agent")
    wait_until(lambda: platform.online() and platform.ingress("GET", "/app-proxy/api/readyz").status == 200, 120, "the first is back")
