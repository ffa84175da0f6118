"""The reins of the demo: /demo/… on the API's port, for tests and for showing things at will."""

from __future__ import annotations

import time

import status
from application import verdict
from argo_api import ArgoApi
from http_listener import Exchange
from life import STEPS_AT_ONCE_MAX, Life
from object_store import ObjectStore
from outage import EVERYTHING, SECONDS_MAX, Outage
from pod_log import RATE_MAX, PodLogs
from resource_types import APPLICATIONS, TYPES, version_document


class DemoControl:
    def __init__(self, store: ObjectStore, life: Life, outage: Outage, argo: ArgoApi, logs: PodLogs):
        self._store = store
        self._logs = logs
        self._argo = argo
        self._life = life
        self._outage = outage
        self._posts = {
            "pause": self._pause,
            "resume": self._resume,
            "step": self._step,
            "happen": self._happen,
            "expire": self._expire,
            "drop-watches": self._drop_watches,
            "forbid": self._forbid,
            "allow": self._allow,
            "hang": self._hang,
            "deny-argo": self._deny_argo,
            "hang-argo": self._hang_argo,
            "logs": self._set_logs,
        }
        self._gets = {"state": self._state, "status": self._status, "sensitive": self._sensitive}

    def answer(self, exchange: Exchange) -> None:
        name = exchange.path.removeprefix("/demo/")
        posts, gets = self._posts.get(name), self._gets.get(name)
        if posts is None and gets is None:
            raise status.no_such_path()
        if exchange.method == "POST" and posts is not None:
            exchange.answer(200, posts(exchange))
        elif exchange.method == "GET" and gets is not None:
            exchange.answer(200, gets(exchange))
        else:
            raise status.method_not_allowed()

    def _pause(self, exchange: Exchange) -> dict:
        self._life.pause()
        return self._status(exchange)

    def _resume(self, exchange: Exchange) -> dict:
        self._life.resume()
        return self._status(exchange)

    def _step(self, exchange: Exchange) -> dict:
        self._life.take_steps(exchange.query.number("n", default=1, maximum=STEPS_AT_ONCE_MAX))
        return self._status(exchange)

    def _happen(self, exchange: Exchange) -> dict:
        happened = self._life.make_happen(exchange.query.text("what"), exchange.query.text("application"))
        return {"happened": happened, **self._status(exchange)}

    def _expire(self, exchange: Exchange) -> dict:
        self._store.expire()
        return self._status(exchange)

    def _drop_watches(self, exchange: Exchange) -> dict:
        return {"dropped": self._store.drop_watches(), **self._status(exchange)}

    def _forbid(self, exchange: Exchange) -> dict:
        seconds = exchange.query.number("seconds", default=SECONDS_MAX, maximum=SECONDS_MAX)
        self._outage.forbid(exchange.query.text("resource") or EVERYTHING, seconds)
        return self._status(exchange)

    def _allow(self, exchange: Exchange) -> dict:
        self._outage.allow()
        return self._status(exchange)

    def _hang(self, exchange: Exchange) -> dict:
        self._outage.hang(exchange.query.number("seconds", maximum=SECONDS_MAX))
        return self._status(exchange)

    def _deny_argo(self, exchange: Exchange) -> dict:
        """Applications that Argo CD's API refuses to show from now on, comma-separated; none: all are shown."""
        self._argo.denied = set(filter(None, exchange.query.text("applications").split(",")))
        return self._status(exchange)

    def _hang_argo(self, exchange: Exchange) -> dict:
        self._argo.hangs_until = time.monotonic() + exchange.query.number("seconds", maximum=SECONDS_MAX)
        return self._status(exchange)

    def _set_logs(self, exchange: Exchange) -> dict:
        """How many lines a second each container writes."""
        self._logs.rate = max(1, exchange.query.number("rate", default=1, maximum=RATE_MAX))
        return self._status(exchange)

    def _status(self, _exchange: Exchange) -> dict:
        return {
            "demo": True,
            "version": version_document()["gitVersion"],
            **self._life.summary(),
            "resourceVersion": str(self._store.version),
            "oldestResourceVersion": str(self._store.floor),
            "watches": self._store.watch_count,
            "argoRequests": self._argo.requests,
            "openLogs": self._logs.open,
        }

    def _state(self, _exchange: Exchange) -> list[dict]:
        """Every object by identity and version, as a test compares them with what was reported."""
        state = []
        version = self._store.version  # all types as of one moment
        for resource_type in TYPES:
            for document in self._store.list_at(resource_type, "", version)[0]:
                metadata = document["metadata"]
                entry = {
                    "group": resource_type.group,
                    "kind": resource_type.kind,
                    "namespace": metadata.get("namespace", ""),
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                    "resourceVersion": metadata["resourceVersion"],
                }
                if resource_type is APPLICATIONS:
                    entry["sync"], entry["health"] = verdict(document)
                state.append(entry)
        return state

    def _sensitive(self, _exchange: Exchange) -> list[str]:
        """Plain secret values: nothing that leaves the cluster may contain one."""
        return self._life.sensitive
