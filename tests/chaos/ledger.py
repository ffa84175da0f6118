"""What a client was promised: every acknowledgement, on disk before it counts. Compared with the database at the end.

States are numbered, an object's numbers only grow, and so a stored one is right when it lies between the last that was
acknowledged and the last that was sent: what was sent and not acknowledged may or may not be there."""

import collections
import json
import os
import threading

DELETED = -1  # what is stored of an object that is deleted: its row does not tell the number


class Ledger:
    """Thread-safe. What was sent is only in memory."""

    def __init__(self, path):
        self.file = open(path, "ab", buffering=0)
        self.lock = threading.Lock()
        self.acked, self.sent = {}, {}  # object -> number of its newest state
        self.deletions = collections.defaultdict(list)  # object -> numbers at which it was deleted
        self.events = set()  # acknowledged ids of events
        self.events_sent = collections.Counter()  # with those that were not
        self.releases, self.releases_sent = {}, {}  # (uid, id) -> revision
        self.operations, self.operations_sent = {}, collections.defaultdict(set)  # (uid, start) -> phase, phases
        self.count = 0

    def _write(self, line):
        self.file.write(json.dumps(line).encode() + b"\n")
        os.fsync(self.file.fileno())
        self.count += 1

    def close(self):
        self.file.close()

    # ---- states ----------------------------------------------------------------------------------------------------------

    def send(self, name, number, is_deletion=False):
        with self.lock:
            self.sent[name] = number
            if is_deletion:
                self.deletions[name].append(number)

    def ack(self, name, number):
        with self.lock:
            self._write({"object": name, "number": number})
            self.acked[name] = max(number, self.acked.get(name, 0))

    def wrong_states(self, stored):
        """Objects whose stored number ({object: number or DELETED}) is older than the acknowledged one, or was never sent."""
        wrong = []
        for name in self.sent.keys() | stored.keys():
            acked, sent, found = self.acked.get(name, 0), self.sent.get(name, 0), stored.get(name)
            if found == DELETED:
                good = any(acked <= number <= sent for number in self.deletions.get(name, ()))
            else:
                good = acked <= found <= sent if found is not None else not acked
            if not good:
                wrong.append(f"{name}: acknowledged {acked}, stored {'deleted' if found == DELETED else found}, sent {sent}")
        return wrong

    # ---- events ----------------------------------------------------------------------------------------------------------

    def send_event(self, event_id):
        with self.lock:
            self.events_sent[event_id] += 1

    def ack_event(self, event_id):
        with self.lock:
            self._write({"event": event_id})
            self.events.add(event_id)

    # ---- what applications tell of their history --------------------------------------------------------------------------

    def send_history(self, uid, releases, operation):
        """releases: {id: revision}; operation: (start, phase)"""
        with self.lock:
            self.releases_sent.update({(uid, number): revision for number, revision in releases.items()})
            self.operations_sent[uid, operation[0]].add(operation[1])

    def ack_history(self, uid, releases, operation):
        with self.lock:
            self._write({"application": uid, "releases": sorted(releases), "operation": operation})
            self.releases.update({(uid, number): revision for number, revision in releases.items()})
            self.operations[uid, operation[0]] = operation[1]

    def wrong_releases(self, stored):
        """stored: [(uid, id, revision)]"""
        found = dict.fromkeys(self.releases, None) | {(uid, number): revision for uid, number, revision in stored}
        return [f"{key}: stored {value}, sent {self.releases_sent.get(key)}" for key, value in found.items() if value != self.releases_sent.get(key)]

    def wrong_operations(self, stored):
        """stored: [(uid, start, phase)]. The last word about an operation stays, whatever was not acknowledged after it."""
        found = {(uid, start): phase for uid, start, phase in stored}
        wrong = []
        for key in self.operations_sent.keys() | found.keys():
            acked, phase = self.operations.get(key), found.get(key)
            good = phase in (acked, "Succeeded") if acked else phase is None or phase in self.operations_sent[key]
            if not good or phase == "Succeeded" and phase not in self.operations_sent[key]:
                wrong.append(f"{key}: acknowledged {acked}, stored {phase}")
        return wrong


def repeated(keys):
    return sorted(str(key) for key, count in collections.Counter(keys).items() if count > 1)
