"""Enrollment: agents that create their runtimes with an enrollment token, and what they are refused."""

import contextlib
import json
import re
import signal
import subprocess
import uuid

import pytest

from api_listener_client import culvertd
from test_audit import entries
from waiting import wait_until

CREATE = "mutation($n: String!, $u: Int, $p: String, $e: Int) { createEnrollmentToken(name: $n, usesMax: $u, namePattern: $p, expiresInSeconds: $e) { token enrollmentToken { id status namePattern usesMax uses } } }"
LIST = "{ enrollmentTokens { id name status uses usesMax lastUsedAt runtimes } }"


def create(platform, uses=1, pattern=None, life=3600):
    made = platform.graphql(CREATE, {"n": f"e2e-{uuid.uuid4().hex[:8]}", "u": uses, "p": pattern, "e": life})["createEnrollmentToken"]
    return made["enrollmentToken"]["id"], made["token"]


def token_of(platform, token_id):
    return next(each for each in platform.graphql(LIST)["enrollmentTokens"] if each["id"] == token_id)


def runtime_exists(platform, name):
    return platform.graphql("query($n: String!) { runtime(name: $n) { online } }", {"n": name})["runtime"] is not None


def is_online(platform, name):
    found = platform.graphql("query($n: String!) { runtime(name: $n) { online } }", {"n": name})["runtime"]
    return bool(found and found["online"])


class Agent:
    """An agent without reports in a folder of its own, or in that of another one."""

    def __init__(self, platform, folder, name, token, instance=None, **settings):
        self.folder, self.instance = folder, instance or name
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / "enrollment").write_text(token)
        words = {"runtime.name": name, "runtime.token_file": folder / "token", "enrollment.token_file": folder / "enrollment", "instance.id": self.instance,
                 "admin.listen": "127.0.0.1:0", "reporter.enabled": "false", **settings}
        self.command = [platform.build / "agent/culvert-agent", "--config", platform.home / "agent/agent.conf", *(f"--{key}={value}" for key, value in words.items())]
        self.log_file = folder / f"{self.instance}.log"
        self.process = None

    def start(self):
        with open(self.log_file, "ab") as out:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        return self

    def end(self, number=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(60)

    def log(self):
        return self.log_file.read_text(errors="replace")

    def refused(self, text):
        return "enrollment_refused" in self.log() and text in self.log()


@contextlib.contextmanager
def running(*agents):
    try:
        for agent in agents:
            agent.start()
        yield agents
    finally:
        for agent in agents:
            agent.end()


@pytest.fixture()
def name():
    return f"edge-{uuid.uuid4().hex[:10]}"


def test_an_agent_creates_its_runtime_once(platform, tmp_path, name):
    last = entries(platform, first=1)[0]["number"]
    token_id, token = create(platform, pattern="edge-*")
    agent = Agent(platform, tmp_path / "a", name, token)
    # Killed as soon as its token is on disk: the platform may have got it or not.
    agent.start()
    wait_until(lambda: (tmp_path / "a/token").exists(), 30, "the runtime token is made")
    agent.end(signal.SIGKILL)
    runtime_token = (tmp_path / "a/token").read_text()
    assert (tmp_path / "a/token").stat().st_mode & 0o777 == 0o600
    with running(agent):
        wait_until(lambda: is_online(platform, name), 60, "the runtime is online")
    # Without the enrollment token, which was used up, and with it: the runtime token is enough.
    (tmp_path / "a/enrollment").unlink()
    with running(agent):
        wait_until(lambda: agent.log().count('"connected"') >= 2, 60, "the agent is back")
    assert (tmp_path / "a/token").read_text() == runtime_token
    found = token_of(platform, token_id)
    assert (found["status"], found["uses"], found["runtimes"]) == ("USED_UP", 1, [name]) and found["lastUsedAt"]
    new = [each for each in entries(platform) if each["number"] > last and (each["entityId"] in (token_id, name) or each["entity"] == "runtime_tokens" and each["entityId"] == runtime_token[:24])]
    assert sorted((each["action"], each["entity"], each["actor"]["kind"]) for each in new) == sorted(
        [("create", "enrollment_tokens", "user"), ("create", "runtimes", "enrollment"), ("create", "runtime_tokens", "enrollment"), ("update", "enrollment_tokens", "enrollment")])
    secrets = [text.split(".")[1] for text in (token, runtime_token)]
    logs = platform.log("culvertd") + agent.log() + json.dumps(entries(platform, first=1000))
    assert not [secret for secret in secrets if secret in logs]


def test_of_two_agents_one_gets_the_last_use(platform, tmp_path, name):
    token_id, token = create(platform)
    names = [f"{name}-a", f"{name}-b"]
    agents = [Agent(platform, tmp_path / each, each, token) for each in names]
    with running(*agents):
        wait_until(lambda: any(agent.refused("as often as it may") for agent in agents), 60, "one is refused")
        wait_until(lambda: any(is_online(platform, each) for each in names), 60, "one is online")
        assert sorted(runtime_exists(platform, each) for each in names) == [False, True]
    assert token_of(platform, token_id)["uses"] == 1


def test_agents_that_share_a_folder_are_one_runtime(platform, tmp_path, name):
    token_id, token = create(platform, uses=5)
    agents = [Agent(platform, tmp_path / "shared", name, token, instance=f"i-{number}") for number in range(2)]
    with running(*agents):
        wait_until(lambda: all('"connected"' in agent.log() or '"session_standby"' in agent.log() for agent in agents), 60, "both are connected")
    assert token_of(platform, token_id)["uses"] == 1


def test_refusals_name_their_reason(platform, tmp_path, name):
    """Each in the log of its agent; the token that is wrong is no other's."""
    _, good = create(platform, uses=5, pattern="other-*")
    revoked_id, revoked = create(platform)
    platform.graphql("mutation($i: String!) { revokeEnrollmentToken(id: $i) }", {"i": revoked_id})
    expired_id, expired = create(platform)
    platform.psql(f"update enrollment_tokens set expires_at = now() - interval '1 second' where token_id = '{expired_id}'")
    platform.create_runtime(name)
    wrong = good[:25] + "0" * 64
    _, free = create(platform, uses=5)
    cases = {
        "pattern": (f"{name}-p", good, "runtimes with other names"),
        "revoked": (f"{name}-r", revoked, "is revoked"),
        "expired": (f"{name}-e", expired, "has expired"),
        "wrong": (f"{name}-w", wrong, "unknown or wrong"),
        "taken": (name, free, "a runtime of this name exists"),
        "name": ("No_Label", free, "runtime.name must have"),
    }
    agents = {case: Agent(platform, tmp_path / case, runtime, token) for case, (runtime, token, _) in cases.items()}
    with running(*agents.values()):
        for case, agent in agents.items():
            wait_until(lambda: agent.refused(cases[case][2]), 60, f"{case} is refused")
    made = {runtime for each in platform.graphql(LIST)["enrollmentTokens"] for runtime in each["runtimes"]}
    assert not made & {runtime for runtime, _, _ in cases.values()}


def test_what_a_token_may_be_and_who_may_make_it(platform):
    def codes(variables):
        return [error["extensions"]["code"] for error in platform.graphql_answer(CREATE, variables).json().get("errors", [])]

    assert codes({"n": " "}) == codes({"n": "x", "u": 0}) == codes({"n": "x", "e": 5}) == codes({"n": "x", "p": "A"}) == codes({"n": "x", "p": "*" * 5}) == ["BAD_USER_INPUT"]
    token_id, token = create(platform)
    assert re.fullmatch(r"[0-9a-f]{24}\.[0-9a-f]{64}", token) and platform.graphql_answer("{ me { id } }", key=token).status == 401
    assert platform.api("DELETE", f"/v1/enrollment-tokens/{token_id}").status == 200
    assert platform.api("DELETE", f"/v1/enrollment-tokens/{token_id}").status == 404
    assert token_of(platform, token_id)["status"] == "REVOKED"
    account = platform.graphql("{ me { activeAccount { name } } }")["me"]["activeAccount"]["name"]
    made = json.loads(culvertd(platform, "admin", "create-enrollment-token", "--account", account, "--uses", "3", "--names", "edge-*", "--expires", "2h", "by command").stdout)
    assert [each["usesMax"] for each in platform.graphql("{ enrollmentTokens { id usesMax } }")["enrollmentTokens"] if each["id"] == made["id"]] == [3]
    listed = json.loads(culvertd(platform, "admin", "list-enrollment-tokens", "--account", account).stdout)
    assert made["id"] in [each["id"] for each in listed] and made["token"] not in json.dumps(listed)
    assert culvertd(platform, "admin", "revoke-enrollment-token", "--account", account, made["id"]).returncode == 0
    assert culvertd(platform, "admin", "revoke-enrollment-token", "--account", account, made["id"]).returncode == 3
