"""Rules: what teams may do with which applications, at each way there is to read or change one."""

import json
import time
import uuid

import pytest

from api_listener_client import culvertd
from platform_under_test import wait_until
from test_audit import entries
from test_roles import codes, create_user, key_of

RULE = "id accountId entityType effect teams tags actions attributes { name key value }"
CREATE = "mutation($a: String!, $r: CreateAbacRuleInput!) { createAbacRule(accountId: $a, createAbacRuleInput: $r) { %s } }" % RULE
UPDATE = "mutation($a: String!, $r: UpdateAbacRuleInput!) { updateAbacRule(accountId: $a, updateAbacRuleInput: $r) { %s } }" % RULE
REMOVE = "mutation($a: String!, $i: ID!) { removeAbacRule(accountId: $a, id: $i) { %s } }" % RULE
LIST = "query($a: String!) { abacRules(accountId: $a, entityType: gitopsApplications) { %s } }" % RULE
GET = "query($a: String!, $i: ID!) { abacRule(accountId: $a, id: $i) { %s } }" % RULE
NAMES = "query($f: ApplicationsFilterArgs) { applications(filters: $f, pagination: {first: 1000}) { edges { node { metadata { name } } } } }"
ONE = "query($r: String!, $n: String!) { application(runtime: $r, namespace: \"argocd\", name: $n) { metadata { name } } }"

PART_OF = "app.kubernetes.io/part-of"
FRESH = 12  # answers in a row: each connection goes to any of the threads
SHOP = ("LABEL", f"{PART_OF}=shop")


def names(platform, key=True, **filters):
    return sorted(edge["node"]["metadata"]["name"] for edge in platform.graphql(NAMES, {"f": filters}, key=key)["applications"]["edges"])


class Member:
    """A user whom rules may limit, in a team of its own."""

    def __init__(self, platform):
        self.platform, self.user = platform, create_user(platform)
        self.key = key_of(platform, self.user)["token"]
        made = platform.graphql("mutation($n: String!) { createTeam(name: $n) { id } }", {"n": f"team-{uuid.uuid4().hex[:8]}"})
        self.team, self.rules = made["createTeam"]["id"], []
        self.join()

    def join(self, field="addTeamMember"):
        query = f"mutation($t: String!, $u: String!) {{ {field}(teamId: $t, userId: $u) {{ id }} }}"
        self.platform.graphql(query, {"t": self.team, "u": self.user["id"]})

    def rule(self, *attributes, actions=("VIEW",), **more):
        rule = {"entityType": "gitopsApplications", "teams": [self.team], "actions": list(actions), "attributes": [attribute(each) for each in attributes], **more}
        made = self.platform.graphql(CREATE, {"a": "", "r": rule})["createAbacRule"]
        self.rules.append(made["id"])
        return made

    def drop(self, identifier):
        self.platform.graphql(REMOVE, {"a": "", "i": identifier})
        self.rules.remove(identifier)

    def sees(self, expected, **filters):
        """After a change: no request that begins 2 s later is answered as before it, by any thread."""
        expected, changed, same = sorted(expected), time.monotonic(), 0
        while same < FRESH:
            began = time.monotonic()
            same = same + 1 if names(self.platform, self.key, **filters) == expected else 0
            assert same or began - changed < 2, (expected, names(self.platform, self.key, **filters))
        return expected

    def refused(self, query, variables=None):
        return codes(self.platform.graphql_answer(query, variables or {}, key=self.key).json())

    def end(self):
        for identifier in list(self.rules):
            self.drop(identifier)
        self.platform.graphql("mutation($i: String!) { deleteTeam(id: $i) }", {"i": self.team})
        self.platform.graphql("mutation($i: String!) { updateUser(id: $i, isDisabled: true) { id } }", {"i": self.user["id"]})


def settled(condition, what):
    """Waits until it holds for each thread of the platform."""
    wait_until(lambda: all(condition() for _ in range(FRESH)), 10, what)


def attribute(pair):
    name, value = pair
    key, _, value = value.rpartition("=")
    return {"name": name, "value": value, **({"key": key} if key else {})}


@pytest.fixture()
def member(platform):
    made = Member(platform)
    yield made
    made.end()


@pytest.fixture()
def denied(platform):
    platform.graphql("mutation { setDefaultAccess(access: DENY) }")
    yield
    platform.graphql("mutation { setDefaultAccess(access: ALLOW) }")


@pytest.fixture(scope="module")
def applications(platform):
    """{name: labels}"""
    rows = platform.psql(f"select name, labels from applications where runtime = '{platform.env['CULVERT_RUNTIME']}' and not is_deleted")
    found = {name: json.loads(labels) for name, labels in rows}
    assert len(found) > 5 and len({labels.get(PART_OF) for labels in found.values()}) > 2
    return found


def of_team(applications, team):
    return {name for name, labels in applications.items() if labels.get(PART_OF) == team}


def test_lists_and_single_reads(platform, member, applications):
    runtime, everything = platform.env["CULVERT_RUNTIME"], names(platform)
    assert names(platform, member.key) == everything
    member.rule(SHOP, effect="DENY")
    left = member.sees(set(everything) - of_team(applications, "shop"))
    assert left and left != everything and names(platform) == everything, "admins are exempt"
    for name in sorted(applications)[:6]:
        found = platform.graphql(ONE, {"r": runtime, "n": name}, key=member.key)["application"]
        assert (found is None) == (name in of_team(applications, "shop")), name
    missing = platform.graphql_answer(ONE, {"r": runtime, "n": "checkout"}, key=member.key).json()
    assert missing == platform.graphql_answer(ONE, {"r": runtime, "n": "no-such"}, key=member.key).json()
    # A page has as many rows as were asked for, whatever is hidden between them.
    query = "query($p: SlicePaginationArgs) { applications(pagination: $p) { edges { node { metadata { name } } } pageInfo { endCursor hasNextPage } } }"
    pages, page, more = [], {"first": 2}, True
    while more:
        found = platform.graphql(query, {"p": page}, key=member.key)["applications"]
        pages += [edge["node"]["metadata"]["name"] for edge in found["edges"]]
        more, page = found["pageInfo"]["hasNextPage"], {"first": 2, "after": found["pageInfo"]["endCursor"]}
        assert len(found["edges"]) == 2 or not more
    assert pages == left


def test_hidden_values(platform, member, applications):
    """A label whose value stays in the cluster could have any: a deny that names its key applies."""
    assert all(labels["team"].startswith("hmac-sha256:") for labels in applications.values())
    rule = member.rule(("LABEL", "team=no-such"), effect="DENY")
    member.sees([])
    member.drop(rule["id"])
    member.rule(("LABEL", "no-such=x"), effect="DENY")
    member.sees(applications)


def test_default_deny(platform, member, applications, denied):
    member.sees([])
    assert names(platform) == sorted(applications)
    rule = member.rule(SHOP, ("RUNTIME", platform.env["CULVERT_RUNTIME"]), ("NAMESPACE", "argocd"), ("NAMESPACE", "other"))
    shop = of_team(applications, "shop")
    assert len(member.sees(shop)) > 1
    member.rule(SHOP, ("RUNTIME", platform.env["CULVERT_RUNTIME"]), effect="DENY")
    member.sees([])
    member.drop(rule["id"])
    member.rule()
    member.sees(set(applications) - shop)
    member.join("removeTeamMember")
    member.sees([])


def test_no_way_around(platform, member, applications):
    """What is not filtered by row is refused, whatever is asked together with what is allowed."""
    member.rule(("NAMESPACE", "argocd"), effect="DENY")
    member.sees([])
    tree = f'{{ resourceTree(runtime: "{platform.env["CULVERT_RUNTIME"]}", name: "checkout") {{ nodes {{ name }} }} }}'
    assert member.refused(tree) == ["FORBIDDEN"]
    for field in ("applicationSets", "gitSources", "operations"):
        assert platform.graphql(f"{{ {field} {{ edges {{ cursor }} }} }}", key=member.key)[field]["edges"] == [], field
    assert platform.graphql("{ me { name } runtimes { edges { node { metadata { name } } } } }", key=member.key)["runtimes"]["edges"]
    answer = platform.graphql_answer("{ me { name } rolloutStepStatus(runtime: \"x\") }", key=member.key).json()
    assert answer["data"] is None or answer["data"].get("rolloutStepStatus") is None and codes(answer) == ["FORBIDDEN"]


CLUSTERS = "{ clusters { edges { node { server metadata { runtime } } } } }"


def test_clusters(platform, member):
    """By their own rules, row by row."""

    def seen(key=True):
        return sorted((each["node"]["metadata"]["runtime"], each["node"]["server"]) for each in platform.graphql(CLUSTERS, key=key)["clusters"]["edges"])

    everything = seen()
    runtime, server = everything[0]
    assert seen(member.key) == everything
    member.rule(("CLUSTER", server), entityType="clusters", effect="DENY")
    settled(lambda: seen(member.key) == [each for each in everything if each[1] != server], "the cluster is hidden")
    member.rule(("RUNTIME", runtime), entityType="clusters", effect="DENY")
    settled(lambda: seen(member.key) == [each for each in everything if server not in each and runtime not in each], "the runtime's are")
    assert seen() == everything, "admins are exempt"


ROLLOUTS = "{ rollouts(pagination: {first: 1000}) { edges { node { metadata { name } source { appName } } } } }"


def test_rollouts(platform, member, applications):
    """As their applications; those of none are for users whom no rules limit."""

    def seen(key=True):
        return sorted((each["node"]["metadata"]["name"], each["node"]["source"]["appName"]) for each in platform.graphql(ROLLOUTS, key=key)["rollouts"]["edges"])

    everything, runtime = seen(), platform.env["CULVERT_RUNTIME"]
    name, application = everything[0]
    place = f"runtime = '{runtime}' and namespace = 'argocd' and name = '{application}'"
    own = f"runtime = '{runtime}' and kind = 'Rollout' and name = '{name}'"
    query = f'{{ rollout(runtime: "{runtime}", name: "{name}") {{ images }} rolloutsIndex(filters: {{name: "{name}"}}) {{ total }} }}'
    others = [each for each in everything if applications[each[1]].get(PART_OF) != applications[application][PART_OF]]
    unrelated = member.rule(("LABEL", f"{PART_OF}=no-such"), effect="DENY")["id"]
    settled(lambda: seen(member.key) == everything, "all are shown")
    # Of no application: for users whom no rules limit.
    platform.psql(f"update resources set application_name = '' where {own}")
    try:
        settled(lambda: (name, application) not in seen(member.key), "it is hidden")  # once the rule is known
        assert len(seen()) == len(everything)
    finally:
        platform.psql(f"update resources set application_name = '{application}' where {own}")
    member.drop(unrelated)
    member.rule(("LABEL", f"{PART_OF}={applications[application][PART_OF]}"), effect="DENY")
    settled(lambda: seen(member.key) == others, "those of the team's applications are hidden")
    settled(lambda: platform.graphql(query, key=member.key) == {"rollout": None, "rolloutsIndex": {"total": 0}}, "and so is each")
    assert platform.graphql(query)["rolloutsIndex"]["total"] == 1
    # Of an application that was deleted.
    platform.psql(f"update applications set is_deleted = true where {place}")
    try:
        assert seen(member.key) == others and seen() == everything
    finally:
        platform.psql(f"update applications set is_deleted = false where {place}")


RELEASES = "query($p: SlicePaginationArgs) { gitopsReleases(pagination: $p) { edges { node { historyId applicationMetadata { name } } } pageInfo { hasNextPage endCursor } } }"


def test_releases(platform, member, applications):
    """As their applications, in full pages."""

    def seen(key=True):
        found, page = [], {"first": 3}
        while page:
            slice_ = platform.graphql(RELEASES, {"p": page}, key=key)["gitopsReleases"]
            found += [each["node"]["applicationMetadata"]["name"] for each in slice_["edges"]]
            more = slice_["pageInfo"]["hasNextPage"]
            assert len(slice_["edges"]) == 3 or not more
            page = more and {"first": 3, "after": slice_["pageInfo"]["endCursor"]}
        return found

    shop = of_team(applications, "shop")
    everything = [name for name in seen() if name in applications]
    assert set(everything) & shop and set(everything) - shop
    member.rule(SHOP, effect="DENY")
    settled(lambda: not set(seen(member.key)) & shop, "those of the team's applications are hidden")
    assert set(everything) - shop <= set(seen(member.key))


IMAGES = "{ images(pagination: {first: 1000}) { edges { node { name usesCount uses { applicationName } } } } }"


def test_images(platform, member, applications):
    """The uses of an image are counted of what may be seen; without any it is not there."""

    def seen(key=True):
        nodes = [each["node"] for each in platform.graphql(IMAGES, key=key)["images"]["edges"]]
        assert all(node["usesCount"] == len(node["uses"]) > 0 for node in nodes)
        return {node["name"]: sorted(use["applicationName"] or "" for use in node["uses"]) for node in nodes}

    def allowed():
        left = {image: [name for name in uses if name in set(applications) - shop] for image, uses in seen().items()}
        return {image: uses for image, uses in left.items() if uses}

    shop = of_team(applications, "shop")
    assert allowed() and allowed() != seen()
    member.rule(SHOP, effect="DENY")
    settled(lambda: seen(member.key) == allowed(), "those of the team's applications are hidden")


def test_answers_are_not_shared(platform, applications):
    """Two users ask the same, again and again, so that answers are kept: each gets its own."""
    one, other = Member(platform), Member(platform)
    try:
        one.rule(SHOP, effect="DENY")
        other.rule(SHOP, effect="DENY", actions=["SYNC"])
        one.sees(set(applications) - of_team(applications, "shop"))
        for _ in range(5):
            assert names(platform, one.key) == sorted(set(applications) - of_team(applications, "shop"))
            assert names(platform, other.key) == names(platform) == sorted(applications)
    finally:
        one.end()
        other.end()


def test_management(platform, member):
    last = entries(platform, first=1)[0]["number"]
    account = platform.graphql("{ me { activeAccount { id } } }")["me"]["activeAccount"]["id"]
    made = member.rule(SHOP, ("RUNTIME", "prod"), actions=["VIEW", "SYNC"], tags=["a", "b"])
    assert (made["accountId"], made["effect"], made["teams"], made["tags"], made["actions"]) == (account, "ALLOW", [member.team], ["a", "b"], ["SYNC", "VIEW"])
    assert made["attributes"] == [{"name": "LABEL", "key": PART_OF, "value": "shop"}, {"name": "RUNTIME", "key": None, "value": "prod"}]
    assert made in platform.graphql(LIST, {"a": ""})["abacRules"] and platform.graphql(GET, {"a": account, "i": made["id"]})["abacRule"] == made
    change = {"id": made["id"], "accountId": "", "entityType": "gitopsApplications", "effect": "DENY", "teams": [member.team], "actions": ["VIEW"]}
    changed = platform.graphql(UPDATE, {"a": "", "r": change})["updateAbacRule"]
    assert changed == {**made, "effect": "DENY", "tags": [], "actions": ["VIEW"], "attributes": []}
    member.drop(made["id"])
    assert platform.graphql(GET, {"a": "", "i": made["id"]})["abacRule"] is None
    new = [each for each in entries(platform) if each["number"] > last][::-1]
    assert [(each["action"], each["entity"], each["entityId"]) for each in new] == [(action, "access_rules", made["id"]) for action in ("create", "update", "delete")]
    assert {"op": "replace", "path": "/effect", "value": "DENY"} in new[1]["patch"]


def test_bad_input(platform, member):
    """400 and no data: there are clients that read nothing else."""
    good = {"entityType": "gitopsApplications", "teams": [member.team], "actions": ["VIEW"]}
    many = [{"name": "NAMESPACE", "value": str(i)} for i in range(32)]
    bad = {
        "teams": [{"teams": []}, {"teams": ["0" * 24]}, {"teams": [""]}, {"teams": [f"t{i}" for i in range(101)]}],
        "actions": [{"actions": []}, {"actions": ["view"]}, {"actions": ["VIEW", "NONE"]}],
        "attributes": [
            {"attributes": [{"name": "NAMESPACE", "value": ""}]},
            {"attributes": [{"name": "NAMESPACE", "value": "a\u0001b"}]},
            {"attributes": [{"name": "NAMESPACE", "value": "a", "key": "b"}]},
            {"attributes": [{"name": "LABEL", "value": "a"}]},
            {"attributes": [{"name": "ENVIRONMENT_KIND", "value": "a"}]},
            {"attributes": [{"name": "LABEL", "key": key, "value": "a"} for key in "abc"]},
            {"attributes": many + [{**each, "name": "RUNTIME"} for each in many]},
            {"attributes": many * 3},
        ],
        "tags": [{"tags": [""]}],
    }
    before = platform.graphql(LIST, {"a": ""})["abacRules"]
    for member_name, changes in bad.items():
        for change in changes:
            answer = platform.graphql_answer(CREATE, {"a": "", "r": {**good, **change}})
            value = answer.json()
            assert answer.status == 400 and "data" not in value and value["errors"][0]["message"].startswith(member_name), (change, answer.status, value)
    for query, variables in (
        (CREATE, {"a": "f" * 24, "r": good}),
        (UPDATE, {"a": "", "r": {**good, "id": "0" * 24, "accountId": ""}}),
        (UPDATE, {"a": "", "r": {**good, "id": "x" * 1000, "accountId": ""}}),
        (REMOVE, {"a": "", "i": "0" * 24}),
        (CREATE, {"a": "", "r": {**good, "entityType": "nothing"}}),
    ):
        answer = platform.graphql_answer(query, variables)
        assert answer.status == 400 and "data" not in answer.json(), answer.text()
    assert platform.graphql(LIST, {"a": ""})["abacRules"] == before
    assert member.refused(CREATE, {"a": "", "r": good}) == ["FORBIDDEN"] and member.refused("mutation { setDefaultAccess(access: ALLOW) }") == ["FORBIDDEN"]


def test_another_account(platform, member):
    """Its rules, teams and ids are as missing ones."""
    name = f"account-{uuid.uuid4().hex[:8]}"
    for words in (("create-account", name), ("create-user", "--account", name, "boss", "boss@example.org", "--admin")):
        assert culvertd(platform, "admin", *words).returncode == 0
    key = json.loads(culvertd(platform, "admin", "create-key", "--account", name, "--user", "boss", "k").stdout)["token"]
    rule, account = member.rule(), platform.graphql("{ me { activeAccount { id } } }")["me"]["activeAccount"]["id"]
    input_of = {"entityType": "gitopsApplications", "teams": [member.team], "actions": ["VIEW"]}
    assert platform.graphql(LIST, {"a": ""}, key=key)["abacRules"] == [] and platform.graphql(GET, {"a": "", "i": rule["id"]}, key=key)["abacRule"] is None
    for query, own, missing in (
        (REMOVE, {"a": "", "i": rule["id"]}, {"a": "", "i": "0" * 24}),
        (LIST, {"a": account}, {"a": "0" * 24}),
        (UPDATE, {"a": "", "r": {**input_of, "id": rule["id"], "accountId": ""}}, {"a": "", "r": {**input_of, "id": "0" * 24, "accountId": ""}}),
    ):
        foreign, absent = (platform.graphql_answer(query, variables, key=key) for variables in (own, missing))
        assert (foreign.status, foreign.json()) == (absent.status, absent.json()) and codes(foreign.json()), query
    assert platform.graphql(GET, {"a": "", "i": rule["id"]})["abacRule"] == rule


# ---- actions, calls and questions


RUN = "mutation($o: RuntimeOperationArgs!) { runOperation(operation: $o) { id } }"
PERMIT = "allowed reason rule action name"


def operation(platform, name, action="REFRESH"):
    return {"o": {"runtime": platform.env["CULVERT_RUNTIME"], "namespace": "argocd", "name": name, "action": action}}


def test_actions(platform, member, applications):
    """What may be seen may be changed as far as rules allow it; what may not be seen is as missing."""
    team = of_team(applications, "shop")
    hidden, shown = "accounts", sorted(team)[0]
    member.rule(("LABEL", f"{PART_OF}={applications[hidden][PART_OF]}"), effect="DENY")
    rule = member.rule(SHOP, actions=["SYNC"], effect="DENY")
    member.sees(set(applications) - of_team(applications, applications[hidden][PART_OF]))
    absent, unseen = (platform.graphql_answer(RUN, operation(platform, name), key=member.key).json() for name in ("no-such", hidden))
    assert absent == unseen and codes(unseen) == ["NOT_FOUND"]
    refused = platform.graphql_answer(RUN, operation(platform, shown, "SYNC"), key=member.key).json()
    assert codes(refused) == ["FORBIDDEN"] and rule["id"] in refused["errors"][0]["message"]
    assert platform.graphql(RUN, operation(platform, shown), key=member.key)["runOperation"]["id"]
    # An action without a rule of its name is that of another.
    assert platform.graphql(RUN, operation(platform, shown, "HARD_REFRESH"), key=member.key)["runOperation"]["id"]
    rule = member.rule(SHOP, actions=["REFRESH"], effect="DENY")
    for action in ("REFRESH", "HARD_REFRESH"):
        wait_until(lambda asked=operation(platform, shown, action): codes(platform.graphql_answer(RUN, asked, key=member.key).json()) == ["FORBIDDEN"], 10, f"{action} is refused")
    # One that does either of two needs both.
    found = "select namespace, name from resources where kind = 'Rollout' and not is_deleted and application_name = any (string_to_array('%s', ','))"
    namespace, name = platform.psql(found % ",".join(team))[0]
    promote = operation(platform, name, "ROLLOUT_PROMOTE")
    promote["o"]["namespace"] = namespace
    assert platform.graphql(RUN, promote, key=member.key)["runOperation"]["id"]
    for action in ("ROLLOUT_RESUME", "ROLLOUT_SKIP_CURRENT_STEP"):
        rule = member.rule(SHOP, actions=[action], effect="DENY")["id"]
        wait_until(lambda: codes(platform.graphql_answer(RUN, promote, key=member.key).json()) == ["FORBIDDEN"], 10, f"{action} is denied")
        member.drop(rule)
        wait_until(lambda: platform.graphql_answer(RUN, promote, key=member.key).json().get("data"), 10, f"{action} is allowed")


def test_permissions_are_explained(platform, member, applications):
    runtime, name = platform.env["CULVERT_RUNTIME"], sorted(of_team(applications, "shop"))[0]
    query = "query($o: [PermissionObject!]!, $a: [AbacActionNames!]!) { permissions(objects: $o, actions: $a) { %s } }" % PERMIT
    explain = "query($u: String!, $o: [PermissionObject!]!, $a: [AbacActionNames!]!) { explainPermissions(userId: $u, objects: $o, actions: $a) { %s } }" % PERMIT
    objects = [{"runtime": runtime, "namespace": "argocd", "name": each} for each in (name, "accounts", "no-such")]
    asked = {"o": objects, "a": ["VIEW", "SYNC"]}

    def answers(key, **more):
        text, field = (explain, "explainPermissions") if more else (query, "permissions")
        return [(each["name"], each["action"], each["allowed"], each["reason"], each["rule"]) for each in platform.graphql(text, {**asked, **more}, key=key)[field]]

    deny, allow = member.rule(("NAMESPACE", "argocd"), SHOP, actions=["SYNC"], effect="DENY")["id"], member.rule(SHOP)["id"]
    hide = member.rule(("LABEL", f"{PART_OF}=finance"), effect="DENY")["id"]
    member.sees(set(applications) - of_team(applications, "finance"))
    nothing = [("no-such", action, False, "NOT_FOUND", None) for action in ("VIEW", "SYNC")]
    seen = [(name, "VIEW", True, "ALLOW_RULE", allow), (name, "SYNC", False, "DENY_RULE", deny)]
    unseen = [("accounts", "VIEW", False, "NOT_FOUND", None), ("accounts", "SYNC", False, "NOT_FOUND", None)]
    explained = [("accounts", "VIEW", False, "DENY_RULE", hide), ("accounts", "SYNC", True, "DEFAULT_ALLOW", None)]
    assert answers(member.key) == [*seen, *unseen, *nothing]
    assert answers(True, u=member.user["id"]) == [*seen, *explained, *nothing]
    assert answers(True)[:2] == [(name, "VIEW", True, "UNLIMITED", None), (name, "SYNC", True, "UNLIMITED", None)]
    assert member.refused(explain, {**asked, "u": member.user["id"]}) == ["FORBIDDEN"]
    assert codes(platform.graphql_answer(explain, {**asked, "u": "0" * 24}).json()) == ["NOT_FOUND"]
    assert codes(platform.graphql_answer(query, {"o": objects * 200, "a": ["VIEW"]}).json()) == ["BAD_USER_INPUT"]


SIMULATE = """query($c: AccessRuleChange!, $s: AccessSubject, $f: Int, $k: Int) { simulateAccessRules(change: $c, subject: $s, first: $f, skip: $k) {
  gained lost examined isComplete total subjects { teams isReadOnly userCount users gained lost } differences { runtime name users gained lost } } }"""


def simulated(platform, member, change, **more):
    subject = {"userId": member.user["id"]}
    return platform.graphql(SIMULATE, {"c": change, "s": subject, "f": 500, **more})["simulateAccessRules"]


def permitted(platform, member, applications):
    """{application: actions that the member may do}"""
    query = "query($o: [PermissionObject!]!, $a: [AbacActionNames!]!) { permissions(objects: $o, actions: $a) { %s } }" % PERMIT
    objects = [{"runtime": platform.env["CULVERT_RUNTIME"], "namespace": "argocd", "name": each} for each in sorted(applications)]
    found = {}
    for each in platform.graphql(query, {"o": objects, "a": ["VIEW", "SYNC", "REFRESH"]}, key=member.key)["permissions"]:
        found.setdefault(each["name"], set()).update({each["action"]} if each["allowed"] else set())
    return found


def test_a_change_is_simulated_as_it_then_is(platform, member, applications):
    """Whatever is changed: the difference of what a member may do before and after it is what was listed."""
    def rule(*attributes, **more):
        return {"entityType": "gitopsApplications", "teams": [member.team], "actions": ["SYNC"], "attributes": [attribute(each) for each in attributes], **more}

    def do(change):
        if "create" in change:
            member.rules.append(platform.graphql(CREATE, {"a": "", "r": change["create"]})["createAbacRule"]["id"])
        elif "update" in change:
            platform.graphql(UPDATE, {"a": "", "r": change["update"]})
        elif "remove" in change:
            member.drop(change["remove"])
        else:
            platform.graphql("mutation($d: DefaultAccess!) { setDefaultAccess(access: $d) }", {"d": change["defaultAccess"]})

    def check(change):
        before, expected, seen = permitted(platform, member, applications), {}, simulated(platform, member, change)
        for each in seen["differences"]:
            gained, lost = ({action for action in each[name] if action in ("VIEW", "SYNC", "REFRESH")} for name in ("gained", "lost"))
            if each["name"] in applications and (gained or lost):
                expected[each["name"]] = (gained, lost)
        assert permitted(platform, member, applications) == before, "nothing is stored"
        do(change)
        assert expected, change

        def differs():
            now = permitted(platform, member, applications)
            return {name: (now[name] - before[name], before[name] - now[name]) for name in now if now[name] != before[name]}

        settled(lambda: differs() == expected, f"what {change} was to do is so: {expected}")
        return seen

    seen = check({"create": rule(SHOP, effect="DENY")})
    shop = of_team(applications, "shop")
    assert {each["name"] for each in seen["differences"]} >= shop and (seen["gained"], seen["isComplete"]) == (0, True)
    assert seen["lost"] == seen["total"] == len(seen["differences"]) <= seen["examined"]
    subject = {"teams": [each["name"] for each in platform.graphql("{ teams { id name } }")["teams"] if each["id"] == member.team], "isReadOnly": False, "userCount": 1, "users": [member.user["name"]]}
    assert seen["subjects"] == [{**subject, "gained": 0, "lost": seen["lost"]}]
    check({"update": {**rule(("LABEL", f"{PART_OF}=finance"), effect="DENY", actions=["VIEW"]), "id": member.rules[0], "accountId": ""}})
    try:
        check({"defaultAccess": "DENY"})
        check({"create": rule(SHOP, actions=["VIEW", "SYNC"])})
        check({"remove": member.rules[1]})
    finally:
        platform.graphql("mutation { setDefaultAccess(access: ALLOW) }")
    settled(lambda: permitted(platform, member, applications)["checkout"] == {"VIEW", "SYNC", "REFRESH"}, "the default is as it was")
    check({"remove": member.rules[0]})


def test_simulations_are_listed_in_pages_and_refused_with_a_reason(platform, member, applications):
    rule = {"entityType": "gitopsApplications", "teams": [member.team], "actions": ["VIEW"], "effect": "DENY"}
    whole = simulated(platform, member, {"create": rule})
    pages = [simulated(platform, member, {"create": rule}, f=2, k=skip)["differences"] for skip in range(0, whole["total"], 2)]
    assert sum(pages, []) == whole["differences"] and whole["total"] >= len(applications)
    assert simulated(platform, member, {"create": rule}, f=0)["total"] == whole["total"]
    everybody = platform.graphql(SIMULATE, {"c": {"create": rule}, "s": {"teamId": member.team}})["simulateAccessRules"]
    assert everybody["total"] == whole["total"] and len(everybody["differences"]) == min(50, whole["total"])
    platform.graphql("mutation($i: String!) { updateUser(id: $i, role: READ_ONLY) { id } }", {"i": member.user["id"]})
    read_only = simulated(platform, member, {"create": rule})
    assert read_only["subjects"][0]["isReadOnly"] and read_only["differences"][0]["lost"] == ["VIEW"]
    assert simulated(platform, member, {"create": {**rule, "actions": ["SYNC"]}})["total"] == 0, "whose role forbids it loses nothing"
    platform.graphql("mutation($i: String!) { updateUser(id: $i, role: ADMIN) { id } }", {"i": member.user["id"]})
    assert simulated(platform, member, {"create": rule})["subjects"] == [], "admins are exempt"
    platform.graphql("mutation($i: String!) { updateUser(id: $i, role: MEMBER) { id } }", {"i": member.user["id"]})

    def refused(code, text, change, **more):
        answer = platform.graphql_answer(SIMULATE, {"c": change, **more}).json()
        assert codes(answer) == [code] and text in answer["errors"][0]["message"], answer

    refused("BAD_USER_INPUT", "must be one of", {})
    refused("BAD_USER_INPUT", "must be one of", {"create": rule, "defaultAccess": "DENY"})
    refused("BAD_USER_INPUT", "does not exist", {"create": {**rule, "teams": ["none"]}})
    refused("BAD_USER_INPUT", "only gitopsApplications", {"create": {**rule, "entityType": "clusters"}})
    refused("NOT_FOUND", "the rule does not exist", {"remove": "0" * 24})
    refused("NOT_FOUND", "the rule does not exist", {"update": {**rule, "id": "0" * 24, "accountId": ""}})
    refused("NOT_FOUND", "subject", {"create": rule}, s={"userId": "0" * 24})
    refused("NOT_FOUND", "subject", {"create": rule}, s={"teamId": "0" * 24})
    refused("BAD_USER_INPUT", "first", {"create": rule}, f=501)
    refused("BAD_USER_INPUT", "skip", {"create": rule}, k=-1)
    assert member.refused(SIMULATE, {"c": {"create": rule}}) == ["FORBIDDEN"]


def test_calls(platform, member):
    """Services of a cluster know nothing of rules: whom they limit needs one that allows calls."""
    runtime = platform.env["CULVERT_RUNTIME"]
    path = f"/runtimes/{runtime}/proxy/app-proxy/api/readyz"

    def refused(expected):
        began, same = time.monotonic(), 0
        while same < FRESH:
            started = time.monotonic()
            same = same + 1 if (platform.api("GET", path, key=member.key).status == 403) == expected else 0
            assert same or started - began < 2

    refused(False)
    member.rule(("NAMESPACE", "no-such"), effect="DENY")
    refused(True)
    allow = member.rule(("RUNTIME", runtime), entityType="clusters")["id"]
    refused(False)
    unknown = member.rule(("CLUSTER", "https://no-such.invalid"), entityType="clusters", effect="DENY")["id"]
    refused(True)
    member.drop(unknown)
    refused(False)
    member.drop(allow)
    refused(True)
    assert platform.api("GET", path).status != 403
