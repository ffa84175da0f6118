"""After a reconnect only what differs is told: agent and platform compare digests (tunnel/wire/digest.h)."""

import contextlib
import os
import pathlib
import re
import signal
import tempfile

import pytest

from conftest import build_folder
from platform_under_test import Platform, settled, wait_until
from static_cluster import StaticCluster

RUNS = "/apis/argoproj.io/v1alpha1/namespaces/{}/analysisruns"


def metrics(text):
    return {name: float(value) for name, value in re.findall(r"^(\w+(?:\{[^}]*\})?) ([0-9.e+-]+)$", text, re.M)}


def platform_metric(platform, name):
    return metrics(platform.admin("/metrics").text()).get(name, 0)


def results(platform):
    return {word: platform_metric(platform, f'culvert_resyncs_total{{result="{word}"}}') for word in ("unchanged", "differences", "full")}


def compared(platform, before=None):
    """The result of the exchange that came since `before` (a fresh process counts from nothing)."""
    before = before or {}

    def one():
        now = results(platform)
        return [word for word in now if now[word] > before.get(word, 0)]

    return wait_until(one, 60, "an exchange of digests")


@contextlib.contextmanager
def still(platform):
    """The demo cluster holds still and the database has all of it."""
    settled(platform)
    platform.cluster("POST", "/demo/pause")
    try:
        wait_until(lambda: platform.applications() == platform.cluster_applications(), what="database equals cluster")
        wait_until(lambda: platform_metric(platform, "culvert_reports_queued_bytes") == 0, what="nothing is on its way")
        yield
        settled(platform)
    finally:
        platform.cluster("POST", "/demo/resume")


def run_of(name, value="a"):
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AnalysisRun",
        "metadata": {"name": name, "namespace": "argocd", "labels": {"app.kubernetes.io/test": value}},
        "spec": {"metrics": []},
    }


def make(platform, name, value="a"):
    return platform.cluster("POST", RUNS.format("argocd"), run_of(name, value))["metadata"]["uid"]


def remove(platform, name):
    platform.cluster("DELETE", f"{RUNS.format('argocd')}/{name}")


def row(platform, name):
    rows = platform.psql(f"select uid, labels ->> 'app.kubernetes.io/test', sequence from resources where kind = 'AnalysisRun' and name = '{name}' and not is_deleted")
    return rows[0] if rows else None


def frozen_kill(platform, name, meanwhile):
    """The process is stopped, so that it sees nothing of what happens meanwhile, and then killed."""
    pid = platform.pid(name)
    os.kill(pid, signal.SIGSTOP)
    try:
        return meanwhile()
    finally:
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: platform.pid(name) != pid, what=f"another {name}")


@pytest.fixture()
def runs(platform):
    """Objects that every agent reports; their names are of no other test."""
    names = ["resync-kept", "resync-changed", "resync-gone", "resync-anew"]
    uids = {name: make(platform, name) for name in names}
    for name in names:
        wait_until(lambda: row(platform, name), what=f"{name} is reported")
    yield uids
    for name in names + ["resync-new"]:
        with contextlib.suppress(AssertionError):
            remove(platform, name)
    wait_until(lambda: not any(row(platform, name) for name in names), what="they are gone")


def change_all(platform):
    """One changed, one gone, one made anew, one new."""
    platform.cluster("PATCH", f"{RUNS.format('argocd')}/resync-changed", {"metadata": {"labels": {"app.kubernetes.io/test": "b"}}}, "application/merge-patch+json")
    remove(platform, "resync-gone")
    remove(platform, "resync-anew")
    return make(platform, "resync-anew"), make(platform, "resync-new")


def check_all(platform, uids, anew, new):
    wait_until(lambda: row(platform, "resync-changed")[1] == "b", what="the change")
    wait_until(lambda: row(platform, "resync-gone") is None, what="the deletion")
    wait_until(lambda: row(platform, "resync-anew")[0] == anew, what="the object made anew")
    wait_until(lambda: row(platform, "resync-new")[0] == new, what="the new object")
    assert row(platform, "resync-kept")[0] == uids["resync-kept"]


def test_unchanged_after_the_platform_restarted(platform, runs):
    with still(platform):
        sequence = row(platform, "resync-kept")[2]
        platform.kill("culvertd")
        wait_until(platform.online, what="the runtime is online")
        assert compared(platform) == ["unchanged"]
        assert row(platform, "resync-kept")[2] == sequence, "it was told again"
        sent = platform_metric(platform, 'culvert_resync_bytes_total{dir="in"}') + platform_metric(platform, 'culvert_resync_bytes_total{dir="out"}')
        assert sent < 2048


def test_unchanged_after_the_agent_restarted(platform, runs):
    """It has lost all it knew: it lists and hashes again, and tells nothing."""
    with still(platform):
        sequence, before = row(platform, "resync-kept")[2], results(platform)
        platform.kill("agent")
        assert compared(platform, before) == ["unchanged"]
        assert row(platform, "resync-kept")[2] == sequence, "it was told again"


def test_changes_while_the_platform_was_away(platform, runs):
    with still(platform):
        sequence = row(platform, "resync-kept")[2]
        anew, new = frozen_kill(platform, "culvertd", lambda: change_all(platform))
        wait_until(platform.online, what="the runtime is online")
        check_all(platform, runs, anew, new)
        assert "full" not in compared(platform)
        assert row(platform, "resync-kept")[2] == sequence, "it was told again"


def test_changes_while_the_agent_was_away(platform, runs):
    """Nobody saw the deletion: only a leaf that does not name the object tells of it."""
    with still(platform):
        sequence, before = row(platform, "resync-kept")[2], results(platform)
        anew, new = frozen_kill(platform, "agent", lambda: change_all(platform))
        check_all(platform, runs, anew, new)
        assert compared(platform, before) == ["differences"]
        assert row(platform, "resync-kept")[2] == sequence, "it was told again"
        # Once more, there is nothing left to tell.
        before = results(platform)
        platform.kill("agent")
        assert compared(platform, before) == ["unchanged"]


# ---- a platform of its own -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("own_platform", ["asan"], indirect=True)
def test_restored_from_an_older_backup(own_platform):
    """Rows are missing, older, or of objects that are gone since; epochs are lower than those that agents have seen."""
    platform = own_platform
    names = ["resync-kept", "resync-changed", "resync-gone", "resync-anew"]
    uids = {name: make(platform, name) for name in names}
    for name in names:
        wait_until(lambda: row(platform, name), what=f"{name} is reported")
    with still(platform):
        dump = platform.dump()
    for _ in range(3):  # sessions that the backup knows nothing of
        before = results(platform)
        frozen_kill(platform, "agent", lambda: None)
        compared(platform, before)
    anew, new = change_all(platform)
    check_all(platform, uids, anew, new)
    with still(platform):
        frozen_kill(platform, "culvertd", lambda: platform.restore(dump))
        wait_until(platform.online, what="the runtime is online")
        check_all(platform, uids, anew, new)
        assert compared(platform) == ["differences"]


OBJECTS = int(os.environ.get("CULVERT_RESYNC_OBJECTS", "50000"))


@pytest.fixture()
def crowded():
    """A platform whose agent watches a cluster of very many objects."""
    with tempfile.TemporaryDirectory(prefix="culvert-e2e.", dir="/var/tmp") as folder:
        folder = pathlib.Path(folder)
        folder.chmod(0o755)
        cluster = StaticCluster(folder, OBJECTS)
        platform = Platform(folder / "home", build_folder("asan"), cluster.kubeconfig)
        try:
            yield platform.start(), cluster
        finally:
            platform.reset()
            cluster.stop()


def exchanged(platform):
    return sum(platform_metric(platform, f'culvert_resync_bytes_total{{dir="{way}"}}') for way in ("in", "out"))


def value_of(platform, i):
    return platform.psql(f"select labels ->> 'app.kubernetes.io/test' from resources where kind = 'ApplicationSet' and name = 'many-{i}' and not is_deleted")[0][0]


def test_fifty_thousand(crowded):
    """Unchanged they cost 32 KiB at most, both ways and with all else that a session begins with; a change costs a change."""
    platform, cluster = crowded
    held = "select count(*) from resources where kind = 'ApplicationSet' and not is_deleted"
    wait_until(lambda: platform.psql(held) == [[str(OBJECTS)]], 240, "all are reported")
    wait_until(lambda: platform.psql("select snapshot_end_sequence > 0 from report_positions") == [["t"]], 60, "the first snapshot is complete")

    platform.kill("culvertd")
    wait_until(platform.online, what="the runtime is online")
    assert compared(platform) == ["unchanged"]
    tunnel = sum(platform_metric(platform, f'culvert_tunnel_bytes_total{{dir="{way}"}}') for way in ("in", "out"))
    seconds = platform_metric(platform, "culvert_resync_seconds_sum")
    print(f"{OBJECTS} unchanged: {exchanged(platform):.0f} bytes of digests, {tunnel:.0f} of the whole tunnel, {seconds * 1000:.0f} ms")
    assert tunnel <= 32 * 1024

    # One among many, while the agent was away and forgot all; and the same for one that watched on.
    for name, value in (("agent", "b"), ("culvertd", "c")):
        fresh = name == "culvertd"
        before = {} if fresh else {"bytes": exchanged(platform), "results": results(platform)}
        i = OBJECTS // 2
        frozen_kill(platform, name, lambda: cluster.change(i, value))
        wait_until(platform.online, 60, "the runtime is online")
        wait_until(lambda: value_of(platform, i) == value, 120, "the change")
        result = compared(platform, before.get("results"))
        assert result in (["differences"], ["unchanged"] if fresh else None)  # one that watched on tells it first
        spent = exchanged(platform) - before.get("bytes", 0)
        print(f"one of them changed while {name} was away: {spent:.0f} bytes of digests")
        assert spent <= 8 * 1024
    assert platform.psql(held) == [[str(OBJECTS)]]
