"""What event sources of a runtime say besides the state of objects: events (CloudEvents) and errors."""

import ctypes
import datetime
import gzip
import json
import uuid

import pytest

PAYLOAD = "/2.0/api/events/event-payload"
ERROR = "/2.0/api/events/error"


def post(platform, path, body, key=None, **headers):
    headers = {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
    return platform.api("POST", path, body, key=key or platform.env["CULVERT_RUNTIME_TOKEN"], headers=headers)


def cloud_event(**more):
    now = datetime.datetime.now(datetime.timezone.utc).isoformat().replace("+00:00", "Z")
    return {
        "specversion": "1.0",
        "id": uuid.uuid4().hex,
        "source": "github",
        "type": "github",
        "time": now,
        "datacontenttype": "application/json",
        "data": {"headers": {"X-Hub-Signature-256": ["CANARY"]}, "body": {"ref": "refs/heads/main"}},
        **more,
    }


def stored_text(encoding, plain_bytes, content_hex):
    """The text behind a stored content: plain, or zstd."""
    content = bytes.fromhex(content_hex)
    if encoding == "0":
        return content.decode()
    out = ctypes.create_string_buffer(int(plain_bytes))
    size = ctypes.CDLL("libzstd.so.1").ZSTD_decompress(out, len(out), content, len(content))
    assert size == int(plain_bytes)
    return out.raw.decode()


@pytest.mark.parametrize("media_type", ["application/json", "application/cloudevents+json; charset=utf-8"])
@pytest.mark.parametrize("source", ["github", "gitlab", "bitbucketserver", "calendar"])
def test_event_is_kept_once(platform, source, media_type):
    event = cloud_event(source=source, type=source)
    body = json.dumps(event).encode()
    for sent in (body, body, gzip.compress(body)):
        encoding = {"Content_Encoding": "gzip"} if sent is not body else {}
        assert post(platform, PAYLOAD, sent, Content_Type=media_type, **encoding).status == 200
    rows = platform.psql(f"select runtime, source, type, encoding, plain_bytes, encode(content, 'hex') from culvert.cloud_events where event_id = '{event['id']}'")
    assert len(rows) == 1, rows
    assert rows[0][:3] == [platform.env["CULVERT_RUNTIME"], source, source]
    kept = json.loads(stored_text(*rows[0][3:]))
    assert kept["data"] == {"headers": {"X-Hub-Signature-256": None}, "body": {"ref": "refs/heads/main"}}


def test_error_shows_up_at_its_runtime(platform):
    text = f"could not reach Git {uuid.uuid4().hex}"
    for _ in range(2):
        assert post(platform, ERROR, json.dumps(text)).status == 200
    query = "query($n: String!) { runtime(name: $n) { errors { __typename level title message lastSeen } } }"
    errors = platform.graphql(query, {"n": platform.env["CULVERT_RUNTIME"]})["runtime"]["errors"]
    mine = [e for e in errors if e["message"] == text]
    assert len(mine) == 1 and mine[0]["level"] == "ERROR" and mine[0]["__typename"] == "HealthError", errors


def test_installer_reports_errors(platform):
    text = f"helm said no {uuid.uuid4().hex}"
    mutation = "mutation($a: ReportRuntimeErrorsArgs!) { reportRuntimeErrors(reportErrorsArgs: $a) }"
    args = {"runtime": platform.env["CULVERT_RUNTIME"], "errors": [{"level": "WARNING", "message": text}, None]}
    assert platform.graphql(mutation, {"a": args})["reportRuntimeErrors"] == 1
    query = "query($n: String!) { runtime(name: $n) { errors { level message ... on HealthError { code } } } }"
    errors = platform.graphql(query, {"n": platform.env["CULVERT_RUNTIME"]})["runtime"]["errors"]
    assert {"level": "WARNING", "message": text, "code": "RUNTIME_INSTALLATION_ERROR"} in errors
    unknown = platform.graphql_answer(mutation, {"a": {**args, "runtime": "nobody"}}).json()
    assert "does not exist" in unknown["errors"][0]["message"], unknown


WRONG = {
    PAYLOAD: [b"", b"[]", b"{}", b'"text"', b'{"specversion":"1.0"}', json.dumps(cloud_event(id="")).encode(), json.dumps(cloud_event(time="today")).encode()],
    ERROR: [b"", b"{}", b"[]", b"1", b'""', b'"a","b"', b'"a"]', b'"\\u0000"', b"text"],
}


@pytest.mark.parametrize("path", sorted(WRONG))
def test_wrong_bodies_are_refused(platform, path):
    count = "select (select count(*) from culvert.cloud_events) + (select count(*) from culvert.runtime_errors)"
    before = platform.psql(count)
    for body in WRONG[path]:
        answer = post(platform, path, body)
        assert answer.status == 400 and answer.json()["detail"], (body, answer.text())
    assert platform.psql(count) == before


@pytest.mark.parametrize("path", sorted(WRONG))
def test_only_a_runtime_token_says_whose_it_is(platform, path):
    body = json.dumps(cloud_event() if path == PAYLOAD else "an error")
    assert post(platform, path, body, key=platform.env["CULVERT_API_KEY"]).status == 403
    assert post(platform, path, body, key="0" * 24 + "." + "0" * 64).status == 401
