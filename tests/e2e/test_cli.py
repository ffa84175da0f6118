"""culvert, the command line, against a real platform: what people and scripts type, what they get, and how it ends."""

import json
import os
import pathlib
import subprocess
import tempfile

import pytest

from conftest import build_folder
from platform_under_test import Platform
from waiting import wait_until

DONE, FAILED, USAGE, MISSING, DENIED, TIMED_OUT, UNREACHABLE = range(7)


@pytest.fixture(scope="module")
def platform():
    with tempfile.TemporaryDirectory(prefix="culvert-e2e.", dir="/var/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        under_test = Platform(pathlib.Path(folder) / "home", build_folder("asan"))
        under_test.settings.update(CULVERT_OPERATIONS_ALLOWED="refresh,sync:argocd/c*,sync-prune:argocd/c*,logs:shop/*", CULVERT_OPERATIONS_RESEND_AFTER="1s", CULVERT_ACCESS_SIMULATED_APPLICATIONS_MAX="4")
        try:
            under_test.start()
            under_test.cluster("POST", "/demo/pause")
            yield under_test
        finally:
            under_test.reset()


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return tmp_path_factory.mktemp("cli") / "sub" / "config.json"


@pytest.fixture(scope="module")
def culvert(platform, config):
    """Runs the program with the context that `login` saved."""
    program = build_folder("asan") / "cli" / "culvert"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CULVERT_")}

    def run(*words, status=DONE, stdin=None, env=None, out=False):
        ended = subprocess.run([program, *words], env={**clean, "CULVERT_CLI_CONFIG": str(config), **(env or {})}, input=stdin, capture_output=True, text=True, timeout=60)
        assert ended.returncode == status, (words, ended.returncode, ended.stdout, ended.stderr)
        return ended.stdout if status == DONE or out else ended.stderr

    saved = run("login", platform.env["CULVERT_URL"], "--api-key-file", "-", "--ca-file", platform.env["CULVERT_CA"], "--name", "test", stdin=platform.env["CULVERT_API_KEY"] + "\n")
    assert "as admin of account quickstart" in saved
    return run


def test_the_context_is_kept_for_its_owner_alone(culvert, config):
    assert config.stat().st_mode & 0o777 == 0o600 and config.parent.stat().st_mode & 0o777 == 0o700
    assert culvert("context", "list").startswith("* test")
    shown = culvert("context", "show")
    assert "(kept in the file)" in shown and json.loads(config.read_text())["contexts"]["test"]["token"] not in shown


def test_a_wrong_key_is_not_saved(culvert, platform, config):
    before = config.read_text()
    said = culvert("login", platform.env["CULVERT_URL"], "--api-key-file", "-", "--ca-file", platform.env["CULVERT_CA"], stdin="wrong", status=DENIED)
    assert "missing, expired or revoked" in said and config.read_text() == before
    said = culvert("login", platform.env["CULVERT_URL"], "--api-key-file", "-", stdin="wrong", status=UNREACHABLE)
    assert "--ca-file" in said
    assert "only, except on loopback" in culvert("login", "http://example.com", "--api-key-file", "-", stdin="x", status=USAGE)


def test_lists_are_tables_with_filters(culvert, platform):
    lines = culvert("get", "apps").splitlines()
    assert lines[0].split() == ["NAME", "NAMESPACE", "RUNTIME", "SYNC", "HEALTH", "FRESHNESS", "AGE"]
    assert {line.split()[0] for line in lines[1:]} >= {"checkout", "catalog", "storefront"}
    known = platform.graphql("{ applications { edges { node { metadata { name } healthStatus } } } }")["applications"]["edges"]
    healthy = sorted(edge["node"]["metadata"]["name"] for edge in known if edge["node"]["healthStatus"] == "HEALTHY")
    for words in (["--health", "HEALTHY"], ["--field-selector", "health=HEALTHY"]):
        assert culvert("get", "apps", *words, "-o", "jsonpath={range .items[*]}{.metadata.name}{\"\\n\"}{end}").split() == healthy
    assert culvert("get", "apps", "-o", "name", "--chunk-size", "2") == culvert("get", "apps", "-o", "name")
    assert len(culvert("get", "apps", "--limit", "3", "--no-headers").splitlines()) == 3
    assert culvert("get", "apps", "--health", "BAD", status=FAILED).startswith("error: ")


@pytest.mark.parametrize("noun", "application applicationset runtime cluster release workflow image rollout operation user team apikey audit gitsource rule tunnel".split())
def test_every_type_is_listed_in_every_format(culvert, noun):
    for output in "table", "wide", "name", "yaml":
        culvert("get", noun, "-o", output, "--limit", "20")
    listed = json.loads(culvert("get", noun, "-o", "json", "--limit", "20"))
    assert listed["kind"] == "List" and isinstance(listed["items"], list)


def test_one_object_is_found_by_its_name(culvert, platform):
    runtime = platform.env["CULVERT_RUNTIME"]
    for words in (["app", "checkout"], [f"app/{runtime}/argocd/checkout"], ["application", "argocd/checkout"], ["apps", "checkout", "-r", runtime, "-n", "argocd"]):
        assert json.loads(culvert("get", *words, "-o", "json"))["metadata"]["name"] == "checkout"
    assert "uid:" in culvert("describe", "app", "checkout")
    assert "does not exist" in culvert("get", "app/nothing", status=MISSING)
    assert "does not exist" in culvert("get", "app", "checkout", "-n", "elsewhere", status=MISSING)
    assert "\x1b" not in culvert("tree", "checkout") and "Rollout/checkout" in culvert("tree", "checkout")
    assert len(culvert("history", "checkout", "--limit", "2").splitlines()) == 3


def test_defaults_of_a_context_narrow_lists(culvert):
    culvert("context", "set", "namespace=nowhere")
    try:
        assert culvert("get", "apps", "--no-headers") == ""
        assert culvert("get", "apps", "--no-headers", "-A") != ""
    finally:
        culvert("context", "set", "namespace=")
    assert culvert("get", "apps", "--no-headers") != ""


def test_wait_ends_by_condition_or_by_time(culvert):
    state = json.loads(culvert("get", "app", "catalog", "-o", "json"))
    assert "condition met" in culvert("wait", "catalog", "--for", f"health={state['healthStatus'].lower()},.metadata.name=catalog")
    assert "condition met" in culvert("wait", "app/nothing", "--for", "delete")
    said = culvert("wait", "catalog", "--for", "health=SUSPENDED", "--timeout", "400ms", status=TIMED_OUT)
    assert state["healthStatus"] in said
    assert "no column" in culvert("wait", "catalog", "--for", "colour=red", status=USAGE)


def test_operations_are_followed_to_their_end(culvert, platform):
    platform.cluster("POST", "/demo/resume")
    try:
        done = json.loads(culvert("refresh", "checkout", "--hard", "-o", "json"))
        assert (done["action"], done["state"]) == ("HARD_REFRESH", "DONE")
        assert "DONE" in culvert("sync", "app/catalog", "--prune", "--resource", "apps:Deployment:shop/catalog")
    finally:
        platform.cluster("POST", "/demo/pause")
    refused = culvert("sync", "storefront", status=FAILED)
    assert "NOT_ALLOWED" in refused and "sync of storefront ended as FAILED" in refused
    queued = json.loads(culvert("refresh", "checkout", "--no-wait", "-o", "json"))
    assert queued["state"] == "QUEUED"
    said = culvert("refresh", "checkout", "--timeout", "300ms", status=TIMED_OUT)
    assert "it goes on: culvert get operation/" in said
    identifier = said.split("operation/")[1].strip()
    platform.cluster("POST", "/demo/resume")
    assert "condition met" in culvert("wait", f"operation/{identifier}", "--for", "state=DONE")
    platform.cluster("POST", "/demo/pause")


def test_rights_are_asked_about_and_explained(culvert, platform):
    assert culvert("auth", "can-i", "sync", "checkout").startswith("yes (")
    user = platform.graphql('mutation { createUser(name: "jo", email: "jo@example.com", role: MEMBER) { id } }')["createUser"]["id"]
    team = platform.graphql("mutation($u: [String!]) { createTeam(name: \"denied\", userIds: $u) { id } }", {"u": [user]})["createTeam"]["id"]
    created = "mutation($r: CreateAbacRuleInput!) { createAbacRule(accountId: \"\", createAbacRuleInput: $r) { id } }"
    rule = platform.graphql(created, {"r": {"entityType": "gitopsApplications", "effect": "DENY", "teams": [team], "actions": ["SYNC"]}})["createAbacRule"]["id"]
    try:
        assert rule in culvert("get", "rules") and culvert("get", "rules", "--entity-type", "clusters", "--no-headers") == ""
        answered = culvert("auth", "can-i", "sync", "checkout", "--as", "jo", status=FAILED, out=True)
        assert answered == f"no (DENY_RULE {rule})\n"
        lines = {line.split()[0]: line.split()[1:] for line in culvert("auth", "explain", "app/checkout", "--as", user).splitlines()}
        assert lines["SYNC"] == ["false", "DENY_RULE", rule] and lines["REFRESH"][0] == "true" and "VIEW_POD_LOGS" in lines
        assert [permit["action"] for permit in json.loads(culvert("auth", "explain", "checkout", "get", "rollback", "-o", "json"))["items"]] == ["VIEW", "APP_ROLLBACK"]
    finally:
        platform.graphql("mutation($i: ID!) { removeAbacRule(accountId: \"\", id: $i) { id } }", {"i": rule})
    assert "no user" in culvert("auth", "can-i", "sync", "checkout", "--as", "nobody", status=MISSING)
    assert "does not exist" in culvert("auth", "can-i", "sync", "app/nothing", status=MISSING)
    assert "AbacActionNames" in culvert("auth", "can-i", "juggle", "checkout", status=FAILED)


def test_a_change_of_rules_is_simulated(culvert, platform, tmp_path):
    user = platform.graphql('mutation { createUser(name: "kim", email: "kim@example.com", role: MEMBER) { id } }')["createUser"]["id"]
    team = platform.graphql("mutation($u: [String!]) { createTeam(name: \"simulated\", userIds: $u) { id } }", {"u": [user]})["createTeam"]["id"]
    file = tmp_path / "rule.json"
    file.write_text(json.dumps({"entityType": "gitopsApplications", "effect": "DENY", "teams": [team], "actions": ["SYNC"]}))
    rows = json.loads(culvert("rule", "simulate", "create", str(file), "--first", "500", "-o", "json"))["items"]
    row = next(row for row in rows if row["name"] == "checkout")
    assert (row["users"], row["teams"], row["gained"], row["lost"]) == (["kim"], ["simulated"], [], ["SYNC"])
    # The platform of these tests looks at four applications.
    asked = "query($c: AccessRuleChange!) { simulateAccessRules(change: $c) { examined isComplete } }"
    assert platform.graphql(asked, {"c": {"create": json.loads(file.read_text())}})["simulateAccessRules"] == {"examined": 4, "isComplete": False}
    assert len(rows) == 4 and platform.metric("culvert_access_simulations_total", result="incomplete") >= 2
    title, *lines = culvert("rule", "simulate", "default", "DENY", "--for-user", "kim", "--first", "3").splitlines()
    assert title.split() == ["RUNTIME", "NAMESPACE", "NAME", "USERS", "GAINED", "LOST"] and len(lines) == 3 and "kim" in lines[0]
    assert len(culvert("rule", "simulate", "create", str(file), "--for-team", "simulated", "-o", "name").splitlines()) == len(rows)
    assert "does not exist" in culvert("rule", "simulate", "remove", "0" * 24, status=MISSING)
    assert "--for-team" in culvert("rule", "simulate", "create", str(file), "--for-team", "none", status=MISSING)
    file.write_text("[]")
    assert "JSON object" in culvert("rule", "simulate", "create", str(file), status=USAGE)
    assert "usage: culvert rule simulate" in culvert("rule", "simulate", "drop", "x", status=USAGE)


def test_tunnels_are_listed_with_their_state(culvert, platform):
    title, row = culvert("tunnel", "list").splitlines()[:2]
    assert title.split()[:2] == ["RUNTIME", "CONNECTED"] and row.split()[:2] == [platform.env["CULVERT_RUNTIME"], "true"]


def test_logs_come_line_by_line(culvert, platform):
    place = ["-r", platform.env["CULVERT_RUNTIME"], "-n", "shop"]
    lines = culvert("logs", "app/catalog", "--tail", "2").splitlines()
    assert lines and all(line.startswith("[catalog-") for line in lines)
    pod = lines[0].split("/")[0].strip("[")
    alone = culvert("logs", pod, *place, "--tail", "1", "--timestamps").splitlines()
    assert len(alone) >= 1 and alone[0].startswith("20")
    assert "Deployment" in culvert("logs", "deployment/nothing", *place, status=MISSING)
    assert "Pod" in culvert("logs", "x", *place, status=MISSING)


@pytest.mark.parametrize("words, text", [
    (["sync", "checkout", "--hard"], "--hard is an option of refresh"),
    (["rollback", "checkout"], "--to ID"),
    (["sync", "rollout/checkout"], "sync takes application, not rollout"),
    (["sync", "checkout", "--resource", "x"], "GROUP:KIND:[NAMESPACE/]NAME"),
    (["restart", "deployment/catalog"], "give its place"),
    (["logs", "runtime/x"], "logs takes pod"),
    (["logs", "x"], "give its place"),
    (["get", "apps", "-o", "jsonpath={.items["], "jsonpath: "),
    (["get", "apps", "-o", "xml"], "invalid output format"),
    (["get", "apps", "-l", "a=b,c=d"], "must be one KEY or KEY=VALUE"),
    (["get", "apps", "--entity", "x"], "has no filter"),
    (["get", "things"], "unknown resource type"),
    (["get", "apps", "--request-timeout", "soon"], "request-timeout"),
    (["nothing"], "unknown command"),
    (["tunnel", "open"], "usage: culvert tunnel list"),
    (["auth", "can-i", "sync"], "usage: culvert auth"),
    (["port-forward", "rt/db"], "ingress-url"),
    (["support-bundle"], "usage: culvert support-bundle"),
    (["port-forward"], "usage: culvert port-forward"),
    (["port-forward", "rt/../db"], "tcp.allow"),
    (["context", "set", "colour=red"], "ingress-url=URL"),
    (["get", "apps", "--context", "other"], "there is no context"),
])
def test_mistakes_are_named_before_anything_is_sent(culvert, words, text):
    assert text in culvert(*words, status=USAGE)


def test_a_platform_that_is_away_is_told_apart(culvert, platform):
    away = {"CULVERT_URL": "https://127.0.0.1:1", "CULVERT_API_KEY": "x"}
    assert "cannot be reached" in culvert("get", "apps", status=UNREACHABLE, env=away)
    wrong = {"CULVERT_URL": platform.env["CULVERT_ADMIN_URL"], "CULVERT_API_KEY": "x"}
    assert "no Culvert platform" in culvert("get", "apps", status=FAILED, env=wrong)


def test_enrollment_tokens(culvert, tmp_path):
    token = tmp_path / "enrollment"
    culvert("enrollment", "create", "edges", "--uses", "3", "--names", "edge-*", "--expires-in", "1h", "--token-file", str(token))
    assert token.stat().st_mode & 0o777 == 0o600 and "." in token.read_text()
    made, = [each for each in json.loads(culvert("get", "enrollments", "-o", "json"))["items"] if each["name"] == "edges"]
    assert (made["usesMax"], made["namePattern"], made["status"]) == (3, "edge-*", "VALID") and made["id"] == token.read_text().split(".")[0]
    assert made["id"] in culvert("enrollment", "revoke", made["id"])
    assert "between 1 and 10000" in culvert("enrollment", "create", "edges", "--uses", "0", status=FAILED)


def test_runtimes_and_their_tokens(culvert, platform, tmp_path):
    token = tmp_path / "token"
    culvert("runtime", "create", "second", "--token-file", str(token))
    assert token.stat().st_mode & 0o777 == 0o600 and token.read_text()
    assert "a file already" in culvert("runtime", "token", "create", "second", "--token-file", str(token), status=USAGE)
    assert culvert("runtime", "token", "rotate", "second", "--grace", "1h").strip()
    listed = json.loads(culvert("runtime", "token", "list", "second", "-o", "json"))["items"]
    assert len(listed) == 2
    assert "revoked" in culvert("runtime", "token", "revoke", "second", listed[0]["id"])
    assert "not deleted" in culvert("runtime", "delete", "second", stdin="other\n", status=USAGE)
    assert "deleted" in culvert("runtime", "delete", "second", stdin="second\n")
    assert "does not exist" in culvert("get", "rt", "second", status=MISSING)
    assert "does not exist" in culvert("runtime", "token", "list", "second", status=MISSING)


def test_a_support_bundle_has_no_secret(culvert, platform, tmp_path):
    """Of the platform's files, of settings that name them, and of messages that repeat one."""
    secrets = {file.name: file.read_text().strip() for file in platform.home.glob("*.secret")}
    secrets.update({name: platform.env[name] for name in ("CULVERT_API_KEY", "CULVERT_RUNTIME_TOKEN")})
    urls = [file.read_text().strip() for file in platform.home.glob("*.url")]
    secrets.update({f"password of {url.split('@')[-1]}": url.split("://")[1].split("@")[0].split(":")[-1] for url in urls if "@" in url})
    assert len(secrets) >= 6
    settings = tmp_path / "culvert.conf"
    inlined = [f"security.deployment_key = {secrets['deployment-key.secret']}", *(f"database.url = {url}" for url in urls)]
    settings.write_text(next(platform.home.glob("*.conf")).read_text() + "\n".join(inlined) + "\nnode.name = bundled\n")
    message = f"clone https://bot:hunter2@git.example.com/x failed; token={platform.env['CULVERT_RUNTIME_TOKEN']}"
    report = "mutation($r: ReportRuntimeErrorsArgs!) { reportRuntimeErrors(reportErrorsArgs: $r) }"
    platform.graphql(report, {"r": {"runtime": platform.env["CULVERT_RUNTIME"], "errors": [{"level": "ERROR", "message": message}]}}, key=platform.env["CULVERT_RUNTIME_TOKEN"])
    file, long = tmp_path / "bundle.json", tmp_path / "long.conf"
    long.write_text("node.name = long\n" + "#" * 1024 * 1024)
    said = culvert("support-bundle", str(file), "--settings", str(settings), "--settings", str(long), "--metrics-url", platform.env["CULVERT_ADMIN_URL"], "--metrics-url", "http://x:hunter2@127.0.0.1:1", out=True)
    text = file.read_text()
    assert said == "" and file.stat().st_mode & 0o777 == 0o600
    assert [name for name, secret in {**secrets, "of a message": "hunter2"}.items() if secret in text] == []
    bundle = json.loads(text)
    assert bundle["settings"][str(settings)]["node.name"] == "bundled" and bundle["settings"][str(settings)]["database.url"] == "(removed)"
    runtime, = [each for each in bundle["runtimes"] if each["metadata"]["name"] == platform.env["CULVERT_RUNTIME"]]
    assert "clone https://(removed)@git.example.com/x failed; token=(removed)" in json.dumps(runtime)
    assert "culvert_tunnels" in bundle["admin"][0]["/metrics"] and bundle["admin"][1] == {"address": "http://(removed)@127.0.0.1:1"}
    assert {problem["part"] for problem in bundle["problems"]} == {str(long), "http://(removed)@127.0.0.1:1/readyz", "http://(removed)@127.0.0.1:1/metrics"}
    assert "cannot be created" in culvert("support-bundle", str(file), status=USAGE)


def test_watch_prints_what_changes(platform, config):
    program = build_folder("asan") / "cli" / "culvert"
    with subprocess.Popen([program, "get", "operations", "-w", "--interval", "200ms", "--no-headers", "--object", "catalog"],
                          env={**os.environ, "CULVERT_CLI_CONFIG": str(config)}, stdout=subprocess.PIPE, text=True) as watching:
        try:
            os.set_blocking(watching.stdout.fileno(), False)
            seen = []

            def reads(text):
                seen.extend(watching.stdout.readlines())
                return any(text in line for line in seen)

            query = "mutation($o: RuntimeOperationArgs!) { runOperation(operation: $o) { id } }"
            started = platform.graphql(query, {"o": {"runtime": platform.env["CULVERT_RUNTIME"], "namespace": "argocd", "name": "catalog", "action": "REFRESH"}})["runOperation"]["id"]
            wait_until(lambda: reads(started), 20, "the operation is printed")
            assert watching.poll() is None
        finally:
            watching.terminate()


def test_completion_knows_commands_types_and_names(culvert):
    assert "get" in culvert("__complete", "g").split()
    assert "applications" in culvert("__complete", "get", "app").split()
    assert culvert("__complete", "sync", "chec").split() == ["checkout"]
    assert culvert("__complete", "get", "app/chec").split() == ["app/checkout"]
    assert "--health" in culvert("__complete", "get", "apps", "--he").split()
    for shell in "bash", "zsh", "fish":
        assert "__complete" in culvert("completion", shell)
    assert "Commands:" in culvert("help") and "--prune" in culvert("help", "sync")
