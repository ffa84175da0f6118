"""Argo CD objects in the shapes of their CRDs, and what an application is made of in the demo's imagined Git.

A Plan says what an application deploys, a Release is one commit of it; `manifests` is what Git holds at a
release. Nothing here touches a store.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import rollout
import workflow
import workload
from resource_types import CONFIG_MAPS, DEPLOYMENTS, ROLLOUTS, SECRETS, SERVICES, WORKFLOWS, ResourceType

ARGOCD_NAMESPACE = "argocd"
IN_CLUSTER_NAME = "in-cluster"
IN_CLUSTER = "https://kubernetes.default.svc"
EXTERNAL_CLUSTER = "https://edge-eu-1.clusters.demo.invalid:6443"
HISTORY_MAX = 10  # Argo CD's default revisionHistoryLimit

REFRESH_ANNOTATION = "argocd.argoproj.io/refresh"
TRACKING_ANNOTATION = "argocd.argoproj.io/tracking-id"

Manifest = tuple[ResourceType, dict]


@dataclass
class Release:
    """One commit of an application's manifests."""

    revision: str
    tag: str
    rejected: bool = False  # its manifests do not pass the API server's validation


@dataclass
class Plan:
    """What an application is and deploys."""

    name: str
    project: str
    namespace: str
    path: str
    shape: str  # web: a Deployment, canary: a Rollout, reports: a Workflow
    image: str
    replicas: int = 2
    automated: bool = True
    several_sources: bool = False
    server: str = IN_CLUSTER
    cluster_name: str = ""  # the destination by name; empty: by server
    source_type: str = "Kustomize"
    external_url: str = ""
    secret_data: dict[str, str] = field(default_factory=dict)  # plain values; empty = no Secret
    password_in_environment: str = ""  # bad practice on purpose: a literal secret in a pod template

    @property
    def repository(self) -> str:
        return f"https://git.demo.invalid/{self.project}/deploy.git"


def application(plan: Plan) -> dict:
    """The Application as its author wrote it."""
    destination = {"name": plan.cluster_name} if plan.cluster_name else {"server": plan.server}
    spec: dict = {
        "project": plan.project,
        "destination": {**destination, "namespace": plan.namespace},
        "syncPolicy": {"syncOptions": ["CreateNamespace=true", "PruneLast=true"]},
    }
    source = {"repoURL": plan.repository, "path": plan.path, "targetRevision": "HEAD"}
    if plan.several_sources:
        values = {"repoURL": f"https://git.demo.invalid/{plan.project}/values.git", "targetRevision": "HEAD"}
        spec["sources"] = [source, {**values, "ref": "values"}]
    else:
        spec["source"] = source
    if plan.automated:
        spec["syncPolicy"]["automated"] = {"prune": True, "selfHeal": True}
        spec["syncPolicy"]["retry"] = {"limit": 5, "backoff": {"duration": "5s", "factor": 2, "maxDuration": "3m"}}
    labels = {"app.kubernetes.io/part-of": plan.project, "team": plan.project}
    metadata = workload.object_meta(plan.name, ARGOCD_NAMESPACE, labels)
    metadata["managedFields"] = [
        {
            "manager": "argocd-application-controller",
            "operation": "Update",
            "apiVersion": "argoproj.io/v1alpha1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:status": {"f:health": {}, "f:sync": {}, "f:resources": {}}},
        }
    ]
    return {"metadata": metadata, "spec": spec}


def app_project(name: str, description: str) -> dict:
    return {
        "metadata": workload.object_meta(name, ARGOCD_NAMESPACE),
        "spec": {
            "description": description,
            "sourceRepos": ["*"],
            "destinations": [{"server": "*", "namespace": "*"}],
            "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
        },
        "status": {},
    }


def source_fields(document: dict) -> dict:
    """`source` or `sources` of an Application, as its status repeats them."""
    spec = document["spec"]
    if spec.get("sources"):
        return {"sources": spec["sources"]}
    return {"source": spec.get("source", {"repoURL": ""})}


def revision_fields(document: dict, revision: str) -> dict:
    """`revision`, or `revisions` with one entry for each source."""
    sources = document["spec"].get("sources")
    return {"revisions": [revision] * len(sources)} if sources else {"revision": revision}


def _meta(plan: Plan, resource_type: ResourceType, name: str, release: Release | None = None) -> dict:
    """Metadata with Argo CD's tracking; only what a release changes carries its version."""
    tracking = f"{plan.name}:{resource_type.group}/{resource_type.kind}:{plan.namespace}/{name}"
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/instance": plan.name}
    if release is not None:
        labels["app.kubernetes.io/version"] = release.tag
    return workload.object_meta(name, plan.namespace, labels, {TRACKING_ANNOTATION: tracking})


def _template(plan: Plan, selector: dict, image: str) -> dict:
    environment: list[dict] = [{"name": "LOG_LEVEL", "value": "info"}]
    if plan.secret_data:
        reference = {"name": f"{plan.name}-credentials", "key": sorted(plan.secret_data)[0]}
        environment.append({"name": "CREDENTIAL", "valueFrom": {"secretKeyRef": reference}})
    if plan.password_in_environment:
        environment.append({"name": "SMTP_PASSWORD", "value": plan.password_in_environment})
    return workload.pod_template(selector, plan.name, image, 8080, environment)


def _cluster_ip(plan: Plan, name: str) -> str:
    number = workflow.fnv32a(f"{plan.namespace}/{name}")
    return f"10.43.{number >> 8 & 255}.{2 + number % 250}"


def _service(plan: Plan, name: str, selector: dict) -> Manifest:
    metadata = _meta(plan, SERVICES, name)
    return SERVICES, workload.service(metadata, selector, 8080, _cluster_ip(plan, name))


def verdict(document: dict) -> tuple[str, str]:
    """The sync and health status of an Application, whatever a client may have written into it."""
    current = document.get("status", {})
    parts = (current.get("sync"), current.get("health"))
    sync, health = (str(part.get("status", "")) if isinstance(part, dict) else "" for part in parts)
    return sync or "Unknown", health or "Unknown"


def manifests(plan: Plan, release: Release) -> list[Manifest]:
    """What Git holds for the application at a release, in the order Argo CD applies it."""
    image, selector = f"{plan.image}:{release.tag}", {"app": plan.name}
    wanted: list[Manifest] = []
    if plan.secret_data:
        metadata = _meta(plan, SECRETS, f"{plan.name}-credentials")
        wanted.append((SECRETS, workload.secret(metadata, plan.secret_data)))
    settings = {"log.level": "info", "settings.yaml": f"name: {plan.name}\nregion: eu\n"}
    wanted.append((CONFIG_MAPS, workload.config_map(_meta(plan, CONFIG_MAPS, f"{plan.name}-settings"), settings)))
    template = _template(plan, selector, image)
    if plan.shape == "web":
        wanted.append(_service(plan, plan.name, selector))
        metadata = _meta(plan, DEPLOYMENTS, plan.name, release)
        wanted.append((DEPLOYMENTS, workload.deployment(metadata, selector, template, plan.replicas)))
    elif plan.shape == "canary":
        stable, canary = f"{plan.name}-stable", f"{plan.name}-canary"
        wanted += [_service(plan, stable, selector), _service(plan, canary, selector)]
        metadata = _meta(plan, ROLLOUTS, plan.name, release)
        wanted.append((ROLLOUTS, rollout.rollout(metadata, selector, template, plan.replicas, stable, canary)))
    else:
        name = f"{plan.name}-{release.tag.replace('.', '-')}"
        wanted.append((WORKFLOWS, workflow.workflow(_meta(plan, WORKFLOWS, name, release), image, "2024-01-01")))
    return wanted


def history_entry(
    document: dict, identifier: int, revision: str, started_at: str, deployed_at: str, initiated_by: dict
) -> dict:
    return {
        "id": identifier,
        **revision_fields(document, revision),
        "deployStartedAt": started_at,
        "deployedAt": deployed_at,
        **source_fields(document),
        "initiatedBy": initiated_by,
    }


def resource_status(resource_type: ResourceType, namespace: str, name: str, sync: str, health: dict | None) -> dict:
    """One entry of status.resources."""
    entry: dict = {
        "version": resource_type.version,
        "kind": resource_type.kind,
        "namespace": namespace,
        "name": name,
        "status": sync,
    }
    if resource_type.group:
        entry["group"] = resource_type.group
    if health is not None:
        entry["health"] = health
    return entry


# Argo CD leaves what it applied at Running here; only hooks go on from there.
_HOOK_PHASES = {"Synced": "Running", "SyncFailed": "Failed"}


def sync_result(resource_type: ResourceType, namespace: str, name: str, message: str, synced: str = "Synced") -> dict:
    """One entry of status.operationState.syncResult.resources."""
    return {
        "group": resource_type.group,
        "version": resource_type.version,
        "kind": resource_type.kind,
        "namespace": namespace,
        "name": name,
        "status": synced,
        "message": message,
        "hookPhase": _HOOK_PHASES.get(synced, "Succeeded"),
        "syncPhase": "Sync",
    }
