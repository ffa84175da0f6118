"""Workflows run through their nodes: what the Argo Workflows controller does, one notch a step."""

from __future__ import annotations

import functools

import workflow as shapes
from object_store import ObjectStore
from resource_types import PODS, WORKFLOWS
from world import World

FAILURE_CHANCE = 0.04  # of one node in one step; the cluster's past was uneventful
FINISHED = ("Succeeded", "Failed", "Error")


class WorkflowController:
    def __init__(self, world: World, store: ObjectStore):
        self._world = world
        self._store = store

    def step(self) -> None:
        self._world.each(self._store.list(WORKFLOWS)[0], self._advance)

    def _advance(self, workflow: dict) -> None:
        status = workflow.get("status", {})
        if status.get("phase") in FINISHED:
            return
        if workflow["spec"].get("shutdown"):
            strategy = workflow["spec"]["shutdown"]
            self._write(workflow, lambda draft: self._finish(draft, "Failed", f"Stopped with strategy '{strategy}'"))
        elif not status.get("phase"):
            self._write(workflow, self._begin)
        elif not workflow["spec"].get("suspend"):
            self._write(workflow, self._next_nodes)
        self._run_pods(workflow)

    def _write(self, workflow: dict, change) -> None:
        metadata = workflow["metadata"]
        self._store.update(WORKFLOWS, metadata["namespace"], metadata["name"], change)

    def _begin(self, draft: dict) -> None:
        now = self._world.stamp()
        name = draft["metadata"]["name"]
        draft["metadata"].setdefault("labels", {}).update({shapes.PHASE_LABEL: "Running"})
        draft["status"] = {
            "phase": "Running",
            "startedAt": now,
            "finishedAt": None,
            "estimatedDuration": 20,
            "progress": f"0/{len(shapes.TASKS)}",
            "nodes": {name: shapes.dag_node(name, now)},
            "conditions": [{"type": "PodRunning", "status": "False"}],
            "artifactRepositoryRef": {"default": True, "artifactRepository": {}},
            "artifactGCStatus": {"notSpecified": True},
        }

    def _next_nodes(self, draft: dict) -> None:
        """Running nodes end; the tasks that waited for them begin."""
        name, status = draft["metadata"]["name"], draft["status"]
        nodes, now = status["nodes"], self._world.stamp()
        for node in nodes.values():
            if node["type"] == "Pod" and node["phase"] == "Running":
                failed = self._world.chance.random() < FAILURE_CHANCE and not self._world.shift_seconds
                self._end_node(node, "Failed" if failed else "Succeeded", now)
        tasks = {node["displayName"]: node for node in nodes.values() if node["type"] == "Pod"}
        done = {task for task, node in tasks.items() if node["phase"] == "Succeeded"}
        status["progress"] = nodes[name]["progress"] = f"{len(done)}/{len(shapes.TASKS)}"
        if any(node["phase"] == "Failed" for node in tasks.values()):
            self._finish(draft, "Failed", "")
            return
        if len(done) == len(shapes.TASKS):
            self._finish(draft, "Succeeded", "")
            return
        for task, after in shapes.TASKS:
            if task in tasks or not done.issuperset(after):
                continue
            node = shapes.pod_node(name, task, self._world.node(), now)
            nodes[node["id"]] = node
            parents = [tasks[parent] for parent in after] or [nodes[name]]
            for parent in parents:
                parent.setdefault("children", []).append(node["id"])
        status["conditions"] = [{"type": "PodRunning", "status": "True"}]

    @staticmethod
    def _end_node(node: dict, phase: str, now: str) -> None:
        node.update(phase=phase, finishedAt=now)
        if node["type"] != "Pod":
            return
        good = phase == "Succeeded"
        node.update(
            progress="1/1" if good else "0/1",
            resourcesDuration={"cpu": 1, "memory": 3},
            outputs={"exitCode": "0" if good else "1"},
        )
        if not good:
            node["message"] = "Error (exit code 1)"

    def _finish(self, draft: dict, phase: str, message: str) -> None:
        now, name = self._world.stamp(), draft["metadata"]["name"]
        status = draft.setdefault("status", {"startedAt": now, "progress": "0/0"})
        for node in status.setdefault("nodes", {}).values():
            if node["phase"] == "Running":
                self._end_node(node, phase, now)
                if message:
                    node["message"] = message
        if name in status["nodes"]:
            leaves = [node["id"] for node in status["nodes"].values() if not node.get("children")]
            status["nodes"][name]["outboundNodes"] = leaves
        status.update(phase=phase, finishedAt=now, resourcesDuration={"cpu": 4, "memory": 12})
        if message:
            status["message"] = message
        status["conditions"] = [
            {"type": "PodRunning", "status": "False"},
            {"type": "Completed", "status": "True"},
        ]
        labels = draft["metadata"].setdefault("labels", {})
        labels.update({shapes.PHASE_LABEL: phase, shapes.COMPLETED_LABEL: "true"})

    def _run_pods(self, workflow: dict) -> None:
        """One Pod per node, running and ending with it."""
        metadata = workflow["metadata"]
        current = self._store.get(WORKFLOWS, metadata["namespace"], metadata["name"])
        for node in current.get("status", {}).get("nodes", {}).values():
            if node["type"] != "Pod":
                continue
            pod = shapes.node_pod(current, node)
            name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
            if self._store.find(PODS, namespace, name) is None:
                self._store.create(PODS, pod)
            if node["phase"] in FINISHED:
                self._store.update(PODS, namespace, name, functools.partial(self._end_pod, node))

    @staticmethod
    def _end_pod(node: dict, draft: dict) -> None:
        good = node["phase"] == "Succeeded"
        draft["metadata"]["labels"][shapes.COMPLETED_LABEL] = "true"
        draft["status"]["phase"] = "Succeeded" if good else "Failed"
        draft["status"]["containerStatuses"] = [
            {
                "name": "main",
                "image": draft["spec"]["containers"][0]["image"],
                "imageID": "",
                "ready": False,
                "started": False,
                "restartCount": 0,
                "lastState": {},
                "state": {
                    "terminated": {
                        "exitCode": 0 if good else 1,
                        "reason": "Completed" if good else "Error",
                        "startedAt": node["startedAt"],
                        "finishedAt": node["finishedAt"],
                    }
                },
            }
        ]
