"""Rollouts walk their canary steps: what the Argo Rollouts controller does, one notch a step.

Promotion, abort and retry work as people do them: by a PATCH of the status subresource (pauseConditions: null,
promoteFull, abort) or, left alone, by the passing of time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import rollout as shapes
import workload
from object_store import ObjectStore
from resource_types import ANALYSIS_RUNS, ROLLOUTS
from workload_controller import STALLED_STEPS_MAX, ReplicaSets, ready_count, set_condition
from world import World

TIMED_PAUSE_STEPS = 2
OPEN_PAUSE_STEPS = 6  # then somebody promotes
ANALYSIS_STEPS = 2
ANALYSIS_RUNS_MAX = 5  # ended runs kept for each rollout
REVISION = "rollout.argoproj.io/revision"


@dataclass
class Progress:
    """Where one rollout stands in this step; becomes its status."""

    index: int
    phase: str
    message: str
    paused: str = ""  # the reason of the pause condition
    aborted: bool = False
    analysis: dict | None = None


class RolloutController:
    def __init__(self, world: World, store: ObjectStore):
        self._world = world
        self._store = store

    def step(self) -> None:
        self._world.each(self._store.list(ROLLOUTS)[0], self._walk)
        self._world.each(self._store.list(ANALYSIS_RUNS)[0], self._measure)
        self._world.each(self._store.list(ROLLOUTS)[0], self._forget_analyses)

    def _walk(self, rollout: dict) -> None:
        wanted = rollout["spec"].get("replicas", 1)
        status = rollout.get("status", {})
        sets = ReplicaSets(self._world, self._store, rollout, workload.ROLLOUT_HASH_LABEL)
        pod_hash = workload.template_hash(rollout["spec"]["template"])
        newest = sets.ensure(pod_hash)
        stable_hash = status.get("stableRS") or pod_hash
        stable = sets.by_hash(stable_hash) or newest
        fresh = status.get("currentPodHash") != pod_hash
        if fresh:
            self._world.done_waiting(rollout["metadata"]["uid"])
        steps = shapes.steps_of(rollout)
        for other in sets.all():
            if sets.pod_hash(other) not in (pod_hash, stable_hash):
                sets.scale(other, 0)
        if pod_hash == stable_hash:
            newest = sets.scale(newest, wanted)
            progress = self._settle(rollout, newest, wanted, len(steps))
        else:
            progress = self._canary(rollout, sets, newest, stable, fresh, steps)
            if progress.index >= len(steps) and not progress.aborted and ready_count(newest) >= wanted:
                stable_hash = pod_hash
        sets.forget_oldest(rollout["spec"].get("revisionHistoryLimit", 10), {pod_hash, stable_hash})
        self._report(rollout, sets, pod_hash, stable_hash, progress)

    def _settle(self, rollout: dict, newest: dict, wanted: int, step_count: int) -> Progress:
        if ready_count(newest) >= wanted:
            self._world.done_waiting(rollout["metadata"]["uid"])
            return Progress(step_count, "Healthy", "")
        return Progress(step_count, "Progressing", "more replicas need to be updated")

    def _canary(
        self, rollout: dict, sets: ReplicaSets, newest: dict, stable: dict, fresh: bool, steps: list[dict]
    ) -> Progress:
        status = {} if fresh else rollout["status"]
        wanted = rollout["spec"].get("replicas", 1)
        uid = rollout["metadata"]["uid"]
        if status.get("abort"):
            sets.scale(stable, wanted)
            sets.scale(newest, 0)
            self._world.done_waiting(uid)
            message = f"RolloutAborted: Rollout aborted update to revision {sets.revision(newest)}"
            return Progress(0, "Degraded", message, aborted=True)
        index = min(status.get("currentStepIndex", 0), len(steps))
        if status.get("promoteFull"):
            index = len(steps)
        if index < len(steps):
            step = steps[index]
            if "pause" in step:
                return self._pause(rollout, index, step["pause"] or {}, status)
            if "analysis" in step:
                return self._analyse(rollout, sets, newest, index)
        weight = self._weight(steps, index)
        canary_replicas = wanted if index >= len(steps) else math.ceil(wanted * weight / 100)
        newest = sets.scale(newest, canary_replicas)
        if ready_count(newest) < canary_replicas:
            if self._world.wait(uid) > 2 * STALLED_STEPS_MAX and rollout["spec"].get("progressDeadlineAbort"):
                message = f"RolloutAborted: Rollout aborted update to revision {sets.revision(newest)}"
                return Progress(index, "Degraded", message, aborted=True)
            return Progress(index, "Progressing", "more replicas need to be updated")
        self._world.done_waiting(uid)
        sets.scale(stable, wanted - canary_replicas)
        if index >= len(steps):
            return Progress(index, "Progressing", "old replicas are pending termination")
        return Progress(index + 1, "Progressing", "more replicas need to be updated")

    @staticmethod
    def _weight(steps: list[dict], index: int) -> int:
        """The weight in force at a step: that of the last setWeight up to it."""
        weights = [step["setWeight"] for step in steps[: index + 1] if "setWeight" in step]
        return weights[-1] if weights else 0

    def _pause(self, rollout: dict, index: int, pause: dict, status: dict) -> Progress:
        uid = rollout["metadata"]["uid"]
        promoted = status.get("controllerPause") and not status.get("pauseConditions")
        patience = TIMED_PAUSE_STEPS if pause.get("duration") else OPEN_PAUSE_STEPS
        if promoted or self._world.wait(uid) > patience:
            self._world.done_waiting(uid)
            return Progress(index + 1, "Progressing", "more replicas need to be updated")
        return Progress(index, "Paused", "CanaryPauseStep", paused="CanaryPauseStep")

    def _analyse(self, rollout: dict, sets: ReplicaSets, newest: dict, index: int) -> Progress:
        stable_hash = rollout["status"].get("stableRS", "")
        run = shapes.analysis_run(
            rollout, sets.pod_hash(newest), index, sets.revision(newest), stable_hash, self._world.stamp()
        )
        metadata = run["metadata"]
        present = self._store.find(ANALYSIS_RUNS, metadata["namespace"], metadata["name"])
        if present is None:
            present = self._store.create(ANALYSIS_RUNS, run)
        phase = present["status"]["phase"]
        analysis = {"name": metadata["name"], "status": phase}
        if phase == "Successful":
            return Progress(index + 1, "Progressing", "more replicas need to be updated", analysis=analysis)
        if phase in ("Failed", "Error", "Inconclusive"):
            message = f"RolloutAborted: step analysis run {metadata['name']} is {phase}"
            return Progress(index, "Degraded", message, aborted=True, analysis=analysis)
        return Progress(index, "Progressing", "waiting for analysis to complete", analysis=analysis)

    def _measure(self, run: dict) -> None:
        """One more measurement of a running analysis."""
        if run["status"].get("phase") != "Running":
            return
        metadata, count = run["metadata"], self._world.wait(run["metadata"]["uid"])
        now = self._world.stamp()

        def change(draft: dict) -> None:
            status = draft["status"]
            results = status.setdefault("metricResults", []) or [
                {"name": "success-rate", "phase": "Running", "count": 0, "successful": 0, "measurements": []}
            ]
            result = results[0]
            result["count"] = result["successful"] = count
            value = f"[{0.97 + 0.01 * (count % 3):.2f}]"
            result["measurements"].append({"phase": "Successful", "startedAt": now, "finishedAt": now, "value": value})
            status["metricResults"] = results
            if count >= ANALYSIS_STEPS:
                result["phase"] = status["phase"] = "Successful"
                status["runSummary"] = {"count": 1, "successful": 1}
                self._world.done_waiting(metadata["uid"])

        self._store.update(ANALYSIS_RUNS, metadata["namespace"], metadata["name"], change)

    def _forget_analyses(self, rollout: dict) -> None:
        """Deletes ended runs beyond the history limit, the oldest first."""
        runs = self._store.owned_by(rollout["metadata"]["uid"], ANALYSIS_RUNS)
        ended = [run for run in runs if run["status"].get("phase") != "Running"]
        ended.sort(key=lambda run: int(run["metadata"]["resourceVersion"]))
        for run in ended[: max(0, len(ended) - ANALYSIS_RUNS_MAX)]:
            self._store.delete(ANALYSIS_RUNS, run["metadata"]["namespace"], run["metadata"]["name"])

    # -- status ----------------------------------------------------------------------------------------------

    def _report(self, rollout: dict, sets: ReplicaSets, pod_hash: str, stable_hash: str, progress: Progress) -> None:
        newest, everything = sets.by_hash(pod_hash), sets.all()
        total = sum(candidate["status"].get("replicas", 0) for candidate in everything)
        ready = sum(ready_count(candidate) for candidate in everything)
        selector = ",".join(f"{key}={value}" for key, value in rollout["spec"]["selector"]["matchLabels"].items())

        def change(draft: dict) -> None:
            if newest:
                draft["metadata"].setdefault("annotations", {})[REVISION] = str(sets.revision(newest))
            status = draft.setdefault("status", {})
            status.update(
                HPAReplicas=total,
                availableReplicas=ready,
                readyReplicas=ready,
                replicas=total,
                updatedReplicas=newest["status"].get("replicas", 0) if newest else 0,
                blueGreen={},
                canary=self._canary_status(rollout, progress),
                currentPodHash=pod_hash,
                currentStepHash=shapes.steps_hash(rollout),
                currentStepIndex=progress.index,
                observedGeneration=str(draft["metadata"]["generation"]),
                phase=progress.phase,
                selector=selector,
                stableRS=stable_hash,
            )
            self._optional(status, "message", progress.message)
            self._optional(status, "controllerPause", bool(progress.paused))
            now = self._world.stamp()
            if progress.aborted and not status.get("abortedAt"):
                status["abortedAt"] = now
            self._optional(status, "abort", progress.aborted)
            if not progress.aborted:
                status.pop("abortedAt", None)
            if progress.phase == "Healthy":
                status.pop("promoteFull", None)
            if not progress.paused:
                status.pop("pauseConditions", None)
            elif not status.get("pauseConditions"):
                status["pauseConditions"] = [{"reason": progress.paused, "startTime": now}]
            self._conditions(status, rollout, progress, newest, now)

        metadata = rollout["metadata"]
        self._store.update(ROLLOUTS, metadata["namespace"], metadata["name"], change)

    @staticmethod
    def _optional(status: dict, field: str, value: object) -> None:
        if value:
            status[field] = value
        else:
            status.pop(field, None)

    def _canary_status(self, rollout: dict, progress: Progress) -> dict:
        canary: dict = {}
        steps = shapes.steps_of(rollout)
        if progress.index < len(steps) and not progress.aborted:
            weight = self._weight(steps, progress.index)
            canary["weights"] = {
                "canary": {"weight": weight, "serviceName": rollout["spec"]["strategy"]["canary"]["canaryService"]},
                "stable": {
                    "weight": 100 - weight,
                    "serviceName": rollout["spec"]["strategy"]["canary"]["stableService"],
                },
            }
        if progress.analysis:
            canary["currentStepAnalysisRunStatus"] = progress.analysis
        return canary

    @staticmethod
    def _conditions(status: dict, rollout: dict, progress: Progress, newest: dict | None, now: str) -> None:
        name = newest["metadata"]["name"] if newest else ""
        healthy = progress.phase == "Healthy"
        wanted = rollout["spec"].get("replicas", 1)
        available = ("True", "AvailableReason", "Rollout has minimum availability")
        if status["availableReplicas"] < wanted:
            available = ("False", "AvailableReason", "Rollout does not have minimum availability")
        set_condition(status, "Available", *available, now)
        if progress.aborted:
            progressing = ("False", "RolloutAborted", progress.message)
        elif progress.paused:
            progressing = ("Unknown", "RolloutPaused", "Rollout is paused")
        elif healthy:
            progressing = ("True", "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.')
        else:
            progressing = ("True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
        set_condition(status, "Progressing", *progressing, now)
        paused = "True" if progress.paused else "False"
        set_condition(status, "Paused", paused, "RolloutPaused", "Rollout is paused" if progress.paused else "", now)
        completed = ("True", "Rollout completed update") if healthy else ("False", "Rollout is not complete")
        set_condition(status, "Completed", completed[0], "RolloutCompleted", completed[1], now)
        health = ("True", "Rollout is healthy") if healthy else ("False", "Rollout is not healthy")
        set_condition(status, "Healthy", health[0], "RolloutHealthy", health[1], now)
