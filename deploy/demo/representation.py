"""The three forms in which a client may ask for objects: whole, metadata only, or as a table for people.

The form is chosen by the Accept header (`application/json;as=Table;v=v1;g=meta.k8s.io`), as the Kubernetes API
server does; kubectl asks for tables, careful reporters for metadata.
"""

from __future__ import annotations

import calendar
import time
from typing import Callable

import status
from resource_types import (
    APPLICATIONS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    ROLLOUTS,
    SECRETS,
    SERVICES,
    WORKFLOWS,
    ResourceType,
)

META_VERSION = "meta.k8s.io/v1"
PARTIAL = "PartialObjectMetadata"


class Whole:
    """Objects as they are stored."""

    def one(self, document: dict) -> dict:
        return document

    def many(self, resource_type: ResourceType, documents: list[dict], metadata: dict) -> dict:
        if not resource_type.custom:
            # Items of built-in types do not repeat kind and apiVersion.
            documents = [
                {key: value for key, value in document.items() if key not in ("kind", "apiVersion")}
                for document in documents
            ]
        return {
            "kind": resource_type.list_kind,
            "apiVersion": resource_type.api_version,
            "metadata": metadata,
            "items": documents,
        }

    def bookmark(self, resource_type: ResourceType, version: int) -> dict:
        metadata = {"resourceVersion": str(version), "creationTimestamp": None}
        return self.one({"kind": resource_type.kind, "apiVersion": resource_type.api_version, "metadata": metadata})


class Partial(Whole):
    """Nothing but metadata."""

    def one(self, document: dict) -> dict:
        return {"kind": PARTIAL, "apiVersion": META_VERSION, "metadata": document["metadata"]}

    def many(self, resource_type: ResourceType, documents: list[dict], metadata: dict) -> dict:
        items = [self.one(document) for document in documents]
        return {"kind": f"{PARTIAL}List", "apiVersion": META_VERSION, "metadata": metadata, "items": items}


class Table(Whole):
    """Rows of cells, with the metadata of each object beside its row."""

    def __init__(self, resource_type: ResourceType):
        self._columns = [("Name", _name), *_COLUMNS.get(resource_type, ()), ("Age", _age)]

    def one(self, document: dict) -> dict:
        return self._table([document], {"resourceVersion": document["metadata"]["resourceVersion"]})

    def many(self, resource_type: ResourceType, documents: list[dict], metadata: dict) -> dict:
        return self._table(documents, metadata)

    def bookmark(self, resource_type: ResourceType, version: int) -> dict:
        return self._table([], {"resourceVersion": str(version)})

    def _table(self, documents: list[dict], metadata: dict) -> dict:
        definitions = [
            {
                "name": name,
                "type": "string",
                "format": "name" if name == "Name" else "",
                "description": "",
                "priority": 0,
            }
            for name, _ in self._columns
        ]
        rows = [
            {
                "cells": [cell(document) for _, cell in self._columns],
                "object": {"kind": PARTIAL, "apiVersion": META_VERSION, "metadata": document["metadata"]},
            }
            for document in documents
        ]
        return {
            "kind": "Table",
            "apiVersion": META_VERSION,
            "metadata": metadata,
            "columnDefinitions": definitions,
            "rows": rows,
        }


def choose(accept: str, resource_type: ResourceType) -> Whole:
    """The first form in an Accept header that we can make; 406 when there is none."""
    for media_range in (accept or "*/*").split(","):
        media_type, *parameters = [part.strip() for part in media_range.split(";")]
        wanted = dict(parameter.partition("=")[::2] for parameter in parameters)
        if media_type not in ("application/json", "application/*", "*/*"):
            continue
        form = wanted.get("as")
        if form is None:
            return Whole()
        if wanted.get("v") == "v1" and wanted.get("g") == "meta.k8s.io":
            if form in (PARTIAL, f"{PARTIAL}List"):
                return Partial()
            if form == "Table":
                return Table(resource_type)
    raise status.not_acceptable()


# -- cells --------------------------------------------------------------------------------------------------------


def _name(document: dict) -> str:
    return document["metadata"]["name"]


def _age(document: dict) -> str:
    made = calendar.timegm(time.strptime(document["metadata"]["creationTimestamp"], "%Y-%m-%dT%H:%M:%SZ"))
    seconds = max(0, int(time.time() - made))
    if seconds < 120:
        return f"{seconds}s"
    if seconds < 2 * 3600:
        return f"{seconds // 60}m"
    return f"{seconds // 3600}h" if seconds < 48 * 3600 else f"{seconds // 86400}d"


def _at(*path: str, default: object = "") -> Callable[[dict], str]:
    """The value at a path, as text."""

    def cell(document: dict) -> str:
        value: object = document
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        return str(default if value is None else value)

    return cell


def _count(field: str) -> Callable[[dict], str]:
    return lambda document: str(len(document.get(field) or {}))


def _containers(document: dict) -> list[dict]:
    return document.get("status", {}).get("containerStatuses", [])


def _pod_ready(document: dict) -> str:
    ready = sum(entry["ready"] for entry in _containers(document))
    return f"{ready}/{len(document.get('spec', {}).get('containers', []))}"


def _pod_status(document: dict) -> str:
    for entry in _containers(document):
        for state in ("waiting", "terminated"):
            if reason := entry["state"].get(state, {}).get("reason"):
                return reason
    return document.get("status", {}).get("phase", "Pending")


def _pod_restarts(document: dict) -> str:
    return str(sum(entry["restartCount"] for entry in _containers(document)))


def _ready_of_wanted(document: dict) -> str:
    return f"{document.get('status', {}).get('readyReplicas', 0)}/{document['spec'].get('replicas', 1)}"


def _ports(document: dict) -> str:
    return ",".join(f"{port['port']}/{port.get('protocol', 'TCP')}" for port in document["spec"].get("ports", ()))


_COLUMNS: dict[ResourceType, tuple[tuple[str, Callable[[dict], str]], ...]] = {
    NAMESPACES: (("Status", _at("status", "phase")),),
    PODS: (("Ready", _pod_ready), ("Status", _pod_status), ("Restarts", _pod_restarts)),
    SERVICES: (("Type", _at("spec", "type")), ("Cluster-IP", _at("spec", "clusterIP")), ("Port(s)", _ports)),
    SECRETS: (("Type", _at("type")), ("Data", _count("data"))),
    CONFIG_MAPS: (("Data", _count("data")),),
    DEPLOYMENTS: (
        ("Ready", _ready_of_wanted),
        ("Up-to-date", _at("status", "updatedReplicas", default=0)),
        ("Available", _at("status", "availableReplicas", default=0)),
    ),
    REPLICA_SETS: (
        ("Desired", _at("spec", "replicas")),
        ("Current", _at("status", "replicas", default=0)),
        ("Ready", _at("status", "readyReplicas", default=0)),
    ),
    APPLICATIONS: (
        ("Sync Status", _at("status", "sync", "status")),
        ("Health Status", _at("status", "health", "status")),
    ),
    ROLLOUTS: (
        ("Desired", _at("spec", "replicas")),
        ("Current", _at("status", "replicas", default=0)),
        ("Up-to-date", _at("status", "updatedReplicas", default=0)),
        ("Available", _at("status", "availableReplicas", default=0)),
        ("Phase", _at("status", "phase")),
        ("Step", _at("status", "currentStepIndex")),
    ),
    WORKFLOWS: (("Status", _at("status", "phase")), ("Progress", _at("status", "progress"))),
}
