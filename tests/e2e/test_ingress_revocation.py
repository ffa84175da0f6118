"""What a key opened ends with the key, and nothing else does."""

import contextlib
import json
import socket
import uuid

import pytest

from api_listener_client import culvertd
from http2_client import Http2Client
from platform_under_test import wait_until
from raw_client import RawClient


class Key:
    def __init__(self, platform):
        me = platform.graphql("{ me { name activeAccount { name } } }")["me"]
        self.platform, self.account, self.user = platform, me["activeAccount"]["name"], me["name"]
        made = culvertd(platform, "admin", "create-key", "--account", self.account, "--user", self.user, f"test-{uuid.uuid4()}")
        assert made.returncode == 0, made.stderr
        made = json.loads(made.stdout)
        self.id, self.token = made["id"], made["token"]

    def revoke(self):
        revoked = culvertd(self.platform, "admin", "revoke-key", "--account", self.account, self.id)
        assert revoked.returncode == 0, revoked.stderr

    def expire(self):
        self.platform.psql(f"update api_keys set expires_at = now() where token_id = '{self.id}'")


class Opened:
    """Something that would stay open for ever."""

    def __init__(self, platform, token, kind):
        self.kind, self.client, self.token = kind, RawClient(platform), token
        authorization = f"Authorization: {token}"
        if kind == "tcp":
            self.client.send("GET /tcp/echo", "Connection: Upgrade", "Upgrade: connect-tcp", authorization, key=False)
        elif kind == "websocket":
            self.client.send("GET /services/socket/", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", authorization, key=False)
        else:
            self.client.send("GET /services/probe/" + kind, authorization, key=False)
        if kind == "nothing":  # the service says nothing yet
            return
        self.status = int(self.client.head().split()[1])
        assert self.status in (101, 200), (self.kind, self.client.have)

    def is_open(self):
        """Without waiting; takes what came."""
        self.client.sock.settimeout(0.05)
        try:
            data = self.client.sock.recv(1 << 16)
        except (socket.timeout, TimeoutError):
            return True
        except OSError:
            return False
        self.client.have += data
        return bool(data)

    def echoes(self):
        self.client.sock.settimeout(30)
        if self.kind == "tcp":
            self.client.sock.sendall(b"still here")
            assert self.client.exactly(10) == b"still here"
        elif self.kind == "websocket":
            self.client.sock.sendall(b"\x81\x82\0\0\0\0hi")
            assert self.client.exactly(4) == b"\x81\x02hi"
        return self.is_open()

    def close(self):
        with contextlib.suppress(OSError):
            self.client.sock.close()


KINDS = ("tcp", "websocket", "endless", "nothing")


@pytest.mark.parametrize("how", ["revoke", "expire"])
def test_what_a_key_opened_ends_with_it(ingress, how):
    platform, key, other = ingress.platform, Key(ingress.platform), Key(ingress.platform)
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(contextlib.closing(Opened(platform, key.token, kind))) for kind in KINDS]
        others = [stack.enter_context(contextlib.closing(Opened(platform, other.token, kind))) for kind in KINDS]
        http2 = stack.enter_context(Http2Client(platform))
        mine, theirs = (http2.replies[http2.request("GET", "/services/probe/endless", key=token)] for token in (key.token, other.token))
        http2.until(lambda: mine.body and theirs.body)
        wait_until(lambda: ingress.origin.last("/nothing"), 20, "the service has the request that it will not answer")
        for each in [*opened, *others]:
            if each.kind in ("tcp", "websocket"):
                assert each.echoes()
        getattr(key, how)()
        for each in opened:
            wait_until(lambda each=each: not each.is_open() or (each.kind == "nothing" and b" 401 " in each.client.have), 20, f"the end of {each.kind}")
        http2.until(lambda: mine.reset is not None)
        assert theirs.reset is None and not theirs.ended
        assert b"unauthenticated" in opened[KINDS.index("nothing")].client.have
        assert not opened[KINDS.index("endless")].client.have.endswith(b"0\r\n\r\n")  # it must not look whole
        for each in others:
            assert each.echoes(), each.kind
        assert http2.ask("GET", "/services/probe/", key=other.token).status == 200
    other.revoke()


def test_the_api_listeners_proxy_ends_too(ingress):
    platform, key = ingress.platform, Key(ingress.platform)
    runtime = platform.env["CULVERT_INGRESS_HOST"].split(".")[0].partition("-")[2]
    sock = platform.raw(platform.env["CULVERT_URL"])
    with contextlib.closing(sock):
        host = platform.env["CULVERT_URL"].removeprefix("https://")
        sock.sendall(f"GET /runtimes/{runtime}/proxy/services/probe/endless HTTP/1.1\r\nHost: {host}\r\nAuthorization: {key.token}\r\n\r\n".encode())
        have = b""
        while b"data: 1" not in have:
            piece = sock.recv(1 << 16)
            assert piece, have
            have += piece
        assert have.startswith(b"HTTP/1.1 200")
        key.revoke()
        with contextlib.suppress(OSError):  # ended, or reset, before the last chunk
            while piece := sock.recv(1 << 16):
                have += piece
        assert not have.endswith(b"0\r\n\r\n")


def test_the_service_sees_the_end(ingress):
    key = Key(ingress.platform)
    with contextlib.closing(Opened(ingress.platform, key.token, "flood")) as flood:
        key.revoke()
        assert ingress.origin.last("/flood").left.wait(20)
        flood.client.sock.settimeout(30)
        flood.client.to_the_end()  # of what was on its way
