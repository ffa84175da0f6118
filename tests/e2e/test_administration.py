"""REST of administration in the shapes that Terraform's provider and Codefresh's Go SDK decode: 200 or 201 only, fields by their names and types."""

import json
import uuid

import pytest

from platform_under_test import wait_until

TEXT, TEXTS, FLAG = str, [str], bool
# What Go's structs have; what they leave out may be there.
ACCOUNT = {"_id": TEXT, "name": TEXT, "admins": TEXTS, "features": {"gitopsPlanEnforcement": FLAG}}
USER = {"_id": TEXT, "userName": TEXT, "email": TEXT, "roles": TEXTS, "status": TEXT}
TEAM = {"_id": TEXT, "name": TEXT, "type": TEXT, "account": TEXT, "tags": TEXTS, "users": [{"_id": TEXT, "userName": TEXT, "email": TEXT}]}
SERVICE_USER = {"_id": TEXT, "userName": TEXT, "roles": TEXTS, "teams": [{"_id": TEXT}]}
KEY = {"_id": TEXT, "name": TEXT, "tokenPrefix": TEXT, "created": TEXT, "scopes": TEXTS, "subject": {"type": TEXT, "ref": TEXT}}


def decode(value, shape, at="answer"):
    """As encoding/json into a struct: a field of another type, or a null, is an error."""
    if isinstance(shape, list):
        assert isinstance(value, list), (at, value)
        for i, each in enumerate(value):
            decode(each, shape[0], f"{at}[{i}]")
    elif isinstance(shape, dict):
        for name, inner in shape.items():
            assert name in value, (at, name, value)
            decode(value[name], inner, f"{at}.{name}")
    else:
        assert isinstance(value, shape), (at, value)
    return value


class Client:
    def __init__(self, platform):
        self.platform = platform
        self.account = platform.env["CULVERT_ACCOUNT"]

    def answer(self, method, path, body=None, **more):
        sent = json.dumps(body) if body is not None else ""
        return self.platform.api(method, "/api" + path, sent, headers={"Content-Type": "application/json; charset=utf-8"}, **more)

    def ask(self, method, path, body=None, shape=None, **more):
        answer = self.answer(method, path, body, **more)
        assert answer.status in (200, 201), (method, path, answer.status, answer.text())
        return decode(answer.json(), shape) if shape else answer.json()

    def status(self, *request, **more):
        return self.answer(*request, **more).status


@pytest.fixture(scope="module")
def client(platform):
    return Client(platform)


def name_of(what):
    return f"{what}-{uuid.uuid4().hex[:8]}"


def test_current_account(client):
    user = client.ask("GET", "/user")
    (account,) = [each for each in user["account"] if each["name"] == user["activeAccountName"]]
    assert account["id"] == account["_id"] == client.account and user["_id"] in account["admins"]
    users = client.ask("GET", f"/accounts/{client.account}/users", shape=[USER])
    assert user["_id"] in {each["_id"] for each in users}
    assert client.ask("GET", "/admin/accounts?filter[name]=x", shape=[ACCOUNT])[0]["_id"] == client.account
    assert client.ask("GET", f"/admin/accounts/{client.account}", shape=ACCOUNT)["name"] == account["name"]
    assert client.ask("GET", f"/features/{client.account}") == {"gitopsPlanEnforcement": False}
    for path in ("/accounts/{}/users", "/admin/accounts/{}", "/features/{}"):  # another account, or none
        assert client.status("GET", path.format("0" * 24)) == client.status("GET", path.format("x")) == 404
    assert client.ask("GET", "/admin/user?limit=100&page=1", shape={"docs": [USER]})["docs"]
    assert client.ask("GET", "/admin/user?limit=100&page=2")["docs"] == []
    assert client.ask("GET", f"/admin/user/id/{user['_id']}", shape=USER)["userName"] == user["userName"]
    assert client.status("GET", "/admin/user/id/none") == 404


def test_users(client):
    name = name_of("user")
    user = client.ask("POST", f"/accounts/{client.account}/adduser", {"userName": name, "email": name + "@example"}, shape=USER)
    assert user["roles"] == ["User"] and user["status"] == "active"
    assert client.status("POST", f"/accounts/{client.account}/adduser", {"userName": name, "email": "x"}) == 409
    assert client.status("POST", f"/accounts/{'0' * 24}/adduser", {"userName": name_of("x"), "email": "x"}) == 404
    at = f"/accounts/{client.account}/{user['_id']}"
    assert client.ask("POST", at + "/admin")["roles"] == ["User", "Admin"]
    assert client.ask("DELETE", at + "/admin")["roles"] == ["User"]
    assert client.ask("POST", f"/admin/user/{user['_id']}/activate", shape=USER)["status"] == "active"
    key = client.platform.graphql('mutation($u: String!) { createApiKey(userId: $u, name: "k") { token } }', {"u": user["_id"]})["createApiKey"]["token"]
    assert client.status("GET", "/user", key=key) == 200
    for path in ("/admin/user/id/" + user["_id"], "/auth/keys"):
        assert client.status("GET", path, key=key) == 200
    for request in (("DELETE", at), ("POST", at + "/admin"), ("POST", "/team", {"name": "x"}), ("POST", "/service-users", {"userName": "x"}), ("DELETE", "/admin/user/" + name)):
        assert client.status(*request, key=key) == 403, request
    assert client.ask("DELETE", at) == 1 and client.status("DELETE", at) == 404
    wait_until(lambda: client.status("GET", "/user", key=key) == 401, 10, "the user's key has ended")
    (entry, *_) = client.platform.graphql('query($u: String) { auditEntries(filters: {entity: "users", entityId: $u}) { action } }', {"u": user["_id"]})["auditEntries"]
    assert entry["action"] == "delete"
    own = client.ask("GET", "/user")
    assert client.status("DELETE", f"/accounts/{client.account}/{own['_id']}") == 404  # not the caller
    assert client.status("DELETE", "/admin/user/" + own["userName"]) == 404


def test_teams(client):
    me, name = client.ask("GET", "/user"), name_of("team")
    made = client.ask("POST", "/team", {"name": name, "users": [me["_id"], "none"], "type": "default"})
    (team,) = [each for each in client.ask("GET", "/team", shape=[TEAM]) if each["name"] == name]
    assert team["_id"] == made["_id"] and [each["_id"] for each in team["users"]] == [me["_id"]] and team["account"] == client.account
    at = f"/team/{team['_id']}"
    users = lambda: [user["_id"] for each in client.ask("GET", "/team") if each["_id"] == team["_id"] for user in each["users"]]  # noqa: E731
    client.ask("PUT", f"{at}/{me['_id']}/deleteUserFromTeam")
    assert users() == []
    client.ask("PUT", f"{at}/{me['_id']}/assignUserToTeam")
    assert users() == [me["_id"]]
    assert client.ask("PUT", at + "/renameTeam", {"name": name + " 2"})["name"] == name + " 2"
    assert client.status("PUT", at + "/renameTeam", {"name": " "}) == 400 and client.status("PUT", "/team/none/renameTeam", {"name": "x"}) == 404
    assert client.ask("DELETE", at) == 1 and client.status("DELETE", at) == 404


def test_service_users(client):
    team, name = client.ask("POST", "/team", {"name": name_of("team")}), name_of("bot")
    bot = client.ask("POST", "/service-users", {"userName": name, "teamIds": [team["_id"]]}, shape=SERVICE_USER)
    at = f"/service-users/{bot['_id']}"
    assert bot["teams"] == [{"_id": team["_id"]}] and bot["roles"] == ["User"] and bot in client.ask("GET", "/service-users", shape=[SERVICE_USER])
    changed = client.ask("PATCH", at, {"userName": name + "2", "teamIds": [], "assignAdminRole": True}, shape=SERVICE_USER)
    assert changed["teams"] == [] and changed["roles"] == ["User", "Admin"] and changed["userName"] == name + "2"
    assert client.ask("GET", at, shape=SERVICE_USER) == changed
    keys = f"/auth/key/service-user/{bot['_id']}"
    token = client.answer("POST", keys, {"name": "ci", "scopes": ["read"], "subject": {}, "scopeSnapshot": {}})
    assert token.status == 200 and token.headers["content-type"].startswith("text/plain")
    assert client.ask("GET", "/user", key=token.text())["userName"] == name + "2"
    key = client.ask("GET", f"{keys}/{token.text().split('.')[0]}", shape=KEY)
    assert key["name"] == "ci" and key["scopes"] == ["read"] and key["subject"] == {"type": "user", "ref": bot["_id"]}
    assert client.status("DELETE", f"/auth/key/service-user/none/{key['_id']}") == 404
    assert client.ask("DELETE", f"{keys}/{key['_id']}") == 1 and client.status("GET", f"{keys}/{key['_id']}") == 404
    assert client.status("POST", keys, {"name": "x", "scopes": ["pipeline"]}) == 400 and client.status("POST", "/auth/key/service-user/none", {"name": "x"}) == 404
    person = client.ask("GET", "/user")["_id"]
    assert client.status("GET", f"/service-users/{person}") == 404 == client.status("PATCH", f"/service-users/{person}", {"assignAdminRole": True}) == client.status("DELETE", f"/service-users/{person}")
    client.ask("PUT", f"/team/{team['_id']}/{person}/assignUserToTeam")
    assert client.status("PATCH", f"/service-users/{person}", {"teamIds": []}) == 404
    assert person in next([user["_id"] for user in each["users"]] for each in client.ask("GET", "/team") if each["_id"] == team["_id"]), "a person's teams stay"
    assert client.ask("DELETE", at) == 1 and client.status("GET", at) == 404
    client.ask("DELETE", f"/team/{team['_id']}")


def test_own_keys(client):
    token = client.answer("POST", "/auth/key", {"name": name_of("own"), "subject": {}}).text()
    key = client.ask("GET", "/auth/key/" + token.split(".")[0], shape=KEY)
    assert key in client.ask("GET", "/auth/keys", shape=[KEY]) and client.status("GET", "/user", key=token) == 200
    assert client.ask("DELETE", "/auth/key/" + key["_id"]) == 1 and client.status("DELETE", "/auth/key/" + key["_id"]) == 404
    # A key that could do more than a runtime is not given out in a runtime's name.
    assert client.status("POST", "/auth/key?subjectType=runtime-environment&subjectReference=x", {"name": "x"}) == 400


def test_authenticate(client):
    answer = client.answer("GET", "/auth/authenticate")
    assert answer.status == 200 and json.loads(answer.headers["x-cf-auth-entity"]) == {"type": "user", "id": client.ask("GET", "/user")["_id"], "accountId": client.account}
    answer = client.answer("GET", "/auth/authenticate", key=client.platform.env["CULVERT_RUNTIME_TOKEN"])
    assert json.loads(answer.headers["x-cf-auth-entity"])["type"] == "runtime"
    assert client.status("GET", "/auth/authenticate", key="none") == client.status("GET", "/auth/authenticate", key=False) == 401


def test_runtime_installer(client):
    name = name_of("rt")
    token = client.platform.create_runtime(name)
    try:
        assert client.status("POST", "/argo-runtime", {"name": "none"}) == 404 == client.status("GET", "/argo-runtime/none/storeKey")
        made = client.ask("POST", "/argo-runtime", {"name": name, "other": 1}, shape={"token": TEXT})["token"]
        for key in (made, token):
            wait_until(lambda key=key: client.platform.graphql_answer("{ me { id } }", key=key).status == 200, 10, "the token is known")
        keys = [client.ask("GET", f"/argo-runtime/{name}/storeKey", key=key)["storeKey"] for key in (True, made, token)]
        assert len(set(keys)) == 1 and len(keys[0]) == 64
        assert client.platform.psql(f"select position('\\x{keys[0]}'::bytea in sealed) + position(convert_to('{keys[0]}', 'UTF8') in sealed) from sealing_keys where runtime = '{name}'") == [["0"]]
        other = client.platform.env["CULVERT_RUNTIME"]
        assert client.status("GET", f"/argo-runtime/{other}/storeKey", key=token) == 403
        assert client.ask("GET", f"/argo-runtime/{other}/storeKey")["storeKey"] != keys[0]
    finally:
        client.platform.graphql("mutation($n: String!) { deleteRuntime(name: $n) }", {"n": name})
