#!/usr/bin/python3
"""A stand-in for a Kubernetes API server that does one thing fast: Applications change at a steady rate, for tests/bench/freshness.

    freshness_cluster.py PORT OBJECTS

Commands on standard input: `rate N K` (N changes a second from now on, 0 stops; every K-th is sampled). On standard output `ready`,
then a line for each sampled change when it has been handed to the kernel: `<object> <number> <CLOCK_MONOTONIC in ns>`; and
`made <changes>` after each `rate`. The number of a change stands in status.sync.revision. Only list, watch and discovery are served,
over plain HTTP on loopback; every object changes in turn. Time is kept by the schedule: what is late is made up for at once.
"""

import json
import selectors
import socket
import sys
import time

NAMESPACE = "argocd"
TICK_SECONDS = 0.002
PLURALS = ("applications", "applicationsets", "rollouts", "analysisruns", "workflows", "replicasets", "pods", "deployments")


def application(index):
    """As Argo CD writes them, 2 KiB, as text before and after its version and its number."""
    name = f"load-{index:05d}"
    resources = [{"group": "apps" if i % 3 else "", "version": "v1", "kind": kind, "namespace": f"team-{index % 40}", "name": f"{name}-{kind.lower()}", "status": "Synced",
                  "health": {"status": "Healthy"}} for i, kind in enumerate(("Service", "ConfigMap", "Secret", "ServiceAccount", "HorizontalPodAutoscaler", "Ingress"))]
    document = {
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"{index:08x}-0000-4000-8000-000000000000", "creationTimestamp": "2026-01-02T03:04:05Z", "resourceVersion": "@V@",
                     "labels": {"team": f"team-{index % 40}", "stage": "production"}, "annotations": {"argocd.argoproj.io/manifest-generate-paths": "."}},
        "spec": {"project": "default", "destination": {"server": "https://kubernetes.default.svc", "namespace": f"team-{index % 40}"},
                 "source": {"repoURL": f"https://git.example.com/team-{index % 40}/deploy.git", "path": f"apps/{name}/overlays/production", "targetRevision": "main"},
                 "syncPolicy": {"automated": {"prune": True, "selfHeal": True}}},
        "status": {"sync": {"status": "Synced", "revision": "@R@"}, "health": {"status": "Healthy"}, "reconciledAt": "2026-11-21T10:00:00Z", "resources": resources,
                   "summary": {"images": [f"registry.example.com/team/{name}:1.{index % 90}.0"]},
                   "history": [{"id": i, "revision": f"{i:040x}", "deployedAt": f"2026-11-2{i}T10:00:00Z", "initiatedBy": {"automated": True}} for i in range(2)]},
    }
    text = json.dumps(document, separators=(",", ":"))
    before, _, rest = text.partition("@V@")
    between, _, after = rest.partition("@R@")
    return before, between, after


class Client:
    def __init__(self, sock):
        self.sock, self.received, self.out = sock, b"", b""
        self.watches = False  # the applications


class Cluster:
    def __init__(self, port, objects):
        self.objects = [application(i) for i in range(objects)]
        self.numbers = [0] * objects
        self.sample_every = 1
        self.version, self.number, self.rate, self.due, self.made = 1000, 0, 0, 0.0, 0
        self.selector = selectors.DefaultSelector()
        self.listener = socket.create_server(("127.0.0.1", port), backlog=100)
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ, None)
        self.selector.register(sys.stdin, selectors.EVENT_READ, "commands")
        self.clients, self.ended = set(), False

    def text(self, index, version):
        before, between, after = self.objects[index]
        return f"{before}{version}{between}{self.numbers[index]:040x}{after}"

    # ---- HTTP --------------------------------------------------------------------------------------------------------

    def answer(self, client, document):
        body = document.encode()
        client.out += b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    def refuse(self, client):
        client.out += b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

    def request(self, client, target):
        path, _, query = target.partition("?")
        parts = path.strip("/").split("/")
        plural = parts[-1]
        if path == "/version":
            self.answer(client, json.dumps({"major": "1", "minor": "29", "gitVersion": "v1.29.0"}))
        elif parts in (["api", "v1"], ["apis", "argoproj.io", "v1alpha1"], ["apis", "apps", "v1"]):
            kinds = [{"name": "applications", "kind": "Application", "namespaced": True, "verbs": ["list", "watch", "get"]}] if "argoproj.io" in parts else []
            self.answer(client, json.dumps({"kind": "APIResourceList", "resources": kinds}))
        elif plural not in PLURALS:
            self.refuse(client)
        elif "watch=true" in query:
            client.out += b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            client.watches = plural == "applications"
        else:
            items = ",".join(self.text(i, self.version) for i in range(len(self.objects))) if plural == "applications" else ""
            self.answer(client, f'{{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"{self.version}"}},"items":[{items}]}}')

    def read(self, client):
        try:
            data = client.sock.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            self.close(client)
            return
        client.received += data
        while b"\r\n\r\n" in client.received:
            head, _, client.received = client.received.partition(b"\r\n\r\n")
            self.request(client, head.split(b" ", 2)[1].decode())
        self.write(client)

    def write(self, client):
        while client.out:
            try:
                sent = client.sock.send(client.out[: 1 << 20])
            except BlockingIOError:
                break
            except ConnectionError:
                self.close(client)
                return
            client.out = client.out[sent:]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.out else 0)
        self.selector.modify(client.sock, events, client)

    def close(self, client):
        self.selector.unregister(client.sock)
        client.sock.close()
        self.clients.discard(client)

    def accept(self):
        sock, _ = self.listener.accept()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = Client(sock)
        self.clients.add(client)
        self.selector.register(sock, selectors.EVENT_READ, client)

    # ---- changes -----------------------------------------------------------------------------------------------------

    def command(self):
        line = sys.stdin.readline()
        word, _, value = line.strip().partition(" ")
        if word == "rate":
            self.say(f"made {self.made}")
            rate, _, every = value.partition(" ")
            self.rate, self.sample_every, self.due, self.made = int(rate), int(every), time.monotonic(), 0
        else:
            self.ended = True

    def say(self, line):
        print(line, flush=True)

    def change(self):
        now = time.monotonic()
        if not self.rate or now < self.due:
            return
        count = min(int((now - self.due) * self.rate) + 1, 500)
        self.due += count / self.rate
        events, sampled = [], []
        for _ in range(count):
            self.number += 1
            self.version += 1
            index = self.number % len(self.objects)
            self.numbers[index] = self.number
            events.append(f'{{"type":"MODIFIED","object":{self.text(index, self.version)}}}\n')
            if self.number % self.sample_every == 0:
                sampled.append((index, self.number))
        self.made += count
        body = "".join(events).encode()
        chunk = b"%x\r\n%s\r\n" % (len(body), body)
        for client in [each for each in self.clients if each.watches]:
            client.out += chunk
            self.write(client)
        at = time.monotonic_ns()
        for index, number in sampled:
            self.say(f"{index} {number} {at}")

    def run(self):
        self.say("ready")
        while not self.ended:
            wait = max(0.0, min(self.due - time.monotonic(), 1.0)) if self.rate else 1.0
            for key, mask in self.selector.select(max(wait, TICK_SECONDS if self.rate else 0)):
                if key.data is None:
                    self.accept()
                elif key.data == "commands":
                    self.command()
                elif mask & selectors.EVENT_READ:
                    self.read(key.data)
                else:
                    self.write(key.data)
            self.change()


if __name__ == "__main__":
    Cluster(*map(int, sys.argv[1:3])).run()
