"""The real kube-apiserver that the agent's tests run against is what they take it for: Argo CD's Application resource
is served, listed and watched; the agent's account reads and does nothing else; and it all ends without a trace."""

import pathlib

import pytest
from real_cluster import APPLICATIONS, RealCluster, application, real_cluster, require_kube_apiserver  # noqa: F401


@pytest.fixture
def remove(real_cluster):  # noqa: F811
    """Names of Applications to delete when the test is over."""
    names = []
    yield names
    for name in names:
        real_cluster.request("DELETE", f"{APPLICATIONS}/{name}")


def test_an_application_is_created_listed_and_watched(real_cluster, remove):  # noqa: F811
    status, listed = real_cluster.request("GET", APPLICATIONS)
    assert status == 200 and listed["kind"] == "ApplicationList" and listed["items"] == []
    events = real_cluster.watch(APPLICATIONS, listed["metadata"]["resourceVersion"])

    status, created = real_cluster.request("POST", APPLICATIONS, application("cart"))
    remove.append("cart")
    assert status == 201
    kind, seen = next(events)
    assert (kind, seen["metadata"]["uid"]) == ("ADDED", created["metadata"]["uid"])
    assert seen["spec"] == application("cart")["spec"]
    assert [item["metadata"]["name"] for item in real_cluster.request("GET", APPLICATIONS)[1]["items"]] == ["cart"]

    status, _ = real_cluster.request("PATCH", f"{APPLICATIONS}/cart", {"spec": {"source": {"targetRevision": "v2"}}})
    assert status == 200
    kind, seen = next(events)
    assert (kind, seen["spec"]["source"]["targetRevision"]) == ("MODIFIED", "v2")

    assert real_cluster.request("DELETE", f"{APPLICATIONS}/cart")[0] == 200
    kind, seen = next(events)
    assert (kind, seen["metadata"]["uid"]) == ("DELETED", created["metadata"]["uid"])
    events.close()


def test_status_is_a_plain_field_as_in_argo_cd(real_cluster, remove):  # noqa: F811
    wanted = {"health": {"status": "Healthy"}, "sync": {"status": "Synced", "revision": "4f2c"}}
    status, created = real_cluster.request("POST", APPLICATIONS, application("orders", **wanted))
    remove.append("orders")
    assert status == 201 and created["status"] == wanted

    change = {"status": {"health": {"status": "Degraded"}}}
    status, changed = real_cluster.request("PATCH", f"{APPLICATIONS}/orders", change)
    assert status == 200
    assert changed["status"] == {"health": {"status": "Degraded"}, "sync": wanted["sync"]}
    assert real_cluster.request("GET", f"{APPLICATIONS}/orders/status")[0] == 404


def test_the_agent_may_read_and_nothing_else(real_cluster, remove):  # noqa: F811
    assert real_cluster.request("POST", APPLICATIONS, application("mail"))[0] == 201
    remove.append("mail")
    before = len(real_cluster.agent_requests())
    token = real_cluster.agent_token()

    status, listed = real_cluster.request("GET", APPLICATIONS, token=token)
    assert status == 200 and [item["metadata"]["name"] for item in listed["items"]] == ["mail"]
    events = real_cluster.watch(APPLICATIONS, token=token)
    assert next(events)[1]["metadata"]["name"] == "mail"
    events.close()
    for method, path, body in (
        ("GET", "/api/v1/secrets", None),
        ("GET", "/api/v1/namespaces/argocd/secrets/any", None),
        ("POST", "/api/v1/namespaces/argocd/configmaps", {"metadata": {"name": "mine"}}),
        ("POST", APPLICATIONS, application("mine")),
        ("PATCH", f"{APPLICATIONS}/mail", {"spec": {"project": "mine"}}),
        ("DELETE", f"{APPLICATIONS}/mail", None),
        ("POST", "/api/v1/namespaces/argocd/serviceaccounts/culvert-agent/token", {}),
    ):
        assert real_cluster.request(method, path, body, token=token)[0] == 403, (method, path)
    assert real_cluster.request("GET", APPLICATIONS, token=token + "x")[0] == 401

    asked = real_cluster.agent_requests()[before:]
    assert ("list", "applications", 200) in asked and ("watch", "applications", 200) in asked
    assert ("list", "secrets", 403) in asked and ("create", "applications", 403) in asked


def test_nothing_is_left_when_the_cluster_stops(tmp_path):
    require_kube_apiserver()
    cluster = RealCluster(tmp_path)
    try:
        cluster.start()
        pids = cluster.pids()
        assert len(pids) == 2
    finally:
        cluster.stop()
    assert cluster.pids() == []
    for pid in pids:
        state = pathlib.Path(f"/proc/{pid}/stat")
        # A zombie that init has yet to reap has ended.
        assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_the_agent_s_manifests_are_accepted(real_cluster):  # noqa: F811
    """deploy/agent.yaml, field by field; and what it mounts is made by the commands in its head."""
    text = (pathlib.Path(__file__).resolve().parents[2] / "deploy/agent.yaml").read_text()
    head = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    paths = {"ConfigMap": "/api/v1/namespaces/argocd/configmaps", "Deployment": "/apis/apps/v1/namespaces/argocd/deployments"}
    made = {}
    try:
        for document in text.split("\n---\n"):
            kind = next(line.split()[1] for line in document.splitlines() if line.startswith("kind: "))
            name = next(line.split()[1] for line in document.splitlines() if line.startswith("  name: "))
            path = f"{paths[kind]}/{name}"
            status, answer = real_cluster.request("PATCH", f"{path}?fieldManager=culvert-tests&force=true&fieldValidation=Strict", document)
            assert status == 201, answer
            made[kind] = path
        assert made.keys() == paths.keys()
        pod = real_cluster.request("GET", made["Deployment"])[1]["spec"]["template"]["spec"]
        assert real_cluster.request("GET", f"/api/v1/namespaces/argocd/serviceaccounts/{pod['serviceAccountName']}")[0] == 200
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        assert {mount["name"] for mount in pod["containers"][0]["volumeMounts"]} == volumes.keys()
        secrets = [volume["secret"]["secretName"] for volume in volumes.values() if "secret" in volume]
        assert len(secrets) == 2 and all(f"create secret generic {name} " in head for name in secrets)
        # The key of redacted values outlives the pod.
        assert not [volume for volume in volumes.values() if "emptyDir" in volume]
    finally:
        for path in made.values():
            real_cluster.request("DELETE", path)
