"""How well a resource is, judged by the rules Argo CD judges by (its built-in checks and Lua scripts)."""

from __future__ import annotations

# From best to worst; an application is as well as its worst resource.
ORDER = ("Healthy", "Suspended", "Progressing", "Missing", "Degraded", "Unknown")


def worst(healths: list[str]) -> str:
    return max(healths, key=ORDER.index, default="Healthy")


def has_health(kind: str) -> bool:
    return kind in _JUDGES


def health_of(document: dict) -> dict | None:
    """{status, message?} of a live resource; None for kinds that have no health."""
    judge = _JUDGES.get(document["kind"])
    if judge is None:
        return None
    verdict, message = judge(document)
    return {"status": verdict, "message": message} if message else {"status": verdict}


def _deployment(document: dict) -> tuple[str, str]:
    spec, status = document["spec"], document.get("status", {})
    if spec.get("paused"):
        return "Suspended", "Deployment is paused"
    if document["metadata"]["generation"] > status.get("observedGeneration", 0):
        return (
            "Progressing",
            "Waiting for rollout to finish: observed deployment generation less than desired generation",
        )
    for condition in status.get("conditions", ()):
        if condition["type"] == "Progressing" and condition["reason"] == "ProgressDeadlineExceeded":
            return "Degraded", f'Deployment "{document["metadata"]["name"]}" exceeded its progress deadline'
    wanted, updated = spec.get("replicas", 1), status.get("updatedReplicas", 0)
    total, available = status.get("replicas", 0), status.get("availableReplicas", 0)
    if updated < wanted:
        return (
            "Progressing",
            f"Waiting for rollout to finish: {updated} out of {wanted} new replicas have been updated...",
        )
    if total > updated:
        return (
            "Progressing",
            f"Waiting for rollout to finish: {total - updated} old replicas are pending termination...",
        )
    if available < updated:
        return (
            "Progressing",
            f"Waiting for rollout to finish: {available} of {updated} updated replicas are available...",
        )
    return "Healthy", ""


def _rollout(document: dict) -> tuple[str, str]:
    status = document.get("status", {})
    if str(document["metadata"]["generation"]) != status.get("observedGeneration"):
        return "Progressing", "Waiting for rollout spec update to be observed"
    phase = status.get("phase", "Progressing")
    return ("Suspended" if phase == "Paused" else phase), status.get("message", "")


def _workflow(document: dict) -> tuple[str, str]:
    status = document.get("status", {})
    phase = status.get("phase", "")
    if phase == "Succeeded":
        return "Healthy", status.get("message", "")
    if phase in ("Failed", "Error"):
        return "Degraded", status.get("message", "")
    return "Progressing", status.get("message", "")


def _service(_document: dict) -> tuple[str, str]:
    return "Healthy", ""


_JUDGES = {"Deployment": _deployment, "Rollout": _rollout, "Workflow": _workflow, "Service": _service}
