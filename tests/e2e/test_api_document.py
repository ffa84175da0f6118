"""The commands of docs/api.md run as they are written there."""

import json
import os
import pathlib
import subprocess
import uuid

from platform_under_test import wait_until

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/api.md"


def test_commands_run(platform):
    wait_until(platform.applications, 30, "applications were reported")
    (edge, *_) = platform.graphql("{ applications { edges { node { metadata { runtime namespace name } } } } }")["applications"]["edges"]
    at = edge["node"]["metadata"]
    env = {**os.environ, "URL": platform.env["CULVERT_URL"], "KEY": platform.env["CULVERT_API_KEY"], "UUID": uuid.uuid4().hex,
           "RUNTIME": at["runtime"], "NAMESPACE": at["namespace"], "NAME": at["name"], "CURL_CA_BUNDLE": platform.env["CULVERT_CA"]}  # fmt: skip
    commands = [line.strip() for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("    curl ")]
    assert len(commands) > 8
    for command in commands:
        run = subprocess.run(["bash", "-c", command], env=env, capture_output=True, text=True, timeout=30, check=False)
        assert run.returncode == 0, (command, run.stderr, run.stdout)
        assert "errors" not in json.loads(run.stdout), (command, run.stdout)
