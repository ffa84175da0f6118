"""What an API server does on a bad day: it forbids (rights taken away, or RBAC not loaded yet), or it hangs.

Both apply to the Kubernetes API alone, not to /demo/ and the probes. A watch that is open outlives its right, as with
Kubernetes, and falls silent while the server hangs.
"""

from __future__ import annotations

import threading
import time
from http import HTTPStatus

from status import ApiError

USER = "system:serviceaccount:argocd:culvert-agent"
EVERYTHING = "*"
SECONDS_MAX = 3600


class Outage:
    """Any thread."""

    def __init__(self):
        self._lock = threading.Condition()
        self._forbidden: dict[str, float] = {}  # plural or EVERYTHING -> until when
        self._hangs_until = 0.0

    def forbid(self, what: str, seconds: float = SECONDS_MAX) -> None:
        with self._lock:
            self._forbidden[what] = time.monotonic() + min(seconds, SECONDS_MAX)

    def allow(self) -> None:
        """Gives all rights back."""
        with self._lock:
            self._forbidden.clear()

    def hang(self, seconds: float) -> None:
        with self._lock:
            self._hangs_until = time.monotonic() + min(seconds, SECONDS_MAX)
            self._lock.notify_all()

    def resume(self) -> None:
        self.hang(0.0)

    def wait(self) -> None:
        """Returns once the server does not hang (any more)."""
        with self._lock:
            while (left := self._hangs_until - time.monotonic()) > 0:
                self._lock.wait(left)

    def check(self, verb: str, plural: str, group: str) -> None:
        """Raises 403 for a resource that is forbidden, in the words of Kubernetes' RBAC authorizer."""
        now = time.monotonic()
        with self._lock:
            until = max(self._forbidden.get(plural, 0.0), self._forbidden.get(EVERYTHING, 0.0))
        if now >= until:
            return
        qualified = f"{plural}.{group}" if group else plural
        message = f'{qualified} is forbidden: User "{USER}" cannot {verb} resource "{plural}" in API group "{group}"'
        details = {"group": group, "kind": plural}
        raise ApiError(HTTPStatus.FORBIDDEN, "Forbidden", f"{message} at the cluster scope", details)

    def check_path(self, verb: str, path: str) -> None:
        """As check, of discovery and /version."""
        with self._lock:
            until = self._forbidden.get(EVERYTHING, 0.0)
        if time.monotonic() < until:
            message = f'forbidden: User "{USER}" cannot {verb} path "{path}"'
            raise ApiError(HTTPStatus.FORBIDDEN, "Forbidden", message, {})
