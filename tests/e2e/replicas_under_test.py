"""Two replicas behind a balancer, as deploy/quickstart --replicas 2 starts them, each asked by its number."""

import subprocess
import sys
import time

from platform_under_test import TOP, Platform

sys.path.insert(0, str(TOP / "tests/support"))
from rolling_restart import Load  # noqa: E402


class Replicas(Platform):
    """Two culvertd; the parts of each are asked for by its number."""

    def __init__(self, home, build):
        super().__init__(home, build, replicas=2)

    def port(self, listener, number=None):
        ports = dict(line.split("=") for line in (self.home / "ports").read_text().split())
        return int(ports[f"PORT_{listener}" if number is None else f"PORT_{listener}_{number}"])

    def admin_of(self, number, path):
        return self.call("GET", f"http://127.0.0.1:{self.port('ADMIN', number)}", path, key=False)

    def ingress_of(self, number, method, path, body=None, **more):
        more.setdefault("host", self.env["CULVERT_INGRESS_HOST"])
        return self.call(method, f"https://localhost:{self.port('INGRESS', number)}", path, body, **more)

    def api_of(self, number, method, path, body=None, **more):
        return self.call(method, f"https://localhost:{self.port('API', number)}", path, body, **more)

    def metric(self, number, name, **labels):
        total = 0
        for line in self.admin_of(number, "/metrics").text().splitlines():
            if line.split("{")[0].split(" ")[0] != name:
                continue
            if all(f'{key}="{value}"' in line for key, value in labels.items()):
                total += float(line.rsplit(" ", 1)[1])
        return total

    def culvertd(self, number, *words):
        done = subprocess.run([self.build / "server/culvertd", "--config", self.home / f"culvertd-{number}.conf", *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def owner(self):
        """The number of the replica that holds the runtime's tunnel, by PostgreSQL."""
        rows = self.psql("select s.replica from tunnel_sessions s join replica_leases l on l.replica = s.replica and l.expires_at > now() where s.closed_at is null order by s.epoch desc limit 1")
        return int(rows[0][0].rsplit("-", 1)[1]) if rows else None

    def log_of(self, number):
        return self.log(f"culvertd-{number}")


def load_of(replicas, **more):
    host = replicas.env["CULVERT_INGRESS_HOST"]
    return Load(replicas.port("INGRESS"), host, replicas.env["CULVERT_CA"], replicas.env["CULVERT_API_KEY"], **more)


def is_ready(replicas, number):
    return replicas.admin_of(number, "/readyz").status == 200


def calm(replicas):
    """For a second both have been ready, so that they are in the balancer's list (it asks five times a second), and the
    runtime has had its tunnel. True is said once; then the second begins anew."""
    now = time.monotonic()
    quiet = all(is_ready(replicas, number) for number in (0, 1)) and replicas.owner() is not None
    since = getattr(replicas, "calm_since", None) or now
    done = quiet and now - since > 1
    replicas.calm_since = since if quiet and not done else None
    return done


def restartable(replicas):
    """As rolling_restart() wants them."""
    return [(lambda n=n: replicas.pid(f"culvertd-{n}"), lambda n=n: is_ready(replicas, n)) for n in (0, 1)]
