"""Somebody who says far more than others: his noisy objects are shown with his runtime, and his share of the queue is all he can
fill; nobody else is refused for it, and nothing of what he said last is lost."""

import json
import os
import signal
import threading
import time
import uuid

import pytest

import report_tunnel
from platform_under_test import Connection, wait_until
from report_tunnel import ReportTunnel

EVENTS = "/2.0/api/events"
NOISY = """query($n: String!) { runtime(name: $n) { noisyObjects { group kind namespace name changes changesPerMinute firstSeen lastSeen } } }"""
KIB = 1024


@pytest.fixture()
def make_runtime(platform):
    made = []

    def make():
        name = f"noise-{uuid.uuid4().hex[:8]}"
        query = "mutation($a: RuntimeInstallationArgs!) { createRuntime(installationArgs: $a) { newAccessToken } }"
        args = {"runtimeName": name, "cluster": "in-cluster", "runtimeVersion": "0.1.0", "componentNames": []}
        token = platform.graphql(query, {"a": args})["createRuntime"]["newAccessToken"]
        made.append(name)
        wait_until(lambda: platform.api("POST", EVENTS, "{}", key=token, headers={"Content-Type": "application/json"}).status == 400, 20, "the new token is known")
        return name, token

    yield make
    for name in made:
        platform.graphql("mutation($n: String!) { deleteRuntime(name: $n) }", {"n": name})


def manifest(name, number, size=0):
    metadata = {"name": name, "namespace": "noise", "uid": name, "labels": {"app.kubernetes.io/number": str(number)}}
    if size:  # in what is kept as it came
        metadata["annotations"] = {f"app.kubernetes.io/{i}": "x" * 4000 for i in range(size // 4000)}
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata}


def post(platform, token, body):
    return platform.api("POST", EVENTS, json.dumps({"data": {"object": body}}), key=token, headers={"Content-Type": "application/json"}, timeout=120)


def stored(platform, runtime):
    return dict(platform.psql(f"select name, labels ->> 'app.kubernetes.io/number' from resources where runtime = '{runtime}' and not is_deleted"))


def noisy(platform, runtime):
    return {each["name"]: each for each in platform.graphql(NOISY, {"n": runtime})["runtime"]["noisyObjects"]}


def counter(platform, series):
    return sum(float(line.rsplit(" ", 1)[1]) for line in platform.admin("/metrics").text().splitlines() if line.startswith(series))


def test_flapping_over_http_is_shown(platform, make_runtime):
    runtime, token = make_runtime()
    port = int(platform.env["CULVERT_URL"].rsplit(":", 1)[1])
    connection = Connection(platform, port, "localhost", True, 60)  # one, as reporters have

    def say(body):
        headers = {"Content-Type": "application/json", "Authorization": token}
        connection.request("POST", EVENTS, body=json.dumps({"data": {"object": body}}), headers=headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200

    for number in range(60):
        say(manifest("loud", number))
        if number % 6 == 0:
            say(manifest("quiet", number))
        say(manifest("same", 0))  # says much, changes nothing
    connection.close()
    found = wait_until(lambda: noisy(platform, runtime), 30, "the finding")
    assert set(found) == {"loud"}, found
    loud = found["loud"]
    assert (loud["group"], loud["kind"], loud["namespace"]) == ("example.com", "Thing", "noise")
    assert 0 < loud["changes"] <= 30 and loud["changesPerMinute"] > 0 and loud["firstSeen"] <= loud["lastSeen"]
    assert counter(platform, "culvert_flapping_objects") >= 1 and counter(platform, "culvert_flapping_changes_total") >= loud["changes"]
    assert stored(platform, runtime) == {"loud": "59", "quiet": "54", "same": "0"}  # nothing was refused, the last word is there
    assert not noisy(platform, platform.env["CULVERT_RUNTIME"]).keys() & {"loud"}


def test_flapping_over_the_tunnel_is_shown(platform, make_runtime):
    """Of an agent that does not hold back as ours does."""
    runtime, token = make_runtime()
    with ReportTunnel(platform, runtime, token) as tunnel:
        for number in range(100):
            for name in ("loud", "quiet") if number == 99 else ("loud",):
                text = json.dumps(manifest(name, number)).encode()
                tunnel.tell(report_tunnel.OBJECT, group="example.com", version="v1", kind="Thing", ns="noise", name=name, uid=name, cluster="in-cluster", observed_at=int(time.time() * 1000), manifest=text)
        tunnel.settle()
        assert set(wait_until(lambda: noisy(platform, runtime), 30, "the finding")) == {"loud"}
    assert stored(platform, runtime) == {"loud": "99", "quiet": "99"}


@pytest.mark.alone
def test_a_runtime_fills_its_own_share_alone(platform, make_runtime):
    """While the database stands still, what comes in has to wait. The loud one is told to come again; the other waits."""
    (loud, loud_token), (quiet, quiet_token) = make_runtime(), make_runtime()
    answers, lock, over = [], threading.Lock(), threading.Event()

    def tell(token, name, size):
        for _ in range(200):
            answer = post(platform, token, manifest(name, 1, size))
            with lock:
                answers.append((name, answer.status, answer.headers["Retry-After"]))
            if answer.status == 200:
                return
            over.wait(10)

    threads = [threading.Thread(target=tell, args=(loud_token, f"loud-{i}", 900 * KIB)) for i in range(40)]
    limited = counter(platform, 'culvert_reports_limited_total{scope="runtime"}')
    pids = [platform.pid("postgres")]
    with open(f"/proc/{pids[0]}/task/{pids[0]}/children") as children:
        pids += map(int, children.read().split())

    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        for thread in threads:
            thread.start()
        wait_until(lambda: any(status == 429 for _, status, _ in answers), 60, "the share is used up")
        threads += [threading.Thread(target=tell, args=(quiet_token, f"quiet-{i}", 900 * KIB)) for i in range(4)]
        for thread in threads[40:]:
            thread.start()
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        over.set()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert {status for _, status, _ in answers} == {200, 429}
    assert all(after and after.isdigit() for _, status, after in answers if status == 429)
    assert {name for name, status, _ in answers if status == 429} <= {f"loud-{i}" for i in range(40)}
    assert counter(platform, 'culvert_reports_limited_total{scope="runtime"}') > limited
    assert len(stored(platform, loud)) == 40 and len(stored(platform, quiet)) == 4
