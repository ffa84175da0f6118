"""Operations: what users ask of a cluster reaches it once, whatever is killed meanwhile, and nothing that its owner does not permit."""

import json
import os
import pathlib
import signal
import tempfile

import pytest

from conftest import build_folder
from platform_under_test import Platform
from waiting import wait_until

FIELDS = "id state code message attempts action requestedBy { id name } createdAt acceptedAt startedAt finishedAt expiresAt"
REFRESH = "argocd.argoproj.io/refresh"
APPLICATIONS = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications"
OPEN = ("WAITING", "QUEUED", "DELIVERED", "ACCEPTED", "RUNNING")


@pytest.fixture(scope="module")
def platform():
    with tempfile.TemporaryDirectory(prefix="culvert-e2e.", dir="/var/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        under_test = Platform(pathlib.Path(folder) / "home", build_folder("asan"))
        under_test.settings.update(CULVERT_OPERATIONS_ALLOWED="refresh:argocd/c*,sync:argocd/c*,terminate,rollback,restart,rollout", CULVERT_OPERATIONS_RESEND_AFTER="1s")
        try:
            yield under_test.start()
        finally:
            under_test.reset()


@pytest.fixture()
def paused(platform):
    """The cluster's controllers stand still until the test lets them take steps."""
    platform.cluster("POST", "/demo/pause")
    yield lambda count=1: platform.cluster("POST", f"/demo/step?n={count}")
    platform.cluster("POST", "/demo/resume")


def answer_of(platform, **operation):
    operation = {"runtime": platform.env["CULVERT_RUNTIME"], "namespace": "argocd", "name": "checkout", "action": "REFRESH", **operation}
    query = "mutation($o: RuntimeOperationArgs!) { runOperation(operation: $o) { %s } }" % FIELDS
    return platform.graphql_answer(query, {"o": operation}).json()


def run(platform, **operation):
    answer = answer_of(platform, **operation)
    assert "errors" not in answer, answer
    return answer["data"]["runOperation"]


def operation(platform, identifier):
    return platform.graphql("query($i: ID!) { operation(id: $i) { %s } }" % FIELDS, {"i": identifier})["operation"]


def reaches(platform, identifier, *states, seconds=30):
    def reached():
        now = operation(platform, identifier)
        assert now["state"] in (*OPEN, *states), now
        return now if now["state"] in states else None

    return wait_until(reached, seconds, f"the operation is {' or '.join(states)}")


def audited(platform, identifier):
    """[(action, outcome, who, what changed)], the oldest first."""
    query = "query($f: AuditFilter) { auditEntries(filters: $f) { action outcome patch actor { name } } }"
    found = platform.graphql(query, {"f": {"entity": "operations", "entityId": identifier}})["auditEntries"][::-1]
    return [(each["action"], each["outcome"], (each["actor"] or {}).get("name"), {one["path"]: one["value"] for one in json.loads(each["patch"]) if one["op"] != "test"}) for each in found]


def annotation(platform, name="checkout"):
    return platform.cluster("GET", f"{APPLICATIONS}/{name}")["metadata"].get("annotations", {}).get(REFRESH)


def test_a_refresh_goes_through_to_the_controller_and_back(platform, paused):
    done = run(platform, action="HARD_REFRESH")
    assert done["state"] == "QUEUED" and done["requestedBy"]["name"]
    running = reaches(platform, done["id"], "RUNNING")
    assert running["acceptedAt"] and running["startedAt"] and not running["finishedAt"]
    assert annotation(platform) == "hard"
    paused()
    ended = reaches(platform, done["id"], "DONE")
    assert ended["finishedAt"] and ended["code"] is None
    assert annotation(platform) is None
    listed = platform.graphql("query($f: RuntimeOperationFilterArgs) { operations(filters: $f) { edges { node { id state } } } }", {"f": {"states": ["DONE"], "name": "checkout"}})
    asked, end = audited(platform, done["id"])
    assert asked[:3] == ("create", "done", done["requestedBy"]["name"]) and end == ("update", "done", None, {"/state": "DONE"})
    assert (asked[3]["/action"], asked[3]["/namespace"], asked[3]["/name"]) == ("HARD_REFRESH", "argocd", "checkout") and "/request_sha256" not in asked[3]
    assert {"id": done["id"], "state": "DONE"} in [edge["node"] for edge in listed["operations"]["edges"]]
    assert platform.metric("culvert_operations_sent_total") >= 1 and platform.metric("culvert_operations_reported_total", state="DONE") >= 1


def test_what_the_cluster_owner_does_not_permit_is_refused(platform, paused):
    refused = reaches(platform, run(platform, name="storefront")["id"], "FAILED")
    assert refused["code"] == "NOT_ALLOWED"
    assert "operations.allowed" in refused["message"] and "refresh" in refused["message"]
    assert annotation(platform, "storefront") is None
    end = audited(platform, refused["id"])[-1]
    assert end[1] == "failed" and end[3] == {"/state": "FAILED", "/code": "NOT_ALLOWED", "/message": refused["message"]}


def test_bad_requests_are_refused_with_what_is_accepted(platform):
    def message(**operation):
        return answer_of(platform, **operation)["errors"][0]

    assert "no such application" in message(name="nowhere")["message"]
    assert "runtime does not exist" in message(runtime="elsewhere")["message"]
    for name in ("../secrets", "a/b", "Upper", "", "x" * 300):
        assert "operation.name: invalid name" in message(name=name)["message"], name
    assert "between 1 and 604800" in message(expiresInSeconds=0)["message"]
    assert "for Application" in message(group="", kind="secret")["message"]


def test_one_key_is_one_operation(platform):
    first = run(platform, idempotencyKey="one")
    assert run(platform, idempotencyKey="one")["id"] == first["id"]
    assert [each[0] for each in audited(platform, first["id"])].count("create") == 1
    other = answer_of(platform, idempotencyKey="one", action="HARD_REFRESH")["errors"][0]
    assert other["extensions"]["code"] == "CONFLICT" and "idempotencyKey" in other["message"]
    reaches(platform, first["id"], "DONE")


def test_an_operation_is_for_the_object_that_was_meant(platform, paused):
    old = platform.cluster("GET", f"{APPLICATIONS}/checkout")["metadata"]
    paused(3)
    change = {"metadata": {"labels": {"touched": "yes"}}}
    platform.cluster("PATCH", f"{APPLICATIONS}/checkout", change, content_type="application/merge-patch+json")
    stale = reaches(platform, run(platform, resourceVersion=old["resourceVersion"])["id"], "FAILED")
    assert stale["code"] == "CONFLICT" and annotation(platform) is None
    other = reaches(platform, run(platform, uid="00000000-0000-0000-0000-000000000000")["id"], "FAILED")
    assert other["code"] == "CONFLICT" and annotation(platform) is None


def test_an_agent_that_is_killed_between_delivery_and_change(platform, paused):
    os.kill(platform.pid("agent"), signal.SIGSTOP)
    asked = run(platform)
    reaches(platform, asked["id"], "DELIVERED")
    killed = platform.kill("agent")
    wait_until(lambda: platform.pid("agent") != killed, 30, "the agent runs again")
    reaches(platform, asked["id"], "RUNNING", seconds=60)
    paused()
    assert reaches(platform, asked["id"], "DONE")["attempts"] > 1


def test_an_operation_expires_that_no_agent_fetches(platform):
    platform.create_runtime("away")
    platform.psql("""insert into applications select (jsonb_populate_record(a, '{"runtime": "away"}')).* from applications a where name = 'checkout' and runtime <> 'away'""")
    ended = reaches(platform, run(platform, runtime="away", expiresInSeconds=1)["id"], "EXPIRED")
    assert (ended["code"], ended["attempts"], ended["acceptedAt"]) == ("EXPIRED", 0, None) and ended["finishedAt"]
    assert [each[1] for each in audited(platform, ended["id"])] == ["done", "expired"]


def test_the_platform_may_be_killed_while_it_runs(platform, paused):
    asked = run(platform)
    reaches(platform, asked["id"], "RUNNING")
    killed = platform.kill("culvertd")
    wait_until(lambda: platform.pid("culvertd") != killed, 30, "culvertd runs again")
    paused()
    reaches(platform, asked["id"], "DONE", seconds=60)


def test_a_refusal_and_an_outage_of_the_kubernetes_api(platform):
    platform.cluster("POST", "/demo/forbid?resource=applications")
    try:
        refused = reaches(platform, run(platform)["id"], "FAILED")
    finally:
        platform.cluster("POST", "/demo/allow")
    assert refused["code"] == "FORBIDDEN" and "--print-rbac" in refused["message"]
    platform.cluster("POST", "/demo/hang?seconds=2")
    reaches(platform, run(platform)["id"], "DONE", seconds=60)


def application(platform, name="checkout"):
    return platform.cluster("GET", f"{APPLICATIONS}/{name}")


def syncs(platform):
    return len(application(platform)["status"]["history"])


def test_a_sync_runs_once_though_the_agent_is_killed_in_it(platform, paused):
    wait_until(lambda: paused(5) and "operation" not in application(platform), 30, "nothing runs")
    before = syncs(platform)
    asked = run(platform, action="SYNC")
    reaches(platform, asked["id"], "RUNNING")
    applied = application(platform)["operation"]
    assert applied["initiatedBy"]["username"] == asked["requestedBy"]["name"] and applied["info"][0]["value"] == asked["id"]
    busy = reaches(platform, run(platform, action="SYNC")["id"], "FAILED")
    assert busy["code"] == "IN_PROGRESS"
    killed = platform.kill("agent")
    wait_until(lambda: platform.pid("agent") != killed, 30, "the agent runs again")
    paused(4)
    assert reaches(platform, asked["id"], "DONE", seconds=60)["attempts"] > 1
    assert syncs(platform) == before + 1
    query = 'query($r: String!) { application(runtime: $r, name: "checkout") { operationState { phase finishedAt } } }'
    finished = application(platform)["status"]["operationState"]["finishedAt"]

    def seen():
        state = platform.graphql(query, {"r": platform.env["CULVERT_RUNTIME"]})["application"]["operationState"]
        return state["phase"].upper() == "SUCCEEDED" and state["finishedAt"][:19] == finished[:19]

    wait_until(seen, 30, "its end is in what the agent reports")


def test_a_selective_sync_a_dry_run_and_their_dangers(platform, paused):
    wait_until(lambda: paused(5) and "operation" not in application(platform), 30, "nothing runs")
    before = syncs(platform)
    for sync in ({"dryRun": True}, {"resources": [{"kind": "ConfigMap", "name": "checkout-settings"}]}):
        asked = run(platform, action="SYNC", sync=sync)
        reaches(platform, asked["id"], "RUNNING")
        paused(4)
        reaches(platform, asked["id"], "DONE")
        state = application(platform)["status"]["operationState"]
        assert len(state["syncResult"]["resources"]) == (0 if "dryRun" in sync else 1), state
    assert syncs(platform) == before
    for danger in ("prune", "force", "replace"):
        refused = reaches(platform, run(platform, action="SYNC", sync={danger: True})["id"], "FAILED")
        assert refused["code"] == "NOT_ALLOWED" and f'"sync-{danger}"' in refused["message"]
    assert "only the action SYNC" in answer_of(platform, sync={"prune": True})["errors"][0]["message"]


def test_a_sync_is_terminated(platform, paused):
    wait_until(lambda: paused(5) and "operation" not in application(platform), 30, "nothing runs")
    asked = run(platform, action="SYNC")
    reaches(platform, asked["id"], "RUNNING")
    paused()
    assert application(platform)["status"]["operationState"]["phase"] == "Running"
    ending = run(platform, action="TERMINATE_SYNC")
    reaches(platform, ending["id"], "RUNNING")
    paused()
    assert reaches(platform, asked["id"], "FAILED")["code"] == "SYNC_FAILED"
    reaches(platform, ending["id"], "DONE")
    idle = reaches(platform, run(platform, action="TERMINATE_SYNC")["id"], "FAILED")
    assert idle["code"] == "NOT_RUNNING"


def test_workloads_are_restarted_and_rollouts_led(platform, paused):
    rollouts = platform.cluster("GET", "/apis/argoproj.io/v1alpha1/rollouts")["items"]
    metadata = rollouts[0]["metadata"]
    path = f"/apis/argoproj.io/v1alpha1/namespaces/{metadata['namespace']}/rollouts/{metadata['name']}"
    place = {"namespace": metadata["namespace"], "name": metadata["name"]}
    for action, paused_now in (("ROLLOUT_PAUSE", True), ("ROLLOUT_RESUME", False)):
        reaches(platform, run(platform, action=action, **place)["id"], "DONE")
        assert bool(platform.cluster("GET", path)["spec"].get("paused")) == paused_now
    reaches(platform, run(platform, action="ROLLOUT_ABORT", **place)["id"], "DONE")
    assert platform.cluster("GET", path)["status"]["abort"]
    reaches(platform, run(platform, action="ROLLOUT_RETRY", **place)["id"], "DONE")
    assert not platform.cluster("GET", path)["status"].get("abort")
    metadata = platform.cluster("GET", "/apis/apps/v1/deployments")["items"][0]["metadata"]
    asked = run(platform, action="RESTART", group="apps", kind="Deployment", namespace=metadata["namespace"], name=metadata["name"])
    reaches(platform, asked["id"], "DONE")
    template = platform.cluster("GET", f"/apis/apps/v1/namespaces/{metadata['namespace']}/deployments/{metadata['name']}")["spec"]["template"]
    assert template["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"][:19] == asked["createdAt"][:19]
