"""Label and field selectors, as the Kubernetes API server reads them from a query string.

A selector is compiled once to a predicate over an object; anything that does not parse is a 400.
"""

from __future__ import annotations

import re
from typing import Callable

import status
from resource_types import NAMESPACES, PODS, SECRETS, ResourceType

Predicate = Callable[[dict], bool]

SELECTOR_CHARS_MAX = 4096
REQUIREMENTS_MAX = 64

_KEY = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?"
_VALUE = r"[A-Za-z0-9._-]*"
_EQUALITY = re.compile(rf"({_KEY})\s*(==|=|!=)\s*({_VALUE})")
_SET = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)")
_EXISTS = re.compile(rf"(!?)\s*({_KEY})")
_SET_VALUE = re.compile(_VALUE)


def _split_outside_parentheses(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    return [part.strip() for part in parts]


def _label_requirement(text: str) -> Callable[[dict], bool]:
    if match := _EQUALITY.fullmatch(text):
        key, operator, value = match.groups()
        if operator == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if match := _SET.fullmatch(text):
        key, operator, listed = match.groups()
        values = {value.strip() for value in listed.split(",")}
        if not all(_SET_VALUE.fullmatch(value) for value in values):
            raise status.bad_request(f"unable to parse requirement: invalid values in {text!r}")
        if operator == "notin":
            return lambda labels: labels.get(key) not in values
        return lambda labels: key in labels and labels[key] in values
    if match := _EXISTS.fullmatch(text):
        absent, key = match.groups()
        return (lambda labels: key not in labels) if absent else (lambda labels: key in labels)
    raise status.bad_request(f"unable to parse requirement: {text!r}")


def compile_labels(text: str | None) -> Predicate | None:
    """The predicate of a labelSelector; None for an empty one, which matches everything."""
    if not text or not text.strip():
        return None
    parts = _split_outside_parentheses(text)
    if len(text) > SELECTOR_CHARS_MAX or len(parts) > REQUIREMENTS_MAX:
        raise status.bad_request("labelSelector is too long")
    requirements = [_label_requirement(part) for part in parts]

    def matches(document: dict) -> bool:
        labels = document["metadata"].get("labels") or {}
        return all(requirement(labels) for requirement in requirements)

    return matches


_FIELDS_OF_TYPE = {
    PODS: ("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase"),
    SECRETS: ("type",),
    NAMESPACES: ("status.phase",),
}


def _field(document: dict, path: str) -> str:
    value: object = document
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def compile_fields(resource_type: ResourceType, text: str | None) -> Predicate | None:
    """The predicate of a fieldSelector; only the fields that the real type indexes are known."""
    if not text or not text.strip():
        return None
    parts = text.split(",")
    if len(text) > SELECTOR_CHARS_MAX or len(parts) > REQUIREMENTS_MAX:
        raise status.bad_request("fieldSelector is too long")
    known = ("metadata.name", "metadata.namespace") + _FIELDS_OF_TYPE.get(resource_type, ())
    requirements: list[tuple[str, bool, str]] = []
    for part in parts:
        path, operator, value = part.partition("!=")
        if not operator:
            path, operator, value = part.partition("==")
        if not operator:
            path, operator, value = part.partition("=")
        path = path.strip()
        if not operator:
            raise status.bad_request(f"invalid selector: {text!r}; can't understand {part!r}")
        if path not in known:
            names = ", ".join(f'"{name}"' for name in known)
            raise status.bad_request(f'"{path}" is not a known field selector: only {names}')
        requirements.append((path, operator != "!=", value.strip()))

    def matches(document: dict) -> bool:
        return all((_field(document, path) == value) is wanted for path, wanted, value in requirements)

    return matches


def all_of(*predicates: Predicate | None) -> Predicate:
    """The conjunction of those predicates that exist."""
    present = [predicate for predicate in predicates if predicate is not None]
    return lambda document: all(predicate(document) for predicate in present)
