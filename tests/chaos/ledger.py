"""What a client was promised: every acknowledgement, on disk before it counts. Compared with the database at the end."""

import json
import os
import threading


class Ledger:
    """Thread-safe. `sent` is only in memory: what was sent and not acknowledged may or may not be there."""

    def __init__(self, path):
        self.file = open(path, "ab", buffering=0)
        self.lock = threading.Lock()
        self.acked, self.sent = {}, {}  # object -> number of its newest state
        self.events = set()  # acknowledged ids of events
        self.count = 0

    def send(self, name, number):
        with self.lock:
            self.sent[name] = number

    def _write(self, line):
        self.file.write(json.dumps(line).encode() + b"\n")
        os.fsync(self.file.fileno())

    def ack(self, name, number):
        with self.lock:
            self._write({"object": name, "number": number})
            self.acked[name] = number
            self.count += 1

    def ack_event(self, event_id):
        with self.lock:
            self._write({"event": event_id})
            self.events.add(event_id)
            self.count += 1

    def close(self):
        self.file.close()

    def lost_states(self, stored):
        """Objects whose stored number ({object: number}) is older than the acknowledged one, or was never sent."""
        wrong = []
        for name, number in self.acked.items():
            found = stored.get(name)
            if found is None or not number <= found <= self.sent[name]:
                wrong.append((name, number, found, self.sent[name]))
        return wrong
