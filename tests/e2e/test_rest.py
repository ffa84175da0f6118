"""REST /v1: stored GraphQL documents. Every answer is validated against the OpenAPI document that the platform serves."""

import json
import re
import urllib.parse
import uuid

import pytest

import openapi_packages
from platform_under_test import wait_until


class Rest:
    def __init__(self, platform):
        self.platform = platform
        self.jsonschema, self.meta = openapi_packages.load()
        self.openapi = platform.api("GET", "/openapi.json", key=None).json()
        self.seen = set()

    def template(self, path):
        """The declared path that fits: the one with the fewest parameters."""
        found = [name for name in self.openapi["paths"] if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", name), path)]
        return min(found, key=lambda name: name.count("{"))

    def check(self, method, path, answer):
        name = self.template(path)
        self.seen.add((method.lower(), name))
        responses = self.openapi["paths"][name][method.lower()]["responses"]
        if str(answer.status) in responses:
            (schema,) = [content["schema"] for content in responses[str(answer.status)]["content"].values()]
        else:
            assert answer.headers["content-type"] == "application/problem+json", (path, answer.status, answer.text())
            schema = self.openapi["components"]["schemas"]["Problem"]
        self.jsonschema.Draft202012Validator(schema).validate(answer.json())

    def ask(self, method, path, body=None, status=None, **more):
        headers = {**({"Content-Type": "application/json"} if method != "GET" else {}), **more.pop("headers", {})}
        answer = self.platform.api(method, path, json.dumps(body) if body is not None else None, headers=headers, **more)
        if answer.status != 304:
            self.check(method, path.split("?")[0], answer)
        assert answer.status == (status or 200), (method, path, answer.status, answer.text())
        return answer


@pytest.fixture(scope="module")
def rest(platform):
    wait_until(platform.applications, 30, "applications were reported")
    return Rest(platform)


@pytest.fixture(scope="module")
def place(rest):
    (edge, *_) = rest.platform.graphql("{ applications { edges { node { metadata { runtime namespace name } } } } }")["applications"]["edges"]
    return edge["node"]["metadata"]


def test_document_is_openapi(rest):
    rest.jsonschema.Draft202012Validator(rest.meta).validate(rest.openapi)
    assert len(rest.openapi["paths"]) > 20
    page = rest.platform.api("GET", "/v1", key=None)
    assert page.status == 200 and not re.search(r"https?://", page.text()) and "script-src 'self'" in page.headers["content-security-policy"]
    assert rest.platform.api("GET", "/v1/page.js", key=None).headers["content-type"].startswith("text/javascript")


def test_every_read_fits_its_schema(rest, place):
    """All GETs with what the demo cluster has; what needs more than that has a test of its own."""
    operation = rest.ask("POST", "/v1/operations", {"action": "REFRESH", **place}, 202, headers={"Idempotency-Key": uuid.uuid4().hex}).json()
    values = {**place, "id": operation["id"]}
    for name, methods in rest.openapi["paths"].items():
        if "get" not in methods:
            continue
        path = re.sub(r"\{(\w+)\}", lambda m, at=name: urllib.parse.quote(place["runtime"] if at == "/v1/runtimes/{name}" else values[m[1]], safe=""), name)
        first = "?first=2" if any(p["name"] == "first" for p in methods["get"]["parameters"]) else ""
        answer = rest.ask("GET", path + first).json()
        if first and isinstance(answer, dict):
            assert len(answer["items"]) <= 2
    application = rest.ask("GET", f"/v1/applications/{place['runtime']}/{place['namespace']}/{place['name']}").json()
    assert application["metadata"]["name"] == place["name"]


def test_pages_follow_links(rest):
    every = [item["metadata"]["name"] for item in rest.ask("GET", "/v1/applications").json()["items"]]
    found, path = [], "/v1/applications?first=2&orderBy=NAME"
    while path:
        answer = rest.ask("GET", path)
        found += [item["metadata"]["name"] for item in answer.json()["items"]]
        link = answer.headers.get("link")
        assert bool(link) == bool(answer.json()["next"])
        path = re.fullmatch(r'<([^>]+)>; rel="next"', link)[1] if link else None
    assert found == every and len(found) > 2
    down = rest.ask("GET", "/v1/applications?direction=desc").json()["items"]
    assert [item["metadata"]["name"] for item in down] == every[::-1]
    healthy = rest.ask("GET", "/v1/applications?healthStatuses=HEALTHY,PROGRESSING").json()["items"]
    assert {item["healthStatus"] for item in healthy} <= {"HEALTHY", "PROGRESSING"}


def test_etags(rest):
    first = rest.ask("GET", "/v1/users")
    tag = first.headers["etag"]
    assert rest.ask("GET", "/v1/users", status=304, headers={"If-None-Match": f'"x", {tag}'}).body == b""
    assert rest.ask("GET", "/v1/users", headers={"If-None-Match": '"x"'}).headers["etag"] == tag
    name = "etag-" + uuid.uuid4().hex[:8]
    user = rest.ask("POST", "/v1/users", {"name": name, "email": name + "@example", "role": "MEMBER"}, 201).json()
    assert rest.ask("GET", "/v1/users", headers={"If-None-Match": tag}).headers["etag"] != tag
    assert rest.ask("PATCH", f"/v1/users/{user['id']}", {"isDisabled": True}).json()["isDisabled"] is True


def test_changes(rest, place):
    team = rest.ask("POST", "/v1/teams", {"name": "rest " + uuid.uuid4().hex[:8]}, 201).json()
    user = rest.ask("GET", "/v1/account").json()
    assert rest.ask("PUT", f"/v1/teams/{team['id']}/members/{user['id']}").json()["members"] == [user["name"]]
    assert rest.ask("DELETE", f"/v1/teams/{team['id']}/members/{user['id']}").json()["members"] == []
    assert rest.ask("DELETE", f"/v1/teams/{team['id']}").json() == 1
    rest.ask("DELETE", f"/v1/teams/{team['id']}", status=404)
    key = rest.ask("POST", "/v1/api-keys", {"name": "rest", "scopes": ["read"]}, 201).json()
    rest.ask("GET", "/v1/runtimes", key=key["token"])
    rest.ask("POST", "/v1/operations", {"action": "REFRESH", **place}, 403, key=key["token"])
    assert rest.ask("DELETE", f"/v1/api-keys/{key['key']['id']}").json() == 1
    same = [rest.ask("POST", "/v1/operations", {"action": "REFRESH", **place}, 202, headers={"Idempotency-Key": team["id"]}).json()["id"] for _ in range(2)]
    assert same[0] == same[1]
    (entry, *_) = rest.ask("GET", "/v1/audit?entity=teams&first=1").json()
    assert entry["action"] == "delete" and entry["actor"]["id"] == user["id"]


def test_bad_requests(rest, place):
    def detail(method, path, body=None, status=400, **more):
        return rest.ask(method, path, body, status, **more).json()["detail"]

    assert '"colour"' in detail("GET", "/v1/applications?colour=red") and "healthStatuses" in detail("GET", "/v1/applications?colour=red")
    assert "first" in detail("GET", "/v1/applications?first=many")
    assert "between 1 and 10000" in detail("GET", "/v1/applications?first=0")
    assert "there twice" in detail("GET", "/v1/applications?first=1&first=2")
    assert "percent" in detail("GET", "/v1/applications?text=%zz") and "UTF-8" in detail("GET", "/v1/applications?text=%ff")
    assert "cursor" in detail("GET", "/v1/applications?after=x")
    assert "HealthStatus" in detail("GET", "/v1/applications?healthStatuses=FINE")
    assert "not JSON" in rest.platform.api("POST", "/v1/teams", "{", headers={"Content-Type": "application/json"}).json()["detail"]
    assert "object" in detail("POST", "/v1/teams", [1])
    assert '"nam"' in detail("POST", "/v1/teams", {"nam": "x"}) and "name" in detail("POST", "/v1/teams", {})
    assert "Idempotency-Key" in detail("POST", "/v1/teams", {"name": "x"}, headers={"Idempotency-Key": "k"})
    assert detail("GET", "/v1/runtimes/none", status=404) == detail("GET", f"/v1/applications/{place['runtime']}/x/none", status=404)
    assert rest.platform.api("GET", "/v1/none").status == 404 and rest.platform.api("POST", "/v1/clusters", "{}", headers={"Content-Type": "application/json"}).status == 405
    assert rest.platform.api("GET", "/v1/runtimes", key="none").status == 401
    assert rest.platform.api("GET", "/v1/runtimes", key=rest.platform.env["CULVERT_RUNTIME_TOKEN"]).status == 403
    assert detail("GET", "/v1/operations/'%20or%201=1--", status=404)
