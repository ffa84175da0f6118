"""Clients that report as fast as they are answered, and write down every acknowledgement.

They do what reporters do on a bad day as well: send again what was not acknowledged, give up waiting and send something newer
by another connection, repeat what is long outdated, and dial again while the tunnel before is still open."""

import contextlib
import datetime
import json
import random
import threading
import time
import uuid

import report_tunnel
from release_history import ReleaseHistory

EVENTS = "/2.0/api/events"
PAYLOAD = "/2.0/api/events/event-payload"
NAMESPACE, NAMESPACE_ONCE = "chaos", "chaos-once"
ABANDONED_MAX = 4
REPEAT_SECONDS_MAX = 40


def rfc3339(wall):
    return datetime.datetime.fromtimestamp(wall, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


class Client(threading.Thread):
    """Tells of its own objects: states with a number that only grows, deletions among them; objects that are told of once
    and never again, so that nothing later covers a loss; an Application whose history grows."""

    def __init__(self, name, platform, token, ledger, objects, seed):
        super().__init__(name=name, daemon=True)
        self.platform, self.token, self.ledger = platform, token, ledger
        self.numbers = {f"{name}-{i}": 0 for i in range(objects)}
        self.names = sorted(self.numbers)
        self.once = 0
        self.random = random.Random(seed)
        self.history = ReleaseHistory(f"{name}-application", NAMESPACE)
        self.stopping = threading.Event()
        self.failure = None

    def run(self):
        try:
            self.talk()
        except Exception as error:  # the run fails with it
            self.failure = f"{self.name}: {error!r}"

    def next_state(self, name=None):
        """(manifest, whether it is deleted, what to call when it is acknowledged)"""
        if name is None and self.random.random() < 0.1:
            return self.next_release()
        if name is None and self.random.random() < 0.5:
            self.once += 1
            namespace, name, number = NAMESPACE_ONCE, f"{self.name}-once-{self.once}", 1
        else:
            namespace = NAMESPACE
            name = name or self.random.choice(self.names)
            self.numbers[name] += 1
            number = self.numbers[name]
        is_deletion = number > 1 and self.random.random() < 0.05
        self.ledger.send(name, number, is_deletion)
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace, "uid": name, "labels": {"app.kubernetes.io/number": str(number)}},
            "data": {"text": self.random.randbytes(self.random.randrange(100, 1500)).hex()},
        }
        return manifest, is_deletion, lambda: self.ledger.ack(name, number)

    def next_release(self):
        manifest, number, told = self.history.next()
        self.ledger.send(self.history.name, number)
        self.ledger.send_history(*told)

        def on_ack(name=self.history.name):
            self.ledger.ack(name, number)
            self.ledger.ack_history(*told)

        return manifest, False, on_ack


class Writer(Client):
    """Over HTTP. What is not acknowledged is sent again, the same, until it is."""

    def __init__(self, index, platform, connect, token, ledger, objects, seed):
        super().__init__(f"writer-{index}", platform, token, ledger, objects, seed)
        self.connect = connect
        self.connection, self.abandoned, self.last_ms = None, [], 0
        self.outdated = {}  # object -> a body that newer ones followed
        self.refused, self.retries, self.deadline = 0, 0, 0

    def talk(self):
        while not self.stopping.is_set():
            chance = self.random.random()
            if chance < 0.1:
                self.tell_event()
            elif chance < 0.15:
                self.overtake()
            elif chance < 0.25 and self.outdated:
                self.post(EVENTS, self.random.choice(list(self.outdated.values())))
            else:
                self.tell_state()
        self.deadline = time.monotonic() + REPEAT_SECONDS_MAX
        for body in self.outdated.values():  # once more at the end, when nothing newer covers it
            self.post(EVENTS, body)

    def body_of(self, manifest, is_deletion):
        # Reporters' order is that of their timestamps, in milliseconds.
        self.last_ms = max(self.last_ms + 1, int(time.time() * 1000))
        if is_deletion:
            manifest["metadata"]["deletionTimestamp"] = rfc3339(self.last_ms / 1000)
        return json.dumps({"data": {"timestamp": rfc3339(self.last_ms / 1000), "object": manifest}})

    def tell_state(self, name=None):
        manifest, is_deletion, on_ack = self.next_state(name)
        body = self.body_of(manifest, is_deletion)
        if self.post(EVENTS, body):
            on_ack()
            if self.random.random() < 0.2 and manifest["kind"] == "ConfigMap" and manifest["metadata"]["namespace"] == NAMESPACE:
                self.tell_state(manifest["metadata"]["name"])
                self.outdated[manifest["metadata"]["name"]] = body

    def overtake(self):
        """A state whose answer is not waited for, and the next one by another connection: they may arrive in any order."""
        name = self.random.choice(self.names)
        manifest, is_deletion, _ = self.next_state(name)
        with contextlib.suppress(OSError, EOFError):
            connection = self.connect()
            self.abandoned.append(connection)
            self.send(connection, EVENTS, self.body_of(manifest, is_deletion))
        while len(self.abandoned) > ABANDONED_MAX:
            self.abandoned.pop(0).close()
        self.tell_state(name)

    def tell_event(self):
        event = {"specversion": "1.0", "id": str(uuid.UUID(int=self.random.getrandbits(128))), "source": self.name, "type": "push", "time": rfc3339(time.time()), "data": {"k": 1}}
        self.ledger.send_event(event["id"])
        for _ in range(1 if self.random.random() < 0.8 else 2):
            if self.post(PAYLOAD, json.dumps(event)):
                self.ledger.ack_event(event["id"])

    def send(self, connection, path, body):
        headers = {"Content-Type": "application/json", "Authorization": self.token}
        connection.request("POST", path, body=body, headers=headers)

    def post(self, path, body):
        """True once it is acknowledged; False when the run ends before that."""
        while not self.stopping.is_set() or time.monotonic() < self.deadline:
            try:
                if not self.connection:
                    self.connection = self.connect()
                self.send(self.connection, path, body)
                answer = self.connection.getresponse()
                detail = answer.read()
                if 200 <= answer.status < 300:
                    return True
                if answer.status < 500 and answer.status not in (401, 429):
                    raise AssertionError(f"{path} answered {answer.status}: {detail[:300]}")
                self.on_refused(answer)
            except AssertionError:
                raise
            except Exception as error:  # of the connection, at any level of it
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


class TunnelWriter(Client):
    """Over tunnels of a runtime of its own, a few reports at a time. What a tunnel did not acknowledge before it ended is told
    no more: something newer is."""

    def __init__(self, index, platform, runtime, token, ledger, objects, seed, leaves=0.1):
        """leaves: how likely it is, after each few reports, that it opens another tunnel beside the one that it has."""
        super().__init__(f"tunnel-{index}", platform, token, ledger, objects, seed)
        self.runtime, self.leaves, self.tunnels, self.rejected = runtime, leaves, 0, []
        self.old = None  # a tunnel that is superseded, not closed

    def talk(self):
        while not self.stopping.is_set():
            try:
                self.use(report_tunnel.ReportTunnel(self.platform, self.runtime, self.token))
            # An AssertionError is the platform's silence: the tunnel is of no use any more.
            except (OSError, EOFError, report_tunnel.Refused, AssertionError):
                self.stopping.wait(self.random.uniform(0.1, 0.5))
            except Exception as error:
                if not type(error).__module__.startswith("h2."):
                    raise

    def use(self, tunnel):
        self.tunnels += 1
        keeps = False
        try:
            while not self.stopping.is_set() and not keeps:
                told = self.tell(tunnel)
                keeps = self.random.random() < self.leaves
                if not keeps:
                    self.wait(tunnel, told)
                if self.old:
                    self.old.close()
                    self.old = None
        finally:
            if keeps:
                self.old = tunnel
            else:
                tunnel.close()

    def tell(self, tunnel):
        """[(sequence, what to call when it is acknowledged)]"""
        told, names = [], self.random.sample(self.names, min(2, len(self.names)))
        for name in [*names, None, None]:
            manifest, is_deletion, on_ack = self.next_state(name)
            metadata = manifest["metadata"]
            group, _, version = manifest["apiVersion"].rpartition("/")
            fields = {"version": version, "kind": manifest["kind"], "ns": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"], "cluster": "in-cluster"}
            if group:
                fields = {"group": group, **fields}
            fields["observed_at"] = int(time.time() * 1000)
            if not is_deletion:
                fields["manifest"] = json.dumps(manifest).encode()
            sequence = tunnel.tell(report_tunnel.DELETED if is_deletion else report_tunnel.OBJECT, **fields)
            told.append((sequence, on_ack))
        return told

    def wait(self, tunnel, told):
        while told and not self.stopping.is_set():
            with contextlib.suppress(AssertionError):  # none came yet
                tunnel.until(lambda: tunnel.acks, 1)
            for kind, sequence, reason, _ in tunnel.acks:
                if kind == report_tunnel.REJECT:
                    self.rejected.append(f"{self.name}: {reason}")
                if kind == report_tunnel.ACK:
                    for _, on_ack in [each for each in told if each[0] <= sequence]:
                        on_ack()
                    told = [each for each in told if each[0] > sequence]
            tunnel.acks.clear()


class OrderWatch(threading.Thread):
    """Reads the objects' numbers from the database all the time: none may ever go back."""

    def __init__(self, read):
        super().__init__(name="order-watch", daemon=True)
        self.read, self.stopping = read, threading.Event()
        self.seen, self.wrong, self.reads = {}, [], 0

    def run(self):
        while not self.stopping.wait(0.2):
            try:
                found = self.read()
            except Exception:  # the database is being killed
                continue
            self.reads += 1
            for name, number in found.items():
                if number < self.seen.get(name, 0):
                    self.wrong.append(f"{name}: {self.seen[name]}, then {number}")
                self.seen[name] = number
