"""The applications of tests/real: what is in Git (tests/real/git), what Argo CD is asked to make of it, and what is done
to it afterwards so that it is out of sync, degraded, paused, missing, or waiting."""

import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
APPLICATIONS = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications"
SETS = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applicationsets"
SERVER = "https://kubernetes.default.svc"
AUTOMATED = {"automated": {}, "syncOptions": ["CreateNamespace=true"]}
MANUAL = {"syncOptions": ["CreateNamespace=true"]}

# What Argo CD itself must say in the end: (sync, health). None: not what this application is there for.
SETTLED = {
    "web": ("Synced", "Healthy"),
    "broken": ("Synced", "Degraded"),
    "assorted": ("Synced", None),
    "chart": ("Synced", "Healthy"),
    "multi": ("Synced", "Healthy"),
    "kustomized": ("Synced", "Healthy"),
    "canary": ("Synced", "Suspended"),
    "flows": ("Synced", "Degraded"),
    "unsynced": ("OutOfSync", "Healthy"),
    "failing": ("OutOfSync", None),
    "pruned": ("OutOfSync", "Healthy"),
    "never": ("OutOfSync", "Missing"),
    "missing": ("OutOfSync", "Healthy"),  # what is missing counts only where nothing is there, as in "never"
    "hooked": ("Synced", "Healthy"),
    "custom": ("Synced", "Healthy"),
    "apps": ("Synced", "Healthy"),
    "child": ("Synced", "Healthy"),
    "set-one": ("Synced", "Healthy"),
    "set-two": ("Synced", "Healthy"),
}


class Git:
    """The repository `estate` of the cluster's Git server, and a second one, `values`."""

    def __init__(self, cluster):
        self.url = (cluster.folder / "git.url").read_text().strip()
        self.root = cluster.folder / "git"
        self.work = cluster.folder / "git-work"

    def run(self, *words, cwd=None):
        settings = ["-c", "user.name=Ada", "-c", "user.email=ada@culvert.test", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", *settings, *words], cwd=cwd or self.work, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def create(self):
        for name in ("estate", "values"):
            self.run("init", "--bare", f"{name}.git", cwd=self.root)
            source = HERE / "git" if name == "estate" else HERE / "git/values"
            work = self.work / name
            shutil.copytree(source, work)
            for file in work.rglob("*.yaml"):
                file.write_text(file.read_text().replace("GIT/", self.url + "/"))
            self.run("init", cwd=work)
            self.run("add", "--all", cwd=work)
            self.run("commit", "-m", f"{name}: begin", cwd=work)
            self.run("push", self.root / f"{name}.git", "HEAD:refs/heads/main", cwd=work)

    def change(self, path, old, new, message):
        work = self.work / "estate"
        text = (work / path).read_text()
        assert old in text, (path, old)
        (work / path).write_text(text.replace(old, new))
        self.push(message)

    def cut(self, path, names):
        """Takes the documents of these names out of a file."""
        file = self.work / "estate" / path
        kept = [each for each in file.read_text().split("---\n") if not any(f"\n  name: {name}\n" in each for name in names)]
        file.write_text("---\n".join(kept))

    def push(self, message):
        work = self.work / "estate"
        self.run("commit", "-a", "-m", message, cwd=work)
        self.run("push", self.root / "estate.git", "HEAD:refs/heads/main", cwd=work)


def application(git, name, policy=None, **spec):
    if "sources" not in spec:
        source = {"repoURL": f"{git.url}/estate", "path": name, "targetRevision": "main", **spec.pop("source", {})}
        spec["source"] = source
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": name, "namespace": "argocd"},
        "spec": {
            "project": "default",
            "destination": {"server": SERVER, "namespace": f"real-{name}"},
            "syncPolicy": policy or AUTOMATED,
            **spec,
        },
    }


def applications(git):
    repository = {"repoURL": f"{git.url}/estate", "targetRevision": "main"}
    multi = [
        {**repository, "path": "chart", "helm": {"valueFiles": ["$values/values.yaml"]}},
        {"repoURL": f"{git.url}/values", "targetRevision": "main", "ref": "values"},
        {"repoURL": f"{git.url}/values", "targetRevision": "main", "path": ".", "directory": {"include": "extra.yaml"}},
    ]
    automatic = [application(git, name) for name in ("web", "broken", "assorted", "canary", "flows", "failing", "pruned", "hooked", "custom", "apps")]
    manual = [application(git, name, MANUAL) for name in ("unsynced", "missing")]
    return [
        *automatic,
        *manual,
        application(git, "never", MANUAL),
        application(git, "chart", source={"helm": {"parameters": [{"name": "tag", "value": "2"}]}}),
        application(git, "multi", sources=multi),
        application(git, "kustomized", source={"path": "kustomized/overlay"}),
    ]


def application_set(git):
    made = application(git, "set-{{.name}}", source={"path": "set/{{.name}}"})
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "ApplicationSet",
        "metadata": {"name": "set", "namespace": "argocd"},
        "spec": {
            "goTemplate": True,
            "generators": [{"list": {"elements": [{"name": "one"}, {"name": "two"}]}}],
            "template": {"metadata": {"name": "set-{{.name}}"}, "spec": made["spec"]},
        },
    }


class Estate:
    def __init__(self, cluster):
        self.cluster, self.api, self.git = cluster, cluster.api, Git(cluster)

    def must(self, method, path, body=None):
        code, answer = self.api.request(method, path, body)
        assert code < 300, (method, path, code, answer)
        return answer

    def create(self):
        self.git.create()
        for made in applications(self.git):
            self.must("POST", APPLICATIONS, made)
        self.must("POST", SETS, application_set(self.git))
        for name in ("unsynced", "missing"):
            self.sync(name, syncOptions=MANUAL["syncOptions"])  # those of the policy are for automated syncs

    def sync(self, name, **how):
        self.must("PATCH", f"{APPLICATIONS}/{name}", {"operation": {"initiatedBy": {"username": "ada"}, "sync": how}})

    def status(self, name):
        return self.must("GET", f"{APPLICATIONS}/{name}").get("status", {})

    def states(self):
        """{name: (sync, health)} as Argo CD says."""
        items = self.must("GET", APPLICATIONS)["items"]
        found = {}
        for item in items:
            status = item.get("status", {})
            found[item["metadata"]["name"]] = (status.get("sync", {}).get("status"), status.get("health", {}).get("status"))
        return found

    def created(self):
        """True once every application has come as far as what Git first said takes it."""
        states = self.states()
        first = {name: wanted for name, wanted in SETTLED.items() if name not in ("canary", "flows", "unsynced", "pruned", "missing")}
        first.update(canary=("Synced", "Healthy"), flows=("Synced", None), unsynced=("Synced", "Healthy"))
        first.update(pruned=("Synced", "Healthy"), missing=("Synced", "Healthy"))
        return unlike(states, first)

    def alter(self):
        """What is done to it afterwards."""
        for name, phase in (("running", "Running"), ("succeeded", "Succeeded"), ("failed", "Failed")):
            status = {"phase": phase, "startedAt": "2026-01-01T00:00:00Z", "message": f"it is {phase}"}
            self.must("PATCH", f"/apis/argoproj.io/v1alpha1/namespaces/real-flows/workflows/{name}", {"status": status})
        self.must("DELETE", "/apis/apps/v1/namespaces/real-missing/deployments/taken?propagationPolicy=Background")
        self.must("DELETE", "/api/v1/namespaces/real-missing/configmaps/taken")
        self.git.cut("pruned/pruned.yaml", ("pruned", "goes"))
        self.git.change("unsynced/unsynced.yaml", "registry.test/unsynced:1", "registry.test/unsynced:2", "unsynced: second image")
        self.git.change("canary/canary.yaml", "registry.test/canary:1", "registry.test/canary:2", "canary: second image")
        self.refresh()

    def refresh(self):
        for name in self.states():
            self.must("PATCH", f"{APPLICATIONS}/{name}", {"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}})

    def settled(self):
        return unlike(self.states(), SETTLED)


def unlike(states, wanted):
    """The states that are not as wanted: {name: (is, wanted)}"""
    missing = {}
    for name, (sync, health) in wanted.items():
        is_sync, is_health = states.get(name, (None, None))
        if is_sync != sync or (health and is_health != health):
            missing[name] = ((is_sync, is_health), (sync, health))
    return missing
