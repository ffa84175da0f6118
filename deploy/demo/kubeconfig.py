"""A kubeconfig for the demo cluster, and files that appear whole or not at all."""

from __future__ import annotations

import base64
import json
import os

NAME = "culvert-demo-cluster"


def write_file(path: str, content: str, mode: int) -> None:
    """Writes a file under a temporary name and moves it into place."""
    temporary = f"{path}.{os.getpid()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
    try:
        os.fchmod(descriptor, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def kubeconfig(server: str, certificate_authority: bytes, token: str) -> str:
    """The document, as JSON, which is YAML too and needs no library to write."""
    authority = base64.b64encode(certificate_authority).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [{"name": NAME, "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": "default"}}],
        "current-context": NAME,
    }
    return json.dumps(config, indent=2) + "\n"
