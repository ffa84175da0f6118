"""Workload objects in the shapes of their types: Deployment, ReplicaSet, Pod, Service, ConfigMap, Secret.

Functions here only build documents; what happens to them afterwards is workload_controller.py.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Mapping

from object_store import clone

NAME_CHARS = "bcdfghjklmnpqrstvwxz2456789"  # what Kubernetes draws generated names and hashes from
HASH_LABEL = "pod-template-hash"
ROLLOUT_HASH_LABEL = "rollouts-pod-template-hash"


def safe_name(number: int, length: int) -> str:
    """A number spelt in the characters of generated names."""
    text = ""
    for _ in range(length):
        number, digit = divmod(number, len(NAME_CHARS))
        text += NAME_CHARS[digit]
    return text


def template_hash(template: dict) -> str:
    """A stable short hash of a pod template, as ReplicaSets are named after."""
    digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).digest()
    return safe_name(int.from_bytes(digest[:8], "big"), 10)


def object_meta(name: str, namespace: str, labels: dict | None = None, annotations: dict | None = None) -> dict:
    metadata: dict = {"name": name, "namespace": namespace}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    return metadata


def owner_reference(owner: dict) -> dict:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_template(labels: dict, container: str, image: str, port: int, environment: list[dict] | None = None) -> dict:
    return {
        "metadata": {"creationTimestamp": None, "labels": dict(labels)},
        "spec": {
            "containers": [
                {
                    "name": container,
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "ports": [{"name": "http", "containerPort": port, "protocol": "TCP"}],
                    "env": environment or [],
                    "resources": {
                        "requests": {"cpu": "50m", "memory": "64Mi"},
                        "limits": {"memory": "128Mi"},
                    },
                    "readinessProbe": {
                        "httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"},
                        "periodSeconds": 5,
                        "timeoutSeconds": 1,
                        "successThreshold": 1,
                        "failureThreshold": 3,
                    },
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                }
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "securityContext": {"runAsNonRoot": True},
            "schedulerName": "default-scheduler",
        },
    }


def deployment(metadata: dict, selector: dict, template: dict, replicas: int) -> dict:
    return {
        "metadata": metadata,
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": dict(selector)},
            "template": template,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            "revisionHistoryLimit": 3,
            "progressDeadlineSeconds": 600,
        },
        "status": {},
    }


def replica_set(owner: dict, hash_label: str, pod_hash: str, revision: int) -> dict:
    """A ReplicaSet of a Deployment or Rollout for the owner's present template, with no replicas yet."""
    template = clone(owner["spec"]["template"])
    labels = {**(template["metadata"].get("labels") or {}), hash_label: pod_hash}
    template["metadata"]["labels"] = labels
    prefix = "rollout.argoproj.io" if owner["kind"] == "Rollout" else "deployment.kubernetes.io"
    metadata = object_meta(
        f"{owner['metadata']['name']}-{pod_hash}",
        owner["metadata"]["namespace"],
        labels,
        {
            f"{prefix}/desired-replicas": str(owner["spec"].get("replicas", 1)),
            f"{prefix}/revision": str(revision),
        },
    )
    metadata["ownerReferences"] = [owner_reference(owner)]
    selector = {**owner["spec"]["selector"]["matchLabels"], hash_label: pod_hash}
    return {
        "metadata": metadata,
        "spec": {"replicas": 0, "selector": {"matchLabels": selector}, "template": template},
        "status": {"replicas": 0},
    }


def pod(owner: dict, name: str, node: str) -> dict:
    """A Pod of a ReplicaSet as the scheduler leaves it: bound to a node, containers not started."""
    template = owner["spec"]["template"]
    metadata = object_meta(name, owner["metadata"]["namespace"], template["metadata"].get("labels"))
    metadata["generateName"] = f"{owner['metadata']['name']}-"
    metadata["ownerReferences"] = [owner_reference(owner)]
    spec = clone(template["spec"])
    spec["nodeName"] = node
    spec["serviceAccountName"] = "default"
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending", "qosClass": "Burstable"}}


def service(metadata: dict, selector: dict, port: int, cluster_ip: str) -> dict:
    return {
        "metadata": metadata,
        "spec": {
            "type": "ClusterIP",
            "clusterIP": cluster_ip,
            "clusterIPs": [cluster_ip],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
            "sessionAffinity": "None",
            "selector": dict(selector),
            "ports": [{"name": "http", "port": 80, "targetPort": port, "protocol": "TCP"}],
        },
        "status": {"loadBalancer": {}},
    }


def config_map(metadata: dict, data: dict[str, str]) -> dict:
    return {"metadata": metadata, "data": dict(data)}


def secret(metadata: dict, data: Mapping[str, str | bytes], secret_type: str = "Opaque") -> dict:
    """A Secret from plain values."""
    encoded = {
        key: base64.b64encode(value if isinstance(value, bytes) else value.encode()).decode()
        for key, value in data.items()
    }
    return {"metadata": metadata, "type": secret_type, "data": encoded}


def images_of(document: dict) -> list[str]:
    """The container images that a workload's pod template names."""
    spec = document.get("spec", {}).get("template", {}).get("spec", {})
    containers = [*spec.get("initContainers", ()), *spec.get("containers", ())]
    return [container["image"] for container in containers if "image" in container]
