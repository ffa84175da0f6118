"""A whole Culvert of its own, as deploy/quickstart starts it: what the tests talk to, and may kill."""

import http.client
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import urllib.parse

from waiting import wait_until

TOP = pathlib.Path(__file__).resolve().parents[2]
START_SECONDS_MAX = 240


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def text(self):
        return self.body.decode()


class Platform:
    def __init__(self, home, build, kubeconfig=None, replicas=1):
        self.home, self.build, self.kubeconfig, self.replicas = pathlib.Path(home), pathlib.Path(build), kubeconfig, replicas
        self.env = {}
        # Environment of whatever quickstart starts, besides ours. All tests share one address and one runtime token.
        self.settings = {"CULVERT_AUTHENTICATION_FAILURES_PER_ADDRESS_MAX": "0", "CULVERT_AUTHENTICATION_FAILURES_PER_KEY_MAX": "0",
                         "CULVERT_RUNTIME_TOKENS_SESSIONS_PER_MINUTE_MAX": "0", "CULVERT_LIVE_STALL": "2s"}

    # ---- life --------------------------------------------------------------------------------------------------------

    def take_every_request(self):
        """For measurements, in which one user asks as fast as it can. Before start()."""
        self.settings.update(CULVERT_API_USER_REQUESTS_PER_SECOND="1000000", CULVERT_API_ACCOUNT_REQUESTS_PER_SECOND="1000000")

    def quickstart(self, *words, check=True):
        environment = dict(os.environ, CULVERT_HOME=str(self.home), CULVERT_BUILD=str(self.build), **self.settings)
        done = subprocess.run(
            [TOP / "deploy/quickstart", "--no-install", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=START_SECONDS_MAX,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"deploy/quickstart {' '.join(words)} ended with {done.returncode}:\n{done.stdout}\n{self.logs()}")
        return done

    def start(self):
        words = ["--kubeconfig", str(self.kubeconfig)] if self.kubeconfig else []
        self.quickstart(*words, *(["--replicas", str(self.replicas)] if self.replicas > 1 else []))
        self.read_env()
        return self

    def read_env(self):
        for line in (self.home / "env").read_text().splitlines():
            name, _, value = line.removeprefix("export ").partition("=")
            if name != "PATH":
                self.env[name] = value.strip("'")

    def stop(self):
        self.quickstart("--stop")

    def reset(self):
        self.quickstart("--reset")

    def logs(self, lines=15):
        text = []
        for file in sorted((self.home / "log").glob("*.log")):
            tail = file.read_text(errors="replace").splitlines()[-lines:]
            text += [f"--- {file.name}", *tail]
        return "\n".join(text)

    def log(self, name):
        return (self.home / "log" / f"{name}.log").read_text(errors="replace")

    def pid(self, name):
        return int((self.home / "run" / f"{name}.pid").read_text())

    def kill(self, name, number=signal.SIGKILL):
        """Ends the process; its supervisor starts it again. Returns the pid that was killed."""
        pid = self.pid(name)
        os.kill(pid, number)
        return pid

    def rss_kib(self, name):
        for line in pathlib.Path(f"/proc/{self.pid(name)}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        raise AssertionError("no VmRSS")

    # ---- HTTP --------------------------------------------------------------------------------------------------------

    def context(self):
        context = ssl.create_default_context(cafile=self.env["CULVERT_CA"])
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    def raw(self, url, host=None):
        """A TLS connection to the listener of url, the name in SNI being host."""
        parts = urllib.parse.urlsplit(url)
        sock = socket.create_connection(("127.0.0.1", parts.port), timeout=30)
        return self.context().wrap_socket(sock, server_hostname=host or parts.hostname)

    def call(self, method, url, path, body=None, headers=None, host=None, key=True, timeout=30):
        parts = urllib.parse.urlsplit(url)
        connection = Connection(self, parts.port, host or parts.hostname, parts.scheme == "https", timeout)
        sent = {"Host": f"{host or parts.hostname}:{parts.port}"}
        if key:
            sent["Authorization"] = self.env["CULVERT_API_KEY"] if key is True else key
        sent.update(headers or {})
        try:
            connection.request(method, path, body=body, headers=sent, encode_chunked="Transfer-Encoding" in sent)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def api(self, method, path, body=None, **more):
        return self.call(method, self.env["CULVERT_URL"], path, body, **more)

    def admin(self, path):
        return self.call("GET", self.env["CULVERT_ADMIN_URL"], path, key=False)

    def ingress(self, method, path, body=None, **more):
        more.setdefault("host", self.env["CULVERT_INGRESS_HOST"])
        return self.call(method, self.env["CULVERT_INGRESS_URL"], path, body, **more)

    def graphql_answer(self, query, variables=None, **more):
        body = json.dumps({"query": query, "variables": variables or {}})
        headers = {"Content-Type": "application/json", **more.pop("headers", {})}
        return self.api("POST", "/2.0/api/graphql", body, headers=headers, **more)

    def graphql(self, query, variables=None, **more):
        answer = self.graphql_answer(query, variables, **more)
        value = answer.json()
        assert answer.status == 200 and "errors" not in value, (answer.status, value)
        return value["data"]

    # ---- what the tests ask most ---------------------------------------------------------------------------------------

    def online(self, name=None):
        query = "query($n: String!) { runtime(name: $n) { metadata { name } online healthMessage } }"
        runtime = self.graphql(query, {"n": name or self.env["CULVERT_RUNTIME"]})["runtime"]
        return bool(runtime and runtime["online"])

    def applications(self):
        """{(namespace, name): (sync, health)}"""
        query = "query($f: ApplicationsFilterArgs) { applications(filters: $f, pagination: {first: 10000}) { edges { node { metadata { namespace name } syncStatus healthStatus } } } }"
        filters = {"runtime": self.env["CULVERT_RUNTIME"]}
        nodes = [edge["node"] for edge in self.graphql(query, {"f": filters})["applications"]["edges"]]
        return {(n["metadata"]["namespace"], n["metadata"]["name"]): (n["syncStatus"], n["healthStatus"]) for n in nodes}

    def psql(self, sql, timeout=60):
        """Rows as lists of text, asked by the database's superuser (who sees all accounts)."""
        ports = dict(line.split("=") for line in (self.home / "ports").read_text().split())
        password = (self.home / "pg-super.secret").read_text().strip()
        done = subprocess.run(
            ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-At", "-F", "\t", "-h", "127.0.0.1", "-p", ports["PORT_POSTGRES"], "-U", "culvert_super", "-d", "culvert"],
            input=sql,
            env=dict(os.environ, PGPASSWORD=password, PGOPTIONS="-c search_path=culvert"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=timeout,
        )
        assert done.returncode == 0, done.stderr
        return [line.split("\t") for line in done.stdout.splitlines()]

    def dump(self):
        """The whole database as SQL text."""
        ports = dict(line.split("=") for line in (self.home / "ports").read_text().split())
        password = (self.home / "pg-super.secret").read_text().strip()
        words = ["pg_dump", "-h", "127.0.0.1", "-p", ports["PORT_POSTGRES"], "-U", "culvert_super", "culvert"]
        return subprocess.run(words, env=dict(os.environ, PGPASSWORD=password), stdout=subprocess.PIPE, check=True, timeout=120).stdout

    def restore(self, dump):
        """The database becomes what dump() gave. Nobody else may be using it."""
        self.psql("drop schema culvert cascade;" + dump.decode())

    def use_rabbitmq(self, rabbitmq, **settings):
        """Before start(): reports go through this server (tests/support/servers.py), over TLS."""
        url = self.home.parent / "rabbitmq.url"
        url.touch(mode=0o600)
        url.write_text(rabbitmq.tls_url + "\n")
        self.settings.update(CULVERT_BUS="rabbitmq", CULVERT_RABBITMQ_URL=f"file:{url}", CULVERT_RABBITMQ_TLS_CA_FILE=str(rabbitmq.ca_file))
        self.settings.update({f"CULVERT_RABBITMQ_{name.upper()}": str(value) for name, value in settings.items()})
        return self

    def port(self, listener="CULVERT_URL"):
        """Of one of the platform's own URLs."""
        return urllib.parse.urlsplit(self.env[listener]).port

    def create_runtime(self, name):
        """Its token."""
        query = "mutation($a: RuntimeInstallationArgs!) { createRuntime(installationArgs: $a) { newAccessToken } }"
        args = {"runtimeName": name, "cluster": "in-cluster", "runtimeVersion": "0.1.0", "componentNames": []}
        return self.graphql(query, {"a": args})["createRuntime"]["newAccessToken"]

    def metric(self, name, **labels):
        """The sum of a family's series with these labels; 0 when there is none."""
        total = 0
        for line in self.admin("/metrics").text().splitlines():
            series, _, value = line.rpartition(" ")
            wanted = all(f'{key}="{text}"' in series for key, text in labels.items())
            if series.split("{")[0] == name and wanted:
                total += float(value)
        return total

    def connections(self, listener):
        """Open connections of a listener, as it counts them."""
        name = f'culvert_http_connections{{listener="{listener}"}} '
        return next(float(line.removeprefix(name)) for line in self.admin("/metrics").text().splitlines() if line.startswith(name))

    # ---- the demo cluster ------------------------------------------------------------------------------------------------

    def cluster(self, method, path, body=None, content_type="application/json"):
        """A request to the demo cluster's API, as its own admin."""
        server = json.loads((self.home / "demo.kubeconfig").read_text())["clusters"][0]["cluster"]["server"]
        token = (self.home / "demo-token.secret").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": content_type}
        answer = self.call(method, server, path, json.dumps(body) if body is not None else None, headers=headers, key=False)
        assert answer.status < 300, (answer.status, answer.text())
        return answer.json() if answer.body else None

    def cluster_applications(self):
        """What the demo cluster holds, in the platform's words: {(namespace, name): (sync, health)}"""
        sync = {"Synced": "SYNCED", "OutOfSync": "OUT_OF_SYNC", "Unknown": "UNKNOWN"}
        items = self.cluster("GET", "/apis/argoproj.io/v1alpha1/applications")["items"]
        found = {}
        for item in items:
            status = item.get("status", {})
            word = sync.get(status.get("sync", {}).get("status"), "UNKNOWN")
            words = (word, status.get("health", {}).get("status", "Unknown").upper())
            found[item["metadata"]["namespace"], item["metadata"]["name"]] = words
        return found


def settled(platform, besides=""):
    """Database and cluster agree while the cluster holds still. besides: a namespace that reports came from otherwise."""
    platform.cluster("POST", "/demo/pause")
    try:
        wait_until(lambda: platform.applications() == platform.cluster_applications(), 60, "database equals cluster")
        return resources_agree(platform, besides)
    finally:
        platform.cluster("POST", "/demo/resume")


def resources_agree(platform, besides):
    """Every resource row names an object of the cluster, by uid: nothing stale is left, nothing was applied twice."""

    def same():
        runtime = platform.env["CULVERT_RUNTIME"]
        state = platform.cluster("GET", "/demo/state")
        alive = {item["uid"] for item in state}
        rows = [row[0] for row in platform.psql(f"select uid from resources where runtime = '{runtime}' and namespace <> '{besides}' and not is_deleted and presence is null")]
        applications = [row[0] for row in platform.psql(f"select uid from applications where runtime = '{runtime}' and not is_deleted")]
        assert len(rows) == len(set(rows)) and len(applications) == len(set(applications))
        missing = [uid for uid in rows + applications if uid not in alive]
        assert not missing, f"{len(missing)} rows of objects that are gone"
        return True

    return wait_until(same, 60, "rows name living objects")


class Connection(http.client.HTTPConnection):
    """To a listener on loopback, whatever the name in the URL: runtime host names need no DNS here."""

    def __init__(self, platform, port, name, tls, timeout):
        super().__init__(name, port, timeout=timeout)
        self.platform, self.name, self.tls = platform, name, tls

    def connect(self):
        self.sock = socket.create_connection(("127.0.0.1", self.port), timeout=self.timeout)
        if self.tls:
            self.sock = self.platform.context().wrap_socket(self.sock, server_hostname=self.name)
