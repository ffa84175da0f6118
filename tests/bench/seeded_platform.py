"""A platform of its own with many applications, and the client that asks it: for the benchmarks of the API."""

import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests" / name) for name in ("support", "e2e") if str(TOP / "tests" / name) not in sys.path]

from agents_measure import cpu_seconds, family  # noqa: E402
from platform_under_test import Platform  # noqa: E402

RUNTIMES = 100
SEED = """
begin;
insert into culvert.runtimes (account_id, runtime, runtime_id)
select '{account}', 'r' || lpad(i::text, 3, '0'), 'bench-' || i from generate_series(0, {runtimes} - 1) i;
insert into culvert.applications (account_id, runtime, namespace, name, cluster, version, uid, sync_status, health_status, sync_revision, sync_policy, project,
  destination_server, destination_namespace, repo_url, path, target_revision, sources, labels, annotations, operation_phase, operation_message,
  operation_started_at, operation_finished_at, operation_resources, history_id, application_created_at, epoch, sequence, observed_at)
select '{account}', 'r' || lpad((i % {runtimes})::text, 3, '0'), 'argocd', 'app-' || lpad((i * 7919 % {count})::text, 6, '0'), 'in-cluster', 'v1alpha1', 'uid-' || i,
  case when i % 50 = 0 then 'OUT_OF_SYNC' else 'SYNCED' end, case when i % 200 = 0 then 'DEGRADED' when i % 97 = 0 then 'PROGRESSING' else 'HEALTHY' end,
  md5((i / 10)::text), 'Automated', 'project-' || i % 40, 'https://kubernetes.default.svc', 'ns-' || i % 500, 'https://git.example.org/team-' || i % 40 || '/deploy',
  'apps/app-' || i, 'main', jsonb_build_array(jsonb_build_object('repoURL', 'https://git.example.org/x', 'path', 'apps/app-' || i)),
  jsonb_build_object('team', 'team-' || i % 40, 'tier', i % 3, 'app.kubernetes.io/name', 'app-' || i), jsonb_build_object('note', repeat('x', 200)),
  'Succeeded', 'successfully synced', now() - interval '2 hours', now() - interval '1 hour',
  (select jsonb_agg(jsonb_build_object('group', 'apps', 'version', 'v1', 'kind', 'Deployment', 'name', 'web-' || k || '-' || md5((i * k)::text), 'namespace', 'shop',
     'status', 'Synced', 'message', 'deployment.apps/web configured ' || md5((i + k)::text))) from generate_series(1, 12) k),
  5, now() - interval '90 days', 1, i + 1, now()
from generate_series(0, {count} - 1) i;
commit;
"""


class SeededPlatform:
    """Of the demo account: the applications are spread over runtimes, projects, teams (a label) and states."""

    def __init__(self, platform, folder):
        self.platform, self.folder = platform, pathlib.Path(folder)
        self.account = platform.psql("select account_id from runtimes limit 1")[0][0]
        self.client = self.folder / "requests"
        words = ["cc", "-std=gnu17", "-D_GNU_SOURCE", "-O2", f"-I{TOP}", *(str(TOP / "tests/bench" / name) for name in ("requests.c", "client.c", "histogram.c"))]
        subprocess.run([*words, "-o", str(self.client), "-lssl", "-lcrypto", "-lm"], check=True)

    def seed(self, count):
        self.platform.psql(SEED.format(account=self.account, runtimes=RUNTIMES, count=count), timeout=1200)
        self.platform.psql("vacuum analyze culvert.applications, culvert.application_search, culvert.application_revisions", timeout=600)
        self.platform.psql("checkpoint", timeout=600)

    def pids(self):
        return [pid for name in ("culvertd", "postgres") for pid in family(self.platform.pid(name))]

    def load(self, url, query, connections, seconds, pids, key=None):
        """(requests a second, p50 ms, p99 ms, CPU ms a request); key: None for the administrator's."""
        body, headers = self.folder / "body", self.folder / "headers"
        body.write_text(json.dumps({"query": query}))
        headers.touch(mode=0o600)
        headers.write_text(f"Authorization: {key or self.platform.env['CULVERT_API_KEY']}\nContent-Type: application/json\n")
        words = [self.client, "--url", url, "--ca", self.platform.env["CULVERT_CA"], "--header-file", headers, "--body-file", body, "--connections", str(connections), "--seconds", str(seconds)]
        before = {pid: cpu_seconds([pid]) for pid in pids()}
        done = json.loads(subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE, text=True).stdout)
        cpu = sum(cpu_seconds([pid]) - before.get(pid, 0) for pid in pids())  # sessions of the case before may have ended meanwhile
        assert done["requests"] and not done["failed"] and not done["refused"], done
        return done["requests"] / done["seconds"], done["p50_us"] / 1000, done["p99_us"] / 1000, cpu * 1000 / done["requests"]

    def ask(self, query, connections, seconds, key=None):
        return self.load(self.platform.env["CULVERT_URL"] + "/2.0/api/graphql", query, connections, seconds, self.pids, key)


@contextlib.contextmanager
def seeded_platform(build, applications, of=SeededPlatform, **settings):
    """Started with these settings (environment), its demo paused; `of` is made of it. Stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="culvert-bench.", dir="/var/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        platform = Platform(pathlib.Path(folder) / "home", build)
        platform.take_every_request()
        platform.settings.update(settings)
        try:
            platform.start()
            platform.cluster("POST", "/demo/pause")
            made = of(platform, folder)
            made.seed(applications)
            yield made
        finally:
            platform.stop()


def mark(figure, bound, at_least):
    return "reached" if (figure >= bound if at_least else figure <= bound) else "NOT REACHED"
