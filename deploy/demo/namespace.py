"""Namespaces, which is where the demo cluster says that it is one."""

from __future__ import annotations

from resource_types import DEMO_LABEL


def namespace(name: str) -> dict:
    """A Namespace that says where it is."""
    note = "This is a demo cluster: it speaks the Kubernetes API, but nothing runs in it."
    labels = {"kubernetes.io/metadata.name": name, DEMO_LABEL: "true"}
    metadata = {"name": name, "labels": labels, "annotations": {DEMO_LABEL: "true", "culvert.dev/note": note}}
    return {"metadata": metadata, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
