"""The Kubernetes API over HTTP: discovery, get, list with paging, watch, and the writes of object_request.py."""

from __future__ import annotations

import base64
import json
import random
import time
from typing import Callable

import representation
import resource_types
import selector
import status
from http_listener import Exchange
from object_request import ObjectRequests, parse
from object_store import ADDED, DELETED, MODIFIED, Change, ObjectStore, Watch, WatchClosed, key_of
from outage import Outage
from pod_log import PodLogs
from representation import META_VERSION, Whole
from resource_types import APPLICATIONS, PODS, ROLLOUTS, WORKFLOWS, ResourceType
from selector import Predicate

WATCH_POLL_SECONDS = 1.0  # how soon a client that left is noticed
WATCH_SECONDS_MIN = 1800
WATCH_SECONDS_MAX = 24 * 3600


class Target:
    """What a path names: a collection, an object, or an object's status."""

    def __init__(self, resource_type: ResourceType, namespace: str, name: str, subresource: str):
        self.resource_type = resource_type
        self.namespace = namespace
        self.name = name
        self.of_status = subresource == "status"
        self.of_log = subresource == "log"


def find_target(path: str) -> Target | None:
    """Reads /api/v1/… and /apis/<group>/<version>/…; None when nothing is there."""
    parts = path.strip("/").split("/")
    if parts[:2] == ["api", "v1"]:
        group, version, rest = "", "v1", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and not (group == "" and len(rest) == 3 and rest[2] == "status"):
        namespace, rest = rest[1], rest[2:]
    if not 1 <= len(rest) <= 3 or not all(rest):
        return None
    resource_type = resource_types.by_path(group, version, rest[0])
    if resource_type is None or (namespace and not resource_type.namespaced):
        return None
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if subresource == "log":
        return Target(resource_type, namespace, name, subresource) if resource_type is PODS and namespace else None
    if subresource and (subresource != "status" or not resource_type.status_subresource):
        return None
    if name and resource_type.namespaced and not namespace:
        return None
    return Target(resource_type, namespace, name, subresource)


class KubernetesApi:
    """Answers exchanges from a store. `on_write` is told the type of every object a client wrote."""

    def __init__(
        self,
        store: ObjectStore,
        requests: ObjectRequests,
        address: str,
        bookmark_seconds: float,
        on_write: Callable[[ResourceType], None],
        outage: Outage,
        logs: PodLogs,
    ):
        self._logs = logs
        self._store = store
        self._requests = requests
        self._address = address
        self._bookmark_seconds = bookmark_seconds
        self._on_write = on_write
        self._outage = outage

    def answer(self, exchange: Exchange) -> None:
        self._outage.wait()
        document = self._discovery(exchange.path)
        if document is not None:
            self._outage.check_path("get", exchange.path)
            if exchange.method not in ("GET", "HEAD"):
                raise status.method_not_allowed()
            exchange.answer(200, document)
            return
        target = find_target(exchange.path)
        if target is None:
            if not self._is_served(exchange.path):
                exchange.answer_text(404, "404 page not found\n")  # nobody is there to make a Status
                return
            raise status.no_such_path()
        verb = self._verb(exchange, target)
        resource = target.resource_type.plural + ("/log" if target.of_log else "")
        self._outage.check(verb, resource, target.resource_type.group)
        if target.of_log:
            self._logs.answer(exchange, target.namespace, target.name)
        elif exchange.method in ("GET", "HEAD"):
            self._read(exchange, target)
        else:
            self._write(exchange, target)

    def _discovery(self, path: str) -> dict | None:
        parts = path.strip("/").split("/")
        if parts == ["version"]:
            return resource_types.version_document()
        if parts == ["api"]:
            return resource_types.api_versions_document(self._address)
        if parts == ["apis"]:
            return resource_types.api_group_list_document()
        if parts == ["api", "v1"]:
            return resource_types.api_resource_list_document("", "v1")
        if len(parts) == 2 and parts[0] == "apis":
            return resource_types.api_group_document(parts[1])
        if len(parts) == 3 and parts[0] == "apis" and parts[1]:
            return resource_types.api_resource_list_document(parts[1], parts[2])
        return None

    @staticmethod
    def _is_served(path: str) -> bool:
        """Whether a path lies in a group and version that are served."""
        parts = path.strip("/").split("/")
        if parts[0] == "api":
            return parts[1:2] == ["v1"]
        return len(parts) > 2 and resource_types.api_resource_list_document(parts[1], parts[2]) is not None

    @staticmethod
    def _verb(exchange: Exchange, target: Target) -> str:
        """What RBAC calls the request; 405 when the resource does not have it."""
        if target.of_log:
            if exchange.method != "GET":
                raise status.method_not_allowed()
            return "get"
        if target.of_status:
            verbs = {"GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch"}
        elif target.name:
            verbs = {"GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
        else:
            verbs = {"GET": "list", "HEAD": "list"}
            if target.namespace or not target.resource_type.namespaced:
                verbs["POST"] = "create"
        verb = verbs.get(exchange.method)
        if verb not in target.resource_type.verbs:
            raise status.method_not_allowed()
        return "watch" if verb in ("get", "list") and exchange.query.flag("watch") else verb

    # -- reading ---------------------------------------------------------------------------------------------

    def _read(self, exchange: Exchange, target: Target) -> None:
        form = representation.choose(exchange.headers.get("Accept", ""), target.resource_type)
        if exchange.query.flag("watch"):
            self._watch(exchange, target, form)
        elif target.name:
            exchange.answer(200, form.one(self._store.get(target.resource_type, target.namespace, target.name)))
        else:
            self._list(exchange, target, form)

    def _match(self, exchange: Exchange, target: Target) -> tuple[Predicate, bool]:
        """The predicate of the request's selectors and namespace, and whether there is any selector."""
        labels = selector.compile_labels(exchange.query.text("labelSelector"))
        fields = selector.compile_fields(target.resource_type, exchange.query.text("fieldSelector"))
        namespace, name = target.namespace, target.name
        place = (lambda document: document["metadata"].get("namespace") == namespace) if namespace else None
        named = (lambda document: document["metadata"]["name"] == name) if name else None
        return selector.all_of(place, named, labels, fields), labels is not None or fields is not None

    def _list(self, exchange: Exchange, target: Target, form: Whole) -> None:
        resource_type, query = target.resource_type, exchange.query
        match, selective = self._match(exchange, target)
        version, start = self._list_position(exchange)
        limit = query.number("limit")
        if query.text("resourceVersion") == "0":
            limit = 0  # served from the watch cache, which does not page
        try:
            documents, at = self._store.list_at(resource_type, target.namespace, version)
        except status.ApiError:
            raise status.list_expired(encode_continue(0, start) if start is not None else None) from None
        chosen = [document for document in documents if match(document) and (start is None or key_of(document) > start)]
        metadata: dict = {"resourceVersion": str(at)}
        if resource_type.custom:
            metadata["continue"] = ""
        if limit and len(chosen) > limit:
            metadata["continue"] = encode_continue(at, key_of(chosen[limit - 1]))
            if not selective:
                metadata["remainingItemCount"] = len(chosen) - limit
            chosen = chosen[:limit]
        exchange.answer(200, form.many(resource_type, chosen, metadata))

    def _list_position(self, exchange: Exchange) -> tuple[int | None, tuple[str, str] | None]:
        """The version to list at (None = newest) and the key after which to begin."""
        query = exchange.query
        asked = query.number("resourceVersion", maximum=2**63 - 1)
        if token := query.text("continue"):
            if query.text("resourceVersion") not in ("", "0"):
                raise status.bad_request("specifying resource version is not allowed when using continue")
            version, start = decode_continue(token)
            return version or None, start
        if asked > self._store.version:
            raise status.too_large_version(asked, self._store.version)
        how = query.text("resourceVersionMatch")
        if how == "Exact" and asked:
            return asked, None
        if how and not query.text("resourceVersion"):
            message = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
            raise status.invalid_options("resourceVersionMatch", message)
        if how not in ("", "NotOlderThan"):
            raise status.invalid_options("resourceVersionMatch", "Forbidden: unknown, or Exact for resourceVersion 0")
        return None, None

    # -- watching --------------------------------------------------------------------------------------------

    def _watch(self, exchange: Exchange, target: Target, form: Whole) -> None:
        resource_type, query = target.resource_type, exchange.query
        match, _ = self._match(exchange, target)
        if query.text("sendInitialEvents"):
            message = "Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
            raise status.invalid_options("sendInitialEvents", message)
        after = query.number("resourceVersion", maximum=2**63 - 1)
        seconds = query.number("timeoutSeconds") or WATCH_SECONDS_MIN + random.randrange(WATCH_SECONDS_MIN)
        deadline = time.monotonic() + min(seconds, WATCH_SECONDS_MAX)
        bookmarks = self._bookmark_seconds if query.flag("allowWatchBookmarks") else 0.0
        initial: list[dict] = []
        if after == 0:
            documents, after = self._store.list(resource_type, target.namespace)
            initial = [document for document in documents if match(document)]
        watch = self._store.watch(resource_type, after)
        try:
            exchange.begin_stream("application/json")
            self._send(exchange, [encode_event(ADDED, form.one(document)) for document in initial])
            self._follow(exchange, watch, match, form, deadline, bookmarks)
        finally:
            watch.close()

    def _follow(
        self, exchange: Exchange, watch: Watch, match: Predicate, form: Whole, deadline: float, bookmarks: float
    ) -> None:
        """Sends changes until the time is up, the client leaves, or the watch is ended."""
        bookmark_at = time.monotonic() + bookmarks if bookmarks else float("inf")
        version = watch.after
        exchange.send_pending()
        while True:
            self._outage.wait()
            now = time.monotonic()
            if now >= deadline:
                if bookmarks:
                    self._send(exchange, [encode_event("BOOKMARK", form.bookmark(watch.resource_type, version))])
                exchange.end_stream()
                return
            if now >= bookmark_at:
                self._send(exchange, [encode_event("BOOKMARK", form.bookmark(watch.resource_type, version))])
                bookmark_at = now + bookmarks
            try:
                wait = max(0.0, min(WATCH_POLL_SECONDS, deadline - now, bookmark_at - now))
                changes, version = watch.next(wait)
            except status.ApiError as error:
                self._send(exchange, [encode_event("ERROR", error.document())])
                exchange.end_stream()
                return
            except WatchClosed as closed:
                if closed.abrupt:
                    exchange.cut()
                else:
                    exchange.end_stream()
                return
            self._outage.wait()
            lines = [line for change in changes if (line := event_of(change, match, form)) is not None]
            if lines:
                self._send(exchange, lines)
            elif exchange.client_left():
                exchange.cut()
                return

    @staticmethod
    def _send(exchange: Exchange, lines: list[bytes]) -> None:
        if lines:
            exchange.send(b"".join(lines))
            exchange.send_pending()

    # -- writing ---------------------------------------------------------------------------------------------

    def _write(self, exchange: Exchange, target: Target) -> None:
        resource_type, namespace, name = target.resource_type, target.namespace, target.name
        dry_run = exchange.query.text("dryRun") == "All"
        content_type = exchange.headers.get("Content-Type", "application/json").partition(";")[0].strip().lower()
        code = 200
        if exchange.method == "PATCH":
            if content_type != "application/merge-patch+json":
                raise status.unsupported_media_type(("application/merge-patch+json",))
            document = self._requests.patch(
                resource_type, namespace, name, content_type, parse(exchange.body), target.of_status, dry_run
            )
        else:
            if exchange.body and content_type != "application/json":
                raise status.unsupported_media_type(("application/json",))
            if exchange.method == "POST":
                document = self._requests.create(resource_type, namespace, parse(exchange.body), dry_run)
                code = 201
            elif exchange.method == "PUT":
                document = self._requests.replace(
                    resource_type, namespace, name, parse(exchange.body), target.of_status, dry_run
                )
            else:
                options = parse(exchange.body) if exchange.body else {}
                if policy := exchange.query.text("propagationPolicy"):
                    options["propagationPolicy"] = policy
                document = self._requests.delete(resource_type, namespace, name, options, dry_run)
        if not dry_run and resource_type in (APPLICATIONS, ROLLOUTS, WORKFLOWS):
            self._on_write(resource_type)
        exchange.answer(code, document)


def encode_event(event: str, document: dict) -> bytes:
    return json.dumps({"type": event, "object": document}, separators=(",", ":")).encode() + b"\n"


def event_of(change: Change, match: Predicate, form: Whole) -> bytes | None:
    """A change as one watch sees it: an object that leaves its selector is deleted, one that enters is added."""
    was = change.previous is not None and match(change.previous)
    now = change.action != DELETED and match(change.document)
    if now:
        return encode_event(MODIFIED if was else ADDED, form.one(change.document))
    if was:
        return encode_event(DELETED, form.one(change.previous_at_this_version()))
    return None


def encode_continue(version: int, start: tuple[str, str]) -> str:
    token = json.dumps({"v": META_VERSION, "rv": version, "start": list(start)}, separators=(",", ":"))
    return base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


def decode_continue(token: str) -> tuple[int, tuple[str, str]]:
    try:
        values = json.loads(base64.urlsafe_b64decode(token[:2048] + "=" * (-len(token) % 4)))
        version, (namespace, name) = values["rv"], values["start"]
        if not isinstance(version, int) or not isinstance(namespace, str) or not isinstance(name, str):
            raise ValueError(token)
        return version, (namespace, name)
    except (ValueError, KeyError, TypeError) as error:
        raise status.bad_request("continue key is not valid") from error
