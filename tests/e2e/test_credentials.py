"""Keys and tokens that are not valid any more, or never were."""

import base64
import json
import os
import time
import uuid

from api_listener_client import application, culvertd, demo_path, events_with, same_process  # noqa: F401
from platform_under_test import wait_until


def account_and_user(platform):
    me = platform.graphql("{ me { name activeAccount { name } } }")["me"]
    return me["activeAccount"]["name"], me["name"]


def test_revoked_key_stops(platform):
    account, user = account_and_user(platform)
    made = culvertd(platform, "admin", "create-key", "--account", account, "--user", user, f"test-{uuid.uuid4()}")
    assert made.returncode == 0, made.stderr
    key = json.loads(made.stdout)
    assert platform.graphql_answer("{ me { id } }", key=key["token"]).status == 200
    revoked = culvertd(platform, "admin", "revoke-key", "--account", account, key["id"])
    assert revoked.returncode == 0, revoked.stderr
    time_of_grace = time.monotonic() + 2  # the answers that loops remember
    wait_until(lambda: time.monotonic() > time_of_grace, 3, "the time of grace ends")
    for _ in range(20):  # whichever loop takes it
        assert platform.graphql_answer("{ me { id } }", key=key["token"]).status == 401
        assert platform.api("GET", demo_path(platform, "/"), key=key["token"]).status == 401
    assert culvertd(platform, "admin", "revoke-key", "--account", account, key["id"]).returncode in (0, 3)
    assert culvertd(platform, "admin", "revoke-key", "--account", account, "0" * 24).returncode == 3
    assert culvertd(platform, "admin", "revoke-key", "--account", "nobody", key["id"]).returncode == 3
    assert key["token"].split(".")[1] not in platform.log("culvertd")


def dial(platform, name, token):
    """The status of the tunnel listener's answer, and the socket."""
    sock = platform.raw(platform.env["CULVERT_TUNNEL_URL"].replace("wss://", "https://"))
    key = base64.b64encode(os.urandom(16)).decode()
    sock.sendall(
        "\r\n".join(
            [
                "GET /tunnel/v1 HTTP/1.1",
                f"Host: localhost:{platform.port('CULVERT_TUNNEL_URL')}",
                "Upgrade: websocket",
                "Connection: Upgrade",
                "Sec-WebSocket-Version: 13",
                f"Sec-WebSocket-Key: {key}",
                f"Sec-WebSocket-Protocol: {SUBPROTOCOL}",
                f"Authorization: Bearer {token}",
                "culvert-instance-id: test",
                f"culvert-boot-id: {uuid.uuid4()}",
                "culvert-agent-version: 0.1.0",
                f"culvert-runtime: {name}",
                "",
                "",
            ]
        ).encode()
    )
    sock.settimeout(10)
    answer = sock.recv(4096)
    return int(answer.split()[1]), sock


SUBPROTOCOL = "culvert.tunnel.1"


def test_deleted_runtime_loses_its_tunnel(platform):
    name = f"gone-{uuid.uuid4().hex[:8]}"
    token = platform.create_runtime(name)

    def dialed():
        status, sock = dial(platform, name, token)
        if status == 101:
            return sock
        sock.close()
        assert status == 503, status

    sock = wait_until(dialed, 5, "the tunnel opens")
    assert platform.graphql('mutation($n: String!) { deleteRuntime(name: $n) }', {"n": name})["deleteRuntime"] == 1
    sock.settimeout(10)
    while sock.recv(65536):
        pass
    sock.close()

    def refused():
        status, again = dial(platform, name, token)
        again.close()
        return status == 401

    wait_until(refused, 2, "the token is refused")
    assert events_with(platform, token, application("nothing")).status == 401


def test_unknown_token_at_the_tunnel_listener(platform):
    def refused():
        status, sock = dial(platform, "nobody", "0123456789abcdef01234567." + "1" * 64)
        sock.close()
        assert status in (401, 503)
        return status == 401

    wait_until(refused, 3, "the unknown token is refused")
    status, sock = dial(platform, "other", platform.env["CULVERT_RUNTIME_TOKEN"])
    sock.close()
    assert status == 403
