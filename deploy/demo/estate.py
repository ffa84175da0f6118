"""What stands in the demo cluster when it begins: namespaces, Argo's own parts, secrets, projects, plans."""

from __future__ import annotations

import base64
import gzip
import json

import workload
from application import ARGOCD_NAMESPACE, EXTERNAL_CLUSTER, IN_CLUSTER, IN_CLUSTER_NAME, Plan, app_project
from namespace import namespace
from object_store import ObjectStore
from resource_types import (
    APP_PROJECTS,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    SECRETS,
    SERVICES,
    TYPES,
)
from world import World

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

# name, project, namespace, shape, replicas, automated
_TEMPLATES = (
    ("storefront", "shop", "shop", "web", 3, True),
    ("checkout", "shop", "shop", "canary", 5, True),
    ("catalog", "shop", "shop", "web", 2, False),
    ("nightly-reports", "finance", "reports", "reports", 1, True),
    ("accounts", "finance", "finance", "web", 2, True),
    ("edge-gateway", "platform", "edge", "web", 2, True),
)

_ARGO_PARTS = (
    (ARGOCD_NAMESPACE, "argocd-server", "quay.io/argoproj/argocd:v2.12.6", "argocd"),
    (ARGOCD_NAMESPACE, "argocd-repo-server", "quay.io/argoproj/argocd:v2.12.6", "argocd"),
    ("argo-rollouts", "argo-rollouts", "quay.io/argoproj/argo-rollouts:v1.7.2", "argo-rollouts"),
    ("argo", "workflow-controller", "quay.io/argoproj/workflow-controller:v3.5.10", "argo-workflows"),
    ("argo", "argo-server", "quay.io/argoproj/argocli:v3.5.10", "argo-workflows"),
)


def plans(world: World, count: int, cluster_name: str) -> list[Plan]:
    """The applications to be; beyond the six of the template they repeat with a number. `cluster_name`: this cluster's,
    when its owner gave it another than "in-cluster"; one application is then destined to it by that name."""
    made = []
    for index in range(count):
        name, project, where, shape, replicas, automated = _TEMPLATES[index % len(_TEMPLATES)]
        number = index // len(_TEMPLATES) + 1
        suffix = f"-{number}" if number > 1 else ""
        plan = Plan(
            name=name + suffix,
            project=project,
            namespace=where + suffix,
            path=f"apps/{name}{suffix}/overlays/demo",
            shape=shape,
            image=f"registry.demo.invalid/{project}/{name}",
            replicas=replicas,
            automated=automated,
            several_sources=name == "catalog",
            source_type="Helm" if name == "catalog" else "Kustomize",
        )
        if name == "edge-gateway":
            plan.server = EXTERNAL_CLUSTER
        if name == "accounts" and cluster_name != IN_CLUSTER_NAME:
            plan.cluster_name = cluster_name
        if name == "storefront":
            plan.external_url = f"https://{plan.name}.demo.invalid/"
            plan.password_in_environment = f"smtp-{world.hexadecimal(20)}"
        if name in ("catalog", "checkout", "accounts"):
            password = world.hexadecimal(24)
            plan.secret_data = {
                "database-url": f"postgres://{name}:{password}@db.{where}.svc:5432/{name}?sslmode=verify-full",
                "password": password,
                "api-key": f"demo_live_{world.hexadecimal(32)}",
            }
        made.append(plan)
    return made


def build(world: World, store: ObjectStore, cluster_name: str) -> list[str]:
    """Puts everything but the applications in place. Returns plain secret values that no report may contain."""
    for name in ("default", "kube-system", ARGOCD_NAMESPACE, "argo-rollouts", "argo"):
        store.create(NAMESPACES, namespace(name))
    for project in ("default", "shop", "finance", "platform"):
        store.create(APP_PROJECTS, app_project(project, f"Applications of the {project} team"))
    for where, name, image, part_of in _ARGO_PARTS:
        _argo_part(store, where, name, image, part_of)
    settings = {"url": "https://argocd.demo.invalid", "application.resourceTrackingMethod": "annotation"}
    labels = {"app.kubernetes.io/part-of": "argocd"}
    store.create(
        CONFIG_MAPS, workload.config_map(workload.object_meta("argocd-cm", ARGOCD_NAMESPACE, labels), settings)
    )
    for resource_type in TYPES:
        if resource_type.custom:
            store.create(CUSTOM_RESOURCE_DEFINITIONS, _definition(resource_type, world.stamp()))
    if cluster_name != IN_CLUSTER_NAME:
        _rename_cluster(store, cluster_name)
    return _secrets(world, store)


def _rename_cluster(store: ObjectStore, name: str) -> None:
    """As `argocd cluster add` or `argocd cluster set --name` do it for the cluster that Argo CD runs in."""
    metadata = workload.object_meta("cluster-home", ARGOCD_NAMESPACE, {"argocd.argoproj.io/secret-type": "cluster"})
    config = json.dumps({"tlsClientConfig": {"insecure": False}})
    store.create(SECRETS, workload.secret(metadata, {"name": name, "server": IN_CLUSTER, "config": config}))


def _argo_part(store: ObjectStore, where: str, name: str, image: str, part_of: str) -> None:
    labels = {
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/part-of": part_of,
        "app.kubernetes.io/version": image.rpartition(":")[2],
    }
    selector = {"app.kubernetes.io/name": name}
    metadata = workload.object_meta(name, where, labels)
    template = workload.pod_template(selector, name, image, 8080)
    store.create(DEPLOYMENTS, workload.deployment(metadata, selector, template, 1))
    if name.endswith("-server"):
        address = f"10.43.0.{20 + len(name)}"
        store.create(SERVICES, workload.service(workload.object_meta(name, where, labels), selector, 8080, address))


def _secrets(world: World, store: ObjectStore) -> list[str]:
    """Secrets of every kind that a reporter meets; all values are made up on the spot."""
    token, password, key = world.hexadecimal(64), world.hexadecimal(24), world.chance.randbytes(600)
    admin, release_password = world.hexadecimal(16), world.hexadecimal(24)
    pem = "\n".join(
        (
            "-----BEGIN PRIVATE KEY-----",
            *(base64.b64encode(key[start : start + 48]).decode() for start in range(0, len(key), 48)),
            "-----END PRIVATE KEY-----\n",
        )
    )
    connection = {
        "bearerToken": token,
        "tlsClientConfig": {"insecure": False, "caData": base64.b64encode(b"demo cluster: no certificate").decode()},
    }
    kind = "argocd.argoproj.io/secret-type"
    place = ARGOCD_NAMESPACE
    cluster = {"name": "edge-eu-1", "server": EXTERNAL_CLUSTER, "config": json.dumps(connection)}
    metadata = workload.object_meta("cluster-edge-eu-1", place, {kind: "cluster"}, {"region": "eu"})
    store.create(SECRETS, workload.secret(metadata, cluster))
    repository = {
        "type": "git",
        "url": "https://git.demo.invalid/shop/deploy.git",
        "username": "deploy-bot",
        "password": password,
    }
    metadata = workload.object_meta("repo-shop-deploy", place, {kind: "repository"})
    document = workload.secret(metadata, repository)
    # kubectl apply leaves a second copy of the values here, and a reporter has to know it.
    document["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(document)}
    store.create(SECRETS, document)
    metadata = workload.object_meta("argocd-initial-admin-secret", place)
    store.create(SECRETS, workload.secret(metadata, {"password": admin}))
    tls = {"tls.crt": "-----BEGIN CERTIFICATE-----\nZGVtbw==\n-----END CERTIFICATE-----\n", "tls.key": pem}
    store.create(SECRETS, workload.secret(workload.object_meta("argocd-server-tls", place), tls, "kubernetes.io/tls"))
    release = {"name": "redis", "version": 1, "config": {"auth": {"password": release_password}}, "manifest": ""}
    packed = base64.b64encode(gzip.compress(json.dumps(release).encode(), mtime=0))
    metadata = workload.object_meta(
        "sh.helm.release.v1.redis.v1", place, {"owner": "helm", "name": "redis", "version": "1", "status": "deployed"}
    )
    store.create(SECRETS, workload.secret(metadata, {"release": packed}, "helm.sh/release.v1"))
    return [token, password, admin, release_password, pem.splitlines()[1]]


def _definition(resource_type, now: str) -> dict:
    """A CustomResourceDefinition, with a schema that accepts everything."""
    scope = "Namespaced" if resource_type.namespaced else "Cluster"
    names = {
        "plural": resource_type.plural,
        "singular": resource_type.kind.lower(),
        "kind": resource_type.kind,
        "listKind": resource_type.list_kind,
        "shortNames": list(resource_type.short_names),
    }
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": resource_type.version, "served": True, "storage": True, "schema": schema}
    if resource_type.status_subresource:
        version["subresources"] = {"status": {}}
    conditions = [
        {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": now}
        for kind, reason in (("NamesAccepted", "NoConflicts"), ("Established", "InitialNamesAccepted"))
    ]
    return {
        "metadata": {"name": resource_type.qualified},
        "spec": {"group": resource_type.group, "names": names, "scope": scope, "versions": [version]},
        "status": {"acceptedNames": names, "conditions": conditions, "storedVersions": [resource_type.version]},
    }
