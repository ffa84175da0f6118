"""What the small Kubernetes APIs of these tests share: a listener, a kubeconfig for it, JSON answers and watches."""

import http.server
import json
import pathlib
import threading


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


class KubeListener:
    """Serves `exchange`, a subclass of KubeExchange, which finds this object as self.cluster."""

    def __init__(self, folder, name, exchange):
        self.server = Server(("127.0.0.1", 0), type("Exchange", (exchange,), {"cluster": self}))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.kubeconfig = pathlib.Path(folder) / f"{name}.kubeconfig"
        contents = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "clusters": [{"name": name, "cluster": {"server": f"http://127.0.0.1:{self.server.server_address[1]}"}}],
            "users": [{"name": name, "user": {"token": "none"}}],
        }
        self.kubeconfig.write_text(json.dumps(contents))

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class KubeExchange(http.server.BaseHTTPRequestHandler):
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

    def stream(self, events):
        """Sends each event of a watch as it comes, until the client leaves."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for event in events:
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
        except OSError:
            pass


def bookmark(api_version, kind, resource_version):
    return {"type": "BOOKMARK", "object": {"kind": kind, "apiVersion": api_version, "metadata": {"resourceVersion": str(resource_version)}}}
