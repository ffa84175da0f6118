"""Pod logs as the kubelet gives them: lines of a container since it started, previous ones, and following.

A container writes one line a second, or as many as /demo/logs?rate=N says. The lines follow from the container and the
time alone, so nothing is stored.
"""

from __future__ import annotations

import datetime
import hashlib
import threading
import time

import status
from http_listener import Exchange
from object_store import ObjectStore
from resource_types import PODS

RATE_MAX = 20_000
LINES_KEPT = 20_000  # older ones were rotated away
FOLLOW_POLL_SECONDS = 0.1
_METHODS = ("GET /", "GET /healthz", "POST /orders", "GET /cart")


def seconds_of(text: str) -> float:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def stamp(seconds: float) -> str:
    whole = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{int(seconds % 1 * 1e9):09d}Z"


class Instance:
    """One run of a container."""

    def __init__(self, identifier: str, begun: float, ended: float | None):
        self.identifier, self.begun, self.ended = identifier, begun, ended
        self._salt = int.from_bytes(hashlib.sha256(identifier.encode()).digest()[:4], "big")

    def count(self, now: float, rate: int) -> int:
        return max(0, int(((self.ended or now) - self.begun) * rate)) + 1

    def line(self, number: int, rate: int) -> tuple[float, str]:
        took = (self._salt + number * 7919) % 90
        return self.begun + number / rate, f'level=info n={number} msg="{_METHODS[number % 4]}" status=200 took={took}ms'


def now_of(container: dict) -> Instance | None:
    state = container.get("state", {})
    if "running" in state:
        return Instance(container.get("containerID", ""), seconds_of(state["running"]["startedAt"]), None)
    ended = state.get("terminated") or container.get("lastState", {}).get("terminated")
    return ended_of(ended)


def ended_of(ended: dict | None) -> Instance | None:
    if not ended:
        return None
    finished = seconds_of(ended["finishedAt"])
    return Instance(ended.get("containerID", ""), seconds_of(ended["startedAt"]), max(finished, seconds_of(ended["startedAt"])))


class PodLogs:
    def __init__(self, store: ObjectStore):
        self._store = store
        self.rate = 1
        self.open = 0  # that are being sent
        self._lock = threading.Lock()

    def answer(self, exchange: Exchange, namespace: str, name: str) -> None:
        query = exchange.query
        pod = self._store.get(PODS, namespace, name)
        container = self._container(pod, query.text("container"))
        instance = self._instance(pod, container, query.flag("previous"))
        since = max(0.0, seconds_of(query.text("sinceTime")) if query.text("sinceTime") else 0.0)
        if query.text("sinceSeconds"):
            since = time.time() - query.number("sinceSeconds")
        first, end = self._range(instance, since, query.text("tailLines"), query.number("tailLines"))
        limit = query.number("limitBytes") or None
        exchange.begin_stream("text/plain")
        self._count(1)
        try:
            self._send(exchange, instance, first, end, query.flag("timestamps"), limit)
            if query.flag("follow"):
                self._follow(exchange, namespace, name, container, instance, end, query.flag("timestamps"))
            exchange.end_stream()
        finally:
            self._count(-1)

    def _count(self, by: int) -> None:
        with self._lock:
            self.open += by

    def _range(self, instance: Instance, since: float, has_tail: str, tail: int) -> tuple[int, int]:
        end = instance.count(time.time(), self.rate)
        first = max(0, end - LINES_KEPT)
        if since > instance.begun:
            first = max(first, min(end, int((since - instance.begun) * self.rate)))
        return (max(first, end - tail) if has_tail else first), end

    def _send(self, exchange: Exchange, instance: Instance, first: int, end: int, timed: bool, limit: int | None) -> None:
        text = []
        for number in range(first, end):
            at, line = instance.line(number, self.rate)
            text.append(f"{stamp(at)} {line}\n" if timed else f"{line}\n")
        content = "".join(text).encode()[:limit]
        if content:
            exchange.send(content)
        exchange.send_pending()

    def _follow(self, exchange: Exchange, namespace: str, name: str, container: str, instance: Instance, at: int, timed: bool) -> None:
        """Until the container or its pod has ended, or the client leaves."""
        rate = self.rate
        while True:
            time.sleep(FOLLOW_POLL_SECONDS)
            if rate != self.rate:  # another rate numbers lines anew
                rate = self.rate
                at = instance.count(time.time(), rate)
            pod = self._store.find(PODS, namespace, name)
            found = next((c for c in (pod or {}).get("status", {}).get("containerStatuses", ()) if c["name"] == container), None)
            newest = now_of(found) if found else None
            is_over = newest is None or newest.identifier != instance.identifier or newest.ended is not None
            end = (newest if newest and newest.identifier == instance.identifier else instance).count(time.time(), self.rate)
            if end > at:
                self._send(exchange, instance, at, end, timed, None)
                at = end
            if is_over:
                return
            if exchange.client_left():
                return

    @staticmethod
    def _container(pod: dict, wanted: str) -> str:
        names = [c["name"] for key in ("initContainers", "containers") for c in pod["spec"].get(key, ())]
        if not wanted:
            if len(pod["spec"]["containers"]) > 1:
                raise status.bad_request(f"a container name must be specified for pod {pod['metadata']['name']}, choose one of: [{' '.join(names)}]")
            return pod["spec"]["containers"][0]["name"]
        if wanted not in names:
            raise status.bad_request(f"container {wanted} is not valid for pod {pod['metadata']['name']}")
        return wanted

    @staticmethod
    def _instance(pod: dict, container: str, previous: bool) -> Instance:
        name = pod["metadata"]["name"]
        found = next((c for c in pod.get("status", {}).get("containerStatuses", ()) if c["name"] == container), {})
        if previous:
            instance = ended_of(found.get("lastState", {}).get("terminated"))
            if instance is None:
                raise status.bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
            return instance
        instance = now_of(found)
        if instance is None:
            reason = found.get("state", {}).get("waiting", {}).get("reason", "ContainerCreating")
            raise status.bad_request(f'container "{container}" in pod "{name}" is waiting to start: {reason}')
        return instance
