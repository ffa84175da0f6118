"""A Kubernetes API that holds one application and any number of ApplicationSets: enough for an agent, and fast."""

import http.server
import json
import pathlib
import queue
import threading
import urllib.parse

GROUP = "/apis/argoproj.io/v1alpha1/"
APPLICATION = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Application",
    "metadata": {"name": "shop", "namespace": "argocd", "uid": "application-1"},
    "spec": {"source": {"repoURL": "https://example.com/shop.git"}, "destination": {"server": "https://kubernetes.default.svc"}},
    "status": {"sync": {"status": "Synced"}, "health": {"status": "Healthy"}, "resourceHealthSource": "appTree"},
}


class Door(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


class StaticCluster:
    def __init__(self, folder, count):
        self.sets = {f"many-{i}": self.make(i, "a") for i in range(count)}
        self.version, self.watches, self.lock, self.lists = 1, [], threading.Lock(), 0
        self.door = Door(("127.0.0.1", 0), type("Exchange", (Exchange,), {"cluster": self}))
        threading.Thread(target=self.door.serve_forever, daemon=True).start()
        server = f"http://127.0.0.1:{self.door.server_address[1]}"
        self.kubeconfig = pathlib.Path(folder) / "static.kubeconfig"
        contents = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "static",
            "contexts": [{"name": "static", "context": {"cluster": "static", "user": "static"}}],
            "clusters": [{"name": "static", "cluster": {"server": server}}],
            "users": [{"name": "static", "user": {"token": "none"}}],
        }
        self.kubeconfig.write_text(json.dumps(contents))

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

    def stop(self):
        self.door.shutdown()
        self.door.server_close()


class Exchange(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cluster = None

    def log_message(self, *words):
        pass

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def watch(self, plural):
        events = queue.Queue()
        if plural == "applicationsets":
            with self.cluster.lock:
                self.cluster.watches.append(events)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            while True:
                try:
                    event = events.get(timeout=5)
                except queue.Empty:  # a bookmark shows whether anybody listens still
                    event = {"type": "BOOKMARK", "object": {"kind": "ApplicationSet", "apiVersion": "argoproj.io/v1alpha1", "metadata": {"resourceVersion": str(self.cluster.version)}}}
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
        except OSError:
            with self.cluster.lock:
                if events in self.cluster.watches:
                    self.cluster.watches.remove(events)

    def do_GET(self):
        parts = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        plural, _, name = parts.path.removeprefix(GROUP).removeprefix("namespaces/argocd/").partition("/")
        if parts.path == "/version":
            self.answer(200, {"major": "1", "minor": "29", "gitVersion": "v1.29.0"})
        elif query.get("watch"):
            self.watch(plural)
        elif name and plural == "applicationsets" and name in self.cluster.sets:
            self.answer(200, self.cluster.sets[name])
        elif "limit" in query:
            self.answer(200, self.cluster.list(plural, int(query["limit"]), int(query.get("continue", "0"))))
        else:
            self.answer(404, {"kind": "Status", "code": 404})
