"""An Argo CD that manages a second cluster: the agent reads it with Argo CD's cluster Secret, where its owner allows it."""

import base64
import json
import pathlib
import signal
import subprocess
import sys
import urllib.request

import pytest

from waiting import wait_until

TREE = """query($r: String!, $n: String!) {
  application(runtime: $r, name: $n) { resourcesNotRead { message suggestion } runningImages { image pods } }
  runtime(name: $r) { freshness errors { message } }
  resourceTree(runtime: $r, name: $n) { nodes { kind name uid cluster presence freshness runningImages { image } health { status source } parentRefs { kind } } } }"""
DEMO = pathlib.Path(__file__).resolve().parents[2] / "deploy/demo/cluster"
APPLICATIONS = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications"
SECRETS, MAPS = "/api/v1/namespaces/argocd/secrets", "/api/v1/namespaces/default/configmaps"
RESOURCES = [
    {"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "default", "name": "web", "status": "Synced"},
    {"version": "v1", "kind": "ConfigMap", "namespace": "default", "name": "settings", "status": "Synced"},
]


class Spoke:
    """The second cluster."""

    def __init__(self, platform, folder):
        self.platform, self.folder = platform, folder
        (folder / "token").write_text("spoke-token-0123456789abcdef\n")
        self.port = 0
        self.start()

    def start(self):
        pki, port_file = self.platform.home / "pki", self.folder / "port"
        port_file.unlink(missing_ok=True)
        words = [sys.executable, DEMO, "--tls-cert", pki / "demo.crt", "--tls-key", pki / "demo.key", "--token-file", self.folder / "token"]
        words += ["--seed", "7", "--paused", "--applications", "0", "--listen", f"127.0.0.1:{self.port}", "--port-file", port_file, "--log", self.folder / "log"]
        self.process = subprocess.Popen([str(word) for word in words])
        self.port = int(wait_until(lambda: port_file.exists() and port_file.read_text().strip(), 20, "the second cluster"))
        self.url = f"https://127.0.0.1:{self.port}"

    def request(self, method, path, body=None, content_type="application/json"):
        headers = {"Authorization": "Bearer " + (self.folder / "token").read_text().strip(), "Content-Type": content_type}
        answer = self.platform.call(method, self.url, path, json.dumps(body) if body is not None else None, headers=headers, key=False)
        assert answer.status < 300, (method, path, answer.status, answer.text())
        return answer.json() if answer.body else None

    def fill(self):
        def owner(kind, made):
            return [{"apiVersion": "apps/v1", "kind": kind, "name": made["metadata"]["name"], "uid": made["metadata"]["uid"], "controller": True}]

        template = {"metadata": {"labels": {"app": "web"}}, "spec": {"restartPolicy": "Always", "containers": [{"name": "web", "image": "registry.test/web:1"}]}}
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        deployment = self.request("POST", "/apis/apps/v1/namespaces/default/deployments", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
        made = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web-1", "ownerReferences": owner("Deployment", deployment)}, "spec": spec}
        replica_set = self.request("POST", "/apis/apps/v1/namespaces/default/replicasets", made)
        status = {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "web", "image": "registry.test/web:1", "imageID": "sha256:1", "ready": True, "state": {"running": {}}}],
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1-a", "ownerReferences": owner("ReplicaSet", replica_set)}, "spec": template["spec"]}
        self.request("POST", "/api/v1/namespaces/default/pods", pod)
        self.request("PATCH", "/api/v1/namespaces/default/pods/web-1-a/status", {"status": status}, "application/merge-patch+json")
        self.request("POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}})

    def end(self):
        self.process.kill()
        self.process.wait(20)


class Hub:
    def __init__(self, platform):
        self.platform, self.conf = platform, platform.home / "agent/agent.conf"
        self.before, self.made = self.conf.read_text(), []

    def restart(self, *lines):
        """Ends when the new agent has compared its inventory with the platform's."""
        self.conf.write_text(self.before + "".join(f"{line}\n" for line in lines))
        before = self.compared()
        self.platform.kill("agent")
        wait_until(lambda: self.compared() > before, 60, "the agent is back, and has compared")

    def compared(self):
        return self.platform.log("agent").count('"msg":"compared"')

    def make(self, path, body):
        self.platform.cluster("POST", path, body)
        self.made.append(f"{path}/{body['metadata']['name']}")

    def secret(self, name, server, config):
        labels = {"argocd.argoproj.io/secret-type": "cluster"}
        data = {"name": name, "server": server, "config": json.dumps(config)}
        self.make(SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": labels}, "stringData": data})

    def application(self, name, destination):
        spec = {"project": "default", "destination": {"namespace": "default", **destination}, "source": {"repoURL": "https://git.demo.invalid/x.git", "path": "."}}
        self.make(APPLICATIONS, {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": name}, "spec": spec, "status": {"resources": RESOURCES}})

    def look(self, name):
        return self.platform.graphql(TREE, {"r": self.platform.env["CULVERT_RUNTIME"], "n": name})

    def nodes(self, name):
        tree = self.look(name)["resourceTree"]
        return {(node["kind"], node["name"]): node for node in (tree or {"nodes": []})["nodes"][1:]}

    def note(self, name):
        return (self.look(name)["application"] or {}).get("resourcesNotRead")

    def metric(self, name):
        """Of the agent: the sum over its labels."""
        listen = next(line.split("=")[1].strip() for line in self.conf.read_text().splitlines() if line.startswith("admin.listen"))
        with urllib.request.urlopen(f"http://{listen}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


@pytest.fixture
def hub(platform):
    hub = Hub(platform)
    platform.cluster("POST", "/demo/pause")
    try:
        yield hub
    finally:
        for path in hub.made:
            try:
                platform.cluster("DELETE", path)
            except AssertionError:
                pass  # deleted by the test
        platform.cluster("POST", "/demo/resume")
        hub.restart()


def test_resources_of_a_second_cluster(hub, platform, tmp_path):
    spoke = Spoke(platform, tmp_path)
    try:
        spoke.fill()
        authority = base64.b64encode(pathlib.Path(platform.env["CULVERT_CA"]).read_bytes()).decode()
        tls = {"insecure": False, "caData": authority}
        hub.secret("east", spoke.url, {"bearerToken": "spoke-token-0123456789abcdef", "tlsClientConfig": tls})
        hub.secret("cloud", "https://cloud.invalid", {"execProviderConfig": {"command": "argocd-k8s-auth"}, "tlsClientConfig": tls})
        # Of equal names in the own cluster.
        hub.make(MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}})
        hub.application("here", {"server": "https://kubernetes.default.svc"})
        hub.application("east", {"name": "east"})
        hub.application("east-by-address", {"server": spoke.url + "/"})
        hub.application("cloud", {"name": "cloud"})
        wait_until(lambda: "reporter.managed_clusters" in hub.note("east")["suggestion"], 30, "it is not read without the setting")
        assert not hub.nodes("east")
        settings = ["reporter.cluster_secrets = east, cloud", "reporter.cluster_interval = 500ms", "reporter.managed_clusters = true"]
        hub.restart(*settings)
        is_read(hub)
        told_apart(hub)
        operations_act_on_the_own_cluster(hub)
        wait_until(lambda: "config.execProviderConfig" in hub.note("cloud")["message"], 30, "a credential that is refused")
        assert not hub.nodes("cloud")
        changes_arrive(hub, spoke)
        an_outage_of_one_cluster(hub, spoke, settings)
        platform.cluster("DELETE", f"{SECRETS}/east")
        wait_until(lambda: not hub.nodes("east"), 30, "without its Secret it is not known any more")
        wait_until(lambda: "does not read the cluster east" in hub.note("east")["message"], 30, "and the application has a note")
        assert ("ConfigMap", "settings") in hub.nodes("here")
        assert "spoke-token" not in platform.log("agent") and b"spoke-token" not in platform.dump()
    finally:
        spoke.end()


def is_read(hub):
    healthy = {"status": "HEALTHY", "source": "AGENT"}
    wait_until(lambda: hub.nodes("east")["Pod", "web-1-a"]["health"] == healthy, 30, "the tree down to the Pod")
    wait_until(lambda: hub.note("east") is None, 30, "no note")
    found = hub.nodes("east")
    assert {key: node["cluster"] for key, node in found.items()} == dict.fromkeys(
        [("Deployment", "web"), ("ReplicaSet", "web-1"), ("Pod", "web-1-a"), ("ConfigMap", "settings")], "east"
    )
    assert [ref["kind"] for ref in found["Pod", "web-1-a"]["parentRefs"]] == ["ReplicaSet"]
    assert hub.look("east")["application"]["runningImages"] == [{"image": "registry.test/web:1", "pods": 1}]
    wait_until(lambda: hub.metric('culvert_agent_managed_clusters{state="read"}') == 1 and hub.metric("culvert_agent_managed_objects ") >= 4, 20, "its metrics")


def operations_act_on_the_own_cluster(hub):
    """An object that is in the other cluster alone is refused; one of equal name in both is the own one."""
    run = "mutation($o: RuntimeOperationArgs!) { runOperation(operation: $o) { state } }"
    operation = {"action": "RESTART", "runtime": hub.platform.env["CULVERT_RUNTIME"], "group": "apps", "kind": "Deployment", "namespace": "default", "name": "web"}
    (error,) = hub.platform.graphql_answer(run, {"o": operation}).json()["errors"]
    assert error["extensions"]["code"] == "CONFLICT" and "another cluster" in error["message"], error
    for other in ({"name": "absent"}, {"action": "DELETE", "group": "", "kind": "ConfigMap", "name": "settings", "resourceVersion": "1"}):
        assert hub.platform.graphql(run, {"o": {**operation, **other}})["runOperation"]["state"] == "QUEUED"


def told_apart(hub):
    here = hub.nodes("here")["ConfigMap", "settings"]
    there = hub.nodes("east")["ConfigMap", "settings"]
    assert (here["cluster"], there["cluster"]) == ("in-cluster", "east") and here["uid"] != there["uid"], (here, there)
    assert hub.nodes("here")["Deployment", "web"]["presence"] == "MISSING"


def changes_arrive(hub, spoke):
    spoke.request("DELETE", f"{MAPS}/settings")
    wait_until(lambda: hub.nodes("east")["ConfigMap", "settings"]["presence"] == "MISSING", 20, "a deletion")
    assert hub.nodes("here")["ConfigMap", "settings"]["presence"] == "PRESENT"
    spoke.request("POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}})
    wait_until(lambda: hub.nodes("east")["ConfigMap", "settings"]["presence"] == "PRESENT", 20, "it is back")


def an_outage_of_one_cluster(hub, spoke, settings):
    """It hangs: its rows stay, also over a restart of the agent, its applications have a note, and nothing else is stale."""
    before = hub.nodes("east")
    spoke.process.send_signal(signal.SIGSTOP)
    try:
        note = wait_until(lambda: hub.note("east"), 40, "a note")
        assert "cannot read the cluster east" in note["message"] and "as they were read last" in note["message"], note
        assert {node["freshness"] for node in hub.nodes("east").values()} == {"stale"}
        found = hub.look("here")
        assert found["runtime"]["freshness"] == "live" and found["application"]["resourcesNotRead"] is None, found
        assert any("which cannot be read" in error["message"] for error in found["runtime"]["errors"]), found
        hub.restart(*settings)
        assert hub.nodes("east").keys() == before.keys()
        wait_until(lambda: "cannot read the cluster east" in (hub.note("east") or {"message": ""})["message"], 60, "a note of the new agent")
        assert hub.nodes("east").keys() == before.keys()
    finally:
        spoke.process.send_signal(signal.SIGCONT)
    wait_until(lambda: hub.note("east") is None, 60, "it is read again")
    assert {node["freshness"] for node in hub.nodes("east").values()} <= {"live", "lagging"}
    assert {key: node["uid"] for key, node in hub.nodes("east").items()} == {key: node["uid"] for key, node in before.items()}
