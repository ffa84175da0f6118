"""JSON lines, one event each: ts, level, msg, component, then the event's own fields."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import TextIO


class Log:
    """Any thread may write. Every line says that it comes from a demo cluster."""

    def __init__(self, path: str | None = None):
        self._file: TextIO = open(path, "a", encoding="utf-8") if path else sys.stderr
        self._lock = threading.Lock()

    def info(self, message: str, **fields: object) -> None:
        self._write("info", message, fields)

    def error(self, message: str, **fields: object) -> None:
        self._write("error", message, fields)

    def _write(self, level: str, message: str, fields: dict[str, object]) -> None:
        now = time.time()
        line = {
            "ts": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z",
            "level": level,
            "msg": message,
            "component": "demo-cluster",
            "demo_cluster": True,
            **fields,
        }
        with self._lock:
            try:
                self._file.write(json.dumps(line) + "\n")
                self._file.flush()
            except (OSError, ValueError):
                pass  # a full disk or a closed stderr is no reason for the cluster to die
