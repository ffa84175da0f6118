"""Culvert beside a real cluster: Kubernetes' API server and controllers, Argo CD 3, Argo Rollouts (tests/cluster).

What GraphQL says is compared with what the cluster and Argo CD say, field by field (compare.py), over applications in
every state that people look at (estate.py); and again after each outage. The first test is part of every run where the
programs are in the cache, the outages are part of tests/run --all.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e"), str(HERE.parent / "cluster")]

from argo_cluster import ArgoCluster  # noqa: E402
from compare import Comparison, is_gap, unexpected  # noqa: E402
from conftest import build_folder  # noqa: E402
from estate import APPLICATIONS, Estate  # noqa: E402
from platform_under_test import Platform  # noqa: E402
from waiting import wait_until  # noqa: E402

BUILD = HERE.parent / "cluster/build"
ACCOUNT = "/api/v1/namespaces/argocd/serviceaccounts/culvert-agent"
BINDING = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/culvert-agent"
NOTICE_SECONDS_MAX = 15  # within which freshness must have fallen; docs/freshness.md


def reach(unlike, seconds, what):
    """Waits until unlike() names no application any more."""

    def reached():
        left = unlike()
        assert not left, left
        return True

    wait_until(reached, seconds, what)


@pytest.fixture(scope="module")
def cluster():
    """A cluster whose applications are in their states."""
    wish = os.environ.get("CULVERT_TEST_CLUSTER", "")
    if wish == "0":
        pytest.skip("tests beside a real cluster are switched off by CULVERT_TEST_CLUSTER=0")
    if subprocess.run([BUILD, "--is-built"]).returncode != 0:
        if wish != "1":
            pytest.skip("no Argo CD in the cache: run tests/cluster/build (long), or set CULVERT_TEST_CLUSTER=1")
        subprocess.run([BUILD], check=True)
    with tempfile.TemporaryDirectory(prefix="culvert-real.", dir="/var/tmp") as folder:
        started = ArgoCluster(pathlib.Path(folder) / "cluster")
        started.start()
        try:
            started.estate = Estate(started)
            started.estate.create()
            reach(started.estate.created, 180, "Argo CD syncs every application")
            started.estate.alter()
            reach(started.estate.settled, 180, "every application is in its state")
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


def agree(cluster, platform, seconds=60, gaps=False):
    """GraphQL says what the cluster says, but for differences.txt; with gaps also of what cannot be read."""
    comparison = Comparison(cluster, platform)
    last = []

    def same():
        last[:] = [line for line in unexpected(comparison.differences()) if gaps or not is_gap(line)]
        return not last

    try:
        wait_until(same, seconds)
    except AssertionError as error:
        report = os.environ.get("CULVERT_REAL_REPORT")
        if report:
            pathlib.Path(report).write_text("\n".join(last) + "\n")
        raise AssertionError(f"{len(last)} differences after {seconds} s:\n" + "\n".join(last or [str(error)])) from None


def runtime(platform):
    query = """query($n: String!) { runtime(name: $n) { online freshness lagSeconds healthStatus healthMessage
      errors { level title message suggestion } } }"""
    return platform.graphql(query, {"n": platform.env["CULVERT_RUNTIME"]})["runtime"]


def is_not_live(platform):
    query = 'query($r: String!) { application(runtime: $r, name: "web", namespace: "argocd") { freshness } }'
    application = platform.graphql(query, {"r": platform.env["CULVERT_RUNTIME"]})["application"]
    return runtime(platform)["freshness"] != "live" and application["freshness"] != "live"


def test_graphql_says_what_argo_cd_says(cluster, platform):
    agree(cluster, platform, 90)


def test_every_node_of_argo_cd_s_tree_is_in_ours(cluster, platform):
    agree(cluster, platform, 5, gaps=True)


@pytest.mark.long
def test_a_killed_api_server(cluster, platform):
    agree(cluster, platform)
    cluster.kill("kube-apiserver")
    try:
        wait_until(lambda: is_not_live(platform), NOTICE_SECONDS_MAX, "freshness falls")
        wait_until(lambda: runtime(platform)["errors"], 30, "the runtime says why")
    finally:
        cluster.restart("kube-apiserver")
    cluster.wait("kube-apiserver", lambda: cluster.api.request("GET", "/readyz")[0] == 200, 60)
    change_web(cluster, "after-kill")
    agree(cluster, platform, 120)


@pytest.mark.long
def test_a_stopped_api_server(cluster, platform):
    agree(cluster, platform)
    cluster.pause("kube-apiserver")
    try:
        wait_until(lambda: is_not_live(platform), NOTICE_SECONDS_MAX, "freshness falls")
        wait_until(lambda: runtime(platform)["errors"], 30, "the runtime says why")
    finally:
        cluster.resume("kube-apiserver")
    change_web(cluster, "after-stop")
    agree(cluster, platform, 120)


@pytest.mark.long
def test_a_killed_etcd(cluster, platform):
    agree(cluster, platform)
    cluster.kill("etcd")
    try:
        wait_until(lambda: is_not_live(platform), NOTICE_SECONDS_MAX * 2, "freshness falls")
    finally:
        cluster.restart("etcd")
    cluster.wait("kube-apiserver", lambda: cluster.api.request("GET", "/readyz")[0] == 200, 60)
    change_web(cluster, "after-etcd")
    agree(cluster, platform, 120)


@pytest.mark.long
def test_rights_taken_away_and_given_back(cluster, platform):
    agree(cluster, platform)
    code, binding = cluster.api.request("GET", BINDING)
    assert code == 200
    assert cluster.api.request("DELETE", BINDING)[0] == 200
    try:
        # A watch that is open goes on: the API server asks for rights once.
        restart_watches(cluster)
        wait_until(lambda: is_not_live(platform), NOTICE_SECONDS_MAX * 2, "freshness falls")
        wait_until(lambda: runtime(platform)["errors"], 30, "the runtime says why")
    finally:
        for field in ("resourceVersion", "uid", "creationTimestamp", "managedFields"):
            binding["metadata"].pop(field, None)
        assert cluster.api.request("POST", BINDING.rpartition("/")[0], binding)[0] == 201
    change_web(cluster, "after-rights")
    agree(cluster, platform, 120)


@pytest.mark.long
def test_a_revoked_token(cluster, platform):
    agree(cluster, platform)
    code, account = cluster.api.request("GET", ACCOUNT)
    assert code == 200
    assert cluster.api.request("DELETE", ACCOUNT)[0] == 200
    assert cluster.api.request("POST", ACCOUNT.rpartition("/")[0], {"metadata": {"name": "culvert-agent"}})[0] == 201
    restart_watches(cluster)
    wait_until(lambda: is_not_live(platform), NOTICE_SECONDS_MAX * 2, "freshness falls")
    told = wait_until(lambda: runtime(platform)["errors"], 30, "the runtime says why")
    assert any("401" in error["message"] for error in told), told
    # A new token in the same file.
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 86400}}
    code, answer = cluster.api.request("POST", f"{ACCOUNT}/token", body)
    assert code == 201, answer
    text = cluster.api.agent_kubeconfig.read_text()
    cluster.api.agent_kubeconfig.write_text(text.replace(cluster.api.agent_token(), answer["status"]["token"]))
    platform.kill("agent")  # a kubeconfig is read at the start
    change_web(cluster, "after-token")
    agree(cluster, platform, 120)


@pytest.mark.long
def test_argo_cd_that_keeps_health_in_applications(cluster, platform):
    """As Argo CD 2 does, and 3 when it is asked to; then it is upgraded, as it were."""
    controller, web = "argocd-application-controller", f"{APPLICATIONS}/web"

    def health_of_resources():
        resources = cluster.api.request("GET", web)[1]["status"]["resources"]
        return [each["health"] for each in resources if "health" in each]

    agree(cluster, platform)
    assert not health_of_resources()
    cluster.kill(controller)
    try:
        cluster.restart(controller, "--persist-resource-health")
        wait_until(lambda: cluster.estate.refresh() or health_of_resources(), 60, "health in status.resources")
        agree(cluster, platform)
    finally:
        cluster.kill(controller)
        cluster.started[controller][0].remove(b"--persist-resource-health")
        cluster.restart(controller)
    wait_until(lambda: cluster.estate.refresh() or not health_of_resources(), 60, "no health in status.resources")
    agree(cluster, platform)


def change_web(cluster, colour):
    """Something that was not there before the outage."""
    path = "/api/v1/namespaces/real-web/services/web"
    wait_until(lambda: cluster.api.request("PATCH", path, {"metadata": {"annotations": {"culvert.test/colour": colour}}})[0] == 200, 30, "a change")


def restart_watches(cluster):
    """The API server is restarted, so that whoever watches has to ask again."""
    cluster.kill("kube-apiserver")
    cluster.restart("kube-apiserver")
    cluster.wait("kube-apiserver", lambda: cluster.api.request("GET", "/readyz")[0] == 200, 60)
