"""What all parts of the demo's life share: one clock, one source of chance, and the accidents under way.

A World belongs to the thread that lives (life.py); only `now`, `new_uid` and `unique_suffix` are called from elsewhere.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from typing import Callable, Iterable

import workload
from log import Log
from object_store import timestamp
from status import ApiError

MISSING_IMAGES_MAX = 1000
STUMBLES_MAX = 1000  # reported; more would only fill the log
NODE_ADDRESSES = {"demo-node-1": "10.0.0.11", "demo-node-2": "10.0.0.12", "demo-node-3": "10.0.0.13"}


class World:
    def __init__(self, seed: int, log: Log):
        self._log = log
        self._stumbled: set[str] = set()
        self.chance = random.Random(seed)
        self._uids = random.Random(f"uid {seed}")
        self._uids_lock = threading.Lock()
        self.shift_seconds = 0.0  # the past, while the cluster's beginnings are being laid out
        self.missing_images: dict[str, None] = {}  # images no registry has, in the order they were lost
        self.crashing: dict[str, int] = {}  # pod uid -> steps until its container comes up again
        self.waiting: dict[str, int] = {}  # uid of what waits -> steps it has been waiting

    def now(self) -> float:
        return time.time() - self.shift_seconds

    def stamp(self) -> str:
        return timestamp(self.now())

    def new_uid(self) -> str:
        with self._uids_lock:
            return str(uuid.UUID(int=self._uids.getrandbits(128), version=4))

    def unique_suffix(self) -> str:
        """The end of a generated name, for objects made through the API; any thread."""
        with self._uids_lock:
            return workload.safe_name(self._uids.getrandbits(32), 5)

    def name_suffix(self) -> str:
        return workload.safe_name(self.chance.getrandbits(32), 5)

    def hexadecimal(self, length: int) -> str:
        return f"{self.chance.getrandbits(4 * length):0{length}x}"

    def node(self) -> str:
        return self.chance.choice(tuple(NODE_ADDRESSES))

    def pod_ip(self) -> str:
        return f"10.42.{self.chance.randrange(4)}.{self.chance.randrange(2, 250)}"

    def cluster_ip(self) -> str:
        return f"10.43.{self.chance.randrange(256)}.{self.chance.randrange(2, 250)}"

    def lose_image(self, image: str) -> None:
        self.missing_images[image] = None
        while len(self.missing_images) > MISSING_IMAGES_MAX:
            del self.missing_images[next(iter(self.missing_images))]

    def each(self, documents: Iterable[dict], act: Callable[[dict], None]) -> None:
        """Does `act` to every document. One that cannot be understood (anyone may PUT nonsense) is reported once
        and skipped, so that it does not stop the life of the others."""
        for document in documents:
            try:
                act(document)
            except ApiError:
                continue  # removed or changed by somebody in the meantime; the next step sees the new state
            except Exception as error:  # noqa: BLE001
                uid = document["metadata"]["uid"]
                if uid not in self._stumbled and len(self._stumbled) < STUMBLES_MAX:
                    self._stumbled.add(uid)
                    metadata = document["metadata"]
                    self._log.error(
                        "object_not_understood",
                        kind=document["kind"],
                        namespace=metadata.get("namespace", ""),
                        name=metadata["name"],
                        error=repr(error),
                    )

    def wait(self, uid: str) -> int:
        """Counts one more step of waiting and returns the count."""
        self.waiting[uid] = self.waiting.get(uid, 0) + 1
        return self.waiting[uid]

    def done_waiting(self, uid: str) -> None:
        self.waiting.pop(uid, None)
