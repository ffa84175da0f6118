"""An HTTP service of the tests' own inside a "cluster", and the agent that leads to it: what arrives there is kept byte for byte, what
it answers is the test's choice, and every answer says who gave it."""

import json
import os
import pathlib
import random
import re
import socket
import subprocess
import threading
import uuid

from platform_under_test import wait_until


def listen():
    """A listening socket on a loopback port below the ephemeral range."""
    for port in random.sample(range(20000, 32000), 500):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            sock.close()
            continue
        sock.listen(256)
        return sock
    raise RuntimeError("no free port")


class Seen:
    """A request as it came."""

    def __init__(self, head, body):
        self.head, self.body = head, body
        line, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, self.version = line.split(" ")
        self.headers = [tuple(part.strip() for part in text.split(":", 1)) for text in lines if text]

    def values(self, name):
        return [value for key, value in self.headers if key.lower() == name.lower()]


class Origin:
    """Answers {"origin": name, "target": …} to everything, or what answers[path] says: the raw bytes of a whole response."""

    def __init__(self, name):
        self.name, self.answers = name, {}
        self.lock, self.seen, self.socks = threading.Lock(), {}, set()
        self.listener = listen()
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.listener.close()
        with self.lock:
            for sock in self.socks:
                sock.close()

    def at(self, target):
        with self.lock:
            return list(self.seen.get(target, ()))

    def count(self):
        with self.lock:
            return sum(len(list_of) for list_of in self.seen.values())

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.socks.add(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        data = b""
        try:
            while True:
                while b"\r\n\r\n" not in data:
                    piece = sock.recv(65536)
                    if not piece:
                        return
                    data += piece
                head, _, data = data.partition(b"\r\n\r\n")
                body, data = self._body(sock, head, data)
                seen = Seen(head, body)
                with self.lock:
                    self.seen.setdefault(seen.target, []).append(seen)
                answer = self.answers.get(seen.target.split("?")[0])
                if answer is None:
                    text = json.dumps({"origin": self.name, "target": seen.target, "bytes": len(body)}).encode()
                    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(text)
                    answer += b"" if seen.method == "HEAD" else text
                sock.sendall(answer)
                if b"connection: close" in answer.lower():
                    return
        except OSError:
            pass
        finally:
            sock.close()
            with self.lock:
                self.socks.discard(sock)

    @staticmethod
    def _body(sock, head, data):
        def more():
            piece = sock.recv(65536)
            if not piece:
                raise OSError("cut")
            return piece

        if re.search(rb"(?im)^transfer-encoding:", head):
            body = b""
            while True:
                while b"\r\n" not in data:
                    data += more()
                size, _, data = data.partition(b"\r\n")
                size = int(size.split(b";")[0], 16)
                while len(data) < size + 2:
                    data += more()
                if size == 0 and data.startswith(b"\r\n"):
                    return body, data[2:]
                if size == 0:  # trailers
                    while b"\r\n\r\n" not in data:
                        data += more()
                    return body, data.partition(b"\r\n\r\n")[2]
                body, data = body + data[:size], data[size + 2 :]
        length = re.search(rb"(?im)^content-length: *(\d+)", head)
        size = int(length.group(1)) if length else 0
        while len(data) < size:
            data += more()
        return data[:size], data[size:]


def culvertd(platform, *words):
    """An administrator's command; its answer."""
    done = subprocess.run(
        [platform.build / "server/culvertd", "--config", platform.home / "culvertd.conf", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
        env={k: v for k, v in os.environ.items() if not k.startswith("CULVERT_")},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout else None


class Account:
    """A tenant with a user and a key."""

    def __init__(self, platform, name):
        self.platform, self.name = platform, name
        self.id = culvertd(platform, "admin", "create-account", name, "--if-absent")["id"]
        culvertd(platform, "admin", "create-user", "--account", name, "admin", f"admin@{name}.localhost", "--admin", "--if-absent")
        self.key = culvertd(platform, "admin", "create-key", "--account", name, "--user", "admin", f"key-{uuid.uuid4().hex[:8]}")["token"]

    def create_runtime(self, name):
        query = "mutation($a: RuntimeInstallationArgs!) { createRuntime(installationArgs: $a) { newAccessToken } }"
        args = {"runtimeName": name, "cluster": "in-cluster", "runtimeVersion": "0.1.0", "componentNames": []}
        return self.platform.graphql(query, {"a": args}, key=self.key)["createRuntime"]["newAccessToken"]


class Runtime:
    """A runtime with an agent of its own, whose only service, w, is an Origin. Its answers are signed "account/name"."""

    def __init__(self, platform, account, name, folder, webhooks=False):
        self.platform, self.account, self.name = platform, account, name
        self.signature = f"{account.name}/{name}"
        self.origin = Origin(self.signature)
        folder = pathlib.Path(folder)
        token = folder / f"{account.name}-{name}.token"
        token.write_text(account.create_runtime(name))
        token.chmod(0o600)
        settings = {
            "platform.url": platform.env["CULVERT_TUNNEL_URL"],
            "platform.ca_file": platform.env["CULVERT_CA"],
            "runtime.name": name,
            "runtime.token_file": token,
            "reporter.enabled": "false",
            "router.services": f"w=http://127.0.0.1:{self.origin.port}",
            "admin.listen": "",
        }
        if webhooks:
            settings["router.webhooks"] = f"argo/w=http://127.0.0.1:{self.origin.port}"
        config = folder / f"{account.name}-{name}.conf"
        config.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
        self.log = folder / f"{account.name}-{name}.log"
        with self.log.open("wb") as log:
            self.agent = subprocess.Popen([platform.build / "agent/culvert-agent", "--config", config], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @property
    def host(self):
        """The runtime's own host name, without the port."""
        domain = self.platform.env["CULVERT_INGRESS_HOST"].split(".", 1)[1]
        return f"{self.account.id}-{self.name}.{domain}"

    def is_reached(self):
        path = f"/runtimes/{self.name}/proxy/services/w/hello"
        return self.platform.api("GET", path, key=self.account.key).status == 200

    def close(self):
        self.agent.terminate()
        try:
            self.agent.wait(20)
        finally:
            self.agent.kill()
            self.agent.wait()
            self.origin.close()


def start_runtimes(platform, folder, wanted):
    """wanted: [(account, name)]. All are reachable when this returns."""
    runtimes = [Runtime(platform, account, name, folder, webhooks=True) for account, name in wanted]
    try:
        for runtime in runtimes:
            wait_until(runtime.is_reached, 60, f"{runtime.signature} is reached:\n{runtime.log.read_text()}")
    except BaseException:
        for runtime in runtimes:
            runtime.close()
        raise
    return runtimes


def read_responses(sock, count=None, seconds=20, methods=()):
    """The responses that come until the other side closes (or `count` of them): [(status, headers, body)], and whether it closed."""
    sock.settimeout(seconds)
    data, found, closed = b"", [], False

    def take():
        nonlocal data
        head, found_end, rest = data.partition(b"\r\n\r\n")
        if not found_end:
            return False
        lines = head.decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ")[1])
        headers = [tuple(part.strip() for part in line.split(":", 1)) for line in lines[1:]]
        low = {name.lower(): value for name, value in headers}
        if status < 200:
            data = rest
            return True
        head_only = len(found) < len(methods) and methods[len(found)] == "HEAD"
        body = b""
        if "chunked" in low.get("transfer-encoding", "") and not head_only:
            end = rest.find(b"0\r\n\r\n")
            if end < 0:
                return False
            pieces, left = b"", rest
            while True:
                size, _, left = left.partition(b"\r\n")
                size = int(size, 16)
                if size == 0:
                    break
                if len(left) < size + 2:
                    return False
                pieces, left = pieces + left[:size], left[size + 2 :]
            body, rest = pieces, left[2:]
        elif not head_only and status not in (204, 304):
            size = int(low.get("content-length", 0))
            if len(rest) < size:
                return False
            body, rest = rest[:size], rest[size:]
        found.append((status, headers, body))
        data = rest
        return True

    while count is None or len(found) < count:
        if take():
            continue
        try:
            piece = sock.recv(65536)
        except (TimeoutError, socket.timeout):
            break
        except OSError:
            closed = True
            break
        if not piece:
            closed = True
            break
        data += piece
    return found, closed, data
