"""culvert-agent with a token for Argo CD's API, the demo cluster's stand-in: custom health, children, commits, failures."""

import base64
import json
import pathlib

import pytest

from waiting import wait_until

TREE = """query($r: String!, $n: String!) { resourceTree(runtime: $r, name: $n) { nodes {
    kind name uid presence createdAt health { status source message } parentRefs { kind uid } } } }"""
RELEASES = """query($f: GitopsReleaseFilterArgs) { gitopsReleases(filters: $f, pagination: {first: 20}) { edges { node {
    syncOperationRevision commit { author message date } } } } }"""
ERRORS = "query($n: String!) { runtime(name: $n) { errors { title message suggestion } } }"
UNREAD = """query($r: String!, $n: String!) { application(runtime: $r, name: $n) { resourcesNotRead { message suggestion }
    errors { title level message suggestion } } }"""
WEB = "catalog"  # an application with a Deployment and a ConfigMap


class Argo:
    """The agent's settings for Argo CD's API; each change restarts the agent."""

    def __init__(self, platform):
        self.platform, self.conf = platform, platform.home / "agent/agent.conf"
        self.before = self.conf.read_text()
        self.token = (platform.home / "demo-token.secret").read_text().strip()
        self.token_file = platform.home / "agent/argocd-token"
        self.token_file.touch(mode=0o600)
        server = json.loads((platform.home / "demo.kubeconfig").read_text())["clusters"][0]["cluster"]["server"]
        self.settings = {"url": server, "token_file": self.token_file, "ca_file": platform.env["CULVERT_CA"], "interval": "200ms", "refresh_interval": "2s", "timeout": "1s"}

    def use(self, token=None, **settings):
        self.token_file.write_text((token or self.token) + "\n")
        lines = [f"argocd.{name} = {value}\n" for name, value in {**self.settings, **settings}.items()]
        self.conf.write_text(self.before + "".join(lines))
        self.restart()

    def restart(self):
        self.platform.kill("agent")
        wait_until(lambda: not self.platform.online() or True, 5)
        wait_until(self.platform.online, 60, "the agent is back")

    def nodes(self, name):
        tree = self.platform.graphql(TREE, {"r": self.platform.env["CULVERT_RUNTIME"], "n": name})["resourceTree"]
        return {(node["kind"], node["name"]): node for node in tree["nodes"]}

    def unread(self, name):
        """What an Application itself says of resources that are not read; None: they are."""
        application = self.platform.graphql(UNREAD, {"r": self.platform.env["CULVERT_RUNTIME"], "n": name})["application"]
        errors = [error for error in application["errors"] if error["title"] == "ResourcesNotRead"]
        said = application["resourcesNotRead"]
        wanted = said and [{**said, "title": "ResourcesNotRead", "level": "WARNING"}]
        assert errors == (wanted or []), application
        return said

    def finding(self, text):
        errors = self.platform.graphql(ERRORS, {"n": self.platform.env["CULVERT_RUNTIME"]})["runtime"]["errors"]
        return next((error for error in errors if text in error["message"]), None)


@pytest.fixture(scope="module")
def argo(platform):
    argo = Argo(platform)
    platform.cluster("POST", "/demo/pause")
    try:
        yield argo
    finally:
        platform.cluster("POST", "/demo/deny-argo")
        platform.cluster("POST", "/demo/hang-argo?seconds=0")
        platform.cluster("POST", "/demo/resume")
        argo.conf.write_text(argo.before)
        argo.restart()


def config_map(platform):
    """Where the application's ConfigMap is, of which no rule of the agent's knows a health."""
    application = platform.cluster("GET", f"/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/{WEB}")
    entry = next(each for each in application["status"]["resources"] if each["kind"] == "ConfigMap")
    return f"/api/v1/namespaces/{entry['namespace']}/configmaps/{entry['name']}", entry["name"]


def set_health(platform, verdict):
    body = {"metadata": {"annotations": {"demo.culvert.invalid/health": verdict}}}
    platform.cluster("PATCH", config_map(platform)[0], body, content_type="application/merge-patch+json")


FAILURES = {
    "token": ("Argo CD's API refuses the token: status 401", "argocd.token_file", {"token": "wrong-" + "0" * 32}),
    "authority": ("the certificate of Argo CD's API cannot be verified", "argocd.ca_file", {"ca_file": "/etc/ssl/certs/ca-certificates.crt"}),
    "address": ("no connection to Argo CD's API", "argocd.url", {"url": "https://127.0.0.1:1"}),
    "hang": ("Argo CD's API does not answer in time", "argocd.timeout", {}),
}


@pytest.mark.parametrize("way", FAILURES)
def test_a_failure_is_a_finding_and_health_is_the_agent_s(argo, platform, way):
    cause, cure, settings = FAILURES[way]
    platform.cluster("POST", f"/demo/hang-argo?seconds={300 if way == 'hang' else 0}")
    argo.use(**settings)
    found = wait_until(lambda: argo.finding(cause), 30, "a finding")
    assert cure in found["suggestion"] and "the agent's own assessment" in found["message"], found
    pods = [node for (kind, _), node in argo.nodes(WEB).items() if kind == "Pod"]
    assert pods and all(pod["health"]["status"] and pod["health"]["source"] == "AGENT" for pod in pods)
    assert argo.token not in json.dumps(found)
    if way == "token":
        argo.token_file.write_text(argo.token + "\n")  # read again after it was refused
        wait_until(lambda: not argo.finding(cause), 30, "it recovers without a restart")
    platform.cluster("POST", "/demo/hang-argo?seconds=0")


def test_health_by_a_rule_that_only_argo_cd_has(argo, platform):
    name = config_map(platform)[1]
    argo.use()
    try:
        for verdict in ("Degraded", "Healthy"):
            set_health(platform, verdict)
            wanted = {"status": verdict.upper(), "source": "ARGOCD_TREE", "message": f"a custom rule: {verdict}"}
            wait_until(lambda: argo.nodes(WEB)["ConfigMap", name]["health"] == wanted, 20, verdict)
    finally:
        set_health(platform, None)
    none = {"status": None, "source": None, "message": None}
    wait_until(lambda: argo.nodes(WEB)["ConfigMap", name]["health"] == none, 20, "no health without the rule")
    # What both have a rule for is told with the agent's message.
    pods = [node for (kind, _), node in argo.nodes(WEB).items() if kind == "Pod"]
    assert pods and all(pod["health"]["source"] == "AGENT" for pod in pods)


def test_children_that_no_watch_brings(argo, platform):
    """An object of a kind that no application names, owned by a Deployment: it may not be read, and then it may."""
    application = platform.cluster("GET", f"/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/{WEB}")
    entry = next(each for each in application["status"]["resources"] if each["kind"] == "Deployment")
    owner = platform.cluster("GET", f"/apis/apps/v1/namespaces/{entry['namespace']}/deployments/{entry['name']}")["metadata"]
    path = f"/apis/argoproj.io/v1alpha1/namespaces/{entry['namespace']}/appprojects"
    argo.conf.write_text(argo.before)
    argo.restart()
    try:
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": owner["name"], "uid": owner["uid"], "controller": True}
        made = platform.cluster("POST", path, {"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "child", "ownerReferences": [reference]}, "spec": {}})
        key = ("AppProject", "child")
        platform.cluster("POST", "/demo/forbid?resource=appprojects")
        argo.use()

        def is_there(presence):
            node = argo.nodes(WEB).get(key)
            return node and node["presence"] == presence and node

        node = wait_until(lambda: is_there("UNREADABLE"), 30, "known by Argo CD's tree alone")
        assert (node["uid"], [ref["uid"] for ref in node["parentRefs"]]) == (made["metadata"]["uid"], [owner["uid"]]), node
        assert node["createdAt"] is not None
        platform.cluster("POST", "/demo/allow")
        argo.restart()
        wait_until(lambda: is_there("PRESENT"), 60, "it may be read now")
    finally:
        platform.cluster("POST", "/demo/allow")
        platform.cluster("DELETE", f"{path}/child")
    wait_until(lambda: key not in argo.nodes(WEB), 30, "it is gone")


def test_releases_have_their_commits(argo, platform):
    argo.use()
    filters = {"runtime": platform.env["CULVERT_RUNTIME"], "name": WEB}

    def commits():
        edges = platform.graphql(RELEASES, {"f": filters})["gitopsReleases"]["edges"]
        releases = [edge["node"] for edge in edges]
        assert releases
        for release in releases:
            assert release["commit"]["author"] == "Demo Committer <demo@git.demo.invalid>", release
            assert release["commit"]["message"] == f"Release {release['syncOperationRevision'][:7]}", release
        return True

    wait_until(commits, 30, "every release has its commit")


def test_an_application_that_the_token_may_not_read(argo, platform):
    platform.cluster("POST", f"/demo/deny-argo?applications={WEB}")
    argo.use()
    found = wait_until(lambda: argo.finding("does not let the agent read 1 of"), 30, "a finding")
    assert "applications, get" in found["suggestion"]
    platform.cluster("POST", "/demo/deny-argo")
    wait_until(lambda: not argo.finding("does not let the agent read"), 30, "it may again")


def test_a_cluster_under_another_address_is_this_one(argo, platform):
    """By the uid of its kube-system, with a cluster Secret that the agent may use; another Secret leads nowhere."""
    server = argo.settings["url"].replace("127.0.0.1", "localhost")
    authority = base64.b64encode(pathlib.Path(platform.env["CULVERT_CA"]).read_bytes()).decode()
    config = {"bearerToken": argo.token, "tlsClientConfig": {"insecure": False, "caData": authority}}
    secrets, applications = "/api/v1/namespaces/argocd/secrets", "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications"

    def make(name, where, how):
        labels = {"argocd.argoproj.io/secret-type": "cluster"}
        data = {"name": name, "server": where, "config": json.dumps(how)}
        platform.cluster("POST", secrets, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": labels}, "stringData": data})

    spec = {"project": "default", "destination": {"server": server, "namespace": "shop"}, "source": {"repoURL": "https://git.demo.invalid/x.git", "path": "."}}
    made = []
    try:
        for name, where, how in (("mirror", server, config), ("nowhere", "https://127.0.0.1:1", config), ("unusable", server, {"username": "u"})):
            make(name, where, how)
            made.append(f"{secrets}/{name}")
        maps = "/api/v1/namespaces/default/configmaps"
        platform.cluster("POST", maps, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mirrored"}})
        made.append(f"{maps}/mirrored")
        status = {"resources": [{"version": "v1", "kind": "ConfigMap", "namespace": "default", "name": "mirrored", "status": "Synced"}]}
        platform.cluster("POST", applications, {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "mirrored"}, "spec": spec, "status": status})
        made.append(f"{applications}/mirrored")
        wait_until(lambda: argo.finding(f"deploy to {server}, which this agent does not read"), 30, "nobody reads it")
        assert ("ConfigMap", "mirrored") not in argo.nodes("mirrored")
        said = wait_until(lambda: argo.unread("mirrored"), 10, "the application says so itself")
        assert f"does not read the cluster {server}" in said["message"] and "reporter.cluster_secrets" in said["suggestion"], said
        assert argo.unread(WEB) is None
        argo.conf.write_text(argo.before + "reporter.cluster_secrets = mirror, argocd/nowhere, unusable\nreporter.cluster_interval = 500ms\n")
        argo.restart()
        wait_until(lambda: ("ConfigMap", "mirrored") in argo.nodes("mirrored"), 30, "it is the agent's own")
        wait_until(lambda: not argo.finding(f"deploy to {server}"), 30, "and is read")
        wait_until(lambda: argo.unread("mirrored") is None, 10, "the application says no more")
        for name, reason in (("nowhere", "https://127.0.0.1:1: the namespace kube-system cannot be read"), ("unusable", "config.username is not supported")):
            found = wait_until(lambda name=name: argo.finding(f"cluster Secret argocd/{name}"), 30, name)
            assert reason in found["message"] and "reporter.cluster_secrets" in found["suggestion"], found
    finally:
        for path in made:
            platform.cluster("DELETE", path)


def test_the_token_stays_with_the_agent(argo, platform):
    """After all that was refused, read and reported above."""
    assert argo.token not in platform.log("agent") and "wrong-0000" not in platform.log("agent")
    assert argo.token.encode() not in platform.dump()
