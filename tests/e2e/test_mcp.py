"""Assistants ask over MCP what REST answers: with the reference SDK as client, and with what no client should send."""

import json
import os
import subprocess
import sys

import pytest

from conftest import TOP
from platform_under_test import wait_until
from python_packages import install


def ask(platform, *calls, key=None, mode="auto"):
    home = install("mcp")
    wanted = {"url": platform.env["CULVERT_URL"] + "/mcp", "ca": platform.env["CULVERT_CA"], "key": key or platform.env["CULVERT_API_KEY"], "mode": mode, "calls": calls}
    done = subprocess.run([sys.executable, TOP / "tests/support/mcp_client.py"], input=json.dumps(wanted), env=dict(os.environ, PYTHONPATH=str(home)), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def post(platform, body, status=200, **headers):
    text = body if isinstance(body, str) else json.dumps(body)
    answer = platform.api("POST", "/mcp", text, headers={"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **{name.replace("_", "-"): value for name, value in headers.items()}})
    assert answer.status == status, (answer.status, answer.text())
    return answer


def rpc(method, **params):
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


@pytest.fixture(scope="module")
def place(platform):
    wait_until(platform.applications, 30, "applications were reported")
    (edge, *_) = platform.graphql("{ applications { edges { node { metadata { runtime namespace name } } } } }")["applications"]["edges"]
    return edge["node"]["metadata"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_reference_client(platform, place, mode):
    path = f"/v1/applications/{place['runtime']}/{place['namespace']}/{place['name']}"
    first = {"first": 2, "orderBy": "NAME"}
    answer = ask(platform, ["list_applications", first], ["get_application", place], ["get_limits", {}], ["get_application", {**place, "name": "nobody"}],
                 ["get_application", {"name": "x"}], ["list_applications", {"colour": "red"}], ["list_applications", {"first": "many"}], ["list_applications", {"healthStatuses": ["DEGRADED", "FINE"]}], mode=mode)
    assert answer["version"] == "2025-11-25" and answer["server"]["name"] == "culvert"
    tools = {tool["name"]: tool for tool in answer["tools"]}
    assert len(tools) == len(answer["tools"]) > 15 and not tools["run_operation"]["annotations"]["readOnlyHint"]
    assert tools["get_application"]["inputSchema"]["required"] == ["runtime", "namespace", "name"] and tools["get_application"]["annotations"]["readOnlyHint"]
    listed, one, limits, *wrong = answer["results"]
    names = [item["metadata"]["name"] for item in json.loads(listed[0])["items"]]
    assert names == [item["metadata"]["name"] for item in platform.api("GET", "/v1/applications?first=2&orderBy=NAME").json()["items"]] and len(names) == 2
    wait_until(lambda: json.loads(ask(platform, ["get_application", place])["results"][0][0]) == platform.api("GET", path).json(), 20, "the tool answers what REST does")
    assert not listed[1] and not one[1] and not limits[1] and json.loads(limits[0])["usage"]
    for (text, is_error), part in zip(wrong, ("does not exist", "$runtime", 'argument: invalid name "colour", it must be one of first, after, text', "$first", "HealthStatus, which has "), strict=True):
        assert is_error and part in text, (part, text)


def test_all_pages_and_a_change(platform, place):
    names, after = [], None
    while True:
        page = json.loads(ask(platform, ["list_applications", {"first": 3, "after": after}])["results"][0][0])
        names += [item["metadata"]["name"] for item in page["items"]]
        after = page["next"]
        if not after:
            break
    assert sorted(names) == sorted(name for _, name in platform.cluster_applications())
    operation = {"action": "REFRESH", **place}
    made = platform.graphql("mutation { createMyApiKey(name: \"reads\", scopes: [\"read\"]) { token } }")["createMyApiKey"]["token"]
    (refused, read), (text, failed) = [*ask(platform, ["run_operation", {"operation": operation}], ["list_runtimes", {}], key=made)["results"][:2]]
    assert read and "scope" in refused and not failed and json.loads(text)["items"]
    (text, failed), = ask(platform, ["run_operation", {"operation": operation}])["results"]
    assert not failed, text
    queued = json.loads(text)["id"]
    wait_until(lambda: json.loads(ask(platform, ["get_operation", {"id": queued}])["results"][0][0])["state"] in ("SUCCEEDED", "FAILED"), 60, "the operation ended")


def test_messages_that_are_wrong(platform):
    for body, status, code in [("{", 400, -32700), ("[]", 400, -32600), ([rpc("ping")], 400, -32600), ({"id": 1, "method": "ping"}, 400, -32600), ({"jsonrpc": "2.0", "id": None, "method": "ping"}, 400, -32600),
                               ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, 400, -32600), ({"jsonrpc": "2.0", "id": 1}, 400, -32600), ({"jsonrpc": "2.0", "id": 1, "method": 7}, 400, -32600),
                               ("[" * 40 + "]" * 40, 400, -32700), (rpc("server/discover"), 200, -32601), (rpc("tools/call"), 200, -32602), (rpc("tools/call", name="createUser"), 200, -32602),
                               (rpc("tools/call", name="get_limits", arguments=[]), 200, -32602), ({**rpc("tools/call"), "params": "x"}, 200, -32602)]:
        answer = post(platform, body, status).json()
        assert answer["error"]["code"] == code and answer["error"]["message"] and answer["jsonrpc"] == "2.0", (body, answer)
    for body in ({"jsonrpc": "2.0", "method": "notifications/initialized"}, {"jsonrpc": "2.0", "id": 1, "result": {}}, {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "get_limits"}}):
        assert post(platform, body, 202).body == b""
    assert post(platform, {**rpc("ping"), "id": "a\u00e9\"\\"}).json() == {"jsonrpc": "2.0", "id": "a\u00e9\"\\", "result": {}}
    refused = post(platform, rpc("ping"), 400, MCP_Protocol_Version="2031-01-01").json()["error"]
    assert refused["code"] == -32022 and refused["data"] == {"supported": ["2025-11-25", "2025-06-18"], "requested": "2031-01-01"}
    for wanted, got in (("2025-06-18", "2025-06-18"), ("2024-11-05", "2025-11-25")):
        result = post(platform, rpc("initialize", protocolVersion=wanted, capabilities={}, clientInfo={"name": "x", "version": "1"})).json()["result"]
        assert result["protocolVersion"] == got and result["capabilities"] == {"tools": {}}


def test_requests_that_are_wrong(platform):
    assert platform.api("GET", "/mcp").status == 405 and platform.api("DELETE", "/mcp").headers["Allow"] == "POST"
    json_type = {"Content-Type": "application/json"}
    assert platform.api("POST", "/mcp", json.dumps(rpc("tools/list")), headers=json_type, key=None).status == 401
    assert platform.api("POST", "/mcp", json.dumps(rpc("tools/list")), headers=json_type, key="nobody.0").status == 401
    assert platform.api("POST", "/mcp", json.dumps(rpc("tools/list")), headers={"Content-Type": "text/plain"}).status == 415
    assert platform.api("POST", "/mcp", " " * (8 << 20), headers=json_type).status == 413
