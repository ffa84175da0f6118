"""The demo cluster changes much more often than by itself: objects come, change and go, all the time, so that whoever does not
look for a moment misses something; watches are cut and expire."""

import contextlib
import random
import threading

ARGO = "/apis/argoproj.io/v1alpha1/namespaces/argocd"
HAPPENINGS = ("commit", "break-image", "break-manifest", "crash", "drift", "git-away", "workflow")
MERGE = "application/merge-patch+json"
PHASES = ("Running", "Successful", "Failed", "Error", "Inconclusive")
NAMES = 60  # of each kind


class ClusterLife(threading.Thread):
    def __init__(self, platform, seed, pause_seconds=0.05):
        super().__init__(name="cluster-life", daemon=True)
        self.platform, self.random, self.pause_seconds = platform, random.Random(seed), pause_seconds
        self.stopping, self.changes, self.refused = threading.Event(), 0, 0
        self.applications = sorted(name for _, name in platform.cluster_applications())

    def run(self):
        while not self.stopping.wait(self.pause_seconds):
            try:
                self.change()
                self.changes += 1
            except (AssertionError, OSError):  # what is to be changed is not there, or there already
                self.refused += 1

    def change(self):
        chance = self.random.random()
        if chance < 0.45:
            self.change_object("analysisruns", "AnalysisRun", {"spec": {"metrics": []}, "status": {"phase": self.random.choice(PHASES), "message": self.text()}})
        elif chance < 0.75:
            self.change_object("applicationsets", "ApplicationSet", {"spec": {"generators": [], "template": {"metadata": {"name": self.text()}, "spec": {}}}})
        elif chance < 0.9:
            labels = {"app.kubernetes.io/chaos": self.text()}
            self.platform.cluster("PATCH", f"{ARGO}/applications/{self.random.choice(self.applications)}", {"metadata": {"labels": labels}}, MERGE)
        elif chance < 0.985:
            self.platform.cluster("POST", f"/demo/happen?what={self.random.choice(HAPPENINGS)}&application={self.random.choice(self.applications)}")
            self.platform.cluster("POST", "/demo/step?n=2")
        else:
            self.platform.cluster("POST", self.random.choice(("/demo/expire", "/demo/drop-watches")))

    def text(self):
        return f"chaos-{self.random.getrandbits(32):08x}"

    def change_object(self, plural, kind, content):
        """Made, changed, or removed, whatever fits what is there."""
        name = f"chaos-{self.random.randrange(NAMES)}"
        path, chance = f"{ARGO}/{plural}", self.random.random()
        if chance < 0.35:
            self.platform.cluster("DELETE", f"{path}/{name}")
        if chance < 0.25:
            return
        body = {"apiVersion": "argoproj.io/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": "argocd", "labels": {"app.kubernetes.io/chaos": self.text()}}, **content}
        with contextlib.suppress(AssertionError):
            self.platform.cluster("POST", path, body)  # anew at once when it was removed: another uid
            return
        self.platform.cluster("PATCH", f"{path}/{name}", {"metadata": body["metadata"], **content}, MERGE)
