"""Kubernetes Status: the one shape of every refusal.

ApiError is raised wherever a request is found wanting (store, selectors, HTTP) and turned into a
`kind: Status` document at the listener. Messages follow those of the Kubernetes API server, because clients
and people match on them.
"""

from __future__ import annotations

from http import HTTPStatus

from resource_types import ResourceType


class ApiError(Exception):
    """A refused request: HTTP code, machine-readable reason, message, and optional details."""

    def __init__(self, code: int, reason: str, message: str, details: dict | None = None, metadata: dict | None = None):
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata = metadata or {}

    def document(self) -> dict:
        status: dict = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


def _about(resource_type: ResourceType, name: str) -> dict:
    details: dict = {"name": name, "kind": resource_type.plural}
    if resource_type.group:
        details["group"] = resource_type.group
    return details


def success(resource_type: ResourceType, name: str, uid: str) -> dict:
    """The answer to a DELETE that removed the object."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {**_about(resource_type, name), "uid": uid},
    }


def not_found(resource_type: ResourceType, name: str) -> ApiError:
    return ApiError(
        HTTPStatus.NOT_FOUND,
        "NotFound",
        f'{resource_type.qualified} "{name}" not found',
        _about(resource_type, name),
    )


def no_such_path() -> ApiError:
    return ApiError(HTTPStatus.NOT_FOUND, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource_type: ResourceType, name: str) -> ApiError:
    return ApiError(
        HTTPStatus.CONFLICT,
        "AlreadyExists",
        f'{resource_type.qualified} "{name}" already exists',
        _about(resource_type, name),
    )


def conflict(resource_type: ResourceType, name: str, why: str = "") -> ApiError:
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    return ApiError(
        HTTPStatus.CONFLICT,
        "Conflict",
        f'Operation cannot be fulfilled on {resource_type.qualified} "{name}": {why}',
        _about(resource_type, name),
    )


def invalid(resource_type: ResourceType, name: str, field: str, message: str) -> ApiError:
    details = _about(resource_type, name)
    details["kind"] = resource_type.kind
    details["causes"] = [{"reason": "FieldValueInvalid", "message": message, "field": field}]
    return ApiError(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "Invalid",
        f'{resource_type.kind}{"." + resource_type.group if resource_type.group else ""} "{name}" is invalid: '
        f"{field}: {message}",
        details,
    )


def invalid_options(field: str, message: str) -> ApiError:
    """Parameters of a list or watch that do not go together."""
    details = {
        "group": "meta.k8s.io",
        "kind": "ListOptions",
        "causes": [{"reason": "FieldValueForbidden", "message": message, "field": field}],
    }
    return ApiError(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "Invalid",
        f'ListOptions.meta.k8s.io "" is invalid: {field}: {message}',
        details,
    )


def version_on_create() -> ApiError:
    """An internal error by its code, because that is what the API server makes of it."""
    message = "resourceVersion should not be set on objects to be created"
    return ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, "", message)


def bad_request(message: str) -> ApiError:
    return ApiError(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def unauthorized() -> ApiError:
    return ApiError(HTTPStatus.UNAUTHORIZED, "Unauthorized", "Unauthorized")


def method_not_allowed() -> ApiError:
    return ApiError(
        HTTPStatus.METHOD_NOT_ALLOWED,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        {},
    )


def not_acceptable() -> ApiError:
    return ApiError(
        HTTPStatus.NOT_ACCEPTABLE,
        "NotAcceptable",
        "only the following media types are accepted: application/json",
    )


def unsupported_media_type(accepted: tuple[str, ...]) -> ApiError:
    return ApiError(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted),
    )


def request_entity_too_large(limit_bytes: int) -> ApiError:
    return ApiError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "RequestEntityTooLarge",
        f"Request entity too large: limit is {limit_bytes}",
    )


def watch_expired(version: int, oldest: int) -> ApiError:
    return ApiError(HTTPStatus.GONE, "Expired", f"too old resource version: {version} ({oldest})")


def list_expired(continue_token: str | None) -> ApiError:
    """A list at a version that has been compacted; with a token the rest may be read at the newest version."""
    if continue_token is None:
        return ApiError(HTTPStatus.GONE, "Expired", "The resourceVersion for the provided list is too old.")
    return ApiError(
        HTTPStatus.GONE,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result. Start a new list without "
        "the continue parameter, or use the continue token in this answer to read the remaining items at the "
        "newest version.",
        metadata={"continue": continue_token},
    )


def too_large_version(asked: int, current: int) -> ApiError:
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    return ApiError(
        HTTPStatus.GATEWAY_TIMEOUT,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        details,
    )
