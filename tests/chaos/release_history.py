"""An Argo CD Application that syncs all the time: what its status says of operations and of history."""

import datetime
import time

HISTORY_MAX = 10  # as many as Argo CD remembers
LIFE = 40  # releases until it is made anew, with another uid
DAY_S = 86400


def stamp(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class ReleaseHistory:
    """Each next() is the state after the one before: a sync begins, or ends with a new entry of the history."""

    def __init__(self, name, namespace):
        self.name, self.namespace = name, namespace
        self.clock = int(time.time()) - DAY_S  # each operation has a second of its own
        self.number, self.life = 0, 0
        self.entries, self.start = [], None
        self.id = 0

    def next(self):
        """(manifest, its number, (uid, {id: revision}, (start of the operation, phase)))"""
        self.number += 1
        if self.start is None:
            if self.id == LIFE:
                self.life, self.entries, self.id = self.life + 1, [], 0
            self.clock += 1
            self.start, phase = self.clock, "Running"
        else:
            self._release()
            self.start, phase = None, "Succeeded"
        uid = f"{self.name}-{self.life}"
        releases = {entry["id"]: entry["revision"] for entry in self.entries}
        return self._manifest(uid, phase), self.number, (uid, releases, (self.clock, phase))

    def _release(self):
        self.id += 1
        entry = {
            "id": self.id,
            "revision": f"{self.life:08x}{self.id:032x}",
            "deployStartedAt": stamp(self.clock),
            "deployedAt": stamp(self.clock + 1),
            "source": {"repoURL": "https://git.example.test/chaos.git", "path": self.name, "targetRevision": "main"},
            "initiatedBy": {"username": "chaos"},
        }
        self.entries = [*self.entries, entry][-HISTORY_MAX:]

    def _manifest(self, uid, phase):
        source = {"repoURL": "https://git.example.test/chaos.git", "path": self.name, "targetRevision": "main"}
        state = {"phase": phase, "startedAt": stamp(self.clock), "operation": {"initiatedBy": {"username": "chaos"}, "sync": {}}}
        if phase != "Running":
            state["finishedAt"] = stamp(self.clock + 1)
        return {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {"name": self.name, "namespace": self.namespace, "uid": uid, "labels": {"app.kubernetes.io/number": str(self.number)}},
            "spec": {"project": "default", "source": source, "destination": {"server": "https://kubernetes.default.svc", "namespace": self.namespace}},
            "status": {"sync": {"status": "Synced"}, "health": {"status": "Healthy"}, "operationState": state, "history": self.entries},
        }
