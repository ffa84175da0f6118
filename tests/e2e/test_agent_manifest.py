"""deploy/agent.yaml: what it runs is what the agent takes, as restricted as Kubernetes' own standard wants it."""

import os
import pathlib
import subprocess

import pytest

from conftest import build_folder

yaml = pytest.importorskip("yaml")
DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"


def documents(name):
    return {document["kind"]: document for document in yaml.safe_load_all((DEPLOY / name).read_text()) if document}


def test_the_agent_in_its_cluster(tmp_path):
    made, rbac = documents("agent.yaml"), documents("agent-rbac.yaml")
    pod = made["Deployment"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert made["Deployment"]["metadata"]["namespace"] == made["ConfigMap"]["metadata"]["namespace"] == rbac["ServiceAccount"]["metadata"]["namespace"]
    assert pod["serviceAccountName"] == rbac["ServiceAccount"]["metadata"]["name"]
    # Pod Security Standards, "Restricted".
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert not pod.get("hostNetwork") and not [volume for volume in pod["volumes"] if "hostPath" in volume]
    # The settings are the agent's, and every file that they name is mounted.
    settings = made["ConfigMap"]["data"]["agent.conf"]
    (tmp_path / "agent.conf").write_text(settings)
    (tmp_path / "token").write_text("0123456789abcdef01234567." + "ab" * 32)
    words = [build_folder("asan") / "agent/culvert-agent", "--config", tmp_path / "agent.conf", "--check-config", f"--runtime.token_file={tmp_path}/token"]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "CULVERT_INSTANCE_ID": "pod"})
    assert done.returncode == 0, done.stderr
    values = dict(line.split(" = ", 1) for line in settings.splitlines() if " = " in line and not line.startswith("#"))
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    for path in [values["runtime.token_file"], values["reporter.state_dir"] + "/redaction.key", container["args"][-1]]:
        assert any(path == mount or path.startswith(mount + "/") for mount in mounts), path
    port = {each["name"]: each["containerPort"] for each in container["ports"]}["admin"]
    assert values["admin.listen"].endswith(f":{port}")
    assert (container["livenessProbe"]["httpGet"]["path"], container["readinessProbe"]["httpGet"]["path"]) == ("/livez", "/readyz")
