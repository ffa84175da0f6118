"""What the tests of the API listener share."""

import base64
import gzip
import json
import os
import subprocess
import uuid

import pytest

from raw_client import read_to_end

GRAPHQL = "/2.0/api/graphql"
EVENTS = "/2.0/api/events"
JSON = {"Content-Type": "application/json"}


def host_of(platform):
    return platform.env["CULVERT_URL"].removeprefix("https://")


def head(platform, line, *headers):
    return "\r\n".join([f"{line} HTTP/1.1", f"Host: {host_of(platform)}", f"Authorization: {platform.env['CULVERT_API_KEY']}", *headers, "", ""]).encode()


def exchange(platform, data, seconds=15):
    with platform.raw(platform.env["CULVERT_URL"]) as sock:
        try:
            sock.sendall(data)
        except OSError:
            pass  # it was refused before all had been sent
        return read_to_end(sock, seconds)


def alive(platform, pid):
    assert platform.pid("culvertd") == pid and platform.api("GET", "/api/ping").status == 200


@pytest.fixture(autouse=True)
def same_process(request, platform):
    """Whatever a test sends, the process that served it serves on."""
    pid = platform.pid("culvertd")
    yield
    if not request.node.get_closest_marker("usefixtures"):
        alive(platform, pid)


def events(platform, body, **headers):
    return platform.api("POST", EVENTS, body, key=platform.env["CULVERT_RUNTIME_TOKEN"], headers={**JSON, **{k.replace("_", "-"): v for k, v in headers.items()}})


def demo_path(platform, rest):
    return f"/runtimes/{platform.env['CULVERT_RUNTIME']}/proxy/services/demo{rest}"


def culvertd(platform, *words, env=None, settings=True):
    config = ["--config", str(platform.home / "culvertd.conf")] if settings else []
    environment = {**{k: v for k, v in os.environ.items() if not k.startswith("CULVERT_")}, **(env or {})}
    return subprocess.run([platform.build / "server/culvertd", *config, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, env=environment)


def application(name, **more):
    metadata = {"name": name, "namespace": "over-http", "uid": str(uuid.uuid4())}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": metadata,
        "spec": {"source": {"repoURL": "https://git.example/x"}},
        "status": {"sync": {"status": "Synced"}, "health": {"status": "Healthy"}},
        **more,
    }


def events_with(platform, token, manifest, shape="object", **call):
    text = json.dumps(manifest)
    value = {"object": manifest, "text": text, "base64": base64.b64encode(text.encode()).decode()}[shape]
    body = json.dumps({"data": {"object": value}}).encode()
    headers = {**JSON, **call.pop("headers", {})}
    if call.pop("chunked", False):
        body = iter([gzip.compress(body)[i : i + 50] for i in range(0, len(gzip.compress(body)), 50)])
        headers.update({"Content-Encoding": "gzip", "Transfer-Encoding": "chunked"})
    return platform.api("POST", EVENTS, body, key=token, headers=headers)
