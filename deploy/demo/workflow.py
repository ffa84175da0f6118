"""Argo Workflows objects in the shape of their CRD, with nodes as the workflow controller writes them."""

from __future__ import annotations

import workload

COMPLETED_LABEL = "workflows.argoproj.io/completed"
PHASE_LABEL = "workflows.argoproj.io/phase"
WORKFLOW_LABEL = "workflows.argoproj.io/workflow"
NODE_ANNOTATION = "workflows.argoproj.io/node-name"

TASKS = (
    ("extract", ()),
    ("transform", ("extract",)),
    ("check-totals", ("extract",)),
    ("publish", ("transform", "check-totals")),
)


def workflow(metadata: dict, image: str, date: str) -> dict:
    """A report as a DAG of four containers."""
    tasks = []
    for name, after in TASKS:
        task: dict = {
            "name": name,
            "template": "report-step",
            "arguments": {"parameters": [{"name": "step", "value": name}]},
        }
        if after:
            task["dependencies"] = list(after)
        tasks.append(task)
    return {
        "metadata": metadata,
        "spec": {
            "entrypoint": "main",
            "serviceAccountName": "reports",
            "arguments": {"parameters": [{"name": "date", "value": date}]},
            "ttlStrategy": {"secondsAfterCompletion": 3600},
            "templates": [
                {"name": "main", "inputs": {}, "outputs": {}, "metadata": {}, "dag": {"tasks": tasks}},
                {
                    "name": "report-step",
                    "inputs": {"parameters": [{"name": "step"}]},
                    "outputs": {},
                    "metadata": {},
                    "container": {
                        "name": "",
                        "image": image,
                        "command": ["/reports"],
                        "args": ["{{inputs.parameters.step}}", "--date", "{{workflow.parameters.date}}"],
                        "resources": {},
                    },
                },
            ],
        },
    }


def fnv32a(text: str) -> int:
    """FNV-1a, 32 bits: what node ids are made of."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def node_id(workflow_name: str, node_name: str) -> str:
    return workflow_name if node_name == workflow_name else f"{workflow_name}-{fnv32a(node_name)}"


def dag_node(workflow_name: str, now: str) -> dict:
    """The root node, of the entrypoint."""
    return {
        "id": workflow_name,
        "name": workflow_name,
        "displayName": workflow_name,
        "type": "DAG",
        "templateName": "main",
        "templateScope": f"local/{workflow_name}",
        "phase": "Running",
        "startedAt": now,
        "finishedAt": None,
        "progress": f"0/{len(TASKS)}",
        "children": [],
    }


def pod_node(workflow_name: str, task: str, host: str, now: str) -> dict:
    name = f"{workflow_name}.{task}"
    return {
        "id": node_id(workflow_name, name),
        "name": name,
        "displayName": task,
        "type": "Pod",
        "templateName": "report-step",
        "templateScope": f"local/{workflow_name}",
        "phase": "Running",
        "boundaryID": workflow_name,
        "hostNodeName": host,
        "startedAt": now,
        "finishedAt": None,
        "progress": "0/1",
        "inputs": {"parameters": [{"name": "step", "value": task}]},
    }


def node_pod(owner: dict, node: dict) -> dict:
    """The Pod that runs a node."""
    workflow_name = owner["metadata"]["name"]
    metadata = workload.object_meta(
        f"{workflow_name}-report-step-{node['id'].rpartition('-')[2]}",
        owner["metadata"]["namespace"],
        {WORKFLOW_LABEL: workflow_name, COMPLETED_LABEL: "false"},
        {NODE_ANNOTATION: node["name"], "workflows.argoproj.io/node-id": node["id"]},
    )
    metadata["ownerReferences"] = [workload.owner_reference(owner)]
    image = next(t["container"]["image"] for t in owner["spec"]["templates"] if "container" in t)
    return {
        "metadata": metadata,
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": image,
                    "command": ["/reports"],
                    "args": [node["displayName"]],
                    "resources": {},
                }
            ],
            "restartPolicy": "Never",
            "nodeName": node["hostNodeName"],
            "serviceAccountName": owner["spec"].get("serviceAccountName", "default"),
        },
        "status": {"phase": "Running", "startTime": node["startedAt"], "qosClass": "BestEffort"},
    }
