"""An older version and this one side by side, as in an upgrade one program after the other, and back again: reports arrive, calls
and operations work, whichever side is older (docs/operations.md, "Versions side by side").

The older version is CULVERT_SKEW_COMMIT, else the last tag, else what was landed half a day before.
"""

import json
import os
import pathlib
import signal
import subprocess
import tempfile

import pytest

from conftest import TOP, build_folder
from platform_under_test import Platform, wait_until

pytestmark = pytest.mark.long

PROGRAMS = {"culvertd": "server", "agent": "agent"}
FILES = {"culvertd": "culvertd", "agent": "culvert-agent"}


def git(*words):
    return subprocess.run(["git", "-C", TOP, *words], capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def builds():
    """{"old": folder, "new": folder}"""
    date = git("log", "-1", "--format=%ct")
    half_a_day_before = git("rev-list", "-1", f"--before={int(date) - 43200}", "HEAD") if date else ""
    commit = os.environ.get("CULVERT_SKEW_COMMIT") or git("describe", "--tags", "--abbrev=0", "HEAD^") or half_a_day_before
    if not commit:
        pytest.skip("no older version in this clone")
    built = subprocess.run([TOP / "tests/support/build_version", commit], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return {"old": pathlib.Path(built.stdout.strip()), "new": build_folder("release")}


class Mixed:
    """A platform whose programs are of either version, and change while it runs."""

    def __init__(self, folder, builds):
        self.folder, self.builds = folder, builds
        for program in PROGRAMS:
            self._point(program, "old")
        self.platform = Platform(folder / "home", folder / "build")
        self.platform.settings.update(CULVERT_OPERATIONS_ALLOWED="refresh")

    def _point(self, program, version):
        link = self.folder / "build" / PROGRAMS[program] / FILES[program]
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(self.builds[version] / PROGRAMS[program] / FILES[program])

    def switch(self, program, version):
        """Its supervisor starts the other version in its place."""
        self._point(program, version)
        before = self.platform.kill(program, signal.SIGTERM)
        running = self.builds[version].resolve() / PROGRAMS[program] / FILES[program]
        wait_until(lambda: self.platform.pid(program) != before and pathlib.Path(f"/proc/{self.platform.pid(program)}/exe").resolve() == running, 60, f"{program} of the {version} version")

    def command_lines(self):
        """`culvert` of both versions, as far as they have one."""
        programs = [folder / "cli/culvert" for folder in self.builds.values()]
        return [program for program in programs if program.exists()]

    def migrate(self, version):
        program = self.builds[version] / "server/culvertd"
        subprocess.run([program, "migrate", "--url-file", self.platform.home / "database-owner.url"], check=True, capture_output=True, timeout=120)


@pytest.fixture(scope="module")
def mixed(builds):
    with tempfile.TemporaryDirectory(prefix="culvert-e2e.", dir="/var/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        under_test = Mixed(pathlib.Path(folder), builds)
        try:
            under_test.platform.start()
            yield under_test
        finally:
            under_test.platform.reset()


def works(mixed, number):
    """What a user would miss: a new object arrives, a call is answered, an operation is carried out."""
    platform = mixed.platform
    wait_until(platform.online, 60, "the runtime is online")
    wait_until(lambda: platform.ingress("GET", "/services/demo/").status == 200, 30, "a call is answered")
    body = os.urandom(300_000)
    echoed = platform.ingress("POST", "/services/demo/", body)
    assert echoed.status < 500, echoed.status
    name = f"skew-{number}"
    existing = platform.cluster("GET", "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/catalog")
    added = {"apiVersion": existing["apiVersion"], "kind": existing["kind"], "metadata": {"name": name, "namespace": "argocd"}, "spec": existing["spec"]}
    platform.cluster("POST", "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications", added)
    wait_until(lambda: ("argocd", name) in platform.applications(), 60, "a new application arrives")
    for program in mixed.command_lines():
        listed = subprocess.run([program, "get", "applications", "-o", "name"], env={**os.environ, **platform.env}, capture_output=True, text=True, timeout=60)
        assert listed.returncode == 0 and f"/{name}\n" in listed.stdout, (program, listed.stderr)
    operation = {"runtime": platform.env["CULVERT_RUNTIME"], "namespace": "argocd", "name": "checkout", "action": "REFRESH"}
    started = platform.graphql("mutation($o: RuntimeOperationArgs!) { runOperation(operation: $o) { id } }", {"o": operation})["runOperation"]["id"]
    state = "query($i: ID!) { operation(id: $i) { state message } }"
    wait_until(lambda: platform.graphql(state, {"i": started})["operation"]["state"] == "DONE", 60, "an operation is carried out")
    platform.cluster("POST", "/demo/pause")
    wait_until(lambda: without_status(platform.applications()) == without_status(platform.cluster_applications()), 60, "the platform shows what the cluster has")
    platform.cluster("POST", "/demo/resume")


def without_status(applications):
    """The added ones as well, but for their status, which no controller writes."""
    return {key: None if key[1].startswith("skew-") else state for key, state in applications.items()}


# What changes before the programs are looked at again, in the order of an upgrade; the last ones go back.
STEPS = [
    ("both old", []),
    ("a newer agent", [("switch", "agent", "new")]),
    ("a newer database below an older server", [("migrate", "new"), ("switch", "culvertd", "old")]),
    ("both new", [("switch", "culvertd", "new")]),
    ("an older agent", [("switch", "agent", "old")]),
    ("back to the older server", [("switch", "culvertd", "old")]),
    ("a newer agent below the older server", [("switch", "agent", "new")]),
]


@pytest.mark.parametrize("number", range(len(STEPS)), ids=[name.replace(" ", "-") for name, _ in STEPS])
def test_versions_work_side_by_side(mixed, number):
    for method, *words in STEPS[number][1]:
        getattr(mixed, method)(*words)
    works(mixed, number)


def test_a_migration_declares_what_older_versions_may_do(builds):
    """The older version has to be able to run on this version's database: else an upgrade needs all replicas stopped."""
    older = {path.name for path in (builds["old"].parents[1] / "migrations").glob("*.sql")}
    newer = sorted(path for path in (TOP / "migrations").glob("*.sql") if path.name not in older)
    stopping = [path.name for path in newer if path.read_text().splitlines()[0] != "-- older-binaries: work"]
    assert stopping == [], json.dumps(stopping)
