"""Culvert beside a real cluster: Kubernetes' API server and controllers, Argo CD 3, Argo Rollouts (tests/cluster).

What GraphQL says is compared with what the cluster and Argo CD say, field by field (compare.py), over applications in
every state that people look at (estate.py); and again after each outage. The first test is part of every run where the
programs are in the cache, the outages are part of tests/run --all.
"""

import base64
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e"), str(HERE.parent / "cluster")]

from argo_cluster import ArgoCluster  # noqa: E402
from compare import Comparison, is_gap, unexpected  # noqa: E402
from conftest import build_folder  # noqa: E402
from estate import APPLICATIONS, Estate, application  # noqa: E402
from platform_under_test import Platform  # noqa: E402
from real_cluster import RealCluster  # noqa: E402
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
        under_test.settings.update(CULVERT_REPORTER_KUBERNETES_EVENTS="true")
        try:
            yield under_test.start()
        finally:
            under_test.reset()


def agree(cluster, platform, seconds=60, gaps=False, patterns=None):
    """GraphQL says what the cluster says, but for differences.txt or patterns; with gaps also of what cannot be read."""
    comparison = Comparison(cluster, platform)
    last = []

    def same():
        last[:] = [line for line in unexpected(comparison.differences(), patterns) if gaps or not is_gap(line)]
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


def test_events_of_the_controllers_are_shown(cluster, platform):
    """As they are in the cluster: those of Deployments and Rollouts that an application has, by their uids."""
    held = cluster.api.request("GET", "/api/v1/events?fieldSelector=reason=ScalingReplicaSet")[1]["items"]
    assert held, "the controllers noted nothing"
    query = """{ kubernetesEvents(pagination: {first: 500}, filters: {reasons: ["ScalingReplicaSet"]}) {
        edges { node { uid type kind namespace name component count message applicationName } } } }"""
    shown = wait_until(lambda: platform.graphql(query)["kubernetesEvents"]["edges"], 60, "an Event of the controllers")
    by_uid = {event["metadata"]["uid"]: event for event in held}
    found = [edge["node"] for edge in shown if edge["node"]["uid"] in by_uid]
    assert found, shown
    for node in found:
        event = by_uid[node["uid"]]
        about, component = event["involvedObject"], event.get("source", {}).get("component") or event.get("reportingComponent")
        assert (node["kind"], node["namespace"], node["name"]) == (about["kind"], about["namespace"], about["name"])
        assert (node["type"], node["component"]) == ("NORMAL", component) and node["count"] >= 1 and node["applicationName"]
        assert node["message"] == event["message"]


def test_every_node_of_argo_cd_s_tree_is_in_ours(cluster, platform):
    agree(cluster, platform, 30, gaps=True)  # a retried sync may begin between two questions


@pytest.fixture
def argo_api(cluster, platform):
    """The agent reads Argo CD's API with the token of an account that may get applications."""
    config, rights = (f"/api/v1/namespaces/argocd/configmaps/{name}" for name in ("argocd-cm", "argocd-rbac-cm"))
    rule = """hs = {}
      hs.status = (obj.metadata.annotations or {})["culvert.test/verdict"] or "Healthy"
      hs.message = "by Lua"
      return hs"""
    changes = {"accounts.culvert": "apiKey", "resource.customizations.health.culvert.test_Widget": rule}
    assert cluster.api.request("PATCH", config, {"data": changes})[0] == 200
    assert cluster.api.request("PATCH", rights, {"data": {"policy.csv": "p, culvert, applications, get, */*, allow"}})[0] == 200
    conf, token = platform.home / "agent/agent.conf", platform.home / "agent/argocd-token"
    before = conf.read_text()
    context = cluster.launch_secured_server()
    token.touch(mode=0o600)
    token.write_text("a.wrong.token\n")
    settings = {"url": cluster.secured_url, "token_file": token, "ca_file": cluster.secured_ca}
    conf.write_text(before + "".join(f"argocd.{name} = {value}\n" for name, value in settings.items()))
    platform.kill("agent")
    try:
        yield lambda: token.write_text(cluster.account_token(context, "culvert") + "\n")
    finally:
        conf.write_text(before)
        platform.kill("agent")
        cluster.end(["argocd-server-secured"])
        assert cluster.api.request("PATCH", config, {"data": dict.fromkeys(changes)})[0] == 200


def widget(platform):
    query = """query($r: String!) { resourceTree(runtime: $r, name: "custom", namespace: "argocd") { nodes {
      kind health { status source message } } } }"""
    nodes = platform.graphql(query, {"r": platform.env["CULVERT_RUNTIME"]})["resourceTree"]["nodes"]
    return next(node["health"] for node in nodes if node["kind"] == "Widget")


def commits_agree(cluster, platform):
    """Each release has author and message of its commit, as Git has them."""
    query = """query($f: GitopsReleaseFilterArgs) { gitopsReleases(filters: $f, pagination: {first: 50}) { edges { node {
      syncOperationRevision applicationMetadata { name } commit { author message } } } } }"""
    filters = {"runtime": platform.env["CULVERT_RUNTIME"]}
    edges = platform.graphql(query, {"f": filters})["gitopsReleases"]["edges"]
    assert len(edges) > 10
    for release in (edge["node"] for edge in edges):
        words = ["git", "--git-dir", cluster.folder / "git/estate.git", "log", "-1", "--format=%an <%ae>%n%s", release["syncOperationRevision"]]
        author, message = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        commit = release["commit"] or {}
        assert (commit.get("author"), (commit.get("message") or "").strip()) == (author, message), release
    return True


@pytest.mark.long
def test_with_a_token_for_argo_cd_s_api(cluster, platform, argo_api):
    """Custom health in Lua, what the agent may not read, and commits."""
    refused = wait_until(lambda: [each for each in runtime(platform)["errors"] if "Argo CD's API refuses the token: status 401" in each["message"]], 60, "a finding")
    assert "argocd.token_file" in refused[0]["suggestion"]
    argo_api()
    path = "/apis/culvert.test/v1/namespaces/real-custom/widgets/one"
    for verdict in ("Degraded", None):
        assert cluster.api.request("PATCH", path, {"metadata": {"annotations": {"culvert.test/verdict": verdict}}})[0] == 200
        wanted = {"status": (verdict or "Healthy").upper(), "source": "ARGOCD_TREE", "message": "by Lua"}
        wait_until(lambda: widget(platform) == wanted, 90, f"the widget is {wanted['status']}")
    wait_until(lambda: commits_agree(cluster, platform), 60, "commits")
    agree(cluster, platform, 60, gaps=True)
    # What the agent may not read has its identity from Argo CD's tree.
    assert not [line for line in Comparison(cluster, platform).differences() if ": unread " in line]


SECRET = "/api/v1/namespaces/argocd/secrets/cluster-far"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/argocd"
FAR = """query($r: String!) { application(runtime: $r, name: "far") { resourcesNotRead { message suggestion } }
  resourceTree(runtime: $r, name: "far") { nodes { kind name uid cluster freshness } } }"""


def far(platform):
    answer = platform.graphql(FAR, {"r": platform.env["CULVERT_RUNTIME"]})
    return answer["application"], (answer["resourceTree"] or {"nodes": []})["nodes"][1:]


@pytest.fixture
def spoke(cluster, platform, tmp_path):
    """A second cluster that Argo CD deploys to, and whose Secret the agent may use."""
    second = RealCluster(tmp_path / "spoke")
    second.start()
    api, conf = cluster.api, platform.home / "agent/agent.conf"
    before, pki = conf.read_text(), tmp_path / "spoke/pki"

    def coded(path):
        return base64.b64encode(path.read_bytes()).decode()

    def must(method, path, body=None):
        code, answer = api.request(method, path, body)
        assert code < 300, (path, code, answer)

    tls = {"caData": coded(pki / "ca.crt"), "certData": coded(pki / "admin.crt"), "keyData": coded(pki / "admin.key")}
    labels = {"argocd.argoproj.io/secret-type": "cluster"}
    data = {"name": "far", "server": second.url, "config": json.dumps({"tlsClientConfig": tls})}
    rule = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["cluster-far"], "verbs": ["get"]}
    agent = {"kind": "ServiceAccount", "name": "culvert-agent", "namespace": "argocd"}
    try:
        must("POST", SECRET.rpartition("/")[0], {"metadata": {"name": "cluster-far", "labels": labels}, "stringData": data})
        must("POST", f"{ROLES}/roles", {"metadata": {"name": "culvert-far"}, "rules": [rule]})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "culvert-far"}
        must("POST", f"{ROLES}/rolebindings", {"metadata": {"name": "culvert-far"}, "subjects": [agent], "roleRef": role})
        made = application(cluster.estate.git, "far", destination={"server": second.url, "namespace": "real-far"})
        must("POST", APPLICATIONS, made)
        wait_until(lambda: cluster.estate.states().get("far", ("",))[0] == "Synced", 90, "Argo CD syncs to the second cluster")
        yield second
    finally:
        for path in (f"{APPLICATIONS}/far", SECRET, f"{ROLES}/rolebindings/culvert-far", f"{ROLES}/roles/culvert-far"):
            api.request("DELETE", path)
        conf.write_text(before)
        platform.kill("agent")
        second.stop()


@pytest.mark.long
def test_a_second_cluster_of_argo_cd(cluster, platform, spoke):
    """Its resources are those of Argo CD's tree; while it cannot be reached they stay, marked."""
    note = wait_until(lambda: (far(platform)[0] or {}).get("resourcesNotRead"), 60, "nobody reads it")
    assert "reporter.managed_clusters" in note["suggestion"] and not far(platform)[1], note
    conf = platform.home / "agent/agent.conf"
    settings = {"cluster_secrets": "cluster-far", "managed_clusters": "true", "cluster_interval": "2s"}
    conf.write_text(conf.read_text() + "".join(f"reporter.{name} = {value}\n" for name, value in settings.items()))
    platform.kill("agent")
    wait_until(lambda: far(platform)[0]["resourcesNotRead"] is None, 60, "it is read")
    agree(cluster, platform, 90)
    held = far(platform)[1]
    assert {(node["kind"], node["name"]) for node in held} >= {("Deployment", "far"), ("ConfigMap", "web")}
    assert {node["cluster"] for node in held} == {"far"}
    for pid in spoke.pids():
        os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: "cannot read" in (far(platform)[0]["resourcesNotRead"] or {"message": ""})["message"], 40, "a note")
        assert runtime(platform)["freshness"] == "live"
        marked = far(platform)[1]
        assert [node["uid"] for node in marked] == [node["uid"] for node in held]
        assert {node["freshness"] for node in marked} == {"stale"}
    finally:
        for pid in spoke.pids():
            os.kill(pid, signal.SIGCONT)
    wait_until(lambda: far(platform)[0]["resourcesNotRead"] is None, 60, "it is read again")
    agree(cluster, platform, 90)


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
