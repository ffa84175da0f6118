#!/usr/bin/python3
"""A whole cluster with Argo CD for tests, on loopback ports of its own, everything it keeps in one folder.

    tests/cluster/argo_cluster.py start DIR     DIR must be new or empty; on return Argo CD answers
    tests/cluster/argo_cluster.py stop DIR      ends all of it; DIR and its logs stay

It is tests/cluster/run's etcd and kube-apiserver, and besides: kube-controller-manager, a stand-in for scheduler and
kubelet (tests/cluster/node), Redis, a Git server, Argo CD's application controller, repo server, API server and
ApplicationSet controller, and Argo Rollouts' controller. tests/cluster/README.md says what start leaves in DIR.
"""

import base64
import json
import os
import pathlib
import random
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

from real_cluster import RealCluster  # noqa: E402

PORTS = range(20000, 32768)  # below the kernel's ephemeral ports
READY_SECONDS_MAX = 180
STOP_SECONDS_MAX = 20
ORDER = ["kube-controller-manager", "node", "redis", "git", "argocd-repo-server", "argocd-application-controller", "argocd-server"]
ORDER += ["argocd-applicationset-controller", "argocd-server-secured", "rollouts-controller"]
ARGO = "/apis/argoproj.io/v1alpha1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def built(name):
    found = subprocess.run([HERE / "build", "--path", name], check=True, stdout=subprocess.PIPE, text=True)
    return pathlib.Path(found.stdout.strip())


def free_port():
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class ArgoCluster:
    """The programs of one DIR. A program is known by DIR/NAME.pid and by DIR being its working directory."""

    def __init__(self, folder, argo="argo-cd"):
        """argo: which release of Argo CD, by its folder here; "argo-cd-2" is the last before version 3."""
        self.argo = argo
        self.folder = pathlib.Path(folder).resolve()
        self.api = RealCluster(self.folder)
        self.ports = {}
        self.started = {}

    # ---- programs ----------------------------------------------------------------------------------------------------

    def pid(self, name):
        """Of a program that runs, else None."""
        try:
            pid = int((self.folder / f"{name}.pid").read_text())
            return pid if os.readlink(f"/proc/{pid}/cwd") == str(self.folder) else None
        except (OSError, ValueError):
            return None

    def launch(self, name, command, **environment):
        path = os.pathsep.join([str(built("argo-cd")), os.environ["PATH"]])
        settings = {"PATH": path, "HOME": str(self.folder), "KUBECONFIG": str(self.folder / "kubeconfig"), "GOMAXPROCS": "2", **environment}
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                [str(word) for word in command],
                cwd=self.folder,
                env=settings,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        (self.folder / f"{name}.pid").write_text(f"{process.pid}\n")

    def wait(self, name, condition, seconds=READY_SECONDS_MAX):
        deadline = time.monotonic() + seconds
        while True:
            if name is not None and self.pid(name) is None:
                log = (self.folder / f"{name}.log").read_text(errors="replace").splitlines()[-20:]
                raise RuntimeError(f"{name} ended:\n" + "\n".join(log))
            try:
                if condition():
                    return
                last = "not yet"
            except (OSError, LookupError) as error:
                last = error
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name or 'the cluster'} was not ready after {seconds} s: {last}")
            time.sleep(0.1)

    def end(self, names):
        """SIGTERM to all, SIGKILL to what is left; a stopped one is continued first."""
        pids = {name: self.pid(name) for name in names}
        for number in (signal.SIGCONT, signal.SIGTERM):
            for name, pid in pids.items():
                if pid is not None and self.pid(name) == pid:
                    os.kill(pid, number)
        deadline = time.monotonic() + STOP_SECONDS_MAX
        for name, pid in pids.items():
            while pid is not None and not self.reap(name):
                if time.monotonic() > deadline:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(0.05)
            (self.folder / f"{name}.pid").unlink(missing_ok=True)

    def kill(self, name):
        """At once; restart() starts it again as it was."""
        self.note(name)
        os.kill(self.pid(name), signal.SIGKILL)
        self.wait(None, lambda: self.reap(name), STOP_SECONDS_MAX)

    def pause(self, name):
        os.kill(self.pid(name), signal.SIGSTOP)

    def resume(self, name):
        os.kill(self.pid(name), signal.SIGCONT)

    def note(self, name):
        """How it was started, for restart()."""
        words = pathlib.Path(f"/proc/{self.pid(name)}/cmdline").read_bytes().split(b"\0")[:-1]
        variables = pathlib.Path(f"/proc/{self.pid(name)}/environ").read_bytes().split(b"\0")
        self.started[name] = words, dict(each.split(b"=", 1) for each in variables if b"=" in each)

    def restart(self, name, *more):
        """With the words that it had, and these."""
        words, environment = self.started[name]
        words = [*words, *(each.encode() for each in more)]
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                words, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        (self.folder / f"{name}.pid").write_text(f"{process.pid}\n")

    def reap(self, name):
        """True once it has ended with all its threads, which hold its sockets until then."""
        pid = int((self.folder / f"{name}.pid").read_text())
        try:
            os.waitpid(pid, os.WNOHANG)  # if it is a child of ours
        except ChildProcessError:
            pass
        try:
            if os.readlink(f"/proc/{pid}/cwd") != str(self.folder):
                return True  # another program by now
        except OSError:
            pass  # it is ending
        try:
            state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            return state == "Z" and len(os.listdir(f"/proc/{pid}/task")) <= 1  # a zombie that init has yet to reap
        except OSError:
            return True

    # ---- what is in the cluster --------------------------------------------------------------------------------------

    def apply(self, path, text):
        """Server-side apply of one document of YAML."""
        code, answer = self.api.apply(path, text)
        if code not in (200, 201):
            raise RuntimeError(f"{path} could not be applied: {code} {answer}")

    def define(self):
        """Argo's resources, in the definitions of the releases that run; Workflows in one of ours, nothing runs them."""
        files = [*built(self.argo).glob("*-crd.yaml"), *built("argo-rollouts").glob("*-crd.yaml"), HERE / "workflows-crd.yaml"]
        for file in files:
            text = file.read_text()
            name = next(line.split()[1] for line in text.splitlines() if line.startswith("  name: "))
            self.apply(f"{CRDS}/{name}", text)
        for kind in ("applications", "applicationsets", "appprojects", "rollouts", "analysisruns", "experiments", "workflows"):
            self.wait(None, lambda: self.api.request("GET", f"{ARGO}/{kind}")[0] == 200)

    def configure(self):
        for file in [*built("argo-cd").glob("*-cm.yaml"), built("argo-cd") / "argocd-secret.yaml"]:
            kind = "secrets" if file.name == "argocd-secret.yaml" else "configmaps"
            self.apply(f"/api/v1/namespaces/argocd/{kind}/{file.stem}", file.read_text())

    # ---- the programs ------------------------------------------------------------------------------------------------

    def launch_kubernetes(self):
        pki = self.folder / "pki"
        config = self.folder / "kubeconfig"
        command = [built("kubernetes") / "kubernetes", "kube-controller-manager", f"--kubeconfig={config}", "--leader-elect=false"]
        command += ["--secure-port=0", f"--service-account-private-key-file={pki}/service-account.key", f"--root-ca-file={pki}/ca.crt"]
        # Nothing renews the Node's lease, and Pods must not be taken off it for that.
        command += ["--controllers=*,-node-lifecycle-controller,-taint-eviction-controller", "--concurrent-deployment-syncs=2"]
        self.launch("kube-controller-manager", command)
        self.launch("node", ["/usr/bin/python3", HERE / "node", self.folder])

    def launch_servers(self):
        redis, git = self.ports["redis"], self.ports["git"]
        command = ["redis-server", "--bind", "127.0.0.1", "--port", redis, "--save", "", "--appendonly", "no", "--dir", self.folder]
        self.launch("redis", command)
        (self.folder / "git").mkdir(exist_ok=True)
        programs = subprocess.run(["git", "--exec-path"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        command = [f"{programs}/git-daemon", "--listen=127.0.0.1", f"--port={git}", "--export-all", "--reuseaddr", f"--base-path={self.folder}/git"]
        self.launch("git", [*command, f"{self.folder}/git"])

    def argo_environment(self):
        data = self.folder / "argocd"
        return {
            "ARGOCD_FAKE_IN_CLUSTER": "true",  # "in-cluster" is the cluster of ~/.kube/config
            "ARGOCD_TLS_DATA_PATH": str(data / "tls"),
            "ARGOCD_SSH_DATA_PATH": str(data / "ssh"),
            "ARGOCD_GPG_DATA_PATH": str(data / "gpg"),
            "ARGOCD_GPG_ENABLED": "false",
            "TMPDIR": str(data / "tmp"),
            "ARGOCD_CONTROLLER_REPLICAS": "1",
            "ARGOCD_K8S_CLIENT_QPS": "500",
            "ARGOCD_K8S_CLIENT_BURST": "1000",
        }

    def launch_secured_server(self):
        """A second API server of Argo CD, as in an installation: TLS, accounts and rights. Sets its URL and CA."""
        name, port = "argocd-server-secured", free_port()
        redis, repo = f"127.0.0.1:{self.ports['redis']}", f"127.0.0.1:{self.ports['argocd-repo-server']}"
        command = [built("argo-cd") / "argocd", "--loglevel", "info", "--namespace", "argocd", "--repo-server", repo, "--repo-server-plaintext"]
        command += ["--redis", redis, "--address", "127.0.0.1", "--port", port, "--metrics-port", free_port(), "--staticassets", self.folder / "argocd/tmp"]
        self.launch(name, command, ARGOCD_BINARY_NAME="argocd-server", **self.argo_environment())

        def certificate():
            data = self.api.request("GET", "/api/v1/namespaces/argocd/secrets/argocd-secret")[1]["data"]
            return base64.b64decode(data["tls.crt"]) and data

        self.wait(name, certificate)
        self.secured_url, self.secured_ca = f"https://localhost:{port}", self.folder / "argocd/ca.crt"
        self.secured_ca.write_bytes(base64.b64decode(certificate()["tls.crt"]))
        context = ssl.create_default_context(cafile=str(self.secured_ca))
        self.wait(name, lambda: urllib.request.urlopen(f"{self.secured_url}/healthz", timeout=5, context=context).status == 200)
        return context

    def account_token(self, context, account):
        """As `argocd account generate-token` makes it."""
        secret = self.api.request("GET", "/api/v1/namespaces/argocd/secrets/argocd-initial-admin-secret")[1]
        password = base64.b64decode(secret["data"]["password"]).decode()

        def post(path, body, token=None):
            headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
            request = urllib.request.Request(self.secured_url + path, json.dumps(body).encode(), headers)
            with urllib.request.urlopen(request, timeout=30, context=context) as answer:
                return json.load(answer)["token"]

        session = post("/api/v1/session", {"username": "admin", "password": password})
        return post(f"/api/v1/account/{account}/token", {"name": account, "expiresIn": 0}, session)

    def launch_argo_cd(self):
        ports, data = self.ports, self.folder / "argocd"
        for name in ("tls", "ssh", "gpg", "tmp"):
            (data / name).mkdir(parents=True, exist_ok=True)
        (data / "ssh/ssh_known_hosts").touch()
        (self.folder / ".kube").mkdir(exist_ok=True)
        (self.folder / ".kube/config").write_text((self.folder / "kubeconfig").read_text())
        environment = self.argo_environment()
        redis, repo = f"127.0.0.1:{ports['redis']}", f"127.0.0.1:{ports['argocd-repo-server']}"

        def program(name, *words):
            command = [built(self.argo) / "argocd", "--loglevel", "info", *words]
            self.launch(name, command, ARGOCD_BINARY_NAME=name, **environment)

        # Version 2 has no such option.
        authority = ["--client-ca-path", ""] if self.argo == "argo-cd" else []
        words = ["--address", "127.0.0.1", "--port", ports["argocd-repo-server"], "--metrics-address", "127.0.0.1", "--redis", redis]
        program("argocd-repo-server", *words, "--metrics-port", ports["repo-metrics"], "--disable-tls", *authority)
        words = ["--namespace", "argocd", "--repo-server", repo, "--repo-server-plaintext", "--redis", redis]
        program("argocd-application-controller", *words, "--metrics-port", ports["controller-metrics"], "--app-resync", "30", "--app-resync-jitter", "0")
        words += ["--address", "127.0.0.1", "--port", ports["argocd-server"], "--metrics-port", ports["server-metrics"]]
        program("argocd-server", *words, "--disable-auth", "--insecure", "--staticassets", data / "tmp")
        words = ["--namespace", "argocd", "--argocd-repo-server", repo, "--repo-server-plaintext", "--metrics-addr", f"127.0.0.1:{ports['set-metrics']}"]
        words += ["--probe-addr", f"127.0.0.1:{ports['set-probe']}", "--webhook-addr", f"127.0.0.1:{ports['set-webhook']}"]
        program("argocd-applicationset-controller", *words)

    def upgrade(self):
        """From the release that runs to version 3: definitions first, then all programs, at the same ports."""
        self.end([name for name in ORDER if name.startswith("argocd-")])
        self.argo = "argo-cd"
        self.define()
        self.launch_argo_cd()
        self.wait_for_argo_cd()

    def wait_for_argo_cd(self):
        self.wait("argocd-server", lambda: self.answers(self.ports["argocd-server"]))
        self.wait("argocd-application-controller", lambda: self.answers(self.ports["controller-metrics"]))
        self.wait("argocd-repo-server", lambda: self.answers(self.ports["repo-metrics"]))

    def launch_rollouts(self):
        command = [built("argo-rollouts") / "rollouts-controller", "--kubeconfig", self.folder / "kubeconfig", "--leader-elect=false"]
        command += ["--metricsPort", self.ports["rollouts-metrics"], "--healthzPort", self.ports["rollouts-health"]]
        self.launch("rollouts-controller", command)

    def answers(self, port, path="/healthz"):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status == 200

    @staticmethod
    def listens(port):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True

    # ---- commands ----------------------------------------------------------------------------------------------------

    def start(self):
        missing = subprocess.run([HERE / "build", "--is-built"]).returncode
        if missing:
            raise RuntimeError("not all programs are in the cache: run tests/cluster/build first")
        self.api.start()
        names = ["redis", "git", "argocd-repo-server", "argocd-server", "repo-metrics", "controller-metrics", "server-metrics"]
        names += ["set-metrics", "set-probe", "set-webhook", "rollouts-metrics", "rollouts-health"]
        try:
            self.ports = {name: free_port() for name in names}
            self.define()
            self.configure()
            self.launch_kubernetes()
            self.launch_servers()
            self.wait("redis", lambda: self.listens(self.ports["redis"]))
            self.launch_argo_cd()
            self.launch_rollouts()
            (self.folder / "argocd.url").write_text(f"http://127.0.0.1:{self.ports['argocd-server']}\n")
            (self.folder / "git.url").write_text(f"git://127.0.0.1:{self.ports['git']}\n")
            self.wait_for_argo_cd()
            self.wait("argocd-server", lambda: self.api.request("GET", f"{ARGO}/namespaces/argocd/appprojects/default")[0] == 200)
            for name in ("git", "node", "kube-controller-manager", "argocd-applicationset-controller"):
                self.wait(name, lambda: True)
            self.wait("rollouts-controller", lambda: self.answers(self.ports["rollouts-health"]))
        except BaseException:
            self.stop()
            raise

    def stop(self):
        self.end(reversed(ORDER))
        self.api.stop()


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("start", "stop"):
        sys.exit("usage: tests/cluster/argo_cluster.py start|stop DIR")
    cluster, started = ArgoCluster(sys.argv[2]), time.monotonic()
    try:
        cluster.start() if sys.argv[1] == "start" else cluster.stop()
    except RuntimeError as error:
        sys.exit(f"tests/cluster/argo_cluster.py: {error}")
    if sys.argv[1] == "start":
        print(f"tests/cluster/argo_cluster.py: ready after {time.monotonic() - started:.0f} s;", f"kubeconfig: {cluster.folder}/kubeconfig;")
        print("Argo CD:", (cluster.folder / "argocd.url").read_text().strip(), " Git:", (cluster.folder / "git.url").read_text().strip())


if __name__ == "__main__":
    main()
