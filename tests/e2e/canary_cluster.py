"""A Kubernetes API that holds given objects of any kinds, and an Application that names them all, so that an agent
reports each of them. Nothing changes."""

import http.server
import json
import pathlib
import threading
import time
import urllib.parse


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


class Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


class CanaryCluster:
    def __init__(self, folder, objects):
        self.lists = {}  # path of a list: objects
        self.kinds = {}  # path of a version: {plural: kind}
        for each in [*objects, holder(objects)]:
            root, plural = version_path(each["apiVersion"]), plural_of(each["kind"])
            self.kinds.setdefault(root, {})[plural] = each["kind"]
            self.lists.setdefault(f"{root}/{plural}", []).append(each)
        self.listener = Listener(("127.0.0.1", 0), type("Exchange", (Exchange,), {"cluster": self}))
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()
        self.kubeconfig = pathlib.Path(folder) / "canary.kubeconfig"
        contents = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "canary",
            "contexts": [{"name": "canary", "context": {"cluster": "canary", "user": "canary"}}],
            "clusters": [{"name": "canary", "cluster": {"server": f"http://127.0.0.1:{self.listener.server_address[1]}"}}],
            "users": [{"name": "canary", "user": {"token": "none"}}],
        }
        self.kubeconfig.write_text(json.dumps(contents))

    def stop(self):
        self.listener.shutdown()
        self.listener.server_close()


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

    def watch(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            while True:
                line = json.dumps({"type": "BOOKMARK", "object": {"kind": "Any", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}}}).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
                time.sleep(5)
        except OSError:
            pass

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
            self.watch()
        elif path in self.cluster.lists or root in self.cluster.kinds:
            items, start, limit = self.cluster.lists.get(path, []), int(query.get("continue", 0)), int(query.get("limit", 10**6))
            metadata = {"resourceVersion": "1", **({"continue": str(start + limit)} if start + limit < len(items) else {})}
            self.answer(200, {"kind": "List", "metadata": metadata, "items": items[start : start + limit]})
        else:
            self.answer(404, {"kind": "Status", "code": 404})
