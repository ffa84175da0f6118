"""Argo Rollouts objects in the shapes of their CRDs: Rollout (canary) and AnalysisRun."""

from __future__ import annotations

import hashlib
import json

import workload

CANARY_STEPS = [
    {"setWeight": 20},
    {"pause": {"duration": "30s"}},
    {"setWeight": 40},
    {"analysis": {"templates": [{"templateName": "success-rate"}]}},
    {"setWeight": 60},
    {"pause": {}},
    {"setWeight": 80},
    {"pause": {"duration": "30s"}},
]


def rollout(metadata: dict, selector: dict, template: dict, replicas: int, stable: str, canary: str) -> dict:
    return {
        "metadata": metadata,
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 3,
            "progressDeadlineSeconds": 600,
            "progressDeadlineAbort": True,
            "selector": {"matchLabels": dict(selector)},
            "strategy": {
                "canary": {
                    "stableService": stable,
                    "canaryService": canary,
                    "maxSurge": "25%",
                    "maxUnavailable": 0,
                    "steps": CANARY_STEPS,
                }
            },
            "template": template,
        },
        "status": {},
    }


def steps_of(document: dict) -> list[dict]:
    return document["spec"].get("strategy", {}).get("canary", {}).get("steps") or []


def steps_hash(document: dict) -> str:
    """status.currentStepHash: changes when the steps are edited."""
    digest = hashlib.sha256(json.dumps(steps_of(document), sort_keys=True).encode()).digest()
    return workload.safe_name(int.from_bytes(digest[:8], "big"), 10)


def analysis_run(owner: dict, pod_hash: str, step: int, revision: int, stable_hash: str, now: str) -> dict:
    """The run that a canary's analysis step starts."""
    name = f"{owner['metadata']['name']}-{pod_hash}-{revision}-{step}"
    metadata = workload.object_meta(
        name,
        owner["metadata"]["namespace"],
        {"rollout-type": "Step", "step-index": str(step), workload.ROLLOUT_HASH_LABEL: pod_hash},
        {"rollout.argoproj.io/revision": str(revision)},
    )
    metadata["ownerReferences"] = [workload.owner_reference(owner)]
    query = f'sum(rate(requests_total{{pod_hash="{pod_hash}",code!~"5.."}}[1m]))'
    return {
        "metadata": metadata,
        "spec": {
            "args": [{"name": "stable-hash", "value": stable_hash}],
            "metrics": [
                {
                    "name": "success-rate",
                    "interval": "5s",
                    "count": 3,
                    "successCondition": "result[0] >= 0.95",
                    "failureLimit": 1,
                    "provider": {"prometheus": {"address": "http://prometheus.monitoring:9090", "query": query}},
                }
            ],
        },
        "status": {"phase": "Running", "startedAt": now, "metricResults": []},
    }
