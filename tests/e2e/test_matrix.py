"""Every root field and REST path x caller x ids of its own, of another account and of none: nothing of the other account is
shown or changed, and its ids are answered as those that nothing has. The seed is printed; CULVERT_TEST_SEED sets it."""

import http.client
import json
import os
import random
import re
import secrets
import urllib.parse
import uuid

import pytest

from api_listener_client import culvertd
from schema_text import schema_text
from test_roles import KEY, USER
from test_runtime_tokens import fields, value_of

SCHEMA = re.sub(r"#.*", "", schema_text())
TYPES = {name: dict(re.findall(r"(\w+)(?:\([^)]*\))?:\s*([\[\]!\w]+)", body)) for name, body in re.findall(r"^type (\w+)[^{]*\{\n(.*?)^\}", SCHEMA, re.M | re.S)}
INPUTS = {name: dict(re.findall(r"(\w+):\s*([\[\]!\w]+)", body)) for name, body in re.findall(r"^input (\w+) \{\n(.*?)^\}", SCHEMA, re.M | re.S)}
NEEDS_ARGUMENTS = {(name, field) for name, body in re.findall(r"^type (\w+)[^{]*\{\n(.*?)^\}", SCHEMA, re.M | re.S) for field in re.findall(r"(\w+)\([^)]*!", body)}
LEAVES = {"String", "ID", "Int", "Float", "Boolean", *re.findall(r"^(?:enum|scalar) (\w+)", SCHEMA, re.M)}
DEPTH, CELLS_MIN, SAMPLE = 4, 2000, 3
# What makes something of the caller's own account by a name that it gives.
MAKES = {"createEnrollmentToken", "createRuntime", "createUser", "createTeam", "createMyApiKey", "createAbacRule", "createImageBinary", "createImageLayers", "createImageRegistry", "saveAnnotation", "setDefaultAccess", "saveSealingKey", "createServiceUser"}
# The answers to two requests differ in these without a meaning.
VARIES = re.compile(r"[0-9a-f]{64}|[0-9a-f]{32}|[0-9a-f]{24}|[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[\d:.]+Z?|\d+")
TIMES = {"since", "until"}  # of a text that is no time, the message depends on the text
COPIED = ("applications", "resources", "deployments", "images", "clusters", "transitions", "kubernetes_events")


def base(type_):
    return type_.strip("[]!")


def selection(type_, depth=DEPTH):
    name = base(type_)
    if name in LEAVES:
        return ""
    inner = []
    for field, of in TYPES.get(name, {}).items():
        if (name, field) in NEEDS_ARGUMENTS:
            continue
        if base(of) in LEAVES:
            inner.append(field)
        elif depth and base(of) in TYPES:
            inner.append(field + selection(of, depth - 1))
    return " { " + " ".join(["__typename", *inner]) + " }"


def with_value(type_, value):
    """The least that validates, with the value in each text that has to be there."""
    if base(type_) in ("String", "ID"):
        return [value] if type_.startswith("[") else value
    if base(type_) in INPUTS and not type_.startswith("["):
        members = INPUTS[base(type_)]
        return {member: with_value(of, value) for member, of in members.items() if of.endswith("!") or member in ("runtime", "namespace", "name", "id")}
    if base(type_) in INPUTS:
        return [with_value(type_.strip("[]!"), value)]
    return value_of(type_)


def requests_of(kind, field, arguments, result, value):
    """The field with the value in its arguments, then with each of its filters by a text."""
    given = {name: of for name, of in arguments.items() if of.endswith("!") or base(of) in ("String", "ID")}
    filters = [(member, of) for member, of in INPUTS.get(base(arguments.get("filters", "")), {}).items() if base(of) in ("String", "ID") and member not in TIMES]
    if "pagination" in arguments:
        given["pagination"] = arguments["pagination"]
    for member, of in [(None, None), *filters]:
        variables = {name: {"first": 3} if name == "pagination" else with_value(type_, value) for name, type_ in given.items()}
        if member:
            variables["filters"] = {**variables.get("filters", {}), member: with_value(of, value)}
        if member is None and not any(value in json.dumps(each) for each in variables.values()):
            continue
        declared = {name: arguments[name] for name in variables}
        head, inner = ", ".join(f"${name}: {of}" for name, of in declared.items()), ", ".join(f"{name}: ${name}" for name in declared)
        yield member, {"query": f"{kind}({head}) {{ {field}({inner}){selection(result)} }}", "variables": variables}


class Client:
    """One connection that is kept."""

    def __init__(self, platform, key):
        self.platform, self.key = platform, key
        parts = urllib.parse.urlsplit(platform.env["CULVERT_URL"])
        self.connection = http.client.HTTPSConnection(parts.hostname, parts.port, context=platform.context(), timeout=30)

    def ask(self, method, path, body=None):
        headers = {"Authorization": self.key, "Content-Type": "application/json", "Accept": "application/json"}
        for again in (True, False):
            try:
                self.connection.request(method, path, body=body, headers=headers)
                answer = self.connection.getresponse()
                return answer.status, answer.read().decode()
            except (http.client.HTTPException, OSError):
                self.connection.close()
                assert again
        return None


def copy_rows(platform, account, changes):
    """A row of each table, of the platform's own account: what no agent changes."""
    own = platform.graphql("{ me { activeAccount { id } } }")["me"]["activeAccount"]["id"]
    for table in COPIED:
        columns = {row[0] for row in platform.psql(f"select attname from pg_attribute where attrelid = 'culvert.{table}'::regclass and attnum > 0 and not attisdropped")}
        changed = json.dumps({column: value for column, value in {"account_id": account, **changes}.items() if column in columns})
        platform.psql(f"insert into {table} select (jsonb_populate_record(a, '{changed}')).* from {table} a where account_id = '{own}' limit 1 on conflict do nothing")


@pytest.fixture(scope="module")
def victim(platform):
    """Another account with an admin, a team, a rule and objects, whose texts have a canary."""
    name, canary = f"victim-{uuid.uuid4().hex[:8]}", f"canary{secrets.token_hex(6)}"
    for words in (("create-account", name), ("create-user", "--account", name, canary, f"{canary}@example.org", "--admin")):
        assert culvertd(platform, "admin", *words).returncode == 0
    key = json.loads(culvertd(platform, "admin", "create-key", "--account", name, "--user", canary, canary).stdout)
    me = platform.graphql("{ me { id activeAccount { id } } }", key=key["token"])["me"]
    runtime = f"{canary}-rt"
    args = {"runtimeName": runtime, "cluster": "none", "runtimeVersion": "0.1.0", "componentNames": []}
    platform.graphql("mutation($a: RuntimeInstallationArgs!) { createRuntime(installationArgs: $a) { name } }", {"a": args}, key=key["token"])
    team = platform.graphql("mutation($n: String!) { createTeam(name: $n) { id } }", {"n": canary}, key=key["token"])["createTeam"]["id"]
    rule = {"entityType": "gitopsApplications", "teams": [team], "actions": ["VIEW"], "attributes": [{"name": "NAMESPACE", "value": canary}]}
    made = platform.graphql('mutation($r: CreateAbacRuleInput!) { createAbacRule(accountId: "", createAbacRuleInput: $r) { id } }', {"r": rule}, key=key["token"])
    enrolls = platform.graphql("mutation($n: String!) { createEnrollmentToken(name: $n) { enrollmentToken { id } } }", {"n": canary}, key=key["token"])
    account = me["activeAccount"]["id"]
    changes = {"runtime": runtime, "name": f"{canary}-app", "namespace": canary, "application_name": f"{canary}-app", "sync_revision": canary, "revision": canary, "repo_url": canary}
    copy_rows(platform, account, changes)
    ids = {
        "runtime": runtime, "application": f"{canary}-app", "namespace": canary, "team": team, "user": me["id"], "user name": canary, "key": key["token"].split(".")[0],
        "rule": made["createAbacRule"]["id"], "enrollment": enrolls["createEnrollmentToken"]["enrollmentToken"]["id"], "account": account, "account name": name,
    }  # fmt: skip
    return {"canary": canary, "account": account, "ids": ids}


def rows_of(platform, account):
    """A digest of all that the account has, but for times of use."""
    tables = [row[0] for row in platform.psql("select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'account_id' where c.relkind in ('r', 'p') and not c.relispartition and c.relnamespace = 'culvert'::regnamespace order by 1")]
    digest = "select '{0}', count(*), md5(coalesce(string_agg((to_jsonb(t) - 'last_used_at' - 'history_floor' - 'change')::text, ',' order by to_jsonb(t)::text), '')) from {0} t where account_id = '{1}'"
    return platform.psql(";".join(digest.format(table, account) for table in tables if table not in ("storage_usage", "storage_usage_changes")))


@pytest.fixture(scope="module")
def callers(platform):
    """In an account of their own, which only they change."""
    name = f"caller-{uuid.uuid4().hex[:8]}"
    for words in (("create-account", name), ("create-user", "--account", name, "boss", "boss@example.org", "--admin")):
        assert culvertd(platform, "admin", *words).returncode == 0
    boss = json.loads(culvertd(platform, "admin", "create-key", "--account", name, "--user", "boss", "k").stdout)["token"]

    def ask(query, **variables):
        return next(iter(platform.graphql(query, variables, key=boss).values()))

    def of(role, *scopes, team=None):
        user = ask(USER, n=f"user-{uuid.uuid4().hex[:8]}", r=role)
        if team:
            ask("mutation($t: String!, $u: String!) { addTeamMember(teamId: $t, userId: $u) { id } }", t=team, u=user["id"])
        return Client(platform, ask(KEY, u=user["id"], s=list(scopes))["token"])

    args = {"runtimeName": "own-rt", "cluster": "none", "runtimeVersion": "0.1.0", "componentNames": []}
    token = ask("mutation($a: RuntimeInstallationArgs!) { createRuntime(installationArgs: $a) { newAccessToken } }", a=args)["newAccessToken"]
    copy_rows(platform, ask("{ me { activeAccount { id } } }")["activeAccount"]["id"], {"runtime": "own-rt"})
    team = ask('mutation { createTeam(name: "limited") { id } }')["id"]
    rule = {"entityType": "gitopsApplications", "effect": "DENY", "teams": [team], "actions": ["VIEW"], "attributes": [{"name": "NAMESPACE", "value": "no-such"}]}
    ask('mutation($r: CreateAbacRuleInput!) { createAbacRule(accountId: "", createAbacRuleInput: $r) { id } }', r=rule)
    return {
        "member": of("MEMBER"), "limited member": of("MEMBER", team=team), "read-only": of("READ_ONLY"), "scoped admin": of("ADMIN", "read"),
        "runtime": Client(platform, token), "admin": Client(platform, boss),
    }  # fmt: skip


def missing_like(value, canary):
    """A value of the same form that nothing has."""
    other = secrets.token_hex(len(value) // 2) if re.fullmatch(r"[0-9a-f]{24}", value) else value.replace(canary, f"canary{secrets.token_hex(6)}")
    return other if other != value else f"{value[:-4]}{secrets.token_hex(2)}"


def comparable(answer, *values):
    status, text = answer
    for value in values:
        text = text.replace(value, "VALUE")
    return status, VARIES.sub("N", text)


def test_no_cell_shows_another_account(platform, victim, callers):
    seed = int(os.environ.get("CULVERT_TEST_SEED", secrets.randbelow(10**6)))
    print(f"CULVERT_TEST_SEED={seed}")
    chosen, cells, before = random.Random(seed), 0, rows_of(platform, victim["account"])
    roots = [(kind, field, *more) for kind in ("query", "mutation") for field, more in fields(kind.capitalize()).items() if field not in MAKES]
    for caller, client in callers.items():
        for kind, field, arguments, result in roots:
            ids = victim["ids"] if caller in ("admin", "member") else dict(chosen.sample(sorted(victim["ids"].items()), SAMPLE))
            for of, foreign in ids.items():
                missing = missing_like(foreign, victim["canary"])
                both = zip(requests_of(kind, field, arguments, result, foreign), requests_of(kind, field, arguments, result, missing), strict=True)
                for (member, request), (_, absent) in both if caller == "admin" else chosen.sample(list(both), 1) if arguments and requests_exist(kind, field, arguments, result) else ():
                    shown = client.ask("POST", "/2.0/api/graphql", json.dumps(request))
                    nothing = client.ask("POST", "/2.0/api/graphql", json.dumps(absent))
                    cells += 2
                    assert comparable(shown, foreign) == comparable(nothing, missing), (caller, field, member, of, request, shown, nothing)
                    assert victim["canary"] not in shown[1].replace(foreign, ""), (caller, field, shown)
                    assert shown[0] < 500, (caller, field, shown)
    cells += rest_cells(platform, victim, callers)
    assert rows_of(platform, victim["account"]) == before
    print(f"{cells} cells")
    assert cells >= CELLS_MIN


def requests_exist(kind, field, arguments, result):
    return next(requests_of(kind, field, arguments, result, "x"), None) is not None


def rest_cells(platform, victim, callers):
    """Paths with values in them, for each method."""
    cells, paths = 0, json.loads(platform.api("GET", "/openapi.json", key=False).text())["paths"]
    assert any("{" in path for path in paths)
    for caller, client in callers.items():
        for path, methods in paths.items():
            for method in (each.upper() for each in methods if "{" in path and each in ("get", "post", "put", "patch", "delete")):
                for foreign in victim["ids"].values() if caller == "admin" else list(victim["ids"].values())[:2]:
                    missing, body = missing_like(foreign, victim["canary"]), None if method in ("GET", "DELETE") else "{}"
                    shown, nothing = (client.ask(method, re.sub(r"\{\w+\}", value, path), body) for value in (foreign, missing))
                    cells += 2
                    assert comparable(shown, foreign) == comparable(nothing, missing), (caller, method, path, shown, nothing)
                    assert victim["canary"] not in shown[1].replace(foreign, "") and shown[0] < 500, (caller, method, path, shown)
    return cells


def test_own_ids_are_found(platform):
    """The same requests find what is the caller's: the comparison above compares something."""
    client, runtime = Client(platform, platform.env["CULVERT_API_KEY"]), platform.env["CULVERT_RUNTIME"]
    for field, value in (("runtime", runtime), ("runtimes", None), ("applications", runtime), ("users", None)):
        arguments, result = fields("Query")[field]
        if value is None:
            request = {"query": f"{{ {field}{selection(result)} }}"}
        else:
            request = [each for member, each in requests_of("query", field, arguments, result, value) if member in (None, "runtime")][-1]
        status, text = client.ask("POST", "/2.0/api/graphql", json.dumps(request))
        found = json.loads(text)["data"][field]
        assert status == 200 and (found.get("edges", True) if isinstance(found, dict) else found), (field, text)
