"""A real Kubernetes API (kube-apiserver and etcd, see tests/cluster/README.md) as a pytest fixture.

Import `real_cluster` into a conftest.py (one cluster for the whole run) or into a test file (one for that file). It
skips when no kube-apiserver is in the cache; with CULVERT_TEST_CLUSTER=1 it is built then and there, with
CULVERT_TEST_CLUSTER=0 it is never used.
"""

import http.client
import json
import os
import pathlib
import ssl
import subprocess
import urllib.parse

import pytest

CLUSTER = pathlib.Path(__file__).resolve().parent.parent / "cluster"
APPLICATIONS = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications"
AGENT_USER = "system:serviceaccount:argocd:culvert-agent"
START_SECONDS_MAX = 300
ANSWER_SECONDS_MAX = 30


class RealCluster:
    """One API server of our own. start() sets `url` and writes `kubeconfig` (cluster-admin), `agent_kubeconfig` (read-only)."""

    def __init__(self, folder: pathlib.Path):
        self.folder = pathlib.Path(folder)
        self.kubeconfig = self.folder / "kubeconfig"
        self.agent_kubeconfig = self.folder / "agent.kubeconfig"
        url = self.folder / "url"
        self.url = url.read_text().strip() if url.exists() else None

    def start(self) -> None:
        self._run("start")
        self.url = (self.folder / "url").read_text().strip()

    def stop(self) -> None:
        self._run("stop")

    def _run(self, command: str) -> None:
        done = subprocess.run(
            [CLUSTER / "run", command, self.folder],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=START_SECONDS_MAX,
        )
        if done.returncode != 0:
            raise RuntimeError(f"tests/cluster/run {command} failed:\n{done.stdout}")

    def pids(self) -> list:
        """The process ids of what runs, etcd's and the API server's."""
        return [int(file.read_text()) for file in sorted(self.folder.glob("*.pid"))]

    def agent_token(self) -> str:
        """The bearer token that is in the agent's kubeconfig."""
        for line in self.agent_kubeconfig.read_text().splitlines():
            key, _, value = line.strip().partition(": ")
            if key == "token":
                return value
        raise LookupError(f"{self.agent_kubeconfig} has no token")

    def _send(self, method: str, path: str, body, token) -> tuple:
        tls = ssl.create_default_context(cafile=self.folder / "pki" / "ca.crt")
        headers = {"Accept": "application/json"}
        if token is None:
            tls.load_cert_chain(self.folder / "pki" / "admin.crt", self.folder / "pki" / "admin.key")
        else:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None:
            kind = "apply-patch+yaml" if isinstance(body, str) else "merge-patch+json" if method == "PATCH" else "json"
            headers["Content-Type"] = f"application/{kind}"
        address = urllib.parse.urlsplit(self.url)
        connection = http.client.HTTPSConnection(
            address.hostname, address.port, timeout=ANSWER_SECONDS_MAX, context=tls
        )
        try:
            sent = body.encode() if isinstance(body, str) else None if body is None else json.dumps(body)
            connection.request(method, path, body=sent, headers=headers)
            return connection, connection.getresponse()
        except BaseException:
            connection.close()
            raise

    def request(self, method: str, path: str, body=None, token: str = None) -> tuple:
        """(HTTP status, decoded JSON). As cluster-admin, or with a bearer token. PATCH is a JSON merge patch."""
        connection, answer = self._send(method, path, body, token)
        try:
            text = answer.read()
            return answer.status, json.loads(text) if text.startswith(b"{") else text
        finally:
            connection.close()

    def apply(self, path: str, text: str) -> tuple:
        """Server-side apply of one YAML document: (HTTP status, decoded JSON)."""
        return self.request("PATCH", f"{path}?fieldManager=culvert-tests&force=true", text)

    def watch(self, path: str, resource_version: str = "", token: str = None):
        """Yields (type, object) of a watch. Nothing new for ANSWER_SECONDS_MAX raises TimeoutError."""
        query = urllib.parse.urlencode({"watch": "1", "resourceVersion": resource_version})
        connection, answer = self._send("GET", f"{path}?{query}", None, token)
        try:
            if answer.status != 200:
                raise RuntimeError(f"watch of {path} answered {answer.status}: {answer.read(4096)!r}")
            while line := answer.readline():
                event = json.loads(line)
                yield event["type"], event["object"]
        finally:
            connection.close()

    def agent_requests(self) -> list:
        """What the agent asked the API so far: (verb, resource, HTTP status), from the audit log, in order of their end.

        A watch is there once it is answered and once more when it ends.
        """
        requests = []
        for line in (self.folder / "audit.log").read_text().splitlines():
            event = json.loads(line)
            if event["user"]["username"] == AGENT_USER:
                resource = event.get("objectRef", {}).get("resource", event["requestURI"])
                requests.append((event["verb"], resource, event["responseStatus"]["code"]))
        return requests


def application(name: str, **status) -> dict:
    """A small Application as Argo CD has it; keyword arguments become its status."""
    made = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": name, "namespace": "argocd"},
        "spec": {
            "project": "default",
            "source": {"repoURL": "https://git.example.test/shop.git", "path": name, "targetRevision": "main"},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": name},
        },
    }
    if status:
        made["status"] = status
    return made


def require_kube_apiserver() -> None:
    """Skips the test unless the binary is there; CULVERT_TEST_CLUSTER=1 builds it instead."""
    wish = os.environ.get("CULVERT_TEST_CLUSTER", "")
    if wish == "0":
        pytest.skip("tests against a real kube-apiserver are switched off by CULVERT_TEST_CLUSTER=0")
    if subprocess.run([CLUSTER / "build", "--is-built", "kubernetes"]).returncode == 0:
        return
    if wish != "1":
        pytest.skip("no kube-apiserver in the cache: run tests/cluster/build (some minutes), or set CULVERT_TEST_CLUSTER=1")
    subprocess.run([CLUSTER / "build", "kubernetes"], check=True)


@pytest.fixture(scope="session")
def real_cluster(tmp_path_factory):
    require_kube_apiserver()
    cluster = RealCluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
