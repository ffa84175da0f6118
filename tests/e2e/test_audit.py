"""The audit log: an entry for each change, who made it, and that no entry can be altered unseen."""

import json
import random
import uuid

from api_listener_client import culvertd
from platform_under_test import TOP
from test_browser_sessions import SESSIONS, by_link
from test_roles import codes, create_user, key_of
from waiting import wait_until

ENTRIES = "query($f: AuditFilter, $n: Int, $b: Int) { auditEntries(filters: $f, first: $n, before: $b) { number at action entity entityId patch outcome hash actor { kind id name method credential remote requestId } } }"


def entries(platform, first=100, before=None, key=True, **filters):
    found = platform.graphql(ENTRIES, {"f": filters, "n": first, "b": before}, key=key)["auditEntries"]
    return [{**each, "patch": json.loads(each["patch"])} for each in found]


def verify(platform, account=None):
    account = account or platform.graphql("{ me { activeAccount { name } } }")["me"]["activeAccount"]["name"]
    done = culvertd(platform, "admin", "verify-audit", "--account", account)
    value = json.loads(done.stdout)
    assert (done.returncode == 0) == (value["firstBad"] is None), done
    return value


def test_each_change_has_one_entry(platform):
    me, other = platform.graphql("{ me { id name } }")["me"], create_user(platform)
    last = entries(platform, first=1)[0]["number"]
    platform.graphql("mutation($i: String!) { updateUser(id: $i, role: READ_ONLY) { id } }", {"i": other["id"]})
    key = key_of(platform, other, "read")
    platform.graphql("mutation($i: String!) { revokeApiKey(id: $i) }", {"i": key["key"]["id"]})
    team = platform.graphql("mutation($n: String!) { createTeam(name: $n) { id } }", {"n": f"team-{uuid.uuid4()}"})["createTeam"]["id"]
    platform.graphql("mutation($t: String!, $u: String!) { addTeamMember(teamId: $t, userId: $u) { id } }", {"t": team, "u": other["id"]})
    platform.graphql("mutation($t: String!) { deleteTeam(id: $t) }", {"t": team})
    runtime = f"runtime-{uuid.uuid4().hex[:8]}"
    platform.create_runtime(runtime)
    platform.graphql("mutation($n: String!) { deleteRuntime(name: $n) }", {"n": runtime})
    new = [each for each in entries(platform) if each["number"] > last][::-1]
    assert [(each["action"], each["entity"], each["entityId"]) for each in new if each["entity"] != "runtime_tokens"] == [
        ("update", "users", other["id"]),
        ("create", "api_keys", key["key"]["id"]),
        ("update", "api_keys", key["key"]["id"]),
        ("create", "teams", team),
        ("create", "team_members", team),
        ("delete", "teams", team),
        ("delete", "team_members", team),
        ("create", "runtimes", runtime),
        ("delete", "runtimes", runtime),
    ]
    assert new[0]["patch"] == [{"op": "test", "path": "/is_read_only", "value": False}, {"op": "replace", "path": "/is_read_only", "value": True}]
    for each in new:
        actor = each["actor"]
        assert (actor["kind"], actor["id"], actor["name"], actor["method"]) == ("user", me["id"], me["name"], "api_key") and actor["remote"] and actor["requestId"] and each["outcome"] == "done"
    everything = json.dumps(entries(platform, first=1000))
    assert "secret" not in everything and key["token"].split(".")[1] not in everything
    # Reads leave none, nor does what is refused.
    before = entries(platform, first=1)[0]["number"]
    platform.graphql("{ users { id } }")
    assert codes(platform.graphql_answer('mutation { deleteTeam(id: "x") }').json()) == ["NOT_FOUND"]
    assert entries(platform, first=1)[0]["number"] == before


def test_sweeps_are_not_stopped(platform):
    """They note in the account's row how far they are, which is no change of a setting."""
    wait_until(lambda: platform.psql("select 1 from accounts where history_floor > '-infinity'"), 30, "a sweep")
    assert platform.metric("culvert_sweep_failures_total") == 0
    assert "/history_floor" not in json.dumps(entries(platform, first=1000))


def test_sign_in_and_out(platform):
    browser = by_link(platform)
    assert browser.ask("DELETE", f"{SESSIONS}/{browser.id}").status == 200
    out, opened = entries(platform, entity="browser_sessions", entityId=browser.id)
    assert (opened["action"], out["action"]) == ("create", "update")
    assert opened["actor"]["method"] == "link" and out["actor"]["method"] == "session" and out["actor"]["credential"] == browser.id
    used, made = entries(platform, entity="sign_in_links", entityId=opened["actor"]["credential"])
    assert (made["action"], used["action"], made["actor"]["kind"], used["actor"]["kind"]) == ("create", "update", "command", "user")


def test_filters_and_pages(platform):
    user = create_user(platform)
    mine = entries(platform, entity="users", entityId=user["id"])
    assert [each["action"] for each in mine] == ["create"]
    at, actor = mine[0]["at"], mine[0]["actor"]["id"]
    assert entries(platform, entityId=user["id"], action="update") == entries(platform, entityId=user["id"], actorId="x") == entries(platform, entityId=user["id"], until=at) == []
    assert entries(platform, entityId=user["id"], since=at, actorId=actor) == mine
    numbers, before = [], None
    while page := entries(platform, first=3, before=before):
        numbers += [each["number"] for each in page]
        before = numbers[-1]
    assert numbers == list(range(numbers[0], 0, -1))
    for name in ("since", "until"):
        for time in ("yesterday", "2026-11-23", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "now"):
            (error,) = platform.graphql_answer("query($f: AuditFilter) { auditEntries(filters: $f) { number } }", {"f": {name: time}}).json()["errors"]
            assert error["extensions"]["code"] == "BAD_USER_INPUT" and f"filters.{name}" in error["message"], error
    assert entries(platform, entityId=user["id"], since="2026-01-01T00:00:00." + "1" * 100 + "+16:00") == mine
    for first in (0, 1001):
        assert "first:" in platform.graphql_answer(ENTRIES, {"n": first}).json()["errors"][0]["message"]
    account = platform.graphql("{ me { activeAccount { name } } }")["me"]["activeAccount"]["name"]
    exported = culvertd(platform, "admin", "export-audit", "--account", account)
    lines = [json.loads(line) for line in exported.stdout.splitlines()]
    assert [each["number"] for each in lines] == numbers[::-1] and lines[-1]["hash"] == entries(platform, first=1)[0]["hash"]
    assert verify(platform)["head"] == lines[-1]["hash"] and verify(platform)["entries"] == len(lines)


# Each takes the numbers of two entries and gives the statements of somebody who owns the database.
TAMPERINGS = (
    lambda a, b: f"update audit_entries set action = action || 'x' where number = {a}",
    lambda a, b: f"update audit_entries set patch = patch || '[{{}}]' where number = {a}",
    lambda a, b: f"update audit_entries set at = at + interval '1 microsecond' where number = {a}",
    lambda a, b: f"update audit_entries set actor = coalesce(actor, '{{}}') || '{{\"name\": \"eve\"}}' where number = {a}",
    lambda a, b: f"update audit_entries set entity_id = entity_id || '0' where number = {a}",
    lambda a, b: f"update audit_entries set outcome = '' where number = {a}",
    lambda a, b: f"update audit_entries set hash = sha256(hash) where number = {a}",
    lambda a, b: f"update audit_entries set previous = sha256(previous) where number = {a}",
    lambda a, b: f"update audit_entries e set action = e.action || 'x' where number = {a}; update audit_entries e set hash = audit_hash(e) where number = {a}",
    lambda a, b: f"delete from audit_entries where number = {a}",
    lambda a, b: f"delete from audit_entries where number >= {a}",
    lambda a, b: f"delete from audit_entries where number <= {a}",
    lambda a, b: f"update audit_entries set number = 1000000 where number = {a}; update audit_entries set number = {a} where number = {b}; update audit_entries set number = {b} where number = 1000000",
    lambda a, b: f"insert into audit_entries select (jsonb_populate_record(e, jsonb_build_object('number', (select max(number) + 1 from audit_entries)))).* from audit_entries e where number = {a}",
)


def test_a_thousand_tamperings_are_found(platform):
    """In an account of its own, in transactions that are rolled back; the verifier's own statement looks."""
    name = f"account-{uuid.uuid4().hex[:8]}"
    assert culvertd(platform, "admin", "create-account", name).returncode == 0
    for i in range(6):
        assert culvertd(platform, "admin", "create-user", "--account", name, f"user-{i}", "x@example.org").returncode == 0
    account = platform.psql(f"select account_id from accounts where name = '{name}'")[0][0]
    platform.psql(f"update users set email = email || n from generate_series(1, 1) as n where account_id = '{account}'; update users set is_disabled = true where account_id = '{account}'")
    count = int(platform.psql(f"select count(*) from audit_entries where account_id = '{account}'")[0][0])
    assert verify(platform, name) == {**verify(platform, name), "entries": count, "firstBad": None} and count == 18
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    source = (TOP / "api/access/audit_store.sql").read_text().partition("-- name: audit_verify\n")[2].partition("-- name:")[0]
    verifier = source.replace(":account_id", f"'{account}'").rstrip().rstrip(";")
    script, wanted = [], []
    for _ in range(1000):
        a, b = chance.sample(range(1, count + 1), 2)
        change = chance.choice(TAMPERINGS)(a, b).replace(" where number", f" where account_id = '{account}' and number").replace("from audit_entries)", f"from audit_entries where account_id = '{account}')")
        wanted.append(change)
        script.append(f"begin; {change}; select ({verifier}) ->> 'firstBad'; rollback;")
    found = platform.psql("\n".join(script), timeout=300)
    assert len(found) == 1000
    missed = [change for change, (bad,) in zip(wanted, found) if not bad]
    assert not missed, (seed, len(missed), missed[:3])
    assert verify(platform, name)["firstBad"] is None
    platform.psql(f"update audit_entries set outcome = 'x' where account_id = '{account}' and number = 7")
    assert verify(platform, name)["firstBad"] == 7  # the command finds it, too
