"""Argo CD is upgraded from its last release of version 2 to version 3, under Culvert's eyes: what GraphQL says is the
cluster's before and after, no row goes and comes back in between, and health comes from elsewhere afterwards.

It needs a second Argo CD: tests/cluster/build argo-cd-2.
"""

import os
import pathlib
import subprocess
import tempfile

import pytest
from test_real import BUILD, agree, reach

from argo_cluster import ArgoCluster
from compare import allowed
from conftest import build_folder
from estate import APPLICATIONS, SETTLED, Estate, unlike
from platform_under_test import Platform
from waiting import wait_until

pytestmark = pytest.mark.long

TREE = """query($r: String!, $n: String!) { resourceTree(runtime: $r, name: $n, namespace: "argocd") { nodes {
  kind name uid health { status source } } } }"""
RELEASES = """query($f: GitopsReleaseFilterArgs) { gitopsReleases(filters: $f, pagination: {first: 100}) { edges { node {
  argoHistoryId historyId applicationMetadata { name } } } } }"""
# Version 2 counts what is missing beside what is there.
BEFORE = {**SETTLED, "missing": ("OutOfSync", "Missing")}
# Nobody deletes these.
STAYS = ("Deployment", "StatefulSet", "DaemonSet", "Service", "ConfigMap", "Rollout", "Ingress")


@pytest.fixture(scope="module")
def cluster():
    if os.environ.get("CULVERT_TEST_CLUSTER") == "0":
        pytest.skip("tests beside a real cluster are switched off by CULVERT_TEST_CLUSTER=0")
    if subprocess.run([BUILD, "--is-built", "kubernetes", "argo-cd", "argo-rollouts", "argo-cd-2"]).returncode != 0:
        pytest.skip("no Argo CD 2 in the cache: run tests/cluster/build argo-cd-2 (long)")
    with tempfile.TemporaryDirectory(prefix="culvert-real.", dir="/var/tmp") as folder:
        started = ArgoCluster(pathlib.Path(folder) / "cluster", "argo-cd-2")
        started.start()
        try:
            started.estate = Estate(started)
            started.estate.create()
            reach(started.estate.created, 240, "Argo CD syncs every application")
            started.estate.alter()
            reach(lambda: unlike(started.estate.states(), BEFORE), 240, "every application is in its state")
            yield started
        finally:
            started.stop()


@pytest.fixture(scope="module")
def platform(cluster):
    with tempfile.TemporaryDirectory(prefix="culvert-e2e.", dir="/var/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        under_test = Platform(pathlib.Path(folder) / "home", build_folder("asan"), cluster.api.agent_kubeconfig)
        try:
            yield under_test.start()
        finally:
            under_test.reset()


def nodes(cluster, platform):
    """{(application, kind, name): node} of all trees."""
    found = {}
    for name in cluster.estate.states():
        answer = platform.graphql(TREE, {"r": platform.env["CULVERT_RUNTIME"], "n": name})["resourceTree"]
        found.update({(name, node["kind"], node["name"]): node for node in answer["nodes"]})
    return found


def lasting(found):
    return {key: node["uid"] for key, node in found.items() if key[1] in STAYS and node["uid"]}


def releases(platform):
    edges = platform.graphql(RELEASES, {"f": {"runtime": platform.env["CULVERT_RUNTIME"]}})["gitopsReleases"]["edges"]
    return {(edge["node"]["applicationMetadata"]["name"], edge["node"]["argoHistoryId"], edge["node"]["historyId"]) for edge in edges}


def kept_health(cluster):
    """How many resources have a health in the status of their Application."""
    items = cluster.api.request("GET", APPLICATIONS)[1]["items"]
    return sum("health" in each for item in items for each in item.get("status", {}).get("resources", []))


def test_an_upgrade_of_argo_cd_2_to_3(cluster, platform):
    agree(cluster, platform, 90, patterns=allowed() + allowed("differences-2.txt"))
    assert kept_health(cluster) > 0
    before, history = nodes(cluster, platform), releases(platform)
    assert before["web", "Deployment", "web"]["health"] == {"status": "HEALTHY", "source": "ARGOCD_STATUS"}
    held = lasting(before)
    assert len(held) > 20 and len(history) > 10
    looks = []

    def is_upgraded():
        now = lasting(nodes(cluster, platform))
        looks.append({key: (uid, now.get(key)) for key, uid in held.items() if now.get(key) != uid})
        assert not looks[-1], "rows were lost, or are others"
        return not kept_health(cluster) and not cluster.estate.settled()

    # As the upgrade notes of Argo CD 3 advise: else what version 2 has made, and Git has no more, is nobody's.
    tracking = {"data": {"application.resourceTrackingMethod": "label"}}
    assert cluster.api.request("PATCH", "/api/v1/namespaces/argocd/configmaps/argocd-cm", tracking)[0] == 200
    cluster.upgrade()
    cluster.estate.refresh()
    wait_until(lambda: is_upgraded() or cluster.estate.refresh(), 180, "Argo CD 3 has compared every application")
    assert not any(looks), looks
    agree(cluster, platform, 90)
    after = nodes(cluster, platform)
    assert after["web", "Deployment", "web"]["health"] == {"status": "HEALTHY", "source": "AGENT"}
    assert lasting(after).items() >= held.items()
    assert releases(platform) >= history
