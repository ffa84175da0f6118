"""The resource types the demo cluster serves, and the discovery documents that describe them.

A ResourceType is a value: it is made once here, compared by identity of its fields, and used as a key
everywhere else. The discovery documents follow the Kubernetes API conventions (APIVersions, APIGroupList,
APIResourceList).
"""

from __future__ import annotations

from dataclasses import dataclass

GIT_VERSION = "v1.29.0+demo"
DEMO_LABEL = "culvert.dev/demo-cluster"

READ_WRITE = ("create", "delete", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class ResourceType:
    """One served resource: its address in the API and the rules that differ from type to type."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    custom: bool = False  # from a CustomResourceDefinition: list items keep kind and apiVersion
    status_subresource: bool = False  # status is written at <object>/status and ignored elsewhere
    generation: bool = False  # metadata.generation counts changes of the wanted state
    verbs: tuple[str, ...] = READ_WRITE

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The name used in error messages: `pods`, `applications.argoproj.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"


ARGO = "argoproj.io"

NAMESPACES = ResourceType("", "v1", "namespaces", "Namespace", namespaced=False, short_names=("ns",))
PODS = ResourceType("", "v1", "pods", "Pod", short_names=("po",), status_subresource=True)
SERVICES = ResourceType("", "v1", "services", "Service", short_names=("svc",))
SECRETS = ResourceType("", "v1", "secrets", "Secret")
CONFIG_MAPS = ResourceType("", "v1", "configmaps", "ConfigMap", short_names=("cm",))
EVENTS = ResourceType("", "v1", "events", "Event", short_names=("ev",))
DEPLOYMENTS = ResourceType(
    "apps", "v1", "deployments", "Deployment", short_names=("deploy",), status_subresource=True, generation=True
)
REPLICA_SETS = ResourceType(
    "apps", "v1", "replicasets", "ReplicaSet", short_names=("rs",), status_subresource=True, generation=True
)
APPLICATIONS = ResourceType(
    ARGO, "v1alpha1", "applications", "Application", short_names=("app", "apps"), custom=True, generation=True
)
APPLICATION_SETS = ResourceType(
    ARGO,
    "v1alpha1",
    "applicationsets",
    "ApplicationSet",
    short_names=("appset", "appsets"),
    custom=True,
    status_subresource=True,
    generation=True,
)
APP_PROJECTS = ResourceType(
    ARGO, "v1alpha1", "appprojects", "AppProject", short_names=("appproj", "appprojs"), custom=True, generation=True
)
ROLLOUTS = ResourceType(
    ARGO,
    "v1alpha1",
    "rollouts",
    "Rollout",
    short_names=("ro",),
    custom=True,
    status_subresource=True,
    generation=True,
)
ANALYSIS_RUNS = ResourceType(
    ARGO, "v1alpha1", "analysisruns", "AnalysisRun", short_names=("ar",), custom=True, generation=True
)
WORKFLOWS = ResourceType(ARGO, "v1alpha1", "workflows", "Workflow", short_names=("wf",), custom=True, generation=True)
CUSTOM_RESOURCE_DEFINITIONS = ResourceType(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
    short_names=("crd", "crds"),
    verbs=("get", "list", "watch"),
)

TYPES: tuple[ResourceType, ...] = (
    NAMESPACES,
    PODS,
    SERVICES,
    SECRETS,
    CONFIG_MAPS,
    EVENTS,
    DEPLOYMENTS,
    REPLICA_SETS,
    APPLICATIONS,
    APPLICATION_SETS,
    APP_PROJECTS,
    ROLLOUTS,
    ANALYSIS_RUNS,
    WORKFLOWS,
    CUSTOM_RESOURCE_DEFINITIONS,
)

_BY_PATH = {(t.group, t.version, t.plural): t for t in TYPES}
_BY_KIND = {(t.group, t.kind): t for t in TYPES}


def by_path(group: str, version: str, plural: str) -> ResourceType | None:
    return _BY_PATH.get((group, version, plural))


def by_kind(group: str, kind: str) -> ResourceType | None:
    return _BY_KIND.get((group, kind))


def version_document() -> dict:
    """What GET /version answers. The suffix says that this is a demo cluster."""
    return {
        "major": "1",
        "minor": "29",
        "gitVersion": GIT_VERSION,
        "gitCommit": "demo",
        "gitTreeState": "clean",
        "buildDate": "2024-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": "linux/amd64",
    }


def api_versions_document(address: str) -> dict:
    """GET /api: the versions of the core group."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def api_group_list_document() -> dict:
    """GET /apis: every named group."""
    names = sorted({t.group for t in TYPES if t.group})
    groups = [document for name in names if (document := api_group_document(name)) is not None]
    for group in groups:
        del group["kind"], group["apiVersion"]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group_document(group: str) -> dict | None:
    """GET /apis/<group>; None when there is no such group."""
    versions = sorted({t.version for t in TYPES if t.group == group})
    if not group or not versions:
        return None
    offers = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": group,
        "versions": offers,
        "preferredVersion": offers[-1],
    }


def api_resource_list_document(group: str, version: str) -> dict | None:
    """GET /api/v1 and /apis/<group>/<version>; None when there is no such version."""
    served = [t for t in TYPES if t.group == group and t.version == version]
    if not served:
        return None
    resources = []
    for resource_type in served:
        entry = {
            "name": resource_type.plural,
            "singularName": resource_type.kind.lower(),
            "namespaced": resource_type.namespaced,
            "kind": resource_type.kind,
            "verbs": list(resource_type.verbs),
        }
        if resource_type in (PODS, SERVICES, DEPLOYMENTS, REPLICA_SETS):
            entry["categories"] = ["all"]
        if resource_type.short_names:
            entry["shortNames"] = list(resource_type.short_names)
        resources.append(entry)
        if resource_type.status_subresource:
            resources.append(
                {
                    "name": f"{resource_type.plural}/status",
                    "singularName": "",
                    "namespaced": resource_type.namespaced,
                    "kind": resource_type.kind,
                    "verbs": ["get", "patch", "update"],
                }
            )
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": resources,
    }
