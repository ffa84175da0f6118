"""A Kubernetes API that holds one application and any number of ApplicationSets: enough for an agent, and fast."""

import queue
import threading
import time
import urllib.parse

from kube_listener import KubeExchange, KubeListener, bookmark

GROUP = "/apis/argoproj.io/v1alpha1/"
APPLICATION = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Application",
    "metadata": {"name": "shop", "namespace": "argocd", "uid": "application-1"},
    "spec": {"source": {"repoURL": "https://example.com/shop.git"}, "destination": {"server": "https://kubernetes.default.svc"}},
    "status": {"sync": {"status": "Synced"}, "health": {"status": "Healthy"}, "resourceHealthSource": "appTree"},
}


class StaticCluster(KubeListener):
    def __init__(self, folder, count):
        self.sets = {f"many-{i}": self.make(i, "a") for i in range(count)}
        self.version, self.watches, self.lock, self.lists = 1, [], threading.Lock(), 0
        super().__init__(folder, "static", Exchange)

    @staticmethod
    def make(i, value):
        return {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "ApplicationSet",
            "metadata": {"name": f"many-{i}", "namespace": "argocd", "uid": f"many-{i}", "labels": {"app.kubernetes.io/test": value}},
            "spec": {"generators": [{"list": {"elements": []}}], "template": {"metadata": {"name": f"many-{i}"}}},
        }

    def change(self, i, value):
        with self.lock:
            self.version += 1
            self.sets[f"many-{i}"] = changed = self.make(i, value)
            for watch in self.watches:
                watch.put({"type": "MODIFIED", "object": {**changed, "metadata": {**changed["metadata"], "resourceVersion": str(self.version)}}})

    def list(self, plural, limit, start):
        with self.lock:
            self.lists += 1
            items = {"applications": [APPLICATION], "applicationsets": list(self.sets.values())}.get(plural, [])
            metadata = {"resourceVersion": str(self.version)}
        if start + limit < len(items):
            metadata["continue"] = str(start + limit)
        return {"metadata": metadata, "items": items[start : start + limit]}

    def changes(self):
        """The events of a watch of the ApplicationSets."""
        events = queue.Queue()
        with self.lock:
            self.watches.append(events)
        try:
            while True:
                try:
                    yield events.get(timeout=5)
                except queue.Empty:  # shows whether the client is still there
                    yield self.bookmark()
        finally:
            with self.lock:
                self.watches.remove(events)

    def nothing(self):
        while True:
            yield self.bookmark()
            time.sleep(5)

    def bookmark(self):
        return bookmark("argoproj.io/v1alpha1", "ApplicationSet", self.version)


class Exchange(KubeExchange):
    def do_GET(self):
        parts = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        plural, _, name = parts.path.removeprefix(GROUP).removeprefix("namespaces/argocd/").partition("/")
        if parts.path == "/version":
            self.answer(200, {"major": "1", "minor": "29", "gitVersion": "v1.29.0"})
        elif query.get("watch"):
            self.stream(self.cluster.changes() if plural == "applicationsets" else self.cluster.nothing())
        elif name and plural == "applicationsets" and name in self.cluster.sets:
            self.answer(200, self.cluster.sets[name])
        elif "limit" in query:
            self.answer(200, self.cluster.list(plural, int(query["limit"]), int(query.get("continue", "0"))))
        else:
            self.answer(404, {"kind": "Status", "code": 404})
