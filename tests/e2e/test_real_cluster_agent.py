"""culvert-agent against a real kube-apiserver, with no more rights than deploy/agent-rbac.yaml gives it."""

import pathlib
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
