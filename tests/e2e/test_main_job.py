"""The main job, as a newcomer sees it: a runtime online, its applications, a call through the tunnel."""

import base64
import json
import subprocess

import pytest

from platform_under_test import wait_until


def test_quickstart_again_changes_nothing(platform):
    before = {name: platform.pid(name) for name in ("postgres", "redis", "culvertd", "demo", "agent")}
    done = platform.quickstart()
    assert "Culvert is running" in done.stdout
    assert before == {name: platform.pid(name) for name in before}


def test_runtime_is_online(platform):
    wait_until(platform.online, what="the runtime is online")
    node = platform.graphql("{ runtimes { edges { node { metadata { name runtime account kind } healthStatus managed installationStatus } } } }")
    # Other tests make runtimes of their own.
    (edge,) = [each for each in node["runtimes"]["edges"] if each["node"]["metadata"]["name"] == platform.env["CULVERT_RUNTIME"]]
    assert edge["node"]["metadata"]["account"] == platform.env["CULVERT_ACCOUNT"]
    assert edge["node"]["healthStatus"] == "HEALTHY"
    assert edge["node"]["installationStatus"] == "COMPLETED"


def test_unknown_runtime_is_null(platform):
    answer = platform.graphql_answer('{ runtime(name: "nobody") { metadata { name } } }')
    assert answer.status == 200 and answer.json() == {"data": {"runtime": None}}


def test_applications_equal_the_cluster(platform):
    platform.cluster("POST", "/demo/pause")
    try:
        wait_until(lambda: platform.applications() == platform.cluster_applications(), what="database equals cluster")
        assert len(platform.applications()) >= 3
    finally:
        platform.cluster("POST", "/demo/resume")


def test_the_command_line_is_there(platform):
    """The lines of README.md: what the quickstart wrote is enough for culvert."""
    script = '. "$1" && culvert get applications -o name && culvert tree checkout && culvert history checkout'
    done = subprocess.run(["sh", "-c", script, "sh", platform.home / "env"], env={"PATH": "/usr/bin:/bin", "HOME": str(platform.home), "ASAN_OPTIONS": "detect_leaks=0"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"application/{platform.env['CULVERT_RUNTIME']}/argocd/checkout" in done.stdout.splitlines()


def test_a_change_arrives_within_two_seconds(platform):
    platform.cluster("POST", "/demo/pause")
    try:
        wait_until(lambda: platform.applications() == platform.cluster_applications(), what="database equals cluster")
        before = platform.applications()
        platform.cluster("POST", "/demo/step?n=5")
        wait_until(lambda: platform.cluster_applications() != before or platform.cluster("POST", "/demo/step?n=5"), 10, "the demo moves")
        wait_until(lambda: platform.applications() == platform.cluster_applications(), 10, "the change arrives")
    finally:
        platform.cluster("POST", "/demo/resume")


def test_application_with_manifest_and_history(platform):
    (namespace, name), _ = sorted(platform.applications().items())[0]
    query = """query($r: String!, $n: String!, $ns: String) { application(runtime: $r, name: $n, namespace: $ns) {
        metadata { name namespace runtime cluster kind group version uid __typename }
        syncStatus healthStatus repoURL path revision actualManifest
        status { syncStatus healthStatus revision } specSource { repoURL targetRevision path } } }"""
    found = platform.graphql(query, {"r": platform.env["CULVERT_RUNTIME"], "n": name, "ns": namespace})["application"]
    assert found["metadata"]["__typename"] == "ObjectMeta" and found["metadata"]["kind"] == "Application"
    manifest = json.loads(found["actualManifest"])
    assert manifest["metadata"]["name"] == name
    assert found["repoURL"] == manifest["spec"]["source"]["repoURL"]
    assert platform.psql("select count(*) from deployments")[0] != ["0"]


def test_clusters(platform):
    node = platform.graphql("{ clusters { edges { node { metadata { name runtime } server info { connectionState { status } serverVersion } } } } }")
    names = [edge["node"]["metadata"]["name"] for edge in node["clusters"]["edges"]]
    assert "in-cluster" in names


def test_me(platform):
    me = platform.graphql("{ me { id name email isAdmin accounts { id name } activeAccount { id name admins features { gitopsPlanEnforcement } } } }")["me"]
    assert me["isAdmin"] is True and me["activeAccount"]["id"] == platform.env["CULVERT_ACCOUNT"]
    assert me["id"] in me["activeAccount"]["admins"]
    user = platform.api("GET", "/api/user").json()
    assert user["_id"] == me["id"] and user["activeAccountName"] in [account["name"] for account in user["account"]]


def test_call_through_both_listeners(platform):
    for answer in (
        platform.ingress("GET", "/app-proxy/api/readyz"),
        platform.api("GET", f"/runtimes/{platform.env['CULVERT_RUNTIME']}/proxy/app-proxy/api/readyz"),
    ):
        assert (answer.status, answer.text().strip()) == (200, "OK")


def test_no_secret_left_the_cluster(platform):
    """The demo's Secrets hold values; none of them may be in the database, plain or in base64."""
    values = platform.cluster("GET", "/demo/sensitive")
    assert values
    dump = platform.dump()
    assert b"quickstart" in dump
    for value in values:
        plain = value.encode()
        assert plain not in dump and base64.b64encode(plain) not in dump


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz", "/readyz/postgres", "/readyz?verbose", "/version", "/metrics"])
def test_admin(platform, path):
    assert platform.admin(path).status == 200


def test_metrics_count(platform):
    text = platform.admin("/metrics").text()
    assert 'culvert_reports_total{result="applied"}' in text
    assert "# TYPE culvert_http_request_seconds histogram" in text
