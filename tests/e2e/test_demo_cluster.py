"""The demo cluster keeps the promises of the Kubernetes API that a client lives by, and it lives.

Standard library and pytest only: /usr/bin/python3 -m pytest tests/e2e/test_demo_cluster.py
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import pathlib
import signal
import socket
import ssl
import stat
import subprocess
import threading
import time
import urllib.parse
from typing import Callable, Iterator

import pytest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "demo" / "cluster"
TOKEN = "test-token-0123456789abcdef"
WAIT_SECONDS = 20.0
APPS = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications"
SHOP_MAPS = "/api/v1/namespaces/shop/configmaps"


def wait_until(condition: Callable[[], object], what: str) -> object:
    """Polls a condition until it holds; fails the test when it does not in time."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    pytest.fail(f"{what}: not within {WAIT_SECONDS} s")


class Answer:
    def __init__(self, code: int, headers, body: bytes):
        self.code, self.headers, self.body = code, headers, body

    def json(self):
        return json.loads(self.body)


class Watch:
    """An open watch; iterates over its events."""

    def __init__(self, connection: http.client.HTTPSConnection, response: http.client.HTTPResponse):
        self._connection, self._response = connection, response

    def next(self) -> dict | None:
        """The next event; None at the clean end of the stream."""
        line = self._response.readline()
        return json.loads(line) if line else None

    def read_to_end(self) -> bytes:
        """Everything still to come; raises when the stream ends without its last chunk, which readline hides."""
        return self._response.read()

    def __iter__(self) -> Iterator[dict]:
        while (event := self.next()) is not None:
            yield event

    def close(self) -> None:
        self._response.close()
        self._connection.close()


class DemoCluster:
    """A private demo cluster: started with `arguments`, ended by `stop`."""

    def __init__(self, folder: pathlib.Path, certificates: pathlib.Path, *arguments: str):
        self.folder, self._certificates = folder, certificates
        (folder / "token").write_text(TOKEN + "\n")
        self.log = folder / "log"
        self.kubeconfig = folder / "kubeconfig"
        self._watches: list[Watch] = []
        # fmt: off
        self.process = subprocess.Popen([
            "/usr/bin/python3", str(PROGRAM), "--listen", "127.0.0.1:0", "--port-file", str(folder / "port"),
            "--tls-cert", str(certificates / "cert.pem"), "--tls-key", str(certificates / "key.pem"),
            "--token-file", str(folder / "token"), "--kubeconfig", str(self.kubeconfig), "--log", str(self.log),
            "--service-listen", "127.0.0.1:0", "--service-port-file", str(folder / "service-port"), *arguments,
        ])
        # fmt: on
        wait_until(lambda: (folder / "port").exists() or self.process.poll() is not None, "start")
        assert self.process.poll() is None, "the demo cluster ended at once"
        self.port = int((folder / "port").read_text())
        self.service_port = int((folder / "service-port").read_text())
        self.tls = ssl.create_default_context(cafile=str(certificates / "cert.pem"))

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS, context=self.tls)

    def call(self, method: str, path: str, body: object = None, token: str | None = TOKEN, **headers: str) -> Answer:
        connection = self.connect()
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            if token is not None:
                sent["Authorization"] = f"Bearer {token}"
            if body is not None:
                sent.setdefault("Content-Type", "application/json")
            content = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
            connection.request(method, path, content, sent)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path: str) -> dict:
        answer = self.call("GET", path)
        assert answer.code == 200, answer.body
        return answer.json()

    def patch(self, path: str, patch: dict) -> Answer:
        return self.call("PATCH", path, patch, Content_Type="application/merge-patch+json")

    def watch(self, path: str, **parameters: object) -> Watch:
        connection = self.connect()
        query = urllib.parse.urlencode({"watch": "true", **parameters})
        connection.request("GET", f"{path}?{query}", headers={"Authorization": f"Bearer {TOKEN}"})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        watch = Watch(connection, response)
        self._watches.append(watch)
        return watch

    def control(self, action: str) -> dict:
        answer = self.call("POST", f"/demo/{action}")
        assert answer.code == 200, answer.body
        return answer.json()

    def application(self, name: str) -> dict:
        return self.get(f"{APPS}/{name}")

    def step_until(self, condition: Callable[[], object], what: str, steps_max: int = 400) -> object:
        for _ in range(steps_max):
            value = condition()
            if value:
                return value
            self.control("step")
        pytest.fail(f"{what}: not within {steps_max} steps")

    def stop(self) -> int:
        for watch in self._watches:
            watch.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("certificates")
    # fmt: off
    subprocess.run([
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
        "-subj", "/CN=demo cluster", "-addext", "subjectAltName=IP:127.0.0.1",
        "-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem"),
    ], check=True, capture_output=True)
    # fmt: on
    return folder


@pytest.fixture
def start(tmp_path, certificates):
    """Starts demo clusters and ends them with the test."""
    running: list[DemoCluster] = []

    def start_one(*arguments: str) -> DemoCluster:
        folder = tmp_path / f"cluster-{len(running)}"
        folder.mkdir()
        cluster = DemoCluster(folder, certificates, *arguments)
        running.append(cluster)
        return cluster

    yield start_one
    for cluster in running:
        cluster.stop()


@pytest.fixture(scope="module")
def shared(tmp_path_factory, certificates):
    """One cluster with its life paused, for tests that only add objects of their own."""
    cluster = DemoCluster(tmp_path_factory.mktemp("shared"), certificates, "--paused")
    yield cluster
    assert cluster.stop() == 0


def config_map(name: str, labels: dict | None = None, **data: str) -> dict:
    metadata: dict = {"name": name}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def assert_status(answer: Answer, code: int, reason: str) -> dict:
    document = answer.json()
    assert answer.code == code, document
    assert document["kind"] == "Status" and document["status"] == "Failure"
    assert (document["code"], document["reason"]) == (code, reason)
    return document


# -- it says what it is, and lets in only whom it knows ---------------------------------------------------------


def test_it_says_that_it_is_a_demo(shared):
    assert shared.get("/version")["gitVersion"] == "v1.29.0+demo"
    namespaces = shared.get("/api/v1/namespaces")["items"]
    assert {"argocd", "shop", "default"} <= {item["metadata"]["name"] for item in namespaces}
    for item in namespaces:
        assert item["metadata"]["labels"]["culvert.dev/demo-cluster"] == "true"
        assert item["metadata"]["annotations"]["culvert.dev/demo-cluster"] == "true"
    lines = [json.loads(line) for line in shared.log.read_text().splitlines()]
    assert lines and all(line["demo_cluster"] is True for line in lines)


def test_ports_it_picks_lie_below_the_ephemeral_range(shared):
    assert shared.port < 32768 and shared.service_port < 32768


def test_kubeconfig_is_private_and_leads_to_the_cluster(shared, certificates):
    assert stat.S_IMODE(shared.kubeconfig.stat().st_mode) == 0o600
    config = json.loads(shared.kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    assert cluster["server"] == f"https://127.0.0.1:{shared.port}"
    assert base64.b64decode(cluster["certificate-authority-data"]) == (certificates / "cert.pem").read_bytes()
    assert shared.call("GET", "/version", token=user["token"]).code == 200


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN + "x", TOKEN[:-1]])
def test_without_the_token_there_is_only_401(shared, token):
    for method, path in (("GET", "/version"), ("GET", "/api/v1/secrets"), ("POST", "/demo/step"), ("GET", "/nothing")):
        assert_status(shared.call(method, path, token=token), 401, "Unauthorized")


def test_probes_need_no_token(shared):
    for path in ("/livez", "/readyz", "/healthz"):
        assert shared.call("GET", path, token=None).body == b"ok"


@pytest.mark.parametrize("content", ["", "short", "with spaces in the middle of it"])
def test_it_does_not_start_with_a_poor_token(tmp_path, certificates, content):
    (tmp_path / "token").write_text(content)
    # fmt: off
    result = subprocess.run([
        "/usr/bin/python3", str(PROGRAM), "--tls-cert", str(certificates / "cert.pem"),
        "--tls-key", str(certificates / "key.pem"), "--token-file", str(tmp_path / "token"),
    ], capture_output=True, timeout=WAIT_SECONDS)
    # fmt: on
    assert result.returncode == 1 and b"token" in result.stderr


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_tls_is_refused(shared, certificates):
    context = ssl.create_default_context(cafile=str(certificates / "cert.pem"))
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", shared.port), timeout=WAIT_SECONDS) as plain:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            context.wrap_socket(plain, server_hostname="127.0.0.1")


# -- discovery and reading --------------------------------------------------------------------------------------


def test_discovery_names_every_served_type(shared):
    assert shared.get("/api")["versions"] == ["v1"]
    groups = {group["name"] for group in shared.get("/apis")["groups"]}
    assert {"apps", "argoproj.io", "apiextensions.k8s.io"} <= groups
    assert shared.get("/apis/argoproj.io")["preferredVersion"]["groupVersion"] == "argoproj.io/v1alpha1"
    for path in ("/api/v1", "/apis/apps/v1", "/apis/argoproj.io/v1alpha1"):
        listed = shared.get(path)
        assert listed["kind"] == "APIResourceList"
        for resource in listed["resources"]:
            if "/" not in resource["name"]:
                assert shared.get(f"{path}/{resource['name']}")["kind"] == resource["kind"] + "List"


def test_lists_have_the_shape_of_their_type(shared):
    pods = shared.get("/api/v1/pods")
    assert pods["kind"] == "PodList" and pods["apiVersion"] == "v1" and pods["items"]
    assert all("kind" not in item and "apiVersion" not in item for item in pods["items"])
    applications = shared.get("/apis/argoproj.io/v1alpha1/applications")
    assert applications["kind"] == "ApplicationList"
    assert all(item["kind"] == "Application" for item in applications["items"])
    versions = [int(item["metadata"]["resourceVersion"]) for item in applications["items"]]
    assert max(versions) <= int(applications["metadata"]["resourceVersion"])


def test_unknown_things_are_404_and_wrong_verbs_405(shared):
    document = assert_status(shared.call("GET", f"{APPS}/nobody"), 404, "NotFound")
    assert document["message"] == 'applications.argoproj.io "nobody" not found'
    assert document["details"] == {"name": "nobody", "kind": "applications", "group": "argoproj.io"}
    for path in ("/apis/apps/v1/things", "/api/v1/things", "/api/v1/pods/x/y/z", "/demo/nothing"):
        assert_status(shared.call("GET", path), 404, "NotFound")
    for path in ("/", "/apis/nothing.io/v1", "/apis/apps/v9/deployments", "/api/v2/pods", "/openapi/v2"):
        answer = shared.call("GET", path)
        assert (answer.code, answer.body) == (404, b"404 page not found\n"), path
    assert_status(shared.call("DELETE", "/api/v1/pods"), 405, "MethodNotAllowed")
    assert_status(shared.call("POST", "/api/v1/pods", {}), 405, "MethodNotAllowed")
    assert_status(shared.call("PUT", "/version", {}), 405, "MethodNotAllowed")


def test_pages_show_one_moment(shared):
    for number in range(5):
        assert shared.call("POST", SHOP_MAPS, config_map(f"page-{number}")).code == 201
    first = shared.get(f"{SHOP_MAPS}?limit=3")
    everything = shared.get(SHOP_MAPS)
    assert len(first["items"]) == 3
    assert first["metadata"]["remainingItemCount"] == len(everything["items"]) - 3
    assert shared.call("POST", SHOP_MAPS, config_map("page-later")).code == 201
    assert shared.call("DELETE", f"{SHOP_MAPS}/page-4").code == 200
    seen, token = first["items"], first["metadata"]["continue"]
    while token:
        page = shared.get(f"{SHOP_MAPS}?limit=3&continue={token}")
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        seen += page["items"]
        token = page["metadata"].get("continue")
    assert seen == everything["items"]


def test_a_page_of_a_forgotten_moment_is_410_with_a_way_on(shared):
    first = shared.get("/api/v1/pods?limit=2")
    shared.control("expire")
    answer = shared.call("GET", f"/api/v1/pods?limit=2&continue={first['metadata']['continue']}")
    document = assert_status(answer, 410, "Expired")
    rest = shared.get(f"/api/v1/pods?continue={document['metadata']['continue']}")
    assert len(rest["items"]) == first["metadata"]["remainingItemCount"]
    assert_status(shared.call("GET", "/api/v1/pods?continue=nonsense"), 400, "BadRequest")


def test_lists_at_a_version(shared):
    before = shared.get(SHOP_MAPS)
    assert shared.call("POST", SHOP_MAPS, config_map("exact")).code == 201
    version = before["metadata"]["resourceVersion"]
    exact = shared.get(f"{SHOP_MAPS}?resourceVersion={version}&resourceVersionMatch=Exact")
    assert exact == before
    newer = shared.get(f"{SHOP_MAPS}?resourceVersion={version}")
    assert len(newer["items"]) == len(before["items"]) + 1
    assert_status(shared.call("GET", f"{SHOP_MAPS}?resourceVersion={int(version) + 10**9}"), 504, "Timeout")
    assert_status(shared.call("GET", f"{SHOP_MAPS}?resourceVersion=abc"), 400, "BadRequest")


@pytest.mark.parametrize(
    "selector, names",
    [
        ("tier=front", {"a", "b"}),
        ("tier==front,zone!=eu", {"b"}),
        ("tier in (front,back)", {"a", "b", "c"}),
        ("suite,tier notin (front)", {"c", "d"}),
        ("suite,!tier", {"d"}),
        ("suite,zone", {"a", "c"}),
    ],
)
def test_label_selectors(shared, selector, names):
    for name, labels in (
        ("a", {"suite": "x", "tier": "front", "zone": "eu"}),
        ("b", {"suite": "x", "tier": "front"}),
        ("c", {"suite": "x", "tier": "back", "zone": "us"}),
        ("d", {"suite": "x"}),
    ):
        shared.call("POST", "/api/v1/namespaces/default/configmaps", config_map(name, labels))
    query = urllib.parse.quote(selector)
    found = shared.get(f"/api/v1/namespaces/default/configmaps?labelSelector={query}")
    assert {item["metadata"]["name"] for item in found["items"]} == names
    assert "remainingItemCount" not in found["metadata"]


def test_field_selectors_and_bad_selectors(shared):
    found = shared.get("/apis/argoproj.io/v1alpha1/applications?fieldSelector=metadata.name%3Dcheckout")
    assert [item["metadata"]["name"] for item in found["items"]] == ["checkout"]
    running = shared.get("/api/v1/pods?fieldSelector=status.phase%3DRunning,metadata.namespace!%3Dargocd")
    assert running["items"] and all(item["metadata"]["namespace"] != "argocd" for item in running["items"])
    for query in (
        "labelSelector=a%20b",
        "labelSelector=a%20in%20b",
        "fieldSelector=spec.nonsense%3Dx",
        "fieldSelector=x",
    ):
        assert_status(shared.call("GET", f"/api/v1/pods?{query}"), 400, "BadRequest")


def test_metadata_only(shared):
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    document = shared.call("GET", "/api/v1/secrets", Accept=accept).json()
    assert document["kind"] == "PartialObjectMetadataList" and document["items"]
    assert all(set(item) == {"kind", "apiVersion", "metadata"} for item in document["items"])
    assert_status(shared.call("GET", "/api/v1/secrets", Accept="application/yaml"), 406, "NotAcceptable")


def test_tables_for_people(shared):
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    for resource_type in ("pods", "services", "secrets", "configmaps", "namespaces"):
        assert shared.call("GET", f"/api/v1/{resource_type}", Accept=accept).json()["rows"]
    table = shared.call("GET", "/apis/argoproj.io/v1alpha1/applications", Accept=accept).json()
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    names = [column["name"] for column in table["columnDefinitions"]]
    assert names == ["Name", "Sync Status", "Health Status", "Age"]
    row = next(row for row in table["rows"] if row["cells"][0] == "checkout")
    assert row["cells"][1:3] == ["Synced", "Healthy"] and row["object"]["metadata"]["namespace"] == "argocd"


# -- watching ---------------------------------------------------------------------------------------------------


def test_a_watch_from_nothing_begins_with_what_is_there(shared):
    there = {item["metadata"]["name"] for item in shared.get("/apis/argoproj.io/v1alpha1/appprojects")["items"]}
    watch = shared.watch("/apis/argoproj.io/v1alpha1/appprojects")
    events = [watch.next() for _ in there]
    assert {event["object"]["metadata"]["name"] for event in events} == there
    assert all(event["type"] == "ADDED" and event["object"]["kind"] == "AppProject" for event in events)


def test_a_watch_tells_every_change_in_order(shared):
    version = shared.get(SHOP_MAPS)["metadata"]["resourceVersion"]
    watch = shared.watch(SHOP_MAPS, resourceVersion=version)
    made = shared.call("POST", SHOP_MAPS, config_map("told", colour="red")).json()
    shared.call("POST", "/api/v1/namespaces/default/configmaps", config_map("elsewhere"))
    changed = shared.patch(f"{SHOP_MAPS}/told", {"data": {"colour": "blue"}}).json()
    shared.patch(f"{SHOP_MAPS}/told", {"data": {"colour": "blue"}})  # changes nothing: no event
    shared.call("DELETE", f"{SHOP_MAPS}/told")
    events = [watch.next() for _ in range(3)]
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert events[0]["object"] == made and events[1]["object"] == changed
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions)) and versions[0] > int(version)
    assert events[2]["object"]["kind"] == "ConfigMap" and events[2]["object"]["data"] == {"colour": "blue"}


def test_a_watch_can_begin_in_the_past(shared):
    version = shared.get(SHOP_MAPS)["metadata"]["resourceVersion"]
    shared.call("POST", SHOP_MAPS, config_map("past"))
    shared.call("DELETE", f"{SHOP_MAPS}/past")
    watch = shared.watch(SHOP_MAPS, resourceVersion=version)
    assert [watch.next()["type"] for _ in range(2)] == ["ADDED", "DELETED"]


def test_leaving_a_selector_is_a_deletion_for_its_watch(shared):
    version = shared.get(SHOP_MAPS)["metadata"]["resourceVersion"]
    watch = shared.watch(SHOP_MAPS, resourceVersion=version, labelSelector="shown=yes")
    shared.call("POST", SHOP_MAPS, config_map("mover"))
    shared.patch(f"{SHOP_MAPS}/mover", {"metadata": {"labels": {"shown": "yes"}}})
    shared.patch(f"{SHOP_MAPS}/mover", {"data": {"k": "v"}})
    last = shared.patch(f"{SHOP_MAPS}/mover", {"metadata": {"labels": {"shown": "no"}}}).json()
    events = [watch.next() for _ in range(3)]
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    gone = events[2]["object"]["metadata"]
    assert gone["labels"] == {"shown": "yes"} and gone["resourceVersion"] == last["metadata"]["resourceVersion"]


def test_bookmarks_come_in_time_and_before_the_end(start):
    cluster = start("--paused", "--bookmarks", "0.2")
    version = cluster.get("/api/v1/pods")["metadata"]["resourceVersion"]
    watch = cluster.watch("/api/v1/pods", resourceVersion=version, allowWatchBookmarks="true", timeoutSeconds=2)
    assert cluster.call("POST", SHOP_MAPS, config_map("other")).code == 201
    events = list(watch)  # ends cleanly when its time is up
    assert len(events) >= 3 and {event["type"] for event in events} == {"BOOKMARK"}
    final = events[-1]["object"]
    assert (final["kind"], final["apiVersion"]) == ("Pod", "v1")
    assert int(final["metadata"]["resourceVersion"]) > int(version), "a quiet type keeps up with the others"
    silent = cluster.watch("/api/v1/pods", resourceVersion=version, timeoutSeconds=1)
    assert list(silent) == []


def assert_expired(watch: Watch) -> None:
    event = watch.next()
    assert event["type"] == "ERROR"
    assert event["object"]["kind"] == "Status" and event["object"]["code"] == 410
    assert event["object"]["reason"] == "Expired"
    assert watch.next() is None


def test_an_old_version_is_expired_and_open_watches_live_on(start):
    cluster = start("--paused")
    version = cluster.get(SHOP_MAPS)["metadata"]["resourceVersion"]
    open_watch = cluster.watch(SHOP_MAPS, resourceVersion=version)
    cluster.call("POST", SHOP_MAPS, config_map("before"))
    cluster.control("expire")
    assert_expired(cluster.watch(SHOP_MAPS, resourceVersion=version))
    cluster.call("POST", SHOP_MAPS, config_map("after"))
    assert [open_watch.next()["object"]["metadata"]["name"] for _ in range(2)] == ["before", "after"]
    fresh = cluster.get(SHOP_MAPS)["metadata"]["resourceVersion"]
    watch = cluster.watch(SHOP_MAPS, resourceVersion=fresh)
    cluster.call("DELETE", f"{SHOP_MAPS}/after")
    assert watch.next()["type"] == "DELETED"


def test_the_watch_cache_is_bounded(start):
    cluster = start("--paused", "--history", "16")
    version = cluster.get(SHOP_MAPS)["metadata"]["resourceVersion"]
    for number in range(40):
        cluster.call("POST", SHOP_MAPS, config_map(f"filler-{number}"))
    assert_expired(cluster.watch(SHOP_MAPS, resourceVersion=version))
    state = cluster.get("/demo/status")
    assert 16 <= int(state["resourceVersion"]) - int(state["oldestResourceVersion"]) <= 20


def test_dropped_watches_end_without_a_lingering_close(start):
    cluster = start("--paused")
    watch = cluster.watch("/api/v1/pods", resourceVersion=cluster.get("/api/v1/pods")["metadata"]["resourceVersion"])
    assert cluster.control("drop-watches")["dropped"] == 1
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        watch.read_to_end()
    wait_until(lambda: cluster.get("/demo/status")["watches"] == 0, "the watch is forgotten")


def test_a_client_that_leaves_is_forgotten(start):
    cluster = start("--paused")
    watch = cluster.watch("/api/v1/pods")
    assert cluster.get("/demo/status")["watches"] == 1
    watch.close()
    wait_until(lambda: cluster.get("/demo/status")["watches"] == 0, "the watch is forgotten")


def test_sigterm_ends_watches_cleanly(start):
    cluster = start("--paused")
    version = cluster.get("/api/v1/pods")["metadata"]["resourceVersion"]
    watch = cluster.watch("/api/v1/pods", resourceVersion=version)
    wait_until(lambda: cluster.get("/demo/status")["watches"] == 1, "the watch is open")
    cluster.process.send_signal(signal.SIGTERM)
    assert watch.read_to_end() == b""
    assert cluster.process.wait(timeout=WAIT_SECONDS) == 0
    assert json.loads(cluster.log.read_text().splitlines()[-1])["msg"] == "demo_cluster_ended"


# -- writing ----------------------------------------------------------------------------------------------------


def test_create_fills_in_what_the_server_owns(shared):
    document = config_map("fresh", k="v")
    document["metadata"]["uid"] = "mine"
    made = shared.call("POST", SHOP_MAPS, document).json()
    assert made["metadata"]["namespace"] == "shop" and made["metadata"]["uid"] != "mine"
    assert made["metadata"]["creationTimestamp"] and made["metadata"]["resourceVersion"]
    assert_status(shared.call("POST", SHOP_MAPS, config_map("fresh")), 409, "AlreadyExists")
    assert_status(shared.call("POST", "/api/v1/namespaces/no/configmaps", config_map("x")), 404, "NotFound")
    assert_status(shared.call("POST", SHOP_MAPS, config_map("Bad_Name")), 422, "Invalid")
    assert_status(shared.call("POST", SHOP_MAPS, b"{"), 400, "BadRequest")
    assert_status(shared.call("POST", SHOP_MAPS, {"kind": "Pod", "metadata": {"name": "x"}}), 400, "BadRequest")
    generated = {"metadata": {"generateName": "made-"}}
    names = {shared.call("POST", SHOP_MAPS, generated).json()["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3 and all(name.startswith("made-") for name in names)
    dry = shared.call("POST", f"{SHOP_MAPS}?dryRun=All", config_map("dry"))
    assert dry.code == 201 and shared.call("GET", f"{SHOP_MAPS}/dry").code == 404


def test_update_with_an_old_version_is_a_conflict(shared):
    made = shared.call("POST", SHOP_MAPS, config_map("contested")).json()
    winner = {**made, "data": {"who": "first"}}
    assert shared.call("PUT", f"{SHOP_MAPS}/contested", winner).code == 200
    document = assert_status(shared.call("PUT", f"{SHOP_MAPS}/contested", made), 409, "Conflict")
    assert "the object has been modified" in document["message"]
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"who": "late"}}
    assert_status(shared.patch(f"{SHOP_MAPS}/contested", stale), 409, "Conflict")
    assert shared.get(f"{SHOP_MAPS}/contested")["data"] == {"who": "first"}
    application = shared.application("storefront")
    del application["metadata"]["resourceVersion"]
    assert_status(shared.call("PUT", f"{APPS}/storefront", application), 422, "Invalid")


def test_merge_patch(shared):
    shared.call("POST", SHOP_MAPS, config_map("patched", {"keep": "1", "drop": "2"}, a="1", b="2"))
    patch = {"metadata": {"labels": {"drop": None, "new": "3"}}, "data": {"a": None, "c": "3"}}
    document = shared.patch(f"{SHOP_MAPS}/patched", patch).json()
    assert document["metadata"]["labels"] == {"keep": "1", "new": "3"}
    assert document["data"] == {"b": "2", "c": "3"}
    strategic = shared.call("PATCH", f"{SHOP_MAPS}/patched", {}, Content_Type="application/strategic-merge-patch+json")
    assert_status(strategic, 415, "UnsupportedMediaType")
    assert_status(shared.patch(f"{SHOP_MAPS}/nobody", {}), 404, "NotFound")
    unharmed = shared.patch(f"{SHOP_MAPS}/patched", {"metadata": {"uid": None, "name": None}}).json()
    assert unharmed["metadata"]["uid"] == document["metadata"]["uid"]


def test_delete_heeds_preconditions_and_finalizers(shared):
    made = shared.call("POST", SHOP_MAPS, config_map("guarded")).json()
    path = f"{SHOP_MAPS}/guarded"
    assert_status(shared.call("DELETE", path, {"preconditions": {"uid": "another"}}), 409, "Conflict")
    shared.patch(path, {"metadata": {"finalizers": ["demo.invalid/wait"]}})
    uid = made["metadata"]["uid"]
    leaving = shared.call("DELETE", path, {"preconditions": {"uid": uid}}).json()
    assert leaving["metadata"]["deletionTimestamp"] and shared.call("GET", path).code == 200
    shared.patch(path, {"metadata": {"finalizers": None}})
    assert shared.call("GET", path).code == 404
    shared.call("POST", SHOP_MAPS, config_map("guarded"))
    gone = shared.call("DELETE", path).json()
    assert gone["status"] == "Success" and gone["details"]["uid"] != uid


def test_secrets_take_plain_values_and_keep_them_encoded(shared):
    secret = {"kind": "Secret", "metadata": {"name": "typed"}, "stringData": {"password": "pa55"}}
    made = shared.call("POST", "/api/v1/namespaces/shop/secrets", secret).json()
    assert made["data"] == {"password": base64.b64encode(b"pa55").decode()} and "stringData" not in made
    bad = {"kind": "Secret", "metadata": {"name": "bad"}, "data": {"x": "not base64!"}}
    assert_status(shared.call("POST", "/api/v1/namespaces/shop/secrets", bad), 400, "BadRequest")


def test_status_is_written_apart_where_it_is_a_subresource(shared):
    path = "/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/checkout"
    before = shared.get(path)
    ignored = shared.patch(path, {"status": {"phase": "Nonsense"}}).json()
    assert ignored == before
    after = shared.patch(f"{path}/status", {"status": {"promoteFull": True}, "spec": {"replicas": 0}}).json()
    assert after["status"]["promoteFull"] is True and after["spec"] == before["spec"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    shared.patch(f"{path}/status", {"status": {"promoteFull": None}})
    scaled = shared.patch(path, {"spec": {"replicas": before["spec"]["replicas"] + 1}}).json()
    assert scaled["metadata"]["generation"] == before["metadata"]["generation"] + 1
    shared.patch(path, {"spec": {"replicas": before["spec"]["replicas"]}})
    assert shared.call("GET", f"{APPS}/checkout/status").code == 404


def test_bodies_are_bounded_and_unambiguous(shared):
    huge = config_map("huge", big="x" * (3 * 1024 * 1024))
    assert_status(shared.call("POST", SHOP_MAPS, huge), 413, "RequestEntityTooLarge")
    deep = b'{"a":' * 200 + b"1" + b"}" * 200
    assert_status(shared.call("POST", SHOP_MAPS, deep), 400, "BadRequest")
    chunked = shared.connect()
    content = json.dumps(config_map("chunked")).encode()
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    chunked.request("POST", SHOP_MAPS, iter([content[:10], content[10:]]), headers, encode_chunked=True)
    assert chunked.getresponse().status == 201
    chunked.close()
    both = {"Content_Length": "2", "Transfer_Encoding": "chunked"}
    assert_status(shared.call("POST", SHOP_MAPS, b"0\r\n\r\n", **both), 400, "BadRequest")


def test_a_namespace_made_by_a_client_is_marked_and_goes_with_all_in_it(start):
    cluster = start("--paused")
    made = cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": "mine"}}).json()
    assert made["metadata"]["labels"]["culvert.dev/demo-cluster"] == "true"
    cluster.call("POST", "/api/v1/namespaces/mine/configmaps", config_map("inside"))
    assert cluster.call("DELETE", "/api/v1/namespaces/mine").code == 200
    assert cluster.get("/api/v1/namespaces/mine/configmaps")["items"] == []


# -- what stands there ------------------------------------------------------------------------------------------


def test_applications_have_the_status_argo_cd_writes(shared):
    for application in shared.get("/apis/argoproj.io/v1alpha1/applications")["items"]:
        name, status = application["metadata"]["name"], application["status"]
        assert status["sync"]["status"] == "Synced" and status["health"]["status"] == "Healthy", name
        assert {"destination"} < set(status["sync"]["comparedTo"])
        assert status["operationState"]["phase"] == "Succeeded"
        assert status["operationState"]["syncResult"]["resources"]
        assert status["reconciledAt"] and status["resources"]
        assert all({"version", "kind", "namespace", "name", "status"} <= set(entry) for entry in status["resources"])
        assert [entry["id"] for entry in status["history"]] == list(range(len(status["history"])))
        for entry in status["history"]:
            assert {"deployedAt", "deployStartedAt", "initiatedBy"} < set(entry)
            assert entry["deployStartedAt"] <= entry["deployedAt"]
        several = "sources" in application["spec"]
        assert ("revisions" if several else "revision") in status["history"][-1]
        assert ("sourceTypes" if several else "sourceType") in status


def test_kinds_and_owners(shared):
    kinds = {
        entry["kind"]
        for application in shared.get("/apis/argoproj.io/v1alpha1/applications")["items"]
        for entry in application["status"]["resources"]
    }
    assert {"Deployment", "Service", "Rollout", "Workflow", "Secret", "ConfigMap"} <= kinds
    sets = {item["metadata"]["uid"]: item for item in shared.get("/apis/apps/v1/replicasets")["items"]}
    deployments = {item["metadata"]["uid"] for item in shared.get("/apis/apps/v1/deployments")["items"]}
    rollouts = {item["metadata"]["uid"] for item in shared.get("/apis/argoproj.io/v1alpha1/rollouts")["items"]}
    for item in sets.values():
        assert item["metadata"]["ownerReferences"][0]["uid"] in deployments | rollouts
    pods = shared.get("/api/v1/pods")["items"]
    owners = [pod["metadata"]["ownerReferences"][0] for pod in pods]
    assert all(owner["uid"] in sets for owner in owners if owner["kind"] == "ReplicaSet")


def test_clusters_and_secrets_to_redact(shared):
    selector = urllib.parse.quote("argocd.argoproj.io/secret-type=cluster")
    (cluster,) = shared.get(f"/api/v1/namespaces/argocd/secrets?labelSelector={selector}")["items"]
    server = base64.b64decode(cluster["data"]["server"]).decode()
    destinations = {
        item["spec"]["destination"]["server"] for item in shared.get("/apis/argoproj.io/v1alpha1/applications")["items"]
    }
    assert destinations == {server, "https://kubernetes.default.svc"}
    sensitive = shared.get("/demo/sensitive")
    assert len(sensitive) >= 10 and all(len(value) >= 16 for value in sensitive)
    secrets = shared.get("/api/v1/secrets")["items"]
    values = [base64.b64decode(value) for item in secrets for value in item.get("data", {}).values()]
    assert any(sensitive[0].encode() in value for value in values)
    assert any("last-applied" in key for item in secrets for key in item["metadata"].get("annotations", {}))


# -- life -------------------------------------------------------------------------------------------------------


def test_the_same_seed_lives_the_same_life(start):
    def life(seed: str) -> list[tuple]:
        cluster = start("--paused", "--seed", seed)
        cluster.control("step?n=40")
        return [(item["kind"], item["namespace"], item["name"], item["uid"]) for item in cluster.get("/demo/state")]

    first = life("7")
    assert first == life("7")
    assert first != life("8")


def test_paused_life_stands_still_and_resumed_life_moves(start):
    cluster = start("--paused", "--tick", "0.02")
    version = cluster.get("/demo/status")["resourceVersion"]
    watch = cluster.watch("/apis/argoproj.io/v1alpha1/applications", resourceVersion=version)
    assert cluster.get("/demo/status")["steps"] == 0
    cluster.control("resume")
    assert watch.next()["type"] == "MODIFIED"
    assert cluster.control("pause")["paused"] is True
    steps = cluster.get("/demo/status")["steps"]
    assert steps > 0 and cluster.get("/demo/status")["steps"] == steps


def replay(objects: dict, event: dict) -> None:
    metadata = event["object"]["metadata"]
    key = (event["object"]["kind"], metadata["namespace"], metadata["name"])
    if event["type"] == "DELETED":
        del objects[key]
    else:
        assert (event["type"] == "ADDED") == (key not in objects), event
        objects[key] = event["object"]


def test_what_watches_tell_adds_up_to_what_is_there(start):
    cluster = start("--paused", "--seed", "3", "--history", "100000")
    paths = ("/api/v1/pods", "/apis/apps/v1/replicasets", "/apis/argoproj.io/v1alpha1/applications",
             "/apis/argoproj.io/v1alpha1/workflows", "/apis/argoproj.io/v1alpha1/rollouts")  # fmt: skip
    version = cluster.get("/demo/status")["resourceVersion"]
    before = {path: cluster.get(path)["items"] for path in paths}
    cluster.control("step?n=200")
    for path in paths:
        kind = cluster.get(path)["kind"].removesuffix("List")
        objects = {(kind, item["metadata"]["namespace"], item["metadata"]["name"]): item for item in before[path]}
        query = {"resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": 1}
        for event in cluster.watch(path, **query):
            if event["type"] != "BOOKMARK":
                replay(objects, event)
        told = {(key, item["metadata"]["uid"], item["metadata"]["resourceVersion"]) for key, item in objects.items()}
        there = {
            ((entry["kind"], entry["namespace"], entry["name"]), entry["uid"], entry["resourceVersion"])
            for entry in cluster.get("/demo/state")
            if entry["kind"] == kind
        }
        assert told == there


def test_everything_happens_in_time(start):
    """In a long life every state that a reporter must know comes up, and histories stay short."""
    cluster = start("--paused", "--seed", "5")
    seen: dict[str, set] = {"sync": set(), "health": set(), "phase": set(), "rollout": set(), "workflow": set()}
    workflows: set[str] = set()
    for _ in range(150):
        cluster.control("step?n=3")
        for item in cluster.get("/apis/argoproj.io/v1alpha1/applications")["items"]:
            seen["sync"].add(item["status"]["sync"]["status"])
            seen["health"].add(item["status"]["health"]["status"])
            seen["phase"].add(item["status"]["operationState"]["phase"])
            assert len(item["status"]["history"]) <= 10
        for item in cluster.get("/apis/argoproj.io/v1alpha1/rollouts")["items"]:
            seen["rollout"].add(item["status"]["phase"])
        present = cluster.get("/apis/argoproj.io/v1alpha1/workflows")["items"]
        seen["workflow"] |= {item["status"]["phase"] for item in present if "status" in item}
        workflows |= {item["metadata"]["name"] for item in present}
    assert seen["sync"] == {"Synced", "OutOfSync", "Unknown"}
    assert {"Healthy", "Progressing", "Degraded", "Suspended"} <= seen["health"]
    assert {"Running", "Succeeded", "Failed"} <= seen["phase"]
    assert {"Healthy", "Progressing", "Paused"} <= seen["rollout"]
    assert {"Running", "Succeeded"} <= seen["workflow"]
    assert len(workflows) > len(present), "old workflows were deleted"
    assert len(cluster.application("storefront")["status"]["history"]) == 10
    assert "error" not in {json.loads(line)["level"] for line in cluster.log.read_text().splitlines()}


def test_a_commit_is_noticed_synced_and_rolled_out(start):
    cluster = start("--paused")
    before = cluster.application("catalog")  # synced by hand only
    assert cluster.control("happen?what=commit&application=catalog")["happened"] is True
    cluster.control("step")
    noticed = cluster.application("catalog")["status"]
    assert noticed["sync"]["status"] == "OutOfSync"
    revision = noticed["sync"]["revisions"][0]
    assert revision not in before["status"]["sync"]["revisions"]
    operation = {"operation": {"initiatedBy": {"username": "tester"}, "sync": {"prune": True}}}
    assert cluster.patch(f"{APPS}/catalog", operation).code == 200

    def synced() -> dict | None:
        status = cluster.application("catalog")["status"]
        return status if status["sync"]["status"] == "Synced" else None

    status = cluster.step_until(synced, "synced", 5)
    assert status["operationState"]["phase"] == "Succeeded"
    assert status["operationState"]["operation"]["initiatedBy"] == {"username": "tester"}
    last = status["history"][-1]
    assert last["revisions"][0] == revision and last["initiatedBy"] == {"username": "tester"}
    assert last["id"] == before["status"]["history"][-1]["id"] + 1
    assert "operation" not in cluster.application("catalog")
    assert status["health"]["status"] == "Progressing"
    cluster.step_until(lambda: cluster.application("catalog")["status"]["health"]["status"] == "Healthy", "rolled", 30)
    assert cluster.application("catalog")["status"]["summary"]["images"] != before["status"]["summary"]["images"]


def test_running_life_answers_a_sync_and_a_refresh_before_its_tick(start):
    cluster = start("--tick", "3600")
    before = cluster.application("accounts")["status"]
    annotation = {"metadata": {"annotations": {"argocd.argoproj.io/refresh": "hard"}}}
    time.sleep(max(0.0, 1.1 - time.time() % 1))  # reconciledAt has whole seconds: let one pass
    cluster.patch(f"{APPS}/accounts", annotation)

    def refreshed() -> dict | None:
        document = cluster.application("accounts")
        done = "argocd.argoproj.io/refresh" not in document["metadata"].get("annotations", {})
        return document if done and document["status"]["reconciledAt"] > before["reconciledAt"] else None

    wait_until(refreshed, "refreshed")
    cluster.patch(f"{APPS}/accounts", {"operation": {"sync": {}}})
    running = lambda: cluster.application("accounts")["status"]["operationState"]["phase"] == "Running"  # noqa: E731
    wait_until(running, "sync running")
    cluster.control("step")
    assert cluster.application("accounts")["status"]["operationState"]["phase"] == "Succeeded"


def test_a_bad_image_degrades_and_a_new_commit_mends(start):
    cluster = start("--paused", "--seed", "11")
    cluster.control("happen?what=break-image&application=storefront")
    health = lambda: cluster.application("storefront")["status"]["health"]["status"]  # noqa: E731
    cluster.step_until(lambda: health() == "Degraded", "degraded", 30)
    reasons = {
        status["state"].get("waiting", {}).get("reason")
        for pod in cluster.get("/api/v1/namespaces/shop/pods")["items"]
        for status in pod["status"].get("containerStatuses", [])
    }
    assert "ImagePullBackOff" in reasons
    cluster.step_until(lambda: health() == "Healthy", "mended", 100)


def test_a_rollout_walks_its_canary_steps_and_can_be_promoted_and_aborted(start):
    cluster = start("--paused")
    path = "/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/checkout"
    stable = cluster.get(path)["status"]["stableRS"]
    cluster.control("happen?what=commit&application=checkout")
    status = lambda: cluster.get(path)["status"]  # noqa: E731
    paused = cluster.step_until(lambda: status().get("pauseConditions") and status(), "paused", 20)
    assert paused["phase"] == "Paused" and paused["pauseConditions"][0]["reason"] == "CanaryPauseStep"
    assert paused["stableRS"] == stable != paused["currentPodHash"]
    assert cluster.application("checkout")["status"]["health"]["status"] == "Suspended"
    cluster.patch(f"{path}/status", {"status": {"pauseConditions": None}})
    cluster.control("step")
    assert status()["currentStepIndex"] == paused["currentStepIndex"] + 1
    cluster.step_until(lambda: "currentStepAnalysisRunStatus" in status()["canary"], "analysis", 20)
    assert cluster.get("/apis/argoproj.io/v1alpha1/analysisruns")["items"]
    cluster.patch(f"{path}/status", {"status": {"abort": True}})
    cluster.control("step?n=3")
    assert status()["phase"] == "Degraded" and status()["message"].startswith("RolloutAborted")
    cluster.patch(f"{path}/status", {"status": {"abort": None, "promoteFull": True}})
    cluster.step_until(lambda: status()["phase"] == "Healthy", "promoted", 30)
    assert status()["stableRS"] == paused["currentPodHash"]


def test_objects_of_clients_live_too_and_nonsense_does_no_harm(start):
    cluster = start("--paused")
    labels = {"app": "mine"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    deployment = {
        "metadata": {"name": "mine"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }
    path = "/apis/apps/v1/namespaces/default/deployments"
    assert cluster.call("POST", path, deployment).code == 201
    cluster.step_until(lambda: cluster.get(f"{path}/mine")["status"].get("readyReplicas") == 2, "ready", 10)
    pods = "/api/v1/namespaces/default/pods?labelSelector=app%3Dmine"
    assert len(cluster.get(pods)["items"]) == 2
    assert_status(cluster.call("POST", path, {"metadata": {"name": "bad"}, "spec": {}}), 422, "Invalid")
    workflow = {"kind": "Workflow", "metadata": {"name": "odd"}, "spec": {"templates": "nonsense"}}
    flows = "/apis/argoproj.io/v1alpha1/namespaces/default/workflows"
    assert cluster.call("POST", flows, {**workflow, "apiVersion": "argoproj.io/v1alpha1"}).code == 201
    version = cluster.get("/demo/status")["resourceVersion"]
    cluster.control("step?n=20")
    assert int(cluster.get("/demo/status")["resourceVersion"]) > int(version) + 5, "the others live on"
    assert cluster.call("DELETE", f"{path}/mine").code == 200
    assert cluster.get(pods)["items"] == [], "what it owned went with it"


def test_a_deleted_application_is_gone_and_control_checks_its_input(start):
    cluster = start("--paused")
    assert cluster.call("DELETE", f"{APPS}/storefront").code == 200
    cluster.control("step?n=5")
    assert cluster.call("GET", f"{APPS}/storefront").code == 404
    assert_status(cluster.call("POST", "/demo/happen?what=commit&application=storefront"), 404, "NotFound")
    assert_status(cluster.call("POST", "/demo/happen?what=nonsense&application=catalog"), 400, "BadRequest")
    assert_status(cluster.call("POST", "/demo/step?n=1000000"), 400, "BadRequest")
    assert_status(cluster.call("GET", "/demo/step"), 405, "MethodNotAllowed")


def test_many_applications(start):
    cluster = start("--paused", "--applications", "60")
    applications = cluster.get("/apis/argoproj.io/v1alpha1/applications")["items"]
    assert len({item["metadata"]["name"] for item in applications}) == 60
    assert {item["status"]["health"]["status"] for item in applications} == {"Healthy"}
    cluster.control("step?n=3")


# -- the demo service -------------------------------------------------------------------------------------------


def service(cluster: DemoCluster, method: str, path: str, body=None, headers: dict | None = None) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", cluster.service_port, timeout=WAIT_SECONDS)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
    finally:
        connection.close()


def test_service_greets_and_echoes(shared):
    assert b"demo cluster" in service(shared, "GET", "/").body
    content = os.urandom(300_000)
    for body in (content, iter([content[:7], content[7:200_000], content[200_000:]])):
        echo = service(shared, "PUT", "/echo?a=b", body, {"X-Mine": "yes"}).json()
        assert (echo["method"], echo["path"], echo["query"]) == ("PUT", "/echo", {"a": "b"})
        assert ["X-Mine", "yes"] in echo["headers"]
        assert (echo["bodyBytes"], echo["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())


def test_service_sends_bytes_chunks_and_codes(shared):
    for path in ("/bytes/3000001", "/chunked/3000001"):
        answer = service(shared, "GET", path)
        assert answer.body == (bytes(range(256)) * 11719)[:3000001]
    assert service(shared, "GET", "/bytes/3000001").headers["Content-Length"] == "3000001"
    assert service(shared, "GET", "/chunked/5").headers["Transfer-Encoding"] == "chunked"
    assert service(shared, "HEAD", "/bytes/10").body == b""
    for code in (204, 302, 404, 503):
        assert service(shared, "GET", f"/status/{code}").code == code
    assert service(shared, "GET", "/slow?seconds=0.1").code == 200
    assert service(shared, "GET", "/nothing").code == 404


def test_service_sends_events_one_by_one(shared):
    connection = http.client.HTTPConnection("127.0.0.1", shared.service_port, timeout=WAIT_SECONDS)
    connection.request("GET", "/sse?interval=0.05&count=3")
    response = connection.getresponse()
    assert response.headers["Content-Type"] == "text/event-stream"
    events = response.read().decode().strip().split("\n\n")
    connection.close()
    assert [event.splitlines()[0] for event in events] == ["id: 1", "id: 2", "id: 3"]


def test_service_notices_a_client_that_leaves(shared):
    before = service(shared, "GET", "/counters").json()["aborted"]
    for path in ("/slow?seconds=60", "/sse", "/bytes/10000000000"):
        with socket.create_connection(("127.0.0.1", shared.service_port), timeout=WAIT_SECONDS) as client:
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            if path != "/slow?seconds=60":
                assert client.recv(1024)
    aborted = lambda: service(shared, "GET", "/counters").json()["aborted"] >= before + 3  # noqa: E731
    wait_until(aborted, "three aborted requests")


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.1\r\nName : value\r\n\r\n",
    ],
)
def test_service_refuses_what_is_ambiguous(shared, head):
    with socket.create_connection(("127.0.0.1", shared.service_port), timeout=WAIT_SECONDS) as client:
        client.sendall(head)
        received = b""
        while block := client.recv(4096):
            received += block
    assert received.startswith(b"HTTP/1.1 400 ")


def test_service_does_not_hold_uploads(start):
    cluster = start("--paused")

    def peak_kib() -> int:
        lines = pathlib.Path(f"/proc/{cluster.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

    service(cluster, "PUT", "/echo", b"x" * 1_000_000)
    before, block, count = peak_kib(), b"y" * 1_048_576, 256
    echo = service(cluster, "PUT", "/echo", (block for _ in range(count))).json()
    assert echo["bodyBytes"] == count * len(block)
    assert peak_kib() - before < 16 * 1024


# -- what Argo CD 3 and an API server on a bad day do --------------------------------------------------------------------


@pytest.mark.parametrize("release", (3, 2))
def test_health_of_resources_is_where_that_argo_cd_keeps_it(start, release):
    cluster = start("--paused", *(["--argo-cd", "2"] if release == 2 else []))
    for item in cluster.get(APPS)["items"]:
        status = item["status"]
        assert status["health"]["status"] == "Healthy" and status["resources"], item["metadata"]["name"]
        named = [entry for entry in status["resources"] if "health" in entry]
        if release == 3:
            assert not named and status["resourceHealthSource"] == "appTree"
        else:
            assert named and "resourceHealthSource" not in status


def test_rights_are_taken_away_and_given_back(start):
    cluster = start("--paused")
    cluster.call("POST", "/demo/forbid?resource=pods")
    refused = cluster.call("GET", "/api/v1/pods")
    assert refused.code == 403 and refused.json()["reason"] == "Forbidden"
    assert refused.json()["message"].startswith("pods is forbidden: User ") and 'cannot list resource "pods"' in refused.json()["message"]
    assert cluster.call("GET", "/api/v1/pods?watch=1").json()["message"].count("cannot watch") == 1
    assert cluster.get("/api/v1/services")["items"] and cluster.get("/version")
    cluster.call("POST", "/demo/forbid")
    for path in ("/version", "/apis", "/api/v1", APPS):
        assert cluster.call("GET", path).code == 403, path
    assert cluster.call("GET", "/livez").code == 200
    cluster.control("allow")
    assert cluster.get("/api/v1/pods")["items"]


def test_rbac_that_loads_late(start):
    cluster = start("--paused", "--rbac-seconds", "1.5")
    assert cluster.call("GET", APPS).code == 403
    wait_until(lambda: cluster.call("GET", APPS).code == 200, "rights are loaded")


def test_a_server_that_hangs_answers_later_and_its_watches_are_silent(start):
    cluster = start("--paused", "--bookmarks", "0.1")
    watch = cluster.watch(SHOP_MAPS, allowWatchBookmarks="true")
    assert "BOOKMARK" in (event["type"] for event in watch)
    cluster.call("POST", "/demo/hang?seconds=600")
    # What was on its way comes; then nothing does, neither bookmarks nor answers.
    answered = []
    asking = threading.Thread(target=lambda: answered.append(cluster.call("GET", APPS).code), daemon=True)
    asking.start()
    asking.join(1.0)
    assert asking.is_alive() and not answered
    assert cluster.call("GET", "/livez").code == 200
    cluster.call("POST", "/demo/hang?seconds=0")
    asking.join(WAIT_SECONDS)
    assert answered == [200] and watch.next()["type"] == "BOOKMARK"


def test_this_cluster_by_another_name(start):
    cluster = start("--paused", "--cluster-name", "production")
    destination = cluster.application("accounts")["spec"]["destination"]
    assert destination == {"name": "production", "namespace": "finance"}
    assert cluster.application("accounts")["status"]["health"]["status"] == "Healthy"
    data = cluster.get("/api/v1/namespaces/argocd/secrets/cluster-home")["data"]
    assert base64.b64decode(data["server"]) == b"https://kubernetes.default.svc" and base64.b64decode(data["name"]) == b"production"
