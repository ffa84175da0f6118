"""A Kubernetes API that holds given objects of any kinds, and an Application that names them all, so that an agent
reports each of them. Nothing changes."""

import time
import urllib.parse

from kube_listener import KubeExchange, KubeListener, bookmark


def plural_of(kind):
    return kind.lower() + ("es" if kind.endswith("s") else "s")


def version_path(api_version):
    return ("/apis/" if "/" in api_version else "/api/") + api_version


def holder(objects):
    """The Application whose resources they are."""
    entries = []
    for each in objects:
        group, _, version = each["apiVersion"].rpartition("/")
        metadata = each["metadata"]
        entries.append({"group": group, "version": version, "kind": each["kind"], "namespace": metadata["namespace"], "name": metadata["name"], "status": "Synced"})
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "holder", "namespace": "canaries", "uid": "holder-uid"},
        "spec": {"source": {"repoURL": "https://example.com/a.git"}, "destination": {"server": "https://kubernetes.default.svc"}},
        "status": {"sync": {"status": "Synced"}, "health": {"status": "Healthy"}, "resources": entries},
    }


class CanaryCluster(KubeListener):
    def __init__(self, folder, objects):
        self.lists = {}  # path of a list: objects
        self.kinds = {}  # path of a version: {plural: kind}
        for each in [*objects, holder(objects)]:
            root, plural = version_path(each["apiVersion"]), plural_of(each["kind"])
            self.kinds.setdefault(root, {})[plural] = each["kind"]
            self.lists.setdefault(f"{root}/{plural}", []).append(each)
        super().__init__(folder, "canary", Exchange)


def bookmarks():
    while True:
        yield bookmark("v1", "Any", 1)
        time.sleep(5)


class Exchange(KubeExchange):
    def do_GET(self):
        parts = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        path = parts.path
        root, _, name = path.rpartition("/")
        if path == "/version":
            self.answer(200, {"major": "1", "minor": "33", "gitVersion": "v1.33.0"})
        elif path in self.cluster.kinds:
            names = [{"name": plural, "kind": kind, "namespaced": True, "verbs": ["get", "list", "watch"]} for plural, kind in self.cluster.kinds[path].items()]
            self.answer(200, {"kind": "APIResourceList", "groupVersion": path.split("/", 2)[2], "resources": names})
        elif query.get("watch"):
            self.stream(bookmarks())
        elif path in self.cluster.lists or root in self.cluster.kinds:
            items, start, limit = self.cluster.lists.get(path, []), int(query.get("continue", 0)), int(query.get("limit", 10**6))
            metadata = {"resourceVersion": "1", **({"continue": str(start + limit)} if start + limit < len(items) else {})}
            self.answer(200, {"kind": "List", "metadata": metadata, "items": items[start : start + limit]})
        else:
            self.answer(404, {"kind": "Status", "code": 404})
