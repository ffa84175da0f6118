"""How fresh things are shown, and a dead runtime with its cause, within 15 seconds of its death: an agent that stands still, is killed,
says goodbye, is cut off, loses its token; a replica that is killed or stands still with the tunnel."""

import base64
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import pytest

from conftest import build_folder
from platform_under_test import wait_until
from replicas_under_test import Replicas, is_ready

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from fault_proxy import FaultProxy  # noqa: E402

SHOWN_SECONDS_MAX = 15
RUNTIME = "frail"
PROXY_PROGRAM = build_folder("asan") / "tests/support/culvert-fault-proxy"
QUERY = """query($n: String!, $f: ApplicationsFilterArgs) {
  runtime(name: $n) { online available healthStatus freshness lagSeconds lastSeenAt since disconnectCause observedAt receivedAt sequence managedClusters { freshness } }
  applications(filters: $f) { edges { node { metadata { name } healthStatus freshness observedAt receivedAt sequence } } }
  clusters(runtime: $n) { edges { node { metadata { name } freshness observedAt receivedAt sequence } } } }"""


def make_runtime(platform, recover=False):
    mutation = "mutation($a: RuntimeInstallationArgs!) { createRuntime(installationArgs: $a) { newAccessToken } }"
    arguments = {"runtimeName": RUNTIME, "cluster": "frail", "runtimeVersion": "0.0.1", "componentNames": [], "installationType": "HELM", "recover": recover}
    return platform.graphql(mutation, {"a": arguments})["createRuntime"]["newAccessToken"]


def read(url):
    """(status, text), also of an error."""
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class Frail:
    """A runtime of its own beside the platform's, whose agent watches the same demo cluster; proxies stand on its two ways."""

    def __init__(self, platform, folder, token):
        self.platform, self.folder, self.token, self.process = platform, folder, token, None
        self.line = FaultProxy(PROXY_PROGRAM, int(platform.env["CULVERT_TUNNEL_URL"].rsplit(":", 1)[1]))
        config = (platform.home / "agent/agent.conf").read_text()
        kubeconfig = pathlib.Path(re.search(r"(?m)^kubeconfig = (.*)$", config)[1]).read_text()
        port = re.search(r"https://[^\":/]+:(\d+)", kubeconfig)[1]
        self.cluster = FaultProxy(PROXY_PROGRAM, int(port))
        (folder / "kubeconfig").write_text(kubeconfig.replace(f":{port}", f":{self.cluster.port}"))
        (folder / "kubeconfig").chmod(0o600)
        (folder / "token").write_text(token)
        (folder / "token").chmod(0o600)

    def launch(self):
        """Starts the agent; the port of its probes."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        words = [f"--runtime.token_file={self.folder}/token", f"--runtime.name={RUNTIME}", f"--admin.listen=127.0.0.1:{port}", f"--reporter.state_dir={self.folder}",
                 f"--platform.url=wss://localhost:{self.line.port}", f"--kubeconfig={self.folder}/kubeconfig"]
        command = [self.platform.build / "agent/culvert-agent", "--config", self.platform.home / "agent/agent.conf", *words]
        with open(self.folder / "agent.log", "ab") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        return port

    def start(self):
        self.launch()
        wait_until(lambda: self.shown()["freshness"] == "live" and self.applications(), 60, "the runtime is live")

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        self.line.stop()
        self.cluster.stop()

    def ask(self):
        return self.platform.graphql(QUERY, {"n": RUNTIME, "f": {"runtime": RUNTIME}})

    def shown(self):
        return self.ask()["runtime"]

    def applications(self):
        return [edge["node"] for edge in self.ask()["applications"]["edges"]]


@pytest.fixture()
def frail(platform):
    """Connected, its inventory complete; gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="culvert-e2e.", dir="/var/tmp") as folder:
        under_test = Frail(platform, pathlib.Path(folder), make_runtime(platform))
        try:
            under_test.start()
            yield under_test
        finally:
            under_test.end()
            platform.graphql("mutation($n: String!) { deleteRuntime(name: $n) }", {"n": RUNTIME})


def stand_still(frail):
    frail.process.send_signal(signal.SIGSTOP)


def be_killed(frail):
    frail.process.kill()


def say_goodbye(frail):
    frail.process.terminate()


def be_cut(frail):
    frail.line.say("refuse", "cut")


def be_swallowed(frail):
    frail.line.say("blackhole", "stall both")


def lose_the_token(frail):
    make_runtime(frail.platform, recover=True)


WAYS = [(stand_still, "PINGS_MISSED"), (be_killed, "CONNECTION_LOST"), (say_goodbye, "CLOSED_BY_AGENT"), (be_cut, "CONNECTION_LOST"),
        (be_swallowed, "PINGS_MISSED"), (lose_the_token, "REVOKED")]


@pytest.mark.parametrize("way, cause", WAYS, ids=lambda value: getattr(value, "__name__", None))
def test_a_dead_runtime_is_shown_with_its_cause(frail, way, cause):
    before = frail.ask()
    alive = before["runtime"]
    assert (alive["online"], alive["disconnectCause"], alive["lagSeconds"] < 5) == (True, None, True), alive
    assert alive["since"] and alive["lastSeenAt"] >= alive["since"] and alive["sequence"]
    for entity in [*frail.applications(), *[edge["node"] for edge in before["clusters"]["edges"]]]:
        assert entity["freshness"] == "live" and entity["observedAt"] and entity["receivedAt"] and re.fullmatch(r"\d+\.\d+", entity["sequence"]), entity
    assert [each["freshness"] for each in alive["managedClusters"]] == ["live"]

    way(frail)
    dead = wait_until(lambda: (lambda runtime: not runtime["online"] and runtime)(frail.shown()), SHOWN_SECONDS_MAX + 1, "the runtime is shown dead")
    assert (dead["disconnectCause"], dead["freshness"], dead["healthStatus"], dead["available"]) == (cause, "disconnected", "DEGRADED", False), dead
    assert alive["since"] <= dead["lastSeenAt"] <= dead["since"], (alive, dead)
    if cause == "PINGS_MISSED":
        assert dead["lastSeenAt"] < dead["since"]  # the silence is not counted as life
    after = frail.ask()
    health = {each["metadata"]["name"]: each["healthStatus"] for each in frail.applications()}
    assert health and all(health.values())  # last known, and recognisable as that:
    for entity in [*frail.applications(), *[edge["node"] for edge in after["clusters"]["edges"]], *after["runtime"]["managedClusters"]]:
        assert entity["freshness"] == "disconnected", entity
    later = wait_until(lambda: (lambda runtime: runtime["lagSeconds"] > dead["lagSeconds"] and runtime)(frail.shown()), 5, "the lag grows")
    assert later["lastSeenAt"] == dead["lastSeenAt"] and later["since"] == dead["since"]


# ---- an agent that is there, and behind -----------------------------------------------------------------------------


def lose_sight_of_the_cluster(frail):
    frail.cluster.say("refuse", "cut")


def let_the_cluster_hang(frail):
    """Connections stand, new ones are accepted, and nothing is answered: as an API server that is stopped."""
    frail.cluster.say("stall both")


def hear_no_acknowledgement(frail):
    frail.line.say("stall down")  # the demo cluster never holds still: there is always something to acknowledge


@pytest.mark.parametrize("way", [lose_sight_of_the_cluster, let_the_cluster_hang, hear_no_acknowledgement], ids=lambda way: way.__name__)
def test_a_lagging_agent_is_not_shown_live(frail, way):
    way(frail)
    began = time.monotonic()
    late = wait_until(lambda: (lambda runtime: runtime["freshness"] != "live" and runtime)(frail.shown()), SHOWN_SECONDS_MAX, "the lag is shown")
    assert time.monotonic() - began >= 4  # a moment's lag is none
    assert (late["freshness"], late["online"], late["disconnectCause"]) == ("lagging", True, None) and late["lagSeconds"] >= 5, late
    assert {each["freshness"] for each in frail.applications()} == {"lagging"}
    metrics = frail.platform.admin("/metrics").text()
    assert re.search(rf'culvert_runtime_lag_seconds{{account="[0-9a-f]+",runtime="{RUNTIME}"}} \d', metrics), metrics
    frail.cluster.say("resume")
    frail.line.say("resume")
    wait_until(lambda: frail.shown()["freshness"] == "live" and frail.shown()["lagSeconds"] < 1, 40, "live again")
    wait_until(lambda: f'runtime="{RUNTIME}"' not in frail.platform.admin("/metrics").text(), 5, "the metric forgets")
    assert "culvert_reports_lag_seconds_count" in metrics


def test_a_tunnel_that_comes_back_makes_all_live_again(frail):
    """Also where the agent and the platform found nothing to tell each other."""
    before = frail.shown()
    frail.line.say("cut")
    wait_until(lambda: frail.shown()["since"] > before["since"] and frail.shown()["online"], 30, "another session")
    wait_until(lambda: frail.shown()["freshness"] == "live", 40, "live again")
    wait_until(lambda: {each["freshness"] for each in frail.applications()} == {"live"}, 5, "every application is")
    wait_until(lambda: [edge["node"]["freshness"] for edge in frail.ask()["clusters"]["edges"]] == ["live"], 70, "its cluster is")


# ---- an agent that cannot read its cluster ------------------------------------------------------------------------------


def with_a_wrong_token(frail, kubeconfig):
    kubeconfig["users"][0]["user"]["token"] = "wrong"


def with_another_ca(frail, kubeconfig):
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=other -keyout /dev/null"
    other = subprocess.run(["openssl", *words.split()], check=True, capture_output=True).stdout
    kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"] = base64.b64encode(other).decode()


def where_nothing_listens(frail, kubeconfig):
    frail.cluster.say("refuse")


def where_nothing_answers(frail, kubeconfig):
    frail.cluster.say("blackhole")


CANNOT_READ = [(with_a_wrong_token, "KUBERNETES_API_UNAUTHORIZED"), (with_another_ca, "KUBERNETES_API_UNTRUSTED"),
               (where_nothing_listens, "KUBERNETES_API_(UNREACHABLE|FAILING)"), (where_nothing_answers, "KUBERNETES_API_HUNG")]
ERRORS = "query($n: String!) { runtime(name: $n) { online healthStatus healthMessage errors { ... on HealthError { level title message suggestion } } } }"


def test_a_runtime_that_cannot_read_is_not_healthy(platform):
    """Each time with its cause and what helps, on the runtime and at the agent's /readyz; and the agent goes on trying."""
    with tempfile.TemporaryDirectory(prefix="culvert-e2e.", dir="/var/tmp") as folder:
        frail = Frail(platform, pathlib.Path(folder), make_runtime(platform))
        try:
            good = (frail.folder / "kubeconfig").read_text()
            for way, code in CANNOT_READ:
                kubeconfig = json.loads(good)
                way(frail, kubeconfig)
                (frail.folder / "kubeconfig").write_text(json.dumps(kubeconfig))
                port = frail.launch()
                found = wait_until(lambda: (lambda runtime: runtime["online"] and runtime["errors"] and runtime)(platform.graphql(ERRORS, {"n": RUNTIME})["runtime"]), 40, f"{code} is shown")
                first = found["errors"][0]
                assert (found["healthStatus"], first["level"]) == ("DEGRADED", "ERROR") and found["healthMessage"] in first["message"], (way, found)
                assert re.search(code, first["message"]) and first["suggestion"], (way, found)
                status, text = read(f"http://127.0.0.1:{port}/readyz")
                assert status == 503 and first["suggestion"] in text, (way, text)
                assert frail.process.poll() is None
                if way is where_nothing_answers:
                    frail.cluster.say("resume")
                    wait_until(lambda: not (lambda runtime: runtime["errors"] or runtime["healthStatus"] != "HEALTHY")(platform.graphql(ERRORS, {"n": RUNTIME})["runtime"]), 40, "healthy again")
                    assert read(f"http://127.0.0.1:{port}/readyz")[0] == 200
                frail.process.kill()
                frail.process.wait()
                frail.cluster.say("resume")
        finally:
            frail.end()
            platform.graphql("mutation($n: String!) { deleteRuntime(name: $n) }", {"n": RUNTIME})


# ---- replicas --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def replicas():
    with tempfile.TemporaryDirectory(prefix="culvert-e2e.", dir="/var/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        under_test = Replicas(pathlib.Path(folder) / "home", build_folder("asan"))
        try:
            yield under_test.start()
        finally:
            under_test.reset()


@contextlib.contextmanager
def standing_still(*pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def shown_by(replicas, number):
    body = json.dumps({"query": "query($n: String!) { runtime(name: $n) { online freshness since lastSeenAt disconnectCause } }", "variables": {"n": replicas.env["CULVERT_RUNTIME"]}})
    answer = replicas.api_of(number, "POST", "/2.0/api/graphql", body, headers={"Content-Type": "application/json"})
    return answer.json()["data"]["runtime"]


@pytest.mark.parametrize("restarts", [False, True], ids=["stays away", "restarts"])
def test_a_dead_replica_is_the_cause(replicas, restarts):
    """Its agent stands still, so that no other session takes over before anybody could look."""
    wait_until(lambda: all(is_ready(replicas, number) for number in (0, 1)) and replicas.owner() is not None, 60, "both replicas, and a tunnel")
    owner = replicas.owner()
    name = f"culvertd-{owner}"
    supervisor = int((replicas.home / f"run/{name}.pid.supervisor").read_text())
    with standing_still(replicas.pid("agent"), *([] if restarts else [supervisor])):
        replicas.kill(name)
        killed_at = time.monotonic()
        dead = wait_until(lambda: (lambda runtime: not runtime["online"] and runtime)(shown_by(replicas, 1 - owner)), SHOWN_SECONDS_MAX + 1, "shown dead")
        assert (dead["disconnectCause"], dead["freshness"]) == ("REPLICA_DIED", "disconnected"), (dead, time.monotonic() - killed_at)
        assert dead["lastSeenAt"] <= dead["since"]
    wait_until(lambda: shown_by(replicas, 1 - owner)["freshness"] == "live", 90, "live again")
