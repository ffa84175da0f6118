"""Events, as a kubelet writes them: one an object and reason; a repetition raises its count and its time.

The object names of the reason: a kubelet derives them from what it notes, and looks up what it noted before.
"""

from __future__ import annotations

from object_store import ObjectStore
from resource_types import EVENTS, ResourceType
from world import World


def note(store: ObjectStore, world: World, resource_type: ResourceType, about: dict, reason: str, message: str) -> dict:
    """Notes a warning about an object; returns the Event."""
    metadata = about["metadata"]
    namespace = metadata.get("namespace") or "default"
    name = f"{metadata['name']}.{reason.lower()}"
    now = world.stamp()
    held = store.find(EVENTS, namespace, name)
    if held is not None and held["involvedObject"]["uid"] == metadata["uid"]:

        def again(draft: dict) -> None:
            draft.update(count=draft["count"] + 1, lastTimestamp=now, message=message)

        return store.update(EVENTS, namespace, name, again)
    if held is not None:
        store.delete(EVENTS, namespace, name)
    return store.create(
        EVENTS,
        {
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "kind": resource_type.kind,
                "apiVersion": resource_type.api_version,
                "namespace": metadata.get("namespace", ""),
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "type": "Warning",
            "reason": reason,
            "message": message,
            "source": {"component": "kubelet"},
            "reportingComponent": "kubelet",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        },
    )
