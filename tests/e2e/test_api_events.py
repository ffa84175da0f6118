"""Events over HTTP: any of their forms shows up, wrong ones are refused and leave nothing."""

import base64
import gzip
import json
import uuid

import pytest

from api_listener_client import JSON, application, events, events_with, same_process  # noqa: F401
from platform_under_test import wait_until


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("shape", ["object", "text", "base64"])
def test_event_shows_up(platform, shape, chunked):
    name = f"app-{uuid.uuid4().hex[:8]}"
    answer = events_with(platform, platform.env["CULVERT_RUNTIME_TOKEN"], application(name), shape, chunked=chunked)
    assert answer.status == 200, answer.text()
    # 200 is said after COMMIT: it is there at once.
    assert platform.applications()["over-http", name] == ("SYNCED", "HEALTHY")
    gone = application(name)
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert events_with(platform, platform.env["CULVERT_RUNTIME_TOKEN"], gone, shape, chunked=chunked).status == 200
    wait_until(lambda: ("over-http", name) not in platform.applications(), 5, "it is gone")


def test_draft_event_shows_up(platform):
    """The paths of a later reporter: no `data` around the payload, and a clear word about what is missing."""
    token = platform.env["CULVERT_RUNTIME_TOKEN"]
    name = f"app-{uuid.uuid4().hex[:8]}"
    body = json.dumps({"timestamp": "2026-01-02T03:04:05.000Z", "actualManifest": json.dumps(application(name))}).encode()
    answer = platform.api("POST", "/2.0/api/applications", gzip.compress(body), key=token, headers={**JSON, "Content-Encoding": "gzip"})
    assert answer.status == 200, answer.text()
    assert platform.applications()["over-http", name] == ("SYNCED", "HEALTHY")
    gone = application(name)
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    answer = platform.api("POST", "/2.0/api/applications", json.dumps({"actualManifest": gone}).encode(), key=token, headers=JSON)
    assert answer.status == 200, answer.text()
    assert ("over-http", name) not in platform.applications()
    empty = json.dumps({"actualManifest": "", "desiredManifest": "", "source": {}}).encode()
    answer = platform.api("POST", "/2.0/api/resources", empty, key=token, headers=JSON)
    assert answer.status == 400 and "desiredManifest" in answer.json()["detail"], answer.text()


STORED = "select (select count(*) from applications where name like 'wrong%') + (select count(*) from resources where name like 'wrong%')"

WRONG_EVENTS = {
    "not JSON": b"{",
    "empty": b"",
    "an array": b"[]",
    "no data": b"{}",
    "data is a number": b'{"data":1}',
    "no object": b'{"data":{}}',
    "object is base64 of nothing": json.dumps({"data": {"object": base64.b64encode(b"no JSON").decode()}}).encode(),
    "no kind": json.dumps({"data": {"object": {"apiVersion": "v1", "metadata": {"name": "wrong"}}}}).encode(),
    "no name": json.dumps({"data": {"object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}}}).encode(),
    "bad time": json.dumps({"data": {"timestamp": "yesterday", "object": application("wrong")}}).encode(),
    "a name with NUL": json.dumps({"data": {"object": application("wrong\0name")}}).encode(),
    "a very long name": json.dumps({"data": {"object": application("wrong" * 1000)}}).encode(),
    "too deep": b'{"data":{"object":' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}}",
}


@pytest.mark.parametrize("name", sorted(WRONG_EVENTS))
def test_wrong_event_is_refused(platform, name):
    before = platform.psql(STORED)
    answer = events(platform, WRONG_EVENTS[name])
    assert 400 <= answer.status < 500, answer.text()
    assert answer.json()["detail"] and answer.json()["code"]
    assert platform.psql(STORED) == before == [["0"]]
    assert not any(key[1].startswith("wrong") for key in platform.applications())
