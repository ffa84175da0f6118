"""Who may do what: each field of the schema for each role, and for keys with scopes."""

import json
import uuid

import pytest

from api_listener_client import culvertd
from test_browser_sessions import SESSION, Browser, by_link, post
from test_runtime_tokens import codes, fields, selection, value_of
from waiting import wait_until

# What needs an admin (reportRuntimeErrors: of users), what is the own; all else reads or writes.
ADMINS = {"auditEntries", "runtimeTokens", "createRuntime", "deleteRuntime", "deleteManagedRuntime", "createRuntimeToken", "rotateRuntimeToken", "revokeRuntimeToken", "enrollmentTokens", "createEnrollmentToken", "revokeEnrollmentToken", "apiKeys", "createUser", "updateUser",
          "reportRuntimeErrors", "createSignInLink", "createApiKey", "revokeApiKey", "createTeam", "deleteTeam", "addTeamMember", "removeTeamMember",
          "abacRules", "abacRule", "explainPermissions", "simulateAccessRules", "createAbacRule", "updateAbacRule", "removeAbacRule", "setDefaultAccess"}  # fmt: skip
ADMINS |= {"updateCsdpSettings", "suggestIscRepo", "resetSharedConfigRepo", "migrateRuntime", "apiKey", "deleteUser", "createServiceUser", "updateServiceUser", "deleteServiceUser", "renameTeam"}
OWN = {"myApiKeys", "myApiKey", "createMyApiKey", "revokeMyApiKey", "deviceAuthorization", "decideDeviceAuthorization"}
RUNTIMES_ALONE = {"getSealingKey", "saveSealingKey", "updateRuntimeClusters"}
# (role, scopes of the key): what it may do
CALLERS = {
    ("ADMIN", ()): {"read", "write", "admin", "own", "calls"},
    ("MEMBER", ()): {"read", "write", "own", "calls"},
    ("READ_ONLY", ()): {"read", "own"},
    ("ADMIN", ("read",)): {"read"},
    ("ADMIN", ("calls",)): {"calls"},
    ("ADMIN", ("write", "admin")): {"write", "admin"},
    ("MEMBER", ("read", "admin")): {"read"},
    ("READ_ONLY", ("write",)): set(),
}
USER = "mutation($n: String!, $r: UserRole!) { createUser(name: $n, email: $n, role: $r) { id name role teams isService } }"
KEY = "mutation($u: String!, $s: [String!]) { createApiKey(userId: $u, name: \"k\", scopes: $s) { token key { id userName scopes revokedAt } } }"


def create_user(platform, role="MEMBER"):
    return platform.graphql(USER, {"n": f"user-{uuid.uuid4().hex[:8]}", "r": role})["createUser"]


def key_of(platform, user, *scopes):
    return platform.graphql(KEY, {"u": user["id"], "s": list(scopes)})["createApiKey"]


def works(platform, key):
    return platform.api("GET", SESSION, key=key).status == 200


def call(platform, kind, field, arguments, result, key):
    needed = {name: of for name, of in arguments.items() if of.endswith("!")}
    head, inner = ", ".join(f"${name}: {of}" for name, of in needed.items()), ", ".join(f"{name}: ${name}" for name in needed)
    text = f"{kind}{f'({head})' if head else ''} {{ {field}{f'({inner})' if inner else ''} {selection(result)} }}"
    return platform.graphql_answer(text, {name: value_of(of) for name, of in needed.items()}, key=key).json()


@pytest.mark.parametrize("role, scopes", CALLERS)
def test_every_field(platform, role, scopes):
    may, key = CALLERS[role, scopes], key_of(platform, create_user(platform, role), *scopes)["token"]
    for kind in ("query", "mutation"):
        for field, (arguments, result) in fields(kind.capitalize()).items():
            needs = "admin" if field in ADMINS else "own" if field in OWN else "read" if kind == "query" else "write"
            if needs in may and field in ("createServiceUser", "createUser", "createRuntime", "createTeam", "createMyApiKey", "setDefaultAccess"):
                continue  # it would be there afterwards
            answer = call(platform, kind, field, arguments, result, key)
            refused = needs not in may or field in RUNTIMES_ALONE or (field == "runtimeStoreKey" and "admin" not in may)
            assert ("FORBIDDEN" in codes(answer)) == refused, (field, needs, answer)
    runtime = platform.env["CULVERT_INGRESS_HOST"].split(".")[0].partition("-")[2]
    assert (platform.api("GET", f"/runtimes/{runtime}/proxy/app-proxy/api/readyz", key=key).status == 403) == ("calls" not in may)
    assert (platform.api("GET", "/api/user", key=key).status == 403) == ("read" not in may)
    assert works(platform, key)


def test_a_session_by_a_scoped_key_may_do_no_more(platform):
    browser = Browser(platform, post(platform, {"apiKey": key_of(platform, create_user(platform, "ADMIN"), "read")["token"]}))
    assert "errors" not in browser.ask("POST", "/2.0/api/graphql", json.dumps({"query": "{ users { name } }"})).json()
    refused = browser.ask("POST", "/2.0/api/graphql", json.dumps({"query": 'mutation { createTeam(name: "x") { id } }'})).json()
    assert codes(refused) == ["FORBIDDEN"] and "scope admin" in refused["errors"][0]["message"]


def test_people(platform):
    user = create_user(platform, "READ_ONLY")
    key = key_of(platform, user, "read", "calls")
    assert key["key"] == {"id": key["token"].split(".")[0], "userName": user["name"], "scopes": ["read", "calls"], "revokedAt": None}
    update = "mutation($i: String!, $r: UserRole, $d: Boolean) { updateUser(id: $i, role: $r, isDisabled: $d) { role isDisabled } }"
    assert platform.graphql(update, {"i": user["id"], "r": "MEMBER"})["updateUser"] == {"role": "MEMBER", "isDisabled": False}
    team = platform.graphql("mutation($n: String!) { createTeam(name: $n) { id members } }", {"n": f"team-{user['name']}"})["createTeam"]
    member = {"t": team["id"], "u": user["id"]}
    for field, members in (("addTeamMember", [user["name"]]), ("addTeamMember", [user["name"]]), ("removeTeamMember", [])):
        assert platform.graphql(f"mutation($t: String!, $u: String!) {{ {field}(teamId: $t, userId: $u) {{ members }} }}", member)[field] == {"members": members}
    platform.graphql("mutation($t: String!, $u: String!) { addTeamMember(teamId: $t, userId: $u) { id } }", member)
    assert [each["teams"] for each in platform.graphql("{ users { name teams } }")["users"] if each["name"] == user["name"]] == [[f"team-{user['name']}"]]
    assert platform.graphql("mutation($i: String!) { deleteTeam(id: $i) }", {"i": team["id"]})["deleteTeam"] == 1
    link = platform.graphql("mutation($n: String!) { createSignInLink(userName: $n) { token } }", {"n": user["name"]})["createSignInLink"]
    invited = Browser(platform, post(platform, {"token": link["token"]}))
    assert invited.signed_in["user"]["name"] == user["name"] and works(platform, key["token"])
    assert platform.graphql(update, {"i": user["id"], "d": True})["updateUser"]["isDisabled"]
    invited.ends()
    wait_until(lambda: platform.api("GET", SESSION, key=key["token"]).status == 401, 5, "the key of a disabled user ends")


def test_the_last_admin_stays(platform):
    """In an account of its own; what another account has is as what is missing."""
    name = f"account-{uuid.uuid4().hex[:8]}"
    for words in (("create-account", name), ("create-user", "--account", name, "boss", "boss@example.org", "--admin")):
        assert culvertd(platform, "admin", *words).returncode == 0
    made = culvertd(platform, "admin", "create-key", "--account", name, "--user", "boss", "k", "--scopes", "read,admin")
    key = json.loads(made.stdout)["token"]
    boss = platform.graphql("{ me { id } }", key=key)["me"]["id"]
    update = "mutation($i: String!, $r: UserRole, $d: Boolean) { updateUser(id: $i, role: $r, isDisabled: $d) { role } }"
    for change in ({"r": "MEMBER"}, {"d": True}, {"r": "READ_ONLY", "d": True}):
        assert codes(platform.graphql_answer(update, {"i": boss, **change}, key=key).json()) == ["NOT_FOUND"]
    assert platform.graphql(update, {"i": boss, "r": "ADMIN"}, key=key)["updateUser"] == {"role": "ADMIN"}
    theirs, missing = create_user(platform), "0" * 24
    team = platform.graphql("mutation($n: String!) { createTeam(name: $n) { id } }", {"n": name})["createTeam"]["id"]
    (again,) = platform.graphql_answer("mutation($n: String!) { createTeam(name: $n) { id } }", {"n": name}).json()["errors"]
    assert again["extensions"]["code"] == "CONFLICT" and "exists already" in again["message"] and "team" not in again["message"].lower().replace(name, ""), again
    their_key = key_of(platform, theirs)
    for query, own in (
        ('mutation($i: String!) { updateUser(id: $i, role: ADMIN) { id } }', theirs["id"]),
        ('mutation($i: String!) { createApiKey(userId: $i, name: "x") { token } }', theirs["id"]),
        ('mutation($i: String!) { createSignInLink(userName: $i) { token } }', theirs["name"]),
        ("mutation($i: String!) { revokeApiKey(id: $i) }", their_key["key"]["id"]),
        ("mutation($i: String!) { deleteTeam(id: $i) }", team),
        (f'mutation($i: String!) {{ addTeamMember(teamId: $i, userId: "{boss}") {{ id }} }}', team),
        (f'mutation($i: String!) {{ removeTeamMember(teamId: $i, userId: "{boss}") {{ id }} }}', team),
    ):
        foreign, absent = (platform.graphql_answer(query, {"i": value}, key=key).json() for value in (own, missing))
        assert foreign == absent and codes(foreign) == ["NOT_FOUND"], query
    assert works(platform, their_key["token"]) and platform.graphql("{ teams { id } }")["teams"]
    assert platform.graphql("{ users { name } teams { id } }", key=key) == {"users": [{"name": "boss"}], "teams": []}


def test_bad_input(platform):
    user = create_user(platform)
    for scopes in (["nothing"], ["read", "read"], [""]):
        assert "scopes[" in platform.graphql_answer(KEY, {"u": user["id"], "s": scopes}).json()["errors"][0]["message"]
    for seconds in (0, -1, 2**31 - 1):
        answer = platform.graphql_answer(f'mutation {{ createMyApiKey(name: "x", expiresInSeconds: {seconds}) {{ token }} }}').json()
        assert "expiresInSeconds" in answer["errors"][0]["message"]
    assert codes(platform.graphql_answer(USER, {"n": " ", "r": "MEMBER"}).json()) and codes(platform.graphql_answer(USER, {"n": user["name"], "r": "MEMBER"}).json()) == ["CONFLICT"]
    assert by_link(platform).ask("POST", "/2.0/api/graphql", json.dumps({"query": "{ myApiKeys { id } }"})).status == 200
