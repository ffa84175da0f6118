"""culvert-agent against a real kube-apiserver, with no more rights than deploy/agent-rbac.yaml gives it."""

import os
import pathlib
import signal
import tempfile

import pytest

from conftest import build_folder
from platform_under_test import Platform, wait_until
from real_cluster import APPLICATIONS, application, real_cluster  # noqa: F401

SYNCED = {"sync": {"status": "Synced", "revision": "a" * 40}, "health": {"status": "Healthy"}}


@pytest.fixture()
def platform_of_real_cluster(real_cluster):  # noqa: F811
    # An application must be there for the quickstart to show.
    status, _ = real_cluster.request("POST", APPLICATIONS, application("checkout", **SYNCED))
    assert status == 201
    with tempfile.TemporaryDirectory(prefix="culvert-e2e.", dir="/var/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        platform = Platform(pathlib.Path(folder) / "home", build_folder("asan"), real_cluster.agent_kubeconfig)
        try:
            yield platform.start()
        finally:
            platform.reset()
            for item in real_cluster.request("GET", APPLICATIONS)[1]["items"]:
                real_cluster.request("DELETE", f"{APPLICATIONS}/{item['metadata']['name']}")


def test_applications_follow_the_real_cluster(real_cluster, platform_of_real_cluster):  # noqa: F811
    platform = platform_of_real_cluster
    assert platform.applications() == {("argocd", "checkout"): ("SYNCED", "HEALTHY")}

    assert real_cluster.request("POST", APPLICATIONS, application("cart", **SYNCED))[0] == 201
    wait_until(lambda: ("argocd", "cart") in platform.applications(), 10, "a new application arrives")

    change = {"status": {"sync": {"status": "OutOfSync"}, "health": {"status": "Degraded", "message": "image pull failed"}}}
    assert real_cluster.request("PATCH", f"{APPLICATIONS}/cart", change)[0] == 200
    wait_until(lambda: platform.applications()["argocd", "cart"] == ("OUT_OF_SYNC", "DEGRADED"), 10, "a change arrives")

    # While the agent is away one application goes and one comes: the snapshot of its return tells both.
    killed = platform.kill("agent")
    assert real_cluster.request("DELETE", f"{APPLICATIONS}/cart")[0] == 200
    assert real_cluster.request("POST", APPLICATIONS, application("payment", **SYNCED))[0] == 201
    wait_until(lambda: platform.pid("agent") != killed, 30, "the agent runs again")
    expected = {("argocd", "checkout"): ("SYNCED", "HEALTHY"), ("argocd", "payment"): ("SYNCED", "HEALTHY")}
    wait_until(lambda: platform.applications() == expected, 60, "database equals cluster")

    # It only read, and asked for nothing that its role does not give but what it may find missing.
    verbs = {verb for verb, _, _ in real_cluster.agent_requests()}
    assert verbs <= {"get", "list", "watch"}
    assert not [resource for _, resource, code in real_cluster.agent_requests() if resource == "secrets" and code == 200]


def test_what_is_not_at_hand_is_shown_with_the_right_that_is_missing(real_cluster, platform_of_real_cluster):  # noqa: F811
    platform = platform_of_real_cluster
    names = {
        "Secret": {"version": "v1", "kind": "Secret", "namespace": "argocd", "name": "db", "status": "Synced"},
        "ConfigMap": {"version": "v1", "kind": "ConfigMap", "namespace": "argocd", "name": "settings", "status": "OutOfSync"},
        "Thing": {"group": "example.com", "version": "v1", "kind": "Thing", "namespace": "argocd", "name": "x", "status": "OutOfSync", "requiresPruning": True},
    }
    status, _ = real_cluster.request("POST", APPLICATIONS, application("parts", **SYNCED, resources=list(names.values())))
    assert status == 201
    query = """query($r: String!) { runtime(name: $r) { errors { message } }
        resourceTree(runtime: $r, name: "parts") { nodes { kind name status presence requiresPruning missingRight { group resource verbs namespace message } health { status source } } } }"""

    def shown():
        answer = platform.graphql(query, {"r": platform.env["CULVERT_RUNTIME"]})
        if not answer["resourceTree"]:
            return None
        return {n["kind"]: n for n in answer["resourceTree"]["nodes"]}, answer["runtime"]["errors"]

    wait_until(lambda: shown() and set(names) <= set(shown()[0]), 20, "all that the application names is in its tree")
    nodes, _ = shown()
    secret = nodes["Secret"]
    assert (secret["presence"], secret["status"], secret["health"]) == ("UNREADABLE", "SYNCED", {"status": None, "source": None})
    right = secret["missingRight"]
    assert (right["group"], right["resource"], right["verbs"], right["namespace"]) == ("", "secrets", ["get", "list", "watch"], "argocd")
    assert "secrets" in right["message"]
    for kind, presence in (("ConfigMap", "MISSING"), ("Thing", "UNKNOWN_KIND")):
        node = nodes[kind]
        assert (node["presence"], node["status"], node["missingRight"]) == (presence, "OUT_OF_SYNC", None)
        assert node["health"] == {"status": "MISSING", "source": "AGENT"}
    assert nodes["Thing"]["requiresPruning"] and not nodes["ConfigMap"]["requiresPruning"]
    wait_until(lambda: any("list and watch secrets" in e["message"] for e in shown()[1]), 20, "the runtime says what its agent may not read")

    # It comes into being: nothing is missing any more.
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "argocd"}}
    assert real_cluster.request("POST", "/api/v1/namespaces/argocd/configmaps", made)[0] == 201
    wait_until(lambda: shown()[0]["ConfigMap"]["presence"] == "PRESENT", 20, "what was missing is there")
    assert real_cluster.request("DELETE", "/api/v1/namespaces/argocd/configmaps/settings")[0] == 200
    wait_until(lambda: shown()[0]["ConfigMap"]["presence"] == "MISSING", 20, "and missing again")


def test_an_api_server_without_etcd_is_not_believed(real_cluster, platform_of_real_cluster):  # noqa: F811
    """It answers /version and keeps its watches open, as a quiet one does."""
    platform = platform_of_real_cluster
    query = """query($r: String!) { runtime(name: $r) { freshness errors { message } }
        application(runtime: $r, name: "checkout") { freshness } }"""

    def seen():
        answer = platform.graphql(query, {"r": platform.env["CULVERT_RUNTIME"]})
        return answer["runtime"]["freshness"], answer["application"]["freshness"], [each["message"] for each in answer["runtime"]["errors"]]

    wait_until(lambda: seen() == ("live", "live", []), 20, "it is live")
    etcd = int((real_cluster.folder / "etcd.pid").read_text())
    os.kill(etcd, signal.SIGSTOP)
    try:
        wait_until(lambda: "live" not in seen()[:2], 30, "freshness falls")
        wait_until(lambda: any("KUBERNETES_STORAGE_FAILING" in each for each in seen()[2]), 30, "the runtime names the storage")
    finally:
        os.kill(etcd, signal.SIGCONT)
    wait_until(lambda: seen() == ("live", "live", []), 60, "it is live again")
