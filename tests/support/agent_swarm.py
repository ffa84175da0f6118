"""Thousands of simulated agents (tests/support/agent_swarm.c) beside a platform under test: makes their runtimes and tokens,
builds and starts the program, talks with it."""

import hashlib
import hmac
import json
import os
import pathlib
import secrets
import select
import subprocess
import time
import urllib.parse

TOP = pathlib.Path(__file__).resolve().parents[2]
SOURCES = [TOP / "tests/support" / name for name in ("agent_swarm.c", "swarm_agent.c", "swarm_http2.c", "swarm_link.c")]
ANSWER_SECONDS_MAX = 60


def make_runtimes(platform, count, prefix="swarm"):
    """Inserts count runtimes with a token each; returns [(account, runtime, token)]. Straight into the database: what the API
    does for one runtime would take minutes for ten thousand, and is not the subject."""
    account = platform.env["CULVERT_ACCOUNT"]
    agents, runtimes, tokens = [], [], []
    for i in range(count):
        runtime, runtime_id = f"{prefix}-{i:05}", secrets.token_hex(12)
        token_id, secret = secrets.token_hex(12), secrets.token_hex(32)
        agents.append((account, runtime, f"{token_id}.{secret}"))
        runtimes.append(f"{account}\t{runtime}\t{runtime_id}")
        digest = hashlib.sha256(secret.encode()).hexdigest()
        tokens.append(f"{account}\t{token_id}\t{runtime}\t{runtime_id}\t\\\\x{digest}\t0")
    end = "\n\\.\n"
    platform.psql(
        "begin;\ncopy runtimes (account_id, runtime, runtime_id) from stdin;\n" + "\n".join(runtimes) + end
        + "copy runtime_tokens (account_id, token_id, runtime, runtime_id, secret_sha256, change) from stdin;\n" + "\n".join(tokens) + end
        + "commit;\nanalyze runtimes;\nanalyze runtime_tokens;\n"
    )
    return agents


def signature(agent, method, path, request_id):
    """What the answer of this agent, and of no other, carries as its signature."""
    _account, runtime, token = agent
    key = hashlib.sha256(token.partition(".")[2].encode()).digest()
    return hmac.new(key, "\n".join((runtime, method, path, request_id)).encode(), hashlib.sha256).hexdigest()


def build(build_folder, folder):
    """The program: that of build_folder where tests are built, else compiled here against its libraries."""
    build_folder = pathlib.Path(build_folder)
    ready = build_folder / "tests/support/culvert-agent-swarm"
    if ready.exists():
        return ready
    program = pathlib.Path(folder) / "culvert-agent-swarm"
    libraries = [build_folder / "tunnel/wire/libculvert_wire.a", build_folder / "base/libculvert_base.a"]
    flags = ["-std=gnu17", "-D_GNU_SOURCE", '-DCULVERT_VERSION="swarm"', "-O2", "-Wall", "-Wextra", f"-I{TOP}"]
    system = ["-lnghttp2", "-lssl", "-lcrypto", "-luv", "-ljansson", "-lpthread"]
    subprocess.run(["cc", *flags, "-o", program, *SOURCES, *libraries, *system], check=True)
    return program


class Swarm:
    """A running culvert-agent-swarm. Commands are answered by one line of JSON each."""

    def __init__(self, program, platform, agents, folder, report_every_ms=0):
        self.agents = agents
        file = pathlib.Path(folder) / "swarm-agents.secret"
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            out.writelines(f"{account} {runtime} {token}\n" for account, runtime, token in agents)
        port = urllib.parse.urlsplit(platform.env["CULVERT_TUNNEL_URL"]).port
        words = [program, "--platform", f"127.0.0.1:{port}", "--name", "localhost", "--ca", platform.env["CULVERT_CA"], "--agents", file]
        self.log_path = pathlib.Path(folder) / "swarm.log"
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([*words, "--report-every", str(report_every_ms)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self._unread = b""
        self._answer()
        file.unlink()

    def _answer(self):
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while b"\n" not in self._unread:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            chunk = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not chunk:
                raise AssertionError(f"culvert-agent-swarm gave no answer:\n{self.log_path.read_text(errors='replace')}")
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return json.loads(line)

    def command(self, *words):
        self.process.stdin.write((" ".join(map(str, words)) + "\n").encode())
        self.process.stdin.flush()
        return self._answer()

    def do(self, *words):
        answer = self.command(*words)
        assert answer.get("ok"), (words, answer)

    def stats(self):
        return self.command("stats")

    def close(self):
        """Ends the program and returns its exit status."""
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(ANSWER_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
        return self.process.returncode
