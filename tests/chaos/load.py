"""Clients that report as fast as they are answered, and write down every acknowledgement."""

import contextlib
import datetime
import json
import random
import threading
import time
import uuid

import report_tunnel

EVENTS = "/2.0/api/events"
PAYLOAD = "/2.0/api/events/event-payload"
NAMESPACE = "chaos"


def rfc3339(wall):
    return datetime.datetime.fromtimestamp(wall, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


class Writer(threading.Thread):
    """States of its own objects, each with a number that only grows; objects that are told of once and never again, so that
    nothing later covers a loss; and now and then an event with an id of its own. What is not acknowledged is sent again,
    the same, until it is."""

    def __init__(self, index, platform, connect, ledger, objects, seed):
        super().__init__(name=f"writer-{index}", daemon=True)
        self.platform, self.connect, self.ledger = platform, connect, ledger
        self.names = [f"object-{index}-{i}" for i in range(objects)]
        self.numbers = dict.fromkeys(self.names, 0)
        self.once = 0
        self.random = random.Random(seed)
        self.stopping = threading.Event()
        self.connection, self.last_ms = None, 0
        self.refused, self.retries, self.failure = 0, 0, None

    def run(self):
        try:
            while not self.stopping.is_set():
                self.tell_event() if self.random.random() < 0.1 else self.tell_state()
        except Exception as error:  # the run fails with it
            self.failure = error

    def tell_state(self):
        if self.random.random() < 0.5:
            self.once += 1
            name, number = f"{self.name}-once-{self.once}", 1
        else:
            name = self.random.choice(self.names)
            self.numbers[name] += 1
            number = self.numbers[name]
        self.ledger.send(name, number)
        # Reporters' order is that of their timestamps, in milliseconds.
        self.last_ms = max(self.last_ms + 1, int(time.time() * 1000))
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": NAMESPACE, "uid": name, "labels": {"number": str(number)}},
            "data": {"text": "x" * self.random.randrange(200, 4000)},
        }
        body = {"data": {"timestamp": rfc3339(self.last_ms / 1000), "object": manifest}}
        if self.post(EVENTS, body):
            self.ledger.ack(name, number)

    def tell_event(self):
        event = {"specversion": "1.0", "id": str(uuid.UUID(int=self.random.getrandbits(128))), "source": self.name, "type": "push", "time": rfc3339(time.time()), "data": {"k": 1}}
        if self.post(PAYLOAD, event):
            self.ledger.ack_event(event["id"])

    def post(self, path, body):
        """True once it is acknowledged; False when the run ends before that."""
        text = json.dumps(body)
        headers = {"Content-Type": "application/json", "Authorization": self.platform.env["CULVERT_RUNTIME_TOKEN"]}
        while not self.stopping.is_set():
            try:
                if not self.connection:
                    self.connection = self.connect()
                self.connection.request("POST", path, body=text, headers=headers)
                answer = self.connection.getresponse()
                detail = answer.read()
                if 200 <= answer.status < 300:
                    return True
                if answer.status < 500 and answer.status not in (401, 429):
                    raise AssertionError(f"{path} answered {answer.status}: {detail[:300]}")
                self.on_refused(answer)
            except (OSError, EOFError) as error:
                self.drop(error)
            except Exception as error:
                if isinstance(error, AssertionError):
                    raise
                self.drop(error)
            self.retries += 1
            self.stopping.wait(self.random.uniform(0.02, 0.2))
        return False

    def on_refused(self, _answer):
        self.refused += 1

    def drop(self, _error):
        if self.connection:
            self.connection.close()
        self.connection = None


class TunnelWriter(threading.Thread):
    """The same over a tunnel of its own: states of its own objects, a few at a time, told again after a reconnect."""

    def __init__(self, index, platform, runtime, token, ledger, objects, seed):
        super().__init__(name=f"tunnel-{index}", daemon=True)
        self.platform, self.runtime, self.token, self.ledger = platform, runtime, token, ledger
        self.numbers = {f"{self.name}-{i}": 0 for i in range(objects)}
        self.random, self.stopping, self.failure, self.tunnels, self.rejected = random.Random(seed), threading.Event(), None, 0, []

    def run(self):
        try:
            while not self.stopping.is_set():
                try:
                    with report_tunnel.ReportTunnel(self.platform, self.runtime, self.token) as tunnel:
                        self.tunnels += 1
                        while not self.stopping.is_set():
                            self.tell(tunnel)
                except (OSError, EOFError, report_tunnel.Refused):
                    self.stopping.wait(self.random.uniform(0.1, 0.5))
        except Exception as error:  # the run fails with it
            self.failure = error

    def tell(self, tunnel):
        told = []
        for name in self.random.sample(sorted(self.numbers), min(4, len(self.numbers))):
            self.numbers[name] += 1
            number = self.numbers[name]
            self.ledger.send(name, number)
            manifest = json.dumps({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": NAMESPACE, "uid": name, "labels": {"number": str(number)}},
                "data": {"text": self.random.randbytes(1500).hex()},
            }).encode()
            fields = {"version": "v1", "kind": "ConfigMap", "ns": NAMESPACE, "name": name, "uid": name, "cluster": "in-cluster"}
            sequence = tunnel.tell(report_tunnel.OBJECT, **fields, observed_at=int(time.time() * 1000), manifest=manifest)
            told.append((sequence, name, number))
        while told and not self.stopping.is_set():
            with contextlib.suppress(AssertionError):
                tunnel.until(lambda: tunnel.acks, 1)
            for kind, sequence, reason, _ in tunnel.acks:
                if kind == report_tunnel.REJECT:
                    self.rejected.append(reason)
                if kind == report_tunnel.ACK:
                    for number in [each for each in told if each[0] <= sequence]:
                        self.ledger.ack(number[1], number[2])
                    told = [each for each in told if each[0] > sequence]
            tunnel.acks.clear()


class OrderWatch(threading.Thread):
    """Reads the objects' numbers from the database all the time: none may ever go back."""

    def __init__(self, read):
        super().__init__(name="order-watch", daemon=True)
        self.read, self.stopping = read, threading.Event()
        self.seen, self.wrong, self.reads = {}, [], 0

    def run(self):
        while not self.stopping.wait(0.1):
            try:
                found = self.read()
            except Exception:  # the database is being killed
                continue
            self.reads += 1
            for name, number in found.items():
                if number < self.seen.get(name, 0):
                    self.wrong.append((name, self.seen[name], number))
                self.seen[name] = number
