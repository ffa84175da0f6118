"""The object store: every object, one counter of versions, and a bounded history that watches read from.

Invariants
- A stored document is never changed in place. Readers get the stored document itself and must treat it as
  read-only; writers work on a copy.
- Every change takes the next version. The history holds the changes `floor + 1 .. version` without a gap, so
  the change with version v sits at index `v - floor - 1`.
- A watch keeps a cursor into the history, not a queue: a slow watch costs nothing and, once it falls behind
  the floor, is told that its version expired, as the watch cache of the Kubernetes API server does.

Any thread may call any method.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any, Callable

import status
from resource_types import ResourceType

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

Documents = list[dict]
Key = tuple[str, str]  # namespace ("" for cluster-scoped types), name


def clone(value: Any) -> Any:
    """A deep copy of JSON data."""
    if isinstance(value, dict):
        return {key: clone(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clone(item) for item in value]
    return value


def key_of(document: dict) -> Key:
    metadata = document["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def timestamp(seconds: float) -> str:
    """metav1.Time: RFC 3339, UTC, whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


@dataclass(frozen=True)
class Change:
    """One step of history. For DELETED the document is the last state carrying the deletion's version."""

    version: int
    action: str
    resource_type: ResourceType
    document: dict
    previous: dict | None

    def previous_at_this_version(self) -> dict:
        """The previous state as it is shown to a watch whose selector the object just left."""
        assert self.previous is not None
        return _with_version(self.previous, self.version)


def _with_version(document: dict, version: int) -> dict:
    return {**document, "metadata": {**document["metadata"], "resourceVersion": str(version)}}


Changes = list[Change]


class WatchClosed(Exception):
    """The watch was ended by the store: `abrupt` when its connection is to be cut without a lingering_close."""

    def __init__(self, abrupt: bool):
        super().__init__("watch closed")
        self.abrupt = abrupt


class Watch:
    """A reader of the history for one type. Owned by the thread that called `ObjectStore.watch`."""

    def __init__(self, store: ObjectStore, resource_type: ResourceType, after: int):
        self._store = store
        self.resource_type = resource_type
        self.after = after  # only changes newer than this are wanted; may lie in the future
        self.cursor = after
        self.rescued: list[Change] = []  # what compaction would have taken away before it was read
        self.closed: WatchClosed | None = None

    def next(self, wait_seconds: float) -> tuple[Changes, int]:
        """Changes not seen yet and the version up to which the watch is complete; waits when there are none.

        Raises ApiError(410) when the watch fell behind the history, WatchClosed when it was ended.
        """
        return self._store._read(self, wait_seconds)

    def close(self) -> None:
        self._store._forget(self)


class ObjectStore:
    def __init__(
        self,
        now: Callable[[], float],
        new_uid: Callable[[], str],
        history_max: int = 4096,
        first_version: int = 1,
    ):
        self._now = now
        self._new_uid = new_uid
        self._history_max = history_max
        self._changed = threading.Condition(threading.RLock())
        self._documents: dict[ResourceType, dict[Key, dict]] = {}
        self._owned: dict[str, set[tuple[ResourceType, Key]]] = {}
        self._history: list[Change] = []
        self._floor = first_version
        self._watches: set[Watch] = set()
        self._closed = False

    # -- reading ---------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        with self._changed:
            return self._floor + len(self._history)

    @property
    def floor(self) -> int:
        """The oldest version from which a watch can still start."""
        with self._changed:
            return self._floor

    @property
    def watch_count(self) -> int:
        with self._changed:
            return len(self._watches)

    def find(self, resource_type: ResourceType, namespace: str, name: str) -> dict | None:
        with self._changed:
            return self._documents.get(resource_type, {}).get((namespace, name))

    def get(self, resource_type: ResourceType, namespace: str, name: str) -> dict:
        document = self.find(resource_type, namespace, name)
        if document is None:
            raise status.not_found(resource_type, name)
        return document

    def list(self, resource_type: ResourceType, namespace: str = "") -> tuple[Documents, int]:
        """Every document of a type ordered by key, and the version of that state."""
        return self.list_at(resource_type, namespace, None)

    def list_at(self, resource_type: ResourceType, namespace: str, version: int | None) -> tuple[Documents, int]:
        """The state as of a past version: today's with the later changes taken back. 410 when compacted."""
        with self._changed:
            documents = self._documents.get(resource_type, {})
            current = self.version
            if version is not None and version != current:
                if version < self._floor:
                    raise status.list_expired(None)
                documents = dict(documents)
                for change in reversed(self._history[version - self._floor :]):
                    if change.resource_type is not resource_type:
                        continue
                    if change.previous is None:
                        documents.pop(key_of(change.document), None)
                    else:
                        documents[key_of(change.previous)] = change.previous
            keys = sorted(key for key in documents if not namespace or key[0] == namespace)
            return [documents[key] for key in keys], current if version is None else version

    def owned_by(self, uid: str, resource_type: ResourceType) -> Documents:
        """Documents of a type that name `uid` in their ownerReferences, ordered by key."""
        with self._changed:
            keys = sorted(key for owned_type, key in self._owned.get(uid, ()) if owned_type is resource_type)
            return [self._documents[resource_type][key] for key in keys]

    # -- writing ---------------------------------------------------------------------------------------------

    def create(self, resource_type: ResourceType, document: dict, dry_run: bool = False) -> dict:
        """Stores a new object; fills in uid, creationTimestamp, generation and resourceVersion."""
        document = clone(document)
        metadata = document["metadata"]
        with self._changed:
            if self.find(resource_type, *key_of(document)) is not None:
                raise status.already_exists(resource_type, metadata["name"])
            document["apiVersion"] = resource_type.api_version
            document["kind"] = resource_type.kind
            metadata["uid"] = self._new_uid()
            metadata["creationTimestamp"] = timestamp(self._now())
            for server_owned in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
                metadata.pop(server_owned, None)
            metadata.pop("generation", None)
            if resource_type.generation:
                metadata["generation"] = 1
            return self._commit(ADDED, resource_type, document, None, dry_run)

    def update(
        self,
        resource_type: ResourceType,
        namespace: str,
        name: str,
        change: Callable[[dict], dict | None],
        *,
        version: str | None = None,
        uid: str | None = None,
        dry_run: bool = False,
    ) -> dict:
        """Applies `change` to a copy (it may change it in place or return another one) and stores the result.

        A result equal to the present state changes nothing and takes no version. 404 when absent, 409 when
        `version` or `uid` is given and not that of the present object.
        """
        with self._changed:
            current = self.get(resource_type, namespace, name)
            if uid is not None and uid != current["metadata"]["uid"]:
                why = (
                    f"Precondition failed: UID in precondition: {uid}, UID in object meta: {current['metadata']['uid']}"
                )
                raise status.conflict(resource_type, name, why)
            if version is not None and version != current["metadata"]["resourceVersion"]:
                raise status.conflict(resource_type, name)
            draft = clone(current)
            draft = change(draft) or draft
            self._keep_identity(draft, current)
            if resource_type.generation and self._wanted_state(resource_type, draft) != self._wanted_state(
                resource_type, current
            ):
                draft["metadata"]["generation"] = current["metadata"].get("generation", 0) + 1
            if draft == current:
                return current
            leaving = "deletionTimestamp" in draft["metadata"] and not draft["metadata"].get("finalizers")
            if leaving:
                return self._remove(resource_type, draft, current, dry_run)
            return self._commit(MODIFIED, resource_type, draft, current, dry_run)

    def delete(
        self,
        resource_type: ResourceType,
        namespace: str,
        name: str,
        *,
        version: str | None = None,
        uid: str | None = None,
        cascade: bool = True,
        dry_run: bool = False,
    ) -> tuple[dict, bool]:
        """Removes an object and what it owns. Returns its last state and whether it is gone.

        An object with finalizers only gets its deletionTimestamp and goes when the last finalizer does.
        """
        with self._changed:
            current = self.get(resource_type, namespace, name)
            if uid is not None and uid != current["metadata"]["uid"]:
                raise status.conflict(
                    resource_type, name, f"the UID in the precondition ({uid}) is not that of the object"
                )
            if version is not None and version != current["metadata"]["resourceVersion"]:
                raise status.conflict(
                    resource_type, name, f"the ResourceVersion in the precondition ({version}) has passed"
                )
            if current["metadata"].get("finalizers"):
                if "deletionTimestamp" in current["metadata"]:
                    return current, False
                draft = clone(current)
                draft["metadata"]["deletionTimestamp"] = timestamp(self._now())
                draft["metadata"]["deletionGracePeriodSeconds"] = 0
                return self._commit(MODIFIED, resource_type, draft, current, dry_run), False
            return self._remove(resource_type, current, current, dry_run, cascade), True

    def _remove(
        self, resource_type: ResourceType, document: dict, current: dict, dry_run: bool, cascade: bool = True
    ) -> dict:
        gone = self._commit(DELETED, resource_type, document, current, dry_run)
        if cascade and not dry_run:
            for owned_type, key in sorted(
                self._owned.get(current["metadata"]["uid"], ()), key=lambda item: (item[0].plural, item[1])
            ):
                if self.find(owned_type, *key) is not None:
                    self.delete(owned_type, *key)
        return gone

    @staticmethod
    def _keep_identity(draft: dict, current: dict) -> None:
        draft["apiVersion"], draft["kind"] = current["apiVersion"], current["kind"]
        metadata, fixed = draft["metadata"], current["metadata"]
        for field in (
            "name",
            "namespace",
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
            "resourceVersion",
        ):
            if field in fixed:
                metadata[field] = fixed[field]
            else:
                metadata.pop(field, None)

    @staticmethod
    def _wanted_state(resource_type: ResourceType, document: dict) -> dict:
        """What metadata.generation counts: all but metadata and, where it is a subresource, status."""
        left_out = ("metadata", "status") if resource_type.status_subresource else ("metadata",)
        return {field: value for field, value in document.items() if field not in left_out}

    def _commit(
        self, action: str, resource_type: ResourceType, document: dict, previous: dict | None, dry_run: bool
    ) -> dict:
        version = self.version + 1
        document = _with_version(document, version)
        if dry_run:
            if previous is not None:
                document["metadata"]["resourceVersion"] = previous["metadata"]["resourceVersion"]
            else:
                del document["metadata"]["resourceVersion"]
            return document
        documents = self._documents.setdefault(resource_type, {})
        key = key_of(document)
        if previous is not None:
            self._disown(resource_type, key, previous)
        if action == DELETED:
            del documents[key]
        else:
            documents[key] = document
            for owner in document["metadata"].get("ownerReferences") or ():
                self._owned.setdefault(owner["uid"], set()).add((resource_type, key))
        self._history.append(Change(version, action, resource_type, document, previous))
        if len(self._history) > self._history_max + self._history_max // 4:
            self._compact(self._floor + len(self._history) - self._history_max)
        self._changed.notify_all()
        return document

    def _disown(self, resource_type: ResourceType, key: Key, document: dict) -> None:
        for owner in document["metadata"].get("ownerReferences") or ():
            keys = self._owned.get(owner["uid"])
            if keys is not None:
                keys.discard((resource_type, key))
                if not keys:
                    del self._owned[owner["uid"]]

    # -- history and watches ---------------------------------------------------------------------------------

    def _compact(self, floor: int) -> None:
        del self._history[: floor - self._floor]
        self._floor = floor

    def expire(self) -> int:
        """Forgets the whole history and takes one more version, so that every version given out so far is too old.

        Open watches go on without a loss, as they do when etcd is compacted. Returns the new floor.
        """
        with self._changed:
            floor = self.version + 1
            for watch in self._watches:
                if watch.cursor >= self._floor:
                    watch.rescued.extend(self._history[watch.cursor - self._floor :])
                    watch.cursor = floor
            self._history.clear()
            self._floor = floor
            self._changed.notify_all()
            return floor

    def watch(self, resource_type: ResourceType, after: int) -> Watch:
        """A watch for changes newer than `after`; an expired `after` is reported by its first `next`."""
        watch = Watch(self, resource_type, after)
        with self._changed:
            watch.cursor = min(after, self.version)
            if self._closed:
                watch.closed = WatchClosed(abrupt=False)
            self._watches.add(watch)
        return watch

    def drop_watches(self) -> int:
        """Cuts every open watch without a lingering_close; returns how many."""
        return self._end_watches(abrupt=True)

    def close(self) -> None:
        """Ends every watch cleanly; later ones end at once."""
        with self._changed:
            self._closed = True
        self._end_watches(abrupt=False)

    def _end_watches(self, abrupt: bool) -> int:
        with self._changed:
            for watch in self._watches:
                watch.closed = WatchClosed(abrupt)
            self._changed.notify_all()
            return len(self._watches)

    def _forget(self, watch: Watch) -> None:
        with self._changed:
            self._watches.discard(watch)

    def _read(self, watch: Watch, wait_seconds: float) -> tuple[Changes, int]:
        deadline = time.monotonic() + wait_seconds
        with self._changed:
            while True:
                if watch.closed is not None:
                    raise watch.closed
                changes, watch.rescued = watch.rescued, []
                if watch.cursor < self._floor:
                    raise status.watch_expired(watch.after, self._floor)
                changes += self._history[watch.cursor - self._floor :]
                watch.cursor = self.version
                wanted = [
                    change
                    for change in changes
                    if change.resource_type is watch.resource_type and change.version > watch.after
                ]
                remaining = deadline - time.monotonic()
                if wanted or remaining <= 0:
                    return wanted, max(watch.cursor, watch.after)
                self._changed.wait(remaining)
