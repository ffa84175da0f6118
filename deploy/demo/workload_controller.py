"""Deployments, ReplicaSets and Pods come to pass: what kube-controller-manager and the kubelet do.

Each `step` moves everything that is not yet as wanted by one notch. The controllers read only the store, so
objects made or changed through the API live like those the demo made itself.
"""

from __future__ import annotations

import kubernetes_event
import workload
from object_store import ObjectStore, clone
from resource_types import DEPLOYMENTS, PODS, REPLICA_SETS
from world import NODE_ADDRESSES, World

STALLED_STEPS_MAX = 4  # stands for progressDeadlineSeconds
REVISION = "deployment.kubernetes.io/revision"


def pod_is_ready(pod: dict) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in pod.get("status", {}).get("conditions", ())
    )


def set_condition(status: dict, condition_type: str, value: str, reason: str, message: str, now: str) -> None:
    """Sets one condition; its transition time moves only when its status does."""
    conditions = status.setdefault("conditions", [])
    for condition in conditions:
        if condition["type"] == condition_type:
            if condition["status"] != value:
                condition["lastTransitionTime"] = now
            if (condition["status"], condition.get("reason"), condition.get("message")) != (value, reason, message):
                condition["lastUpdateTime"] = now
            condition.update(status=value, reason=reason, message=message)
            return
    conditions.append(
        {
            "type": condition_type,
            "status": value,
            "reason": reason,
            "message": message,
            "lastUpdateTime": now,
            "lastTransitionTime": now,
        }
    )


class ReplicaSets:
    """The ReplicaSets of one owner (Deployment or Rollout); used by both kinds of controller."""

    def __init__(self, world: World, store: ObjectStore, owner: dict, hash_label: str):
        self._world = world
        self._store = store
        self._owner = owner
        self._hash_label = hash_label
        self._prefix = "rollout.argoproj.io" if owner["kind"] == "Rollout" else "deployment.kubernetes.io"

    def all(self) -> list[dict]:
        return self._store.owned_by(self._owner["metadata"]["uid"], REPLICA_SETS)

    def pod_hash(self, replica_set: dict) -> str:
        return replica_set["metadata"]["labels"].get(self._hash_label, "")

    def revision(self, replica_set: dict) -> int:
        return int(replica_set["metadata"]["annotations"].get(f"{self._prefix}/revision", "0"))

    def by_hash(self, pod_hash: str) -> dict | None:
        return next((candidate for candidate in self.all() if self.pod_hash(candidate) == pod_hash), None)

    def ensure(self, pod_hash: str) -> dict:
        """The ReplicaSet of a hash, made when missing, carrying the owner's newest revision number."""
        newest = max((self.revision(candidate) for candidate in self.all()), default=0)
        present = self.by_hash(pod_hash)
        if present is None:
            made = workload.replica_set(self._owner, self._hash_label, pod_hash, newest + 1)
            return self._store.create(REPLICA_SETS, made)
        if self.revision(present) < newest:
            return self._update(present, lambda draft: self._renumber(draft, newest + 1))
        return present

    def scale(self, replica_set: dict, replicas: int) -> dict:
        return self._update(replica_set, lambda draft: draft["spec"].update(replicas=replicas))

    def forget_oldest(self, limit: int, keep: set[str]) -> None:
        """Deletes emptied ReplicaSets beyond the revision history limit."""
        emptied = [
            candidate
            for candidate in self.all()
            if candidate["spec"]["replicas"] == 0 and self.pod_hash(candidate) not in keep
        ]
        emptied.sort(key=self.revision)
        for surplus in emptied[: max(0, len(emptied) - limit)]:
            self._store.delete(REPLICA_SETS, surplus["metadata"]["namespace"], surplus["metadata"]["name"])

    def _renumber(self, draft: dict, revision: int) -> None:
        draft["metadata"]["annotations"][f"{self._prefix}/revision"] = str(revision)

    def _update(self, replica_set: dict, change) -> dict:
        metadata = replica_set["metadata"]
        return self._store.update(REPLICA_SETS, metadata["namespace"], metadata["name"], change)


def ready_count(replica_set: dict | None) -> int:
    return replica_set["status"].get("readyReplicas", 0) if replica_set else 0


class WorkloadController:
    def __init__(self, world: World, store: ObjectStore):
        self._world = world
        self._store = store

    def step(self) -> None:
        each = self._world.each
        each(self._store.list(DEPLOYMENTS)[0], self._roll)
        each(self._store.list(REPLICA_SETS)[0], self._fill)
        each(self._store.list(PODS)[0], self._run)
        each(self._store.list(REPLICA_SETS)[0], self._count)
        each(self._store.list(DEPLOYMENTS)[0], self._report)

    # -- Deployment ------------------------------------------------------------------------------------------

    def _replica_sets(self, deployment: dict) -> ReplicaSets:
        return ReplicaSets(self._world, self._store, deployment, workload.HASH_LABEL)

    def _roll(self, deployment: dict) -> None:
        """One notch of a rolling update: one pod more of the new, one pod less of the old."""
        if deployment["spec"].get("paused"):
            return
        wanted = deployment["spec"].get("replicas", 1)
        sets = self._replica_sets(deployment)
        newest = sets.ensure(workload.template_hash(deployment["spec"]["template"]))
        old = [candidate for candidate in sets.all() if candidate["metadata"]["uid"] != newest["metadata"]["uid"]]
        old = [self._drop_unready(sets, candidate) for candidate in old]
        old_replicas = sum(candidate["spec"]["replicas"] for candidate in old)
        have = newest["spec"]["replicas"]
        if have > wanted or old_replicas == 0:
            sets.scale(newest, wanted)
        elif have < wanted and have + old_replicas <= wanted:
            sets.scale(newest, have + 1)
        available = ready_count(newest) + sum(ready_count(candidate) for candidate in old)
        if old_replicas and available > wanted:
            shrinking = next(candidate for candidate in old if candidate["spec"]["replicas"])
            sets.scale(shrinking, shrinking["spec"]["replicas"] - 1)
        sets.forget_oldest(
            deployment["spec"].get("revisionHistoryLimit", 10), {newest["metadata"]["labels"][workload.HASH_LABEL]}
        )

    @staticmethod
    def _drop_unready(sets: ReplicaSets, old: dict) -> dict:
        """Pods of an old ReplicaSet that never became ready give way first, or a mend could not get in."""
        if old["spec"]["replicas"] > ready_count(old):
            return sets.scale(old, ready_count(old))
        return old

    def _report(self, deployment: dict) -> None:
        sets = self._replica_sets(deployment)
        newest = sets.by_hash(workload.template_hash(deployment["spec"]["template"]))
        everything = sets.all()
        wanted = deployment["spec"].get("replicas", 1)
        total = sum(candidate["status"].get("replicas", 0) for candidate in everything)
        ready = sum(ready_count(candidate) for candidate in everything)
        updated = newest["status"].get("replicas", 0) if newest else 0
        complete = updated == total == ready == wanted
        uid, signature = deployment["metadata"]["uid"], (updated, total, ready)
        generation = deployment["metadata"]["generation"]
        before = deployment["status"]
        was = (before.get("updatedReplicas", 0), before.get("replicas", 0), before.get("readyReplicas", 0))
        if complete or signature != was or before.get("observedGeneration") != generation:
            self._world.done_waiting(uid)
            stalled = 0
        else:
            stalled = self._world.wait(uid)

        def change(draft: dict) -> None:
            if newest:
                draft["metadata"].setdefault("annotations", {})[REVISION] = str(sets.revision(newest))
            status = draft["status"]
            counts = {
                "observedGeneration": generation,
                "replicas": total,
                "updatedReplicas": updated,
                "readyReplicas": ready,
                "availableReplicas": ready,
                "unavailableReplicas": max(0, wanted - ready),
            }
            for field, value in counts.items():
                if value:
                    status[field] = value
                else:
                    status.pop(field, None)
            self._conditions(status, deployment, newest, complete, stalled, wanted - ready)

        metadata = deployment["metadata"]
        self._store.update(DEPLOYMENTS, metadata["namespace"], metadata["name"], change)

    def _conditions(
        self, status: dict, deployment: dict, newest: dict | None, complete: bool, stalled: int, short_by: int
    ) -> None:
        now = self._world.stamp()
        if short_by <= max(0, deployment["spec"].get("replicas", 1) // 4):
            enough = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        else:
            enough = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        set_condition(status, "Available", *enough, now)
        name = newest["metadata"]["name"] if newest else ""
        progressing: dict = next((c for c in status["conditions"] if c["type"] == "Progressing"), {})
        finished = progressing.get("reason") == "NewReplicaSetAvailable" and f'"{name}"' in progressing["message"]
        if complete or finished:
            progress = ("True", "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.')
        elif stalled >= STALLED_STEPS_MAX:
            progress = ("False", "ProgressDeadlineExceeded", f'ReplicaSet "{name}" has timed out progressing.')
        else:
            progress = ("True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
        set_condition(status, "Progressing", *progress, now)

    # -- ReplicaSet ------------------------------------------------------------------------------------------

    def _fill(self, replica_set: dict) -> None:
        pods = self._store.owned_by(replica_set["metadata"]["uid"], PODS)
        missing = replica_set["spec"].get("replicas", 1) - len(pods)
        for _ in range(missing):
            name = f"{replica_set['metadata']['name']}-{self._world.name_suffix()}"
            self._store.create(PODS, workload.pod(replica_set, name, self._world.node()))
        if missing < 0:
            pods.sort(key=pod_is_ready)
            for surplus in pods[:-missing]:
                self._world.crashing.pop(surplus["metadata"]["uid"], None)
                self._store.delete(PODS, surplus["metadata"]["namespace"], surplus["metadata"]["name"])

    def _count(self, replica_set: dict) -> None:
        pods = self._store.owned_by(replica_set["metadata"]["uid"], PODS)
        ready = sum(pod_is_ready(pod) for pod in pods)
        status: dict = {"replicas": len(pods), "observedGeneration": replica_set["metadata"]["generation"]}
        if pods:
            status["fullyLabeledReplicas"] = len(pods)
        if ready:
            status.update(readyReplicas=ready, availableReplicas=ready)
        metadata = replica_set["metadata"]
        self._store.update(
            REPLICA_SETS, metadata["namespace"], metadata["name"], lambda draft: draft.update(status=status)
        )

    # -- Pod -------------------------------------------------------------------------------------------------

    def _run(self, pod: dict) -> None:
        if any(owner["kind"] != "ReplicaSet" for owner in pod["metadata"].get("ownerReferences", ())):
            return  # a Workflow's: its controller runs it
        uid = pod["metadata"]["uid"]
        broken = any(container["image"] in self._world.missing_images for container in pod["spec"]["containers"])
        statuses = pod.get("status", {}).get("containerStatuses")
        if statuses is None:
            self._write(pod, self._created)
        elif broken:
            reason = statuses[0]["state"].get("waiting", {}).get("reason")
            if reason != "ImagePullBackOff":
                self._write(pod, lambda draft: self._pull_failed(draft, again=reason == "ErrImagePull"))
                image = pod["spec"]["containers"][0]["image"]
                kubernetes_event.note(self._store, self._world, PODS, pod, "Failed", f'Failed to pull image "{image}": not found')
        elif uid in self._world.crashing:
            left = self._world.crashing[uid] = self._world.crashing[uid] - 1
            if left <= 0:
                del self._world.crashing[uid]
                self._write(pod, self._started)
            elif "terminated" in statuses[0]["state"]:
                self._write(pod, self._backed_off)
                kubernetes_event.note(self._store, self._world, PODS, pod, "BackOff", "Back-off restarting failed container")
        elif not pod_is_ready(pod):
            self._write(pod, self._started)

    def crash(self, pod: dict, steps: int) -> None:
        """Lets a running pod's container exit with an error; it comes up again after `steps`."""
        self._world.crashing[pod["metadata"]["uid"]] = steps
        self._write(pod, self._crashed)

    def _write(self, pod: dict, change) -> None:
        metadata = pod["metadata"]
        self._store.update(PODS, metadata["namespace"], metadata["name"], change)

    def _conditions_of_pod(self, draft: dict, ready: bool) -> None:
        reason, message = "", ""
        if not ready:
            names = " ".join(container["name"] for container in draft["spec"]["containers"])
            reason, message = "ContainersNotReady", f"containers with unready status: [{names}]"
        before = {condition["type"]: condition for condition in draft["status"].get("conditions", ())}
        conditions = []
        for condition_type, good in (
            ("Initialized", True),
            ("Ready", ready),
            ("ContainersReady", ready),
            ("PodScheduled", True),
        ):
            value = "True" if good else "False"
            same = before.get(condition_type, {}).get("status") == value
            since = before[condition_type]["lastTransitionTime"] if same else self._world.stamp()
            entry = {"type": condition_type, "status": value, "lastProbeTime": None, "lastTransitionTime": since}
            if not good:
                entry.update(reason=reason, message=message)
            conditions.append(entry)
        draft["status"]["conditions"] = conditions

    def _created(self, draft: dict) -> None:
        status = draft.setdefault("status", {})
        node = draft["spec"].setdefault("nodeName", self._world.node())
        status.update(phase="Pending", hostIP=NODE_ADDRESSES.get(node, "10.0.0.9"), startTime=self._world.stamp())
        status["containerStatuses"] = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": False,
                "started": False,
                "restartCount": 0,
                "state": {"waiting": {"reason": "ContainerCreating"}},
                "lastState": {},
            }
            for container in draft["spec"]["containers"]
        ]
        self._conditions_of_pod(draft, ready=False)

    def _started(self, draft: dict) -> None:
        status = draft["status"]
        status["phase"] = "Running"
        address = status.get("podIP") or self._world.pod_ip()
        status.update(podIP=address, podIPs=[{"ip": address}])
        for container in status["containerStatuses"]:
            container.update(
                ready=True,
                started=True,
                state={"running": {"startedAt": self._world.stamp()}},
                containerID=f"containerd://{self._world.hexadecimal(64)}",
                imageID=f"{container['image'].rpartition(':')[0]}@sha256:{self._world.hexadecimal(64)}",
            )
        self._conditions_of_pod(draft, ready=True)

    def _pull_failed(self, draft: dict, again: bool) -> None:
        for container in draft["status"]["containerStatuses"]:
            image = container["image"]
            if again:
                waiting = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}"'}
            else:
                waiting = {
                    "reason": "ErrImagePull",
                    "message": f'rpc error: code = NotFound desc = failed to pull image "{image}": not found',
                }
            container["state"] = {"waiting": waiting}
        self._conditions_of_pod(draft, ready=False)

    def _crashed(self, draft: dict) -> None:
        for container in draft["status"]["containerStatuses"]:
            started = container["state"].get("running", {}).get("startedAt", self._world.stamp())
            container["state"] = {
                "terminated": {
                    "exitCode": 1,
                    "reason": "Error",
                    "startedAt": started,
                    "finishedAt": self._world.stamp(),
                    "containerID": container.get("containerID", ""),
                }
            }
            container.update(ready=False, started=False)
        self._conditions_of_pod(draft, ready=False)

    def _backed_off(self, draft: dict) -> None:
        for container in draft["status"]["containerStatuses"]:
            container["restartCount"] += 1
            container["lastState"] = clone(container["state"])
            container["state"] = {
                "waiting": {
                    "reason": "CrashLoopBackOff",
                    "message": "back-off 10s restarting failed container="
                    f"{container['name']} pod={draft['metadata']['name']}_{draft['metadata']['namespace']}",
                }
            }
