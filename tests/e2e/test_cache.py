"""Answers kept in Redis are exact: each is compared with SQL's word, under reads and writes, while Redis forgets, stands still and is killed;
and no reader ever sees a state older than what was acknowledged before it asked."""

import contextlib
import datetime
import json
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from platform_under_test import wait_until
from redis_client import Redis

RUNTIME = "cached"
ROLLOUTS = 80  # enough to be slow
ROUNDS = 12
READS = 4  # of the same list after each write
READERS = 2
LIST = """query($f: RolloutFilterArgs) { rollouts(filters: $f) { edges { node {
  metadata { name namespace } revision healthStatus freshness sequence observedAt } } } }"""
TRUTH = f"""select name, namespace, t.revision, upper(t.phase), 'live', a.epoch || '.' || a.sequence,
  to_char(a.observed_at, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') from resources a join rollouts t using (account_id, runtime, cluster, namespace, name)
  where a.runtime = '{RUNTIME}' and a.kind = 'Rollout' and not a.is_deleted order by name"""


def redis(platform, *words):
    """One command; what Redis says, as text."""
    ports = dict(line.split("=") for line in (platform.home / "ports").read_text().split())
    password = (platform.home / "redis.secret").read_text().strip()
    with socket.create_connection(("127.0.0.1", int(ports["PORT_REDIS"])), timeout=10) as sock:
        sock.sendall(f"AUTH {password}\r\n{' '.join(words)}\r\n".encode())
        text = b""
        while text.count(b"\r\n") < 2:
            data = sock.recv(65536)
            assert data, text
            text += data
    return text.decode().split("\r\n", 1)[1]


def looks(platform, result):
    found = re.findall(rf'(?m)^culvert_answer_cache_looks_total{{result="{result}"}} (\d+)', platform.admin("/metrics").text())
    return sum(map(int, found))


class Cached:
    """A runtime that this test alone reports for, over HTTP: what was answered 2xx is known to the number."""

    def __init__(self, platform):
        self.platform, self.random = platform, random.Random(int(os.environ.get("CULVERT_TEST_SEED", "1")))
        mutation = "mutation($a: RuntimeInstallationArgs!) { createRuntime(installationArgs: $a) { newAccessToken } }"
        arguments = {"runtimeName": RUNTIME, "cluster": "none", "runtimeVersion": "0.0.1", "componentNames": [], "installationType": "HELM"}
        self.token = platform.graphql(mutation, {"a": arguments})["createRuntime"]["newAccessToken"]
        self.acknowledged, self.at_ms, self.number = {}, int(time.time() * 1000), 0
        wait_until(lambda: self.write("app-00") or True, 10, "the new token is known")
        for i in range(1, ROLLOUTS):
            self.write(f"app-{i:02d}")

    def write(self, name, gone=False):
        self.number += 1
        self.at_ms = max(self.at_ms + 1, int(time.time() * 1000))
        metadata = {"name": name, "namespace": "shop", "uid": name, "annotations": {"rollout.argoproj.io/revision": str(self.number)}, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if gone else {})}
        health = self.random.choice(["Healthy", "Degraded", "Progressing"])
        manifest = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": metadata, "spec": {"replicas": 1},
                    "status": {"phase": health}}
        at = datetime.datetime.fromtimestamp(self.at_ms / 1000, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        body = json.dumps({"data": {"timestamp": at, "object": manifest}})
        answer = self.platform.api("POST", "/2.0/api/events", body, key=self.token, headers={"Content-Type": "application/json"})
        assert answer.status == 200, answer.text()
        self.acknowledged[name] = None if gone else self.number

    def read(self):
        edges = self.platform.graphql(LIST, {"f": {"runtime": RUNTIME}})["rollouts"]["edges"]
        words = ("healthStatus", "freshness", "sequence", "observedAt")
        return [[edge["node"]["metadata"]["name"], edge["node"]["metadata"]["namespace"], str(edge["node"]["revision"]),
                 *(edge["node"][word] for word in words)] for edge in edges]


@pytest.fixture(scope="module")
def cached(platform):
    platform.cluster("POST", "/demo/pause")  # its reports change the version
    under_test = Cached(platform)
    yield under_test
    platform.graphql("mutation($n: String!) { deleteRuntime(name: $n) }", {"n": RUNTIME})
    platform.cluster("POST", "/demo/resume")


class Reader(threading.Thread):
    """Reads all the time: an answer to what was asked after an acknowledgement is no older than that."""

    def __init__(self, cached):
        super().__init__(daemon=True)
        self.cached, self.stopping, self.reads, self.failure = cached, threading.Event(), 0, None

    def run(self):
        try:
            while not self.stopping.is_set():
                acknowledged = dict(self.cached.acknowledged)
                seen = {row[0]: int(row[2]) for row in self.cached.read()}
                for name, number in acknowledged.items():
                    if number is not None and name in seen:
                        assert seen[name] >= number, f"{name}: {number} was acknowledged, {seen[name]} was shown afterwards"
                self.reads += 1
        except BaseException as error:
            self.failure = error


@contextlib.contextmanager
def readers(cached):
    threads = [Reader(cached) for _ in range(READERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.stopping.set()
            thread.join(30)
    for thread in threads:
        assert thread.failure is None and thread.reads, thread.failure


def nothing(_platform):
    return lambda: None


def forget(platform):
    assert redis(platform, "FLUSHALL").startswith("+OK")
    return lambda: None


def stand_still(platform):
    pid = platform.pid("redis")
    os.kill(pid, signal.SIGSTOP)
    return lambda: os.kill(pid, signal.SIGCONT)


def be_killed(platform):
    with contextlib.suppress(ProcessLookupError):  # still dead from the last time
        platform.kill("redis")
    return lambda: None


@pytest.mark.parametrize("fault", [nothing, forget, stand_still, be_killed], ids=lambda fault: fault.__name__)
def test_every_answer_is_the_truth(cached, fault):
    platform = cached.platform
    wait_until(lambda: hits_again(cached), 30, "answers come from Redis")
    with readers(cached):
        for _ in range(ROUNDS):
            mend = fault(platform)
            try:
                for _ in range(cached.random.randrange(1, 3)):
                    name = f"app-{cached.random.randrange(ROLLOUTS):02d}"
                    cached.write(name, gone=cached.random.random() < 0.2)
                truth = platform.psql(TRUTH)
                for _ in range(READS):
                    assert cached.read() == truth
            finally:
                mend()
            assert cached.read() == truth
    wait_until(lambda: hits_again(cached), 60, "answers come from Redis again")
    assert cached.read() == platform.psql(TRUTH)


def hits_again(cached):
    before = looks(cached.platform, "hit")
    for _ in range(READS):
        assert cached.read() == cached.platform.psql(TRUTH)
    return looks(cached.platform, "hit") > before


def test_what_redis_keeps_ends_by_itself(cached):
    wait_until(lambda: hits_again(cached), 30, "answers come from Redis")
    platform = cached.platform
    names = redis(platform, "KEYS", "culvert:2:answer:*")
    assert names.startswith("*") and not names.startswith("*0"), names
    name = next(line for line in names.split("\r\n") if line.startswith("culvert:"))
    assert 0 < int(redis(platform, "PTTL", name).split("\r\n")[0].removeprefix(":")) <= 60_000


def test_answers_are_kept_apart_by_scopes(cached):
    """What a caller may read is kept for those with its role and scopes: others are refused, though the query is the same."""
    platform = cached.platform
    make = 'mutation($n: String!, $s: [String!]) { createMyApiKey(name: $n, scopes: $s) { token } }'
    keys = {scope: platform.graphql(make, {"n": scope, "s": [scope]})["createMyApiKey"]["token"] for scope in ("read", "admin")}
    wait_until(lambda: hits_again(cached), 30, "answers come from Redis")
    for _ in range(READS):
        assert "data" in platform.graphql_answer(LIST, {"f": {"runtime": RUNTIME}}, key=keys["read"]).json()
        errors = platform.graphql_answer(LIST, {"f": {"runtime": RUNTIME}}, key=keys["admin"]).json().get("errors", [])
        assert [each["extensions"]["code"] for each in errors] == ["FORBIDDEN"]


def refused(platform):
    return platform.metric("culvert_redis_refused_total", what="answer")


def test_answers_that_somebody_else_wrote_are_not_given(cached):
    """Whoever may write to Redis: in the clear, altered, of another query or version, played back. Each costs a query and is counted."""
    platform = cached.platform
    wait_until(lambda: hits_again(cached), 30, "answers come from Redis")
    cached.write("app-01")
    truth = platform.psql(TRUTH)
    with Redis.of(platform) as attacker:

        def kept():
            return {name: value for name in attacker("KEYS", "culvert:2:answer:*") if (value := attacker("GET", name))}

        def has_current():
            assert cached.read() == truth
            return kept()

        old = kept()
        answers = wait_until(has_current, 30, "the answer of now is kept") or kept()
        name, value = max(answers.items(), key=lambda each: len(each[1]))
        assert b"metadata" not in b"".join([*old.values(), *answers.values()]), "answers are encrypted"
        clear = json.dumps({"data": {"rollouts": {"edges": []}}}).encode()
        others = [each for each in {**old, **answers}.values() if each != value]
        for forged in (clear, value[:8] + clear, b"\xff" * 8 + value[8:], value[:-1], value[:-1] + bytes([value[-1] ^ 1]), b"x", *others[:3]):
            before = refused(platform)

            def was_refused():
                for each in kept():
                    attacker("SET", each, forged, "PX", 60000)
                attacker("SET", name, forged, "PX", 60000)
                assert cached.read() == truth
                return refused(platform) > before

            wait_until(was_refused, 30, "the forged answer is looked at, and counted")
    assert cached.read() == truth
    wait_until(lambda: hits_again(cached), 30, "answers come from Redis again")


OTHER_LIST = LIST.replace("metadata {", "applicationKey: metadata {")


def test_answers_that_changed_places_are_not_given(cached):
    """Both are genuine and of the same version of the account: only the key that each was made for tells them apart."""
    platform = cached.platform

    def read_both():
        return [platform.graphql(query, {"f": {"runtime": RUNTIME}}) for query in (LIST, OTHER_LIST)]

    truth = read_both()
    assert truth[0] != truth[1] and "applicationKey" in json.dumps(truth[1])
    with Redis.of(platform) as attacker:

        def both_kept():
            assert read_both() == truth
            names = attacker("KEYS", "culvert:2:answer:*")
            version = max((int(attacker("PTTL", name)), name.rpartition(b":")[2]) for name in names)[1]
            pair = {name: attacker("GET", name) for name in names if name.endswith(b":" + version)}
            return len(pair) == 2 and all(pair.values()) and pair

        deadline, is_refused = time.monotonic() + 60, False
        while not is_refused:
            assert time.monotonic() < deadline, "no swapped answer was looked at and refused"
            (one, value), (other, other_value) = wait_until(both_kept, 30, "both answers are kept").items()
            before, had = refused(platform), looks(platform, "hit")
            attacker("SET", one, other_value, "PX", 60000)
            attacker("SET", other, value, "PX", 60000)
            assert read_both() == truth  # outside of wait_until, which would try again
            is_refused = refused(platform) >= before + 2
            assert not is_refused or looks(platform, "hit") == had
    assert read_both() == truth


def traffic(platform):
    """(reports of the runtime, requests of its account) in the last minutes."""
    words = [platform.build / "server/culvertd", "--config", platform.home / "culvertd.conf", "admin", "traffic", "--minutes", "20"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    minutes = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(minutes) == 20 and minutes == sorted(minutes, key=lambda each: each["minute"])
    account = platform.psql(f"select account_id from runtimes where runtime = '{RUNTIME}'")[0][0]
    return sum(each["reports"].get(f"{account}/{RUNTIME}", 0) for each in minutes), sum(each["calls"].get(account, 0) for each in minutes)


def test_hot_counters_count_and_may_be_lost(cached):
    platform = cached.platform
    wait_until(lambda: platform.admin("/readyz/redis").status == 200, 10, "Redis is there")
    seen, since = traffic(platform), time.monotonic()

    def settled():  # what each loop counted comes within a second
        nonlocal seen, since
        now = traffic(platform)
        if now != seen:
            seen, since = now, time.monotonic()
        return time.monotonic() - since > 2.5

    wait_until(settled, 20, "counting has settled")
    reports, calls = seen
    for i in range(7):
        cached.write(f"app-{i:02d}")
        cached.read()
    wait_until(lambda: traffic(platform) == (reports + 7, calls + 14), 10, "exactly what was done is counted")
    assert redis(platform, "FLUSHALL").startswith("+OK")
    assert traffic(platform) == (0, 0)
    assert cached.read() == platform.psql(TRUTH)
