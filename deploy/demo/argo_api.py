"""Argo CD's own API as far as culvert-agent reads it: resource trees and the metadata of revisions.

In the shapes of its public swagger (ApplicationTree, RevisionMetadata). It shares the listener and the token of the
Kubernetes API. Health is by the same rules as in an Application's status, besides one that an installation could have
added in Lua: the annotation demo.culvert.invalid/health of a ConfigMap.
"""

from __future__ import annotations

import time

import health
from http_listener import Exchange
from object_store import ObjectStore
from resource_types import APPLICATIONS, TYPES, by_kind
from workload import images_of

PREFIX = "/api/v1/applications/"
HEALTH_ANNOTATION = "demo.culvert.invalid/health"
NOT_FOUND, PERMISSION_DENIED = 5, 7


class ArgoApi:
    """Any thread."""

    def __init__(self, store: ObjectStore):
        self._store = store
        self.denied: set[str] = set()  # names of Applications that the account may not read
        self.hangs_until = 0.0
        self.requests = 0

    def answer(self, exchange: Exchange) -> None:
        self.requests += 1
        while time.monotonic() < self.hangs_until and not exchange.client_left():
            time.sleep(0.05)
        name, _, rest = exchange.path.removeprefix(PREFIX).partition("/")
        document = self._store.find(APPLICATIONS, exchange.query.text("appNamespace") or "argocd", name)
        parts = rest.split("/")
        if name in self.denied:
            self._refuse(exchange, 403, PERMISSION_DENIED, "permission denied")
        elif document is None:
            self._refuse(exchange, 404, NOT_FOUND, f'applications.argoproj.io "{name}" not found')
        elif rest == "resource-tree":
            exchange.answer(200, {"nodes": self._nodes(document)})
        elif len(parts) == 3 and parts[0] == "revisions" and parts[2] == "metadata":
            self._metadata(exchange, document, parts[1])
        else:
            self._refuse(exchange, 404, NOT_FOUND, "Not Found")

    @staticmethod
    def _refuse(exchange: Exchange, code: int, number: int, message: str) -> None:
        exchange.answer(code, {"error": message, "code": number, "message": message})

    def _nodes(self, application: dict) -> list[dict]:
        found: dict[str, dict] = {}
        nodes = []
        for entry in application.get("status", {}).get("resources", ()):
            known = by_kind(entry.get("group", ""), entry["kind"])
            live = self._store.find(known, entry.get("namespace", ""), entry["name"]) if known else None
            if live is not None:
                found[live["metadata"]["uid"]] = live
                nodes.append(self._node(live, ()))
        waiting = list(found.values())
        while waiting:
            owner = waiting.pop()
            for resource_type in TYPES:
                for child in self._store.owned_by(owner["metadata"]["uid"], resource_type):
                    if child["metadata"]["uid"] not in found:
                        found[child["metadata"]["uid"]] = child
                        waiting.append(child)
                        nodes.append(self._node(child, (owner,)))
        return nodes

    def _node(self, live: dict, owners: tuple) -> dict:
        metadata = live["metadata"]
        node = {**_reference(live), "resourceVersion": metadata["resourceVersion"], "createdAt": metadata["creationTimestamp"]}
        judged = _custom_health(live) or health.health_of(live)
        if judged:
            node["health"] = judged
        if owners:
            node["parentRefs"] = [_reference(owner) for owner in owners]
        if live["kind"] == "Pod":
            node["images"] = images_of(live)
        return node

    def _metadata(self, exchange: Exchange, document: dict, revision: str) -> None:
        status = document.get("status", {})
        known = [*status.get("history", ()), status.get("sync", {})]
        if not any(revision in (each.get("revision"), *each.get("revisions", ())) for each in known):
            self._refuse(exchange, 500, 2, f"error getting revision metadata: unable to resolve '{revision}' to a commit SHA")
            return
        date = status.get("operationState", {}).get("finishedAt") or document["metadata"]["creationTimestamp"]
        exchange.answer(200, {"author": "Demo Committer <demo@git.demo.invalid>", "date": date, "message": f"Release {revision[:7]}"})


def _reference(live: dict) -> dict:
    group, _, version = live["apiVersion"].rpartition("/")
    metadata = live["metadata"]
    reference = {"version": version, "kind": live["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    if group:
        reference["group"] = group
    if metadata.get("namespace"):
        reference["namespace"] = metadata["namespace"]
    return reference


def _custom_health(live: dict) -> dict | None:
    verdict = live["metadata"].get("annotations", {}).get(HEALTH_ANNOTATION)
    return {"status": verdict, "message": f"a custom rule: {verdict}"} if verdict in health.ORDER else None
