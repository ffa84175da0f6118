"""Logs of pods through the tunnel: what is asked for arrives while it is written, no more is read than is taken, and only what the cluster's owner permits."""

import json
import pathlib
import tempfile
import urllib.parse

import pytest

from conftest import build_folder
from platform_under_test import Connection, Platform
from waiting import wait_until

PATH = "/app-proxy/api/applications/logs"
NDJSON = {"Accept": "application/x-ndjson"}


@pytest.fixture(scope="module")
def platform():
    with tempfile.TemporaryDirectory(prefix="culvert-e2e.", dir="/var/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        under_test = Platform(pathlib.Path(folder) / "home", build_folder("asan"))
        under_test.settings.update(CULVERT_OPERATIONS_ALLOWED="logs:shop/*", CULVERT_LOGS_CALLS_MAX="3")
        try:
            yield under_test.start()
        finally:
            under_test.reset()


@pytest.fixture(autouse=True)
def still(platform):
    platform.cluster("POST", "/demo/pause")
    yield
    platform.cluster("POST", "/demo/logs?rate=1")
    wait_until(lambda: platform.cluster("GET", "/demo/status")["openLogs"] == 0, 30, "no log is open")


def target(**query):
    return f"{PATH}?{urllib.parse.urlencode(query, doseq=True)}"


def get(platform, headers=None, **query):
    return platform.ingress("GET", target(**query), headers=headers)


def events(answer):
    assert answer.status == 200, (answer.status, answer.text())
    return [json.loads(line) for line in answer.text().splitlines()]


def workload(platform, plural="deployments", group="apis/apps/v1"):
    """A workload of the namespace shop that has running pods, with their names."""
    pods = running(platform)
    for item in platform.cluster("GET", f"/{group}/namespaces/shop/{plural}")["items"]:
        labels = item["spec"]["selector"]["matchLabels"].items()
        names = [pod["metadata"]["name"] for pod in pods if labels <= pod["metadata"]["labels"].items()]
        if names:
            return item["metadata"]["name"], names
    raise AssertionError(f"no {plural} with pods")


def running(platform, namespace="shop"):
    items = platform.cluster("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    return [pod for pod in items if pod["status"]["phase"] == "Running" and "running" in pod["status"]["containerStatuses"][0]["state"]]


class Follower:
    """A call that is being answered; `line` reads on."""

    def __init__(self, platform, path, headers=NDJSON, api=False):
        parts = urllib.parse.urlsplit(platform.env["CULVERT_URL" if api else "CULVERT_INGRESS_URL"])
        host = parts.hostname if api else platform.env["CULVERT_INGRESS_HOST"]
        self.connection = Connection(platform, parts.port, host, parts.scheme == "https", 30)
        self.connection.request("GET", path, headers={"Host": f"{host}:{parts.port}", "Authorization": platform.env["CULVERT_API_KEY"], **headers})
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.read()

    def event(self):
        return json.loads(self.answer.readline())

    def lines(self, count):
        found = []
        while len(found) < count:
            event = self.event()
            if "line" in event:
                found.append(event)
        return found

    def close(self):
        self.answer.close()
        self.connection.close()


def test_the_log_of_one_pod_as_text_and_as_json(platform):
    pod = running(platform)[0]["metadata"]["name"]
    text = get(platform, namespace="shop", name=pod, tailLines=3)
    assert (text.status, text.headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    assert text.headers["Content-Disposition"] == f'attachment; filename="shop-{pod}.log"'
    lines = text.text().splitlines()
    assert len(lines) == 3 and all(line.startswith("level=info n=") for line in lines), lines
    timed = get(platform, namespace="shop", name=pod, tailLines=1, timestamps="true").text()
    assert timed[10] == "T" and " level=info" in timed
    found = events(get(platform, NDJSON, namespace="shop", podName=pod, tailLines=2))
    assert [event.get("event") for event in found] == ["heartbeat", None, None, "end"][-len(found):]
    line = next(event for event in found if "line" in event)
    assert (line["namespace"], line["pod"]) == ("shop", pod) and line["container"] and line["time"].endswith("Z")


def test_the_logs_of_a_workload_and_of_an_application(platform):
    name, pods = workload(platform)
    found = events(get(platform, NDJSON, namespace="shop", kind="Deployment", group="apps", name=name, tailLines=1))
    assert {event["pod"] for event in found if "line" in event} == set(pods)
    prefixed = get(platform, namespace="shop", kind="Deployment", name=name, tailLines=1).text().splitlines()
    assert len(pods) == 1 or all(line.startswith("[pod/") for line in prefixed), prefixed
    app = next(a for a in platform.cluster("GET", "/apis/argoproj.io/v1alpha1/applications")["items"] if a["spec"]["destination"]["namespace"] == "shop" and a["status"].get("resources"))
    found = events(get(platform, NDJSON, namespace=app["metadata"]["namespace"], kind="Application", name=app["metadata"]["name"], tailLines=1))
    assert found[-1]["event"] == "end" and any("line" in event for event in found), found
    none = events(get(platform, NDJSON, namespace="shop", kind="Deployment", name=name, container="nothing"))
    assert [event["code"] for event in none if event.get("event") == "notice"] == ["NO_PODS"]


@pytest.mark.parametrize("destination", ({"server": "https://elsewhere.example:6443"}, {"server": None, "name": "elsewhere"}))
def test_an_application_of_another_cluster_shows_no_pods_of_this_one(platform, destination):
    app = next(a for a in platform.cluster("GET", "/apis/argoproj.io/v1alpha1/applications")["items"] if a["spec"]["destination"]["namespace"] == "shop" and a["status"].get("resources"))
    namespace, name = app["metadata"]["namespace"], app["metadata"]["name"]
    path = f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}/applications/{name}"
    own = {"server": None, "name": None, **app["spec"]["destination"]}
    platform.cluster("PATCH", path, {"spec": {"destination": destination}}, "application/merge-patch+json")
    try:
        answer = get(platform, namespace=namespace, kind="Application", name=name)
        assert answer.status == 404 and answer.json()["code"] == "not-found" and "another cluster" in answer.text(), answer.text()
    finally:
        platform.cluster("PATCH", path, {"spec": {"destination": own}}, "application/merge-patch+json")
    assert get(platform, namespace=namespace, kind="Application", name=name, tailLines=1).status == 200


@pytest.mark.parametrize("api", (False, True))
def test_lines_arrive_while_they_are_written_and_a_client_that_leaves_ends_it(platform, api):
    name, pods = workload(platform)
    path = target(namespace="shop", kind="Deployment", name=name, tailLines=0, follow="true")
    follower = Follower(platform, f"/runtimes/{platform.env['CULVERT_RUNTIME']}/proxy{path}" if api else path, api=api)
    platform.cluster("POST", "/demo/logs?rate=20")
    assert len(follower.lines(5 * len(pods))) == 5 * len(pods)
    assert platform.cluster("GET", "/demo/status")["openLogs"] == len(pods)
    follower.close()
    wait_until(lambda: platform.cluster("GET", "/demo/status")["openLogs"] == 0, 10, "the cluster's logs are closed")


def test_a_container_that_restarts_is_followed(platform):
    pod = running(platform)[0]
    name = pod["metadata"]["name"]
    app = next(a["metadata"]["name"] for a in platform.cluster("GET", "/apis/argoproj.io/v1alpha1/applications")["items"] if any(name.startswith(r["name"]) for r in a["status"].get("resources", ())))
    before = pod["status"]["containerStatuses"][0]["containerID"]
    follower = Follower(platform, target(namespace="shop", name=name, follow="true", tailLines=1))
    follower.lines(1)
    state = lambda: platform.cluster("GET", f"/api/v1/namespaces/shop/pods/{name}")["status"]["containerStatuses"][0]
    platform.cluster("POST", f"/demo/happen?what=crash&application={app}")
    crashed = [p for p in platform.cluster("GET", "/api/v1/namespaces/shop/pods")["items"] if "terminated" in p["status"]["containerStatuses"][0]["state"]]
    if name not in [p["metadata"]["name"] for p in crashed]:
        follower.close()
        name = crashed[0]["metadata"]["name"]
        before = crashed[0]["status"]["containerStatuses"][0]["containerID"]
        follower = Follower(platform, target(namespace="shop", name=name, follow="true", tailLines=1))
        follower.lines(1)
    wait_until(lambda: platform.cluster("POST", "/demo/step?n=1") and state()["ready"] and state()["containerID"] != before, 30, "the container runs again")
    numbers = []
    while 0 not in numbers:
        numbers += [int(event["line"].split("n=")[1].split()[0]) for event in follower.lines(1)]
    follower.close()
    previous = get(platform, namespace="shop", name=name, previous="true", tailLines=2)
    assert previous.status == 200 and len(previous.text().splitlines()) == 2


def test_a_client_that_does_not_read_is_not_read_for(platform):
    name, _ = workload(platform)
    platform.cluster("POST", "/demo/logs?rate=20000")
    slow = Follower(platform, target(namespace="shop", kind="Deployment", name=name, follow="true"))

    seen = []

    def rests():
        """Three looks in a row, a while apart, find the same."""
        seen.append(agent_metric(platform, "culvert_agent_log_bytes_total"))
        return len(seen) > 5 and seen[-1] == seen[-3] == seen[-6] > 0

    wait_until(rests, 30, "nothing is read any more")
    assert platform.rss_kib("agent") < 400 * 1024
    assert get(platform, namespace="shop", name=running(platform)[0]["metadata"]["name"], tailLines=1).status == 200
    slow.lines(20_000)
    slow.close()


def agent_metric(platform, name):
    ports = dict(line.split("=") for line in (platform.home / "ports").read_text().split())
    text = platform.call("GET", f"http://127.0.0.1:{ports['PORT_AGENT']}", "/metrics", key=False).text()
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


def test_what_the_owner_or_the_cluster_does_not_permit(platform):
    pod = running(platform)[0]["metadata"]["name"]
    other = next(p["metadata"] for p in platform.cluster("GET", "/api/v1/pods")["items"] if p["metadata"]["namespace"] != "shop")
    refused = get(platform, namespace=other["namespace"], name=other["name"])
    assert (refused.status, refused.json()["code"]) == (403, "not-allowed") and "operations.allowed" in refused.text()
    platform.cluster("POST", "/demo/forbid?resource=pods/log")
    try:
        forbidden = events(get(platform, NDJSON, namespace="shop", name=pod))
        assert [e["code"] for e in forbidden if e.get("event") == "notice"] == ["FORBIDDEN"] and "--print-rbac" in str(forbidden)
    finally:
        platform.cluster("POST", "/demo/allow")
    assert platform.ingress("GET", target(namespace="shop", name=pod), key=False).status == 401


def test_bad_requests_name_the_parameter(platform):
    def message(status=400, **query):
        answer = get(platform, **query)
        assert answer.status == status, (answer.status, answer.text())
        return answer.text()

    assert "namespace and name" in message(namespace="shop")
    assert "invalid name" in message(namespace="../..", name="x")
    assert "unknown parameter" in message(namespace="shop", name="x", verbose="1")
    assert "tailLines" in message(namespace="shop", name="x", tailLines="-5")
    assert "sinceTime" in message(namespace="shop", name="x", sinceTime="yesterday")
    assert "kind" in message(namespace="shop", name="x", kind="Secret")
    assert "follow and previous" in message(namespace="shop", name="x", follow="true", previous="true")
    assert "follow and limitBytes" in message(namespace="shop", name="x", follow="true", limitBytes=100)
    assert "has no Pod shop/gone" in message(404, namespace="shop", name="gone")


def test_more_calls_than_permitted_are_refused(platform):
    pod = running(platform)[0]["metadata"]["name"]
    followers = [Follower(platform, target(namespace="shop", name=pod, follow="true", tailLines=0)) for _ in range(3)]
    full = get(platform, namespace="shop", name=pod)
    for follower in followers:
        follower.close()
    assert (full.status, full.json()["code"]) == (503, "overloaded") and "logs.calls_max" in full.text()
