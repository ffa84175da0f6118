"""A token that writes as fast as it can is stopped at its runtime's quota; others go on, deletions pass, and more room is used
at once."""

import base64
import json
import os
import time
import uuid

import pytest

from api_listener_client import EVENTS, JSON, application, culvertd
from origin_under_test import Account
from platform_under_test import wait_until
from report_tunnel import ACK, DELETED, OBJECT, REJECT, ReportTunnel, record

QUOTA = 6 << 20
OBJECTS, NOISE = 400, 45_000  # some 17 MB as they are stored


def admin(platform, *words):
    done = culvertd(platform, "admin", *words, "--account", "quickstart")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def usage(platform, name):
    account = admin(platform, "usage")
    return next((runtime for runtime in account["runtimes"] if runtime["runtime"] == name), {"bytes": 0, "rows": 0, "refused": 0})


@pytest.fixture
def flooding(platform):
    name = f"flood-{uuid.uuid4().hex[:8]}"
    token = platform.create_runtime(name)
    used = usage(platform, platform.env["CULVERT_RUNTIME"])["bytes"]
    assert used < QUOTA, "the demo cluster's own runtime needs a larger quota"
    admin(platform, "set-quota", "--runtime-bytes", str(QUOTA))
    with ReportTunnel(platform, name, token) as tunnel:
        yield name, token, tunnel
    admin(platform, "set-quota", "--runtime-bytes", "default")
    platform.graphql("mutation($n: String!) { deleteRuntime(name: $n) }", {"n": name})


def tell(tunnel, kind, name, **fields):
    tunnel.sequence += 1
    now = int(time.time() * 1000)
    tunnel.say(record(kind, tunnel.sequence, group="apps", version="v1", kind="Deployment", ns="shop", name=name, observed_at=now, **fields))
    return tunnel.sequence


def answered(tunnel, sequence):
    tunnel.until(lambda: any(kind == ACK and upto >= sequence for kind, upto, *_ in tunnel.acks), 120)
    return {upto: reason for kind, upto, reason, *_ in tunnel.acks if kind == REJECT}


def post(platform, token, name):
    return platform.api("POST", EVENTS, json.dumps({"data": {"object": application(name)}}).encode(), key=token, headers=JSON)


def runtime_of(platform, name, key=None):
    query = """query($n: String!) { runtime(name: $n) { healthStatus healthMessage errors { level title message suggestion }
        storage { bytes rows bytesMax rowsMax refused refusedAt } } }"""
    return platform.graphql(query, {"n": name}, key=key or True)["runtime"]


def test_a_flood_is_stopped_at_the_quota(platform, flooding):
    name, token, tunnel = flooding
    refused_before = platform.metric("culvert_reports_total", result="over_quota")
    sequences = []
    for i in range(OBJECTS):
        noise = base64.b64encode(os.urandom(NOISE)).decode()
        sequences.append(tell(tunnel, OBJECT, f"o{i}", manifest=json.dumps({"noise": noise}).encode()))
    refused = answered(tunnel, sequences[-1])
    assert OBJECTS / 4 < len(refused) < OBJECTS, len(refused)
    assert all(reason.startswith("storage quota of the runtime: ") for reason in refused.values()), refused
    assert QUOTA * 0.95 < usage(platform, name)["bytes"] <= QUOTA
    assert usage(platform, name)["refused"] >= len(refused)
    assert platform.metric("culvert_reports_total", result="over_quota") >= refused_before + len(refused)
    rows = platform.psql(f"select count(*) from resources where runtime = '{name}'")
    assert rows == [[str(OBJECTS - len(refused))]]
    shown = runtime_of(platform, name)
    (error,) = [each for each in shown["errors"] if each["title"] == "Storage quota"]
    assert error["level"] == "ERROR" and error["message"].startswith("storage quota of the runtime: "), error
    assert "reports are refused" in error["message"] and "set-quota" in error["suggestion"], error
    assert shown["healthStatus"] == "DEGRADED" and shown["healthMessage"] == error["message"], shown
    assert shown["storage"]["bytesMax"] == QUOTA and shown["storage"]["bytes"] == usage(platform, name)["bytes"], shown
    assert shown["storage"]["refused"] >= len(refused) and shown["storage"]["refusedAt"], shown
    # Over HTTP: 429 with the reason. Less than the smallest report is left when the quota is what is used.
    admin(platform, "set-quota", "--runtime-bytes", str(max(1, usage(platform, name)["bytes"])))
    try:
        answer = post(platform, token, "grows")
        assert answer.status == 429 and answer.json()["detail"].startswith("storage quota of the runtime: "), answer.text()
        # Deletions pass.
        kept = [i for i in range(OBJECTS) if sequences[i] not in refused][:20]
        for i in kept:
            last = tell(tunnel, DELETED, f"o{i}")
        assert set(answered(tunnel, last)) == set(refused)
        gone = platform.psql(f"select count(*) from resources where runtime = '{name}' and is_deleted")
        assert gone == [[str(len(kept))]]
    finally:
        admin(platform, "set-quota", "--runtime-bytes", str(QUOTA))
    # Others have noticed nothing.
    assert post(platform, platform.env["CULVERT_RUNTIME_TOKEN"], f"neighbour-{uuid.uuid4().hex[:8]}").status == 200
    # More room is used at once.
    admin(platform, "set-quota", "--runtime-bytes", str(10 * QUOTA))
    wait_until(lambda: post(platform, token, "grows").status == 200, 20, "there is room again")
    recounted = admin(platform, "usage", "--recount")
    counted = admin(platform, "usage")
    assert next(r["bytes"] for r in recounted["runtimes"] if r["runtime"] == name) == next(r["bytes"] for r in counted["runtimes"] if r["runtime"] == name)


OFFERED = 50 << 20


def test_a_flood_leaves_other_accounts_alone(platform, flooding):
    """While one token offers 50 MB, a runtime of another account reports, and all of it is taken."""
    name, _, tunnel = flooding
    account = Account(platform, "neighbours")
    neighbour = f"calm-{uuid.uuid4().hex[:8]}"
    with ReportTunnel(platform, neighbour, account.create_runtime(neighbour)) as calm:
        offered = told = 0
        while offered < OFFERED:
            noise = base64.b64encode(os.urandom(400_000)).decode()
            last = tell(tunnel, OBJECT, f"o{offered}", manifest=json.dumps({"noise": noise}).encode())
            offered += len(noise)
            mine = tell(calm, OBJECT, f"n{told}", manifest=json.dumps({"spec": {"replicas": told}}).encode())
            told += 1
            assert answered(calm, mine) == {}, "the neighbour was refused"
        refused = answered(tunnel, last)
        assert refused and all(reason.startswith("storage quota of the runtime: ") for reason in refused.values()), refused
        assert usage(platform, name)["bytes"] <= QUOTA
        assert platform.psql(f"select count(*) from resources where runtime = '{neighbour}'") == [[str(told)]]
        shown = runtime_of(platform, neighbour, key=account.key)
        assert shown["errors"] == [] and shown["healthStatus"] == "HEALTHY", shown
        assert shown["storage"]["rows"] == told and shown["storage"]["refused"] == 0, shown
        limits = "{ limitsStatus { planType usage { applications clusters } limits { clusters applications } status storage { bytes rows refused } } }"
        found = platform.graphql(limits, key=account.key)["limitsStatus"]
        assert found["usage"] == {"applications": 0, "clusters": 0} and found["limits"] is None and found["status"] is True, found
        assert found["storage"]["rows"] >= told and found["storage"]["refused"] == 0, found
    platform.graphql("mutation($n: String!) { deleteRuntime(name: $n) }", {"n": neighbour}, key=account.key)
