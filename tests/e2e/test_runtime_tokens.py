"""A runtime's tokens: what they may do, how they end, and how one follows the other without a gap."""

import json
import os
import pathlib
import re
import secrets
import signal
import tempfile
import threading

import pytest

import tunnel_listener_client as listener
from api_listener_client import culvertd
from conftest import build_folder
from platform_under_test import Platform, wait_until
from schema_text import schema_text

TOP = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = schema_text()
SESSIONS_A_MINUTE = 20
FAILURES_PER_ADDRESS, FAILURES_PER_KEY = 30, 10

# Every root field is in one of the two: a new one needs a decision here and in its module.
RUNTIMES_TOO = {"me", "runtime", "application", "applications", "applicationsIndex", "applicationFacets", "reportRuntimeErrors", "createImageBinary", "createImageLayers",
                "createImageRegistry", "patchImageBinary", "saveAnnotation", "shouldBeImplicitConfigurationRuntime",
                "promotionTemplateByRuntime", "promotionTemplate", "productComponentsList", "productReleaseTasks", "productReleaseRunHooksTasks", "productReleaseCommitStatuses",
                "gitSources", "components", "getSealingKey", "runtimeStoreKey", "saveSealingKey", "updateRuntimeClusters"}  # fmt: skip
USERS_ONLY = {"transitions", "kubernetesEvents", "runtimes", "clusters", "applicationSets", "limitsStatus", "rollouts", "rollout", "rolloutsIndex", "rolloutFacets", "workflows", "workflow", "workflowsIndex", "workflowFacets", "gitopsReleases", "images", "resourceTree", "runtimeTokens",
              "createRuntime", "deleteRuntime", "deleteManagedRuntime", "createRuntimeToken", "rotateRuntimeToken", "revokeRuntimeToken",
              "auditEntries", "users", "teams", "apiKeys", "myApiKeys", "createUser", "updateUser", "createSignInLink", "createApiKey", "createMyApiKey", "revokeApiKey", "revokeMyApiKey",
              "createTeam", "deleteTeam", "addTeamMember", "removeTeamMember",
              "operations", "operation", "runOperation",
              "abacRules", "abacRule", "permissions", "explainPermissions", "simulateAccessRules", "defaultAccess", "createAbacRule", "updateAbacRule", "removeAbacRule", "setDefaultAccess"}  # fmt: skip
USERS_ONLY |= {"pipeline", "pipelines", "promotions", "productReleases", "latestCliRelease", "updateCsdpSettings", "suggestIscRepo", "resetSharedConfigRepo", "migrateRuntime", "rolloutStepStatus", "deviceAuthorization", "decideDeviceAuthorization",
               "enrollmentTokens", "createEnrollmentToken", "revokeEnrollmentToken", "serviceUsers", "apiKey", "myApiKey", "deleteUser", "createServiceUser", "updateServiceUser", "deleteServiceUser", "renameTeam"}
# As api/http/router.c and the modules have them: "x" users, "r" runtimes, "xr" both, "" anybody.
ROUTES = {
    "/2.0/api/graphql": "xr",
    "/mcp": "xr",  # by field, like GraphQL
    "/2.0/api/graphql/schema.graphql": "",
    "/2.0/api/events": "r",
    "/2.0/api/events/event-payload": "r",
    "/2.0/api/events/error": "r",
    "/2.0/api/applications": "r",
    "/2.0/api/resources": "r",
    "/api/user": "x",
    "/api/ping": "",
    "/api/auth/authenticate": "xr",
    "/openapi.json": "",
    "/v1": "",
    "/v1/page.js": "",
    "/api/auth/session": "x",
    "/api/auth/sessions": "x",
    "/api/auth/sessions/{id}": "x",
    "/api/auth/providers": "",
    "/api/auth/providers/{id}/start": "",
    "/api/auth/providers/{id}/callback": "",
    "/api/auth/token": "",
    "/api/auth/device": "",
    "/.well-known/oauth-authorization-server": "",
}


@pytest.fixture(scope="module")
def tokens():
    """A platform of its own: agents and reporters change their tokens."""
    with tempfile.TemporaryDirectory(prefix="culvert-e2e.", dir="/var/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        platform = Platform(pathlib.Path(folder) / "home", build_folder("asan"))
        platform.settings.update(CULVERT_RUNTIME_TOKENS_LAST_USED_INTERVAL="1s", CULVERT_RUNTIME_TOKENS_SESSIONS_PER_MINUTE_MAX=str(SESSIONS_A_MINUTE))
        platform.settings.update(CULVERT_AUTHENTICATION_FAILURES_PER_ADDRESS_MAX=str(FAILURES_PER_ADDRESS), CULVERT_AUTHENTICATION_FAILURES_PER_KEY_MAX=str(FAILURES_PER_KEY))
        try:
            platform.start()
            platform.other = platform.create_runtime("other")
            wait_until(lambda: platform.graphql_answer("{ me { id } }", key=platform.other).status == 200, 10, "the token is known")
            wait_until(platform.online, 30, "online")
            wait_until(platform.applications, 30, "applications were reported")
            yield platform
        finally:
            platform.reset()


def ask(platform, query, variables=None, key=None):
    return platform.graphql_answer(query, variables, key=key or platform.other).json()


def codes(answer):
    return [error["extensions"]["code"] for error in answer.get("errors", [])]


# ---- scope -------------------------------------------------------------------------------------


def block(kind, name):
    text = re.search(rf"^{kind} {name} (?:implements [^{{]*)?\{{\n(.*?)^\}}", SCHEMA, re.M | re.S).group(1)
    return re.sub(r"#.*", "", text)


def fields(name):
    """{field: ({argument: type}, type)} of a root type."""
    found = {}
    for field, arguments, result in re.findall(r"(\w+)(?:\(([^)]*)\))?:\s*([\[\]!\w]+)", block("type", name)):
        found[field] = dict(re.findall(r"(\w+):\s*([\[\]!\w]+)", arguments)), result
    return found


def value_of(type_):
    """A value that validates, with as little in it as may be."""
    name = type_.strip("[]!")
    if type_.startswith("["):
        return []
    if name in ("String", "ID"):
        return "x"
    if name in ("Int", "Float"):
        return 60
    if name == "Boolean":
        return True
    if re.search(rf"^enum {name} ", SCHEMA, re.M):
        return re.findall(r"\w+", block("enum", name))[0]
    if re.search(rf"^scalar {name}$", SCHEMA, re.M):
        return {}
    members = re.findall(r"(\w+):\s*([\[\]!\w]+)", block("input", name))
    return {member: value_of(of) for member, of in members if of.endswith("!")}


def selection(type_):
    name = type_.strip("[]!")
    return "{ __typename }" if re.search(rf"^(type|union|interface) {name}\b", SCHEMA, re.M) else ""


def call(platform, kind, field, arguments, result, key):
    needed = {name: of for name, of in arguments.items() if of.endswith("!")}
    head = ", ".join(f"${name}: {of}" for name, of in needed.items())
    inner = ", ".join(f"{name}: ${name}" for name in needed)
    text = f"{kind}{f'({head})' if head else ''} {{ {field}{f'({inner})' if inner else ''} {selection(result)} }}"
    return ask(platform, text, {name: value_of(of) for name, of in needed.items()}, key)


STRICT = {"createAbacRule", "updateAbacRule", "removeAbacRule"}  # answered 400, without data, when they refuse


def test_every_field_has_its_decision(tokens):
    roots = {"query": fields("Query"), "mutation": fields("Mutation")}
    every = set(roots["query"]) | set(roots["mutation"])
    assert every == RUNTIMES_TOO | USERS_ONLY and not RUNTIMES_TOO & USERS_ONLY
    for kind, of in roots.items():
        for field, (arguments, result) in of.items():
            answer = call(tokens, kind, field, arguments, result, tokens.other)
            refused = codes(answer) == ["FORBIDDEN"] and "a runtime token does not have the permission" in answer["errors"][0]["message"]
            assert "data" in answer or field in STRICT, (field, answer)  # it was valid, and looked at
            assert refused == (field in USERS_ONLY), (field, answer)


def test_every_route_has_its_decision(tokens):
    sources = "".join(file.read_text() for file in [TOP / "api/http/router.c", *TOP.glob("modules/*/*.c")])
    table = re.findall(r'^    \{"(/[^"]+)", "(\w+)[^"]*", (\w+), (\w+),', sources, re.M)
    assert {path for path, *_ in table} == set(ROUTES)
    for path, method, caller, _ in table:
        if caller == "API_ANYBODY":
            assert ROUTES[path] == "" or method == "POST"
            continue
        for who, key in (("x", True), ("r", tokens.other)):
            body = "{}" if method == "POST" else None
            status = tokens.api(method, path, body, headers={"Content-Type": "application/json"}, key=key).status
            assert (status == 403) == (ROUTES[path] != "" and who not in ROUTES[path]), (path, who, status)
    assert tokens.api("GET", f"/runtimes/{tokens.env['CULVERT_RUNTIME']}/proxy/app-proxy/api/readyz", key=tokens.other).status == 403
    assert tokens.ingress("GET", "/app-proxy/api/readyz", key=tokens.other).status == 403


def test_other_runtimes_are_not_there(tokens):
    demo, token = tokens.env["CULVERT_RUNTIME"], tokens.env["CULVERT_RUNTIME_TOKEN"]
    namespace, name = sorted(tokens.applications())[0]
    runtime = "query($n: String!) { runtime(name: $n) { metadata { name } } }"
    assert ask(tokens, runtime, {"n": demo}) == ask(tokens, runtime, {"n": "absent"}) == {"data": {"runtime": None}}
    assert ask(tokens, runtime, {"n": demo}, token)["data"]["runtime"] == {"metadata": {"name": demo}}
    one = "query($r: String!, $n: String!, $s: String) { application(runtime: $r, name: $n, namespace: $s) { metadata { name } } }"
    variables = {"r": demo, "n": name, "s": namespace}
    assert ask(tokens, one, variables) == {"data": {"application": None}}
    assert ask(tokens, one, variables, token)["data"]["application"]["metadata"]["name"] == name
    many = "query($f: ApplicationsFilterArgs) { applications(filters: $f) { edges { node { metadata { runtime } } } } }"
    whole = ask(tokens, many, {"f": None}, token)["data"]["applications"]["edges"]
    assert len(whole) == len(tokens.applications())
    for filters in (None, {}, {"runtime": ""}, {"runtime": demo}, {"runtimes": [demo]}, {"runtimes": ["other", demo]}, {"runtime": demo, "runtimes": ["other"]}):
        for _ in range(3):  # also when the answer to the other one is kept
            assert ask(tokens, many, {"f": filters}, token)["data"]["applications"]["edges"] == ([] if filters and "other" in filters.get("runtimes", []) and demo not in filters["runtimes"] else whole)
            assert ask(tokens, many, {"f": filters})["data"]["applications"]["edges"] == [], filters
    me = ask(tokens, "{ me { runtimeName isAdmin activeAccount { id admins } accounts { admins } } }")["data"]["me"]
    assert me["runtimeName"] == "other" and me["activeAccount"]["admins"] == [] and me["accounts"] == [{"admins": []}]
    assert me["activeAccount"]["id"] == tokens.env["CULVERT_ACCOUNT"]
    errors = "mutation($r: String!) { reportRuntimeErrors(reportErrorsArgs: {runtime: $r, errors: []}) }"
    assert codes(ask(tokens, errors, {"r": demo})) == ["FORBIDDEN"] and ask(tokens, errors, {"r": "other"}) == {"data": {"reportRuntimeErrors": 0}}


def test_images_belong_to_who_reported_them(tokens):
    put = 'mutation($i: String!, $b: String) { createImageBinary(imageBinary: {id: $i, created: "2026-01-01T00:00:00Z", imageName: "web:1", branch: $b}) { id branch } }'
    patch = 'mutation($i: String, $b: String) { patchImageBinary(imageId: $i, imagePatch: {branch: $b}) { branch } }'
    layers = 'mutation($i: String!) { createImageLayers(imageLayers: {image: $i, layers: []}) { image } }'
    place = 'mutation($i: String!) { createImageRegistry(imageRegistry: {binaryId: $i, created: "2026-01-01T00:00:00Z", imageName: "web"}) { binaryId } }'
    note = 'mutation($i: String!) { saveAnnotation(annotation: {logicEntityId: {id: $i}, entityType: "image", key: "k", type: "t", genericValue: "v"}) }'
    token = tokens.env["CULVERT_RUNTIME_TOKEN"]
    for mutation in (put, layers, place, note):
        for _ in range(2):  # every write may be repeated
            assert "errors" not in ask(tokens, mutation, {"i": "i1", "b": "main"}, token), mutation
        assert codes(ask(tokens, mutation, {"i": "i1", "b": "theirs"})) == ["FORBIDDEN"], mutation
        assert "errors" not in ask(tokens, mutation, {"i": "i2", "b": "own"}), mutation
        assert codes(ask(tokens, mutation, {"i": "i2", "b": "main"}, token)) == ["FORBIDDEN"], mutation
        assert "errors" not in ask(tokens, mutation, {"i": "i2", "b": "user"}, tokens.env["CULVERT_API_KEY"]), mutation
    assert ask(tokens, patch, {"i": "i1", "b": "theirs"}) == ask(tokens, patch, {"i": "absent", "b": "x"}) == {"data": {"patchImageBinary": None}}
    assert ask(tokens, patch, {"i": "i1", "b": "next"}, token)["data"]["patchImageBinary"]["branch"] == "next"
    assert tokens.psql("select image_id, branch, runtime from images where image_id in ('i1', 'i2') order by 1") == [["i1", "next", tokens.env["CULVERT_RUNTIME"]], ["i2", "user", "other"]]
    foreign = 'mutation($r: String!) { saveAnnotation(annotation: {k8sEntityId: {name: "a", runtime: $r}, entityType: "app", key: "k", type: "t", genericValue: "v"}) }'
    assert codes(ask(tokens, foreign, {"r": tokens.env["CULVERT_RUNTIME"]})) == ["FORBIDDEN"] and "errors" not in ask(tokens, foreign, {"r": "other"})


# ---- rotation and expiry -----------------------------------------------------------------------


def listed(platform, runtime):
    query = "query($r: String!) { runtimeTokens(runtime: $r) { id name status expiresAt lastUsedAt replacedAt revokedAt } }"
    return {each["id"]: each for each in platform.graphql(query, {"r": runtime})["runtimeTokens"]}


def rotate(platform, runtime, **arguments):
    query = """mutation($r: String!, $g: Int, $e: Int) { rotateRuntimeToken(runtime: $r, name: "next", graceSeconds: $g, expiresInSeconds: $e) {
      token runtimeToken { id status expiresAt } } }"""
    return platform.graphql(query, {"r": runtime, "g": arguments.get("grace"), "e": arguments.get("expires")})["rotateRuntimeToken"]


def revoke(platform, runtime, id_):
    assert platform.graphql("mutation($r: String!, $i: String!) { revokeRuntimeToken(runtime: $r, id: $i) }", {"r": runtime, "i": id_}) == {"revokeRuntimeToken": 1}


def give_to_agent(platform, token):
    file = platform.home / "runtime-token.secret"
    file.write_text(token + "\n")
    os.kill(platform.pid("agent"), signal.SIGHUP)


class Load(threading.Thread):
    """Calls through the tunnel and reports over HTTP, until told to stop: how many there were, and those that failed."""

    def __init__(self, platform):
        super().__init__()
        self.platform, self.token, self.done, self.number, self.failed = platform, platform.env["CULVERT_RUNTIME_TOKEN"], False, 0, []

    def run(self):
        while not self.done:
            self.number += 1
            called = self.platform.ingress("GET", "/app-proxy/api/readyz").status
            object_ = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rotation", "namespace": "rotation", "labels": {"number": str(self.number)}}}
            body = json.dumps({"data": {"object": json.dumps(object_)}})
            reported = self.platform.api("POST", "/2.0/api/events", body, headers={"Content-Type": "application/json"}, key=self.token).status
            if called != 200 or reported >= 300:
                self.failed.append((self.number, called, reported))

    def has_done(self, more):
        reached = self.number + more
        wait_until(lambda: self.number >= reached or self.failed, 60, "it goes on")


def test_one_follows_the_other_without_a_gap(tokens):
    runtime, old = tokens.env["CULVERT_RUNTIME"], tokens.env["CULVERT_RUNTIME_TOKEN"]
    old_id, file = old.split(".")[0], tokens.home / "runtime-token.secret"
    load = Load(tokens)
    load.start()
    try:
        load.has_done(5)
        wait_until(lambda: listed(tokens, runtime)[old_id]["lastUsedAt"], 30, "a use of the token was written")
        made = rotate(tokens, runtime, grace=3600, expires=90 * 86400)
        new, new_id = made["token"], made["runtimeToken"]["id"]
        assert made["runtimeToken"]["status"] == "VALID" and new.split(".")[0] == new_id
        assert {each["status"] for each in listed(tokens, runtime).values()} == {"VALID", "REPLACED"}
        refused = ask(tokens, 'mutation($r: String!) { createRuntimeToken(runtime: $r) { token } }', {"r": runtime}, tokens.env["CULVERT_API_KEY"])
        assert codes(refused) == ["CONFLICT"]  # two are enough
        load.has_done(5)
        load.token = new
        give_to_agent(tokens, new)
        wait_until(lambda: tokens.psql(f"select count(*) from tunnel_sessions where runtime = '{runtime}' and closed_at is null") == [["1"]] and listed(tokens, runtime)[new_id]["lastUsedAt"], 30, "the agent has changed over")
        load.has_done(5)
        revoke(tokens, runtime, old_id)
        wait_until(lambda: tokens.graphql_answer("{ me { id } }", key=old).status == 401, 10, "the old one is over")
        load.has_done(5)
    finally:
        load.done = True
        load.join()
    assert not load.failed
    assert listed(tokens, runtime)[old_id]["status"] == "REVOKED" and file.read_text().strip() == new
    tokens.env["CULVERT_RUNTIME_TOKEN"] = new


def test_the_end_comes_by_itself_and_is_explained(tokens):
    runtime, token = tokens.env["CULVERT_RUNTIME"], tokens.env["CULVERT_RUNTIME_TOKEN"]
    id_ = token.split(".")[0]
    errors = "query($n: String!) { runtime(name: $n) { errors { level message } } }"

    def findings():
        return [each["message"] for each in tokens.graphql(errors, {"n": runtime})["runtime"]["errors"] if id_ in each["message"]]

    assert not findings() and tokens.metric("culvert_runtime_tokens_expiring") == 0
    tokens.psql(f"update runtime_tokens set expires_at = now() + interval '10 days', created_at = now() - interval '90 days' where token_id = '{id_}'")
    assert "expires at" in findings()[0]
    wait_until(lambda: tokens.metric("culvert_runtime_tokens_expiring") == 1, 10, "the metric warns")
    assert tokens.online()
    tokens.psql(f"update runtime_tokens set expires_at = now() + interval '2 seconds' where token_id = '{id_}'")
    # 2 s to live and 2 s to be ended in, and what a busy machine needs.
    wait_until(lambda: not tokens.online(), 10, "its session has ended")
    assert tokens.psql(f"select close_reason from tunnel_sessions where runtime = '{runtime}' order by epoch desc limit 1") == [["the runtime token has expired"]]
    wait_until(lambda: "the platform answered 401: the runtime token has expired" in tokens.log("agent"), 20, "the agent knows why")
    assert tokens.graphql_answer("{ me { id } }", key=token).status == 401
    assert "expired at" in findings()[0] and tokens.metric("culvert_runtime_tokens_expiring") == 0
    # As an operator would: by the command, which needs nothing but the database.
    account = tokens.graphql("{ me { activeAccount { name } } }")["me"]["activeAccount"]["name"]
    made = culvertd(tokens, "admin", "create-runtime-token", "--account", account, "--runtime", runtime, "--expires", "90d", "by hand")
    assert made.returncode == 0, made.stderr
    made = json.loads(made.stdout)
    shown = culvertd(tokens, "admin", "list-runtime-tokens", "--account", account, "--runtime", runtime)
    assert {each["id"]: each["status"] for each in json.loads(shown.stdout)}[made["id"]] == "VALID" and made["token"] not in shown.stdout
    give_to_agent(tokens, made["token"])
    wait_until(tokens.online, 60, "online again")
    tokens.env["CULVERT_RUNTIME_TOKEN"] = made["token"]
    gone = culvertd(tokens, "admin", "revoke-runtime-token", "--account", account, "--runtime", runtime, id_)
    assert gone.returncode == 3  # it is not valid any more


def test_new_sessions_of_one_token_are_limited(tokens):
    statuses = []
    for _ in range(SESSIONS_A_MINUTE + 5):
        answer = listener.knock(tokens, listener.request_of("other", tokens.other), keep=True)
        if answer.sock:
            answer.sock.close()
        statuses.append(answer.status)
        if answer.status == 429:
            assert int(re.search(rb"(?i)retry-after: (\d+)", answer.answer).group(1)) > 0
    assert set(statuses) == {101, 429} and statuses.count(101) >= SESSIONS_A_MINUTE, statuses
    assert tokens.metric("culvert_runtime_token_sessions_limited_total") == statuses.count(429)
    assert tokens.graphql_answer("{ me { id } }", key=tokens.other).status == 200  # requests are no sessions
    assert tokens.online()


# ---- wrong credentials -------------------------------------------------------------------------


def until_limited(attempt, most):
    """Statuses of attempts until one is answered 429: no more than `most` are looked at, and what leaks away meanwhile."""
    statuses = []
    while not statuses or statuses[-1] != 429:
        assert len(statuses) < 3 * most, statuses
        statuses.append(attempt())
    assert set(statuses[:-1]) <= {401}, statuses
    return len(statuses) - 1


def test_wrong_credentials_are_limited_and_good_ones_are_not(tokens):
    """Last: this address has had enough afterwards."""
    account = tokens.graphql("{ me { name activeAccount { name } } }")["me"]
    words = ["--account", account["activeAccount"]["name"], "--user", account["name"]]
    fresh = [json.loads(culvertd(tokens, "admin", "create-key", *words, f"limits-{i}").stdout)["token"] for i in range(4)]
    me = "{ me { id } }"
    # One key id, many secrets: whoever uses the key goes on.
    assert tokens.graphql_answer(me, key=fresh[0]).status == 200
    id_ = fresh[0].split(".")[0]
    assert until_limited(lambda: tokens.graphql_answer(me, key=f"{id_}.{secrets.token_hex(32)}").status, FAILURES_PER_KEY) >= FAILURES_PER_KEY - 2
    for key in (fresh[0], tokens.env["CULVERT_API_KEY"], tokens.other):
        assert tokens.graphql_answer(me, key=key).status == 200

    # Random keys, each another id, at each listener: all count together.
    def random_key():
        return f"{secrets.token_hex(12)}.{secrets.token_hex(32)}"

    proxied = f"/runtimes/{tokens.env['CULVERT_RUNTIME']}/proxy/app-proxy/api/readyz"
    until_limited(lambda: tokens.graphql_answer(me, key=random_key()).status, FAILURES_PER_ADDRESS)
    answers = [tokens.graphql_answer(me, key=random_key()) for _ in range(3)]
    assert max(int(answer.headers.get("Retry-After", 0)) for answer in answers) > 1
    for attempt in (
        lambda: tokens.api("GET", proxied, key=random_key()).status,
        lambda: tokens.ingress("GET", "/app-proxy/api/readyz", key=random_key()).status,
        lambda: listener.knock(tokens, listener.request_of("other", tokens.other[:-1] + ("0" if tokens.other[-1] != "0" else "1"))).status,
    ):
        assert until_limited(attempt, FAILURES_PER_ADDRESS) < 10  # one more every two seconds
    # A key that nobody has used here waits like the others; what is in use does not, nor do runtimes.
    assert 429 in [tokens.graphql_answer(me, key=key).status for key in fresh[1:]]
    for key in (fresh[0], tokens.env["CULVERT_API_KEY"], tokens.other, tokens.env["CULVERT_RUNTIME_TOKEN"]):
        assert tokens.graphql_answer(me, key=key).status == 200
    assert tokens.ingress("GET", "/app-proxy/api/readyz").status == 200 and tokens.online()
    assert tokens.metric("culvert_authentication_limited_total", by="address") >= 4 and tokens.metric("culvert_authentication_limited_total", by="key") >= 1
    # One line a minute, whatever there was.
    lines = [line for line in tokens.log("culvertd").splitlines() if '"authentication"' in line and '"failures"' in line]
    assert 1 <= len(lines) <= 4, lines
