"""Writes as the Kubernetes API takes them: create, replace, merge patch, delete, each with its checks."""

from __future__ import annotations

import base64
import binascii
import json
import re

import status
from namespace import namespace
from object_store import ObjectStore, clone
from resource_types import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, REPLICA_SETS, ROLLOUTS, SECRETS, TYPES, ResourceType
from world import World

MERGE_PATCH = "application/merge-patch+json"
DEPTH_MAX = 64
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_NAME_CHARS_MAX = 253


def parse(body: bytes) -> dict:
    """A JSON object out of a request body."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise status.bad_request("the body of the request is not JSON") from error
    if not isinstance(document, dict) or _depth(document) > DEPTH_MAX:
        raise status.bad_request("the body of the request is not an object, or is nested too deep")
    return document


def _depth(value: object) -> int:
    deepest, level = 0, [value]
    while level and deepest <= DEPTH_MAX:
        deepest += 1
        below: list[object] = []
        for item in level:
            if isinstance(item, dict):
                below += item.values()
            elif isinstance(item, list):
                below += item
        level = below
    return deepest


def merge(target: object, patch: object) -> object:
    """RFC 7396 merge patch."""
    if not isinstance(patch, dict):
        return clone(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


class ObjectRequests:
    """Applies write requests to a store. Any thread."""

    def __init__(self, store: ObjectStore, world: World):
        self._store = store
        self._world = world

    def create(self, resource_type: ResourceType, where: str, document: dict, dry_run: bool) -> dict:
        self._check_kind(resource_type, document)
        metadata = document.setdefault("metadata", {})
        self._check_metadata(resource_type, metadata)
        if metadata.get("resourceVersion"):
            raise status.version_on_create()
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + self._world.unique_suffix()
        self._place(resource_type, where, metadata)
        name = str(metadata.get("name") or "")
        if not _NAME.fullmatch(name) or len(name) > _NAME_CHARS_MAX:
            raise status.invalid(resource_type, name[:80], "metadata.name", "Invalid value: not an RFC 1123 subdomain")
        if resource_type.namespaced and self._store.find(NAMESPACES, "", where) is None:
            raise status.not_found(NAMESPACES, where)
        if resource_type.status_subresource:
            document["status"] = {}
        if resource_type is NAMESPACES:
            self._mark_namespace(document)
        self._check_content(resource_type, document)
        return self._store.create(resource_type, document, dry_run)

    def replace(
        self,
        resource_type: ResourceType,
        namespace: str,
        name: str,
        document: dict,
        of_status: bool,
        dry_run: bool,
    ) -> dict:
        self._check_kind(resource_type, document)
        metadata = document.setdefault("metadata", {})
        self._check_metadata(resource_type, metadata)
        self._place(resource_type, namespace, metadata)
        if metadata.get("name") != name:
            raise status.bad_request(
                f"the name of the object ({metadata.get('name')}) does not match the name on the URL ({name})"
            )
        version = metadata.get("resourceVersion")
        if not version and resource_type.custom:
            message = "Invalid value: 0x0: must be specified for an update"
            raise status.invalid(resource_type, name, "metadata.resourceVersion", message)
        return self._update(
            resource_type, namespace, name, lambda _current: document, version, metadata.get("uid"), of_status, dry_run
        )

    def patch(
        self,
        resource_type: ResourceType,
        namespace: str,
        name: str,
        content_type: str,
        patch: dict,
        of_status: bool,
        dry_run: bool,
    ) -> dict:
        if content_type != MERGE_PATCH:
            raise status.unsupported_media_type((MERGE_PATCH,))
        metadata = patch.get("metadata")
        asked: dict = metadata if isinstance(metadata, dict) else {}
        return self._update(
            resource_type,
            namespace,
            name,
            lambda current: merge(current, patch),
            asked.get("resourceVersion"),
            asked.get("uid"),
            of_status,
            dry_run,
        )

    def delete(self, resource_type: ResourceType, namespace: str, name: str, options: dict, dry_run: bool) -> dict:
        preconditions = options.get("preconditions") or {}
        if not isinstance(preconditions, dict):
            raise status.bad_request("preconditions is not an object")
        gone, is_gone = self._store.delete(
            resource_type,
            namespace,
            name,
            version=preconditions.get("resourceVersion"),
            uid=preconditions.get("uid"),
            cascade=options.get("propagationPolicy") != "Orphan",
            dry_run=dry_run,
        )
        if resource_type is NAMESPACES and is_gone and not dry_run:
            self._empty(name)
        if not is_gone:
            return gone
        return status.success(resource_type, name, gone["metadata"]["uid"])

    def _empty(self, namespace: str) -> None:
        for resource_type in TYPES:
            if resource_type.namespaced:
                for document in self._store.list(resource_type, namespace)[0]:
                    try:
                        self._store.delete(resource_type, namespace, document["metadata"]["name"])
                    except status.ApiError:
                        pass  # went with its owner

    def _update(
        self,
        resource_type: ResourceType,
        namespace: str,
        name: str,
        change,
        version,
        uid,
        of_status: bool,
        dry_run: bool,
    ) -> dict:
        for given in (version, uid):
            if given is not None and not isinstance(given, str):
                raise status.bad_request("metadata.resourceVersion and metadata.uid are strings")

        def apply(current: dict) -> dict:
            wanted = change(current)
            if of_status:
                kept = dict(current)
                kept["status"] = wanted.get("status", {})
                return kept
            if resource_type.status_subresource:
                wanted = {**wanted, "status": current.get("status", {})}
            if not isinstance(wanted.get("metadata"), dict):
                raise status.bad_request("metadata is not an object")
            self._check_metadata(resource_type, wanted["metadata"])
            self._check_content(resource_type, wanted)
            return wanted

        return self._store.update(
            resource_type, namespace, name, apply, version=version or None, uid=uid, dry_run=dry_run
        )

    # -- checks ----------------------------------------------------------------------------------------------

    @staticmethod
    def _check_kind(resource_type: ResourceType, document: dict) -> None:
        kind, api_version = document.get("kind"), document.get("apiVersion")
        if resource_type.custom and not kind:
            raise status.bad_request("Object 'Kind' is missing")
        if (kind and kind != resource_type.kind) or (api_version and api_version != resource_type.api_version):
            raise status.bad_request(
                f"the API version in the data ({api_version}, Kind={kind}) does not match the expected one "
                f"({resource_type.api_version}, Kind={resource_type.kind})"
            )

    @staticmethod
    def _check_metadata(resource_type: ResourceType, metadata: object) -> None:
        """The fields that the store and the controllers rely on have their types."""
        if not isinstance(metadata, dict):
            raise status.bad_request("metadata is not an object")
        name = str(metadata.get("name", ""))[:80]
        for field in ("labels", "annotations"):
            values = metadata.get(field)
            if values is None:
                metadata.pop(field, None)
            elif not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
                raise status.invalid(resource_type, name, f"metadata.{field}", "Invalid value: not a map of strings")
        owners = metadata.get("ownerReferences") or []
        if not isinstance(owners, list) or not all(
            isinstance(owner, dict) and isinstance(owner.get("uid"), str) and isinstance(owner.get("kind"), str)
            for owner in owners
        ):
            raise status.invalid(
                resource_type, name, "metadata.ownerReferences", "Invalid value: kind and uid are needed"
            )
        finalizers = metadata.get("finalizers") or []
        if not isinstance(finalizers, list) or not all(isinstance(entry, str) for entry in finalizers):
            raise status.invalid(resource_type, name, "metadata.finalizers", "Invalid value: not a list of strings")

    @staticmethod
    def _mark_namespace(document: dict) -> None:
        """Namespaces made by clients, too, say where they are."""
        made = namespace(document["metadata"]["name"])
        for part in ("labels", "annotations"):
            document["metadata"].setdefault(part, {}).update(made["metadata"][part])
        document.update(spec=made["spec"], status=made["status"])

    @staticmethod
    def _place(resource_type: ResourceType, namespace: str, metadata: dict) -> None:
        if not resource_type.namespaced:
            metadata.pop("namespace", None)
        elif metadata.setdefault("namespace", namespace) != namespace:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )

    def _check_content(self, resource_type: ResourceType, document: dict) -> None:
        name = document["metadata"].get("name", "")
        if resource_type is SECRETS:
            self._encode_secret(document, name)
        elif resource_type is CONFIG_MAPS:
            if not isinstance(document.get("data", {}), dict):
                raise status.invalid(resource_type, name, "data", "Invalid value: not a map")
        elif not isinstance(document.get("spec", {}), dict) or not isinstance(document.get("status", {}), dict):
            raise status.invalid(resource_type, name, "spec", "Invalid value: not an object")
        if resource_type in (DEPLOYMENTS, REPLICA_SETS, ROLLOUTS):
            self._check_template(resource_type, name, document.get("spec", {}))

    @staticmethod
    def _encode_secret(document: dict, name: str) -> None:
        """Moves stringData into data, and refuses data that is not base64."""
        data, plain = document.get("data") or {}, document.pop("stringData", None) or {}
        if not isinstance(data, dict) or not isinstance(plain, dict):
            raise status.invalid(SECRETS, name, "data", "Invalid value: not a map")
        for key, value in plain.items():
            data[key] = base64.b64encode(str(value).encode()).decode()
        for key, value in data.items():
            try:
                base64.b64decode(value, validate=True)
            except (TypeError, ValueError, binascii.Error) as error:
                raise status.bad_request(
                    f"Secret in version v1 cannot be handled: data[{key}] is not base64"
                ) from error
        document["data"] = data
        document.setdefault("type", "Opaque")

    @staticmethod
    def _check_template(resource_type: ResourceType, name: str, spec: dict) -> None:
        labels = (spec.get("selector") or {}).get("matchLabels")
        template = spec.get("template") or {}
        containers = (template.get("spec") or {}).get("containers")
        if not isinstance(labels, dict) or not labels:
            raise status.invalid(resource_type, name, "spec.selector", "Required value")
        if not isinstance(containers, list) or not all(
            isinstance(container, dict)
            and isinstance(container.get("name"), str)
            and isinstance(container.get("image"), str)
            for container in containers
        ):
            raise status.invalid(resource_type, name, "spec.template.spec.containers", "Required value: name and image")
        if not labels.items() <= ((template.get("metadata") or {}).get("labels") or {}).items():
            message = "Invalid value: `selector` does not match template `labels`"
            raise status.invalid(resource_type, name, "spec.template.metadata.labels", message)
        replicas = spec.setdefault("replicas", 1)
        if not isinstance(replicas, int) or isinstance(replicas, bool) or not 0 <= replicas <= 1000:
            raise status.invalid(resource_type, name, "spec.replicas", "Invalid value: must be between 0 and 1000")
