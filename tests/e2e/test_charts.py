"""The Helm charts: what they render is valid settings and objects, and a real API server takes them; the agent's rights are enough.

helm comes with tests/cluster/build argo-cd; without it, and without a kube-apiserver in the cache, these tests are skipped.
"""

import base64
import json
import pathlib
import re
import subprocess
import tempfile

import pytest
import yaml

from conftest import TOP, build_folder
from platform_under_test import Platform
from real_cluster import APPLICATIONS, application, real_cluster  # noqa: F401

CHARTS = TOP / "deploy/charts"
EXAMPLES = sorted(CHARTS.glob("*/examples/*.yaml"))


@pytest.fixture(scope="module")
def helm():
    folder = subprocess.run([TOP / "tests/cluster/build", "--path", "argo-cd"], capture_output=True, text=True).stdout.strip()
    program = pathlib.Path(folder) / "helm"
    if not program.exists():
        pytest.skip("no helm in the cache: tests/cluster/build argo-cd")

    def run(*words, fails=False):
        ended = subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=120)
        assert (ended.returncode != 0) == fails, (words, ended.stdout[-2000:], ended.stderr[-2000:])
        return ended.stderr if fails else ended.stdout

    return run


def rendered(helm, file, *words):
    text = helm("template", "release", file.parents[1], "-n", "culvert", "--kube-version", "1.33.0", "-f", file, *words)
    return [item for item in yaml.safe_load_all(text) if item]


@pytest.mark.parametrize("preset", ["applications", "common", "all-but-secrets", "all"])
def test_the_rights_are_those_that_the_agent_prints(preset):
    printed = subprocess.run([build_folder("asan") / "agent/culvert-agent", "--print-rbac", preset], capture_output=True, text=True, check=True).stdout
    assert (CHARTS / f"culvert-agent/rbac/{preset}.yaml").read_text() == printed


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: f"{file.parents[1].name}-{file.stem}")
def test_examples_render_to_pods_that_the_restricted_profile_admits(helm, file):
    helm("lint", "--strict", file.parents[1], "-f", file)
    pods = [item["spec"]["template"]["spec"] for item in rendered(helm, file) if item["kind"] in ("Deployment", "Job")]
    assert pods
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
            assert not [env for env in container.get("env", []) if "token" in env["name"].lower() or "url" in env["name"].lower()]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: f"{file.parents[1].name}-{file.stem}")
def test_settings_are_those_that_the_programs_know(helm, file, tmp_path):
    settings = next(item["data"] for item in rendered(helm, file) if item["kind"] == "ConfigMap")
    (name, text), = settings.items()
    (tmp_path / name).write_text(text)
    for line in text.splitlines():  # the files are those of the pod
        path = line.partition(" = ")[2].removeprefix("file:")
        if path.startswith(("/etc/culvert/", "/var/lib/culvert")):
            text = text.replace(path, str(tmp_path / path.strip("/").replace("/", "-")))
            (tmp_path / path.strip("/").replace("/", "-")).write_text("ab" * 32 if "key" in path else "postgresql://u@h/d" if "database" in path else "redis://h" if "redis" in path else "x" * 40)
    (tmp_path / "var-lib-culvert").unlink(missing_ok=True)
    (tmp_path / "var-lib-culvert").mkdir()
    (tmp_path / name).write_text(text)
    for secret in tmp_path.iterdir():
        secret.chmod(0o700 if secret.is_dir() else 0o600)
    program = "agent/culvert-agent" if name == "agent.conf" else "server/culvertd"
    ended = subprocess.run([build_folder("asan") / program, "--config", tmp_path / name, "--check-config"], capture_output=True, text=True, env={"CULVERT_PEER_ADDRESS": "10.0.0.1:8447"} if "peer.listen" in text else {})
    assert ended.returncode == 0, (text, ended.stdout, ended.stderr)


def test_a_chart_that_enrolls_makes_the_runtime_token(helm):
    chart = CHARTS / "culvert-agent"
    items = rendered(helm, chart / "examples/enroll.yaml")
    secret = next(item for item in items if item["kind"] == "Secret" and item["metadata"]["name"].endswith("-runtime-token"))
    assert re.fullmatch(r"[0-9a-f]{24}\.[0-9a-f]{64}", base64.b64decode(secret["data"]["token"]).decode()) and secret["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    volumes = {each["name"]: each["secret"] for item in items if item["kind"] == "Deployment" for each in item["spec"]["template"]["spec"]["volumes"] if "secret" in each}
    assert volumes["token"]["secretName"] == secret["metadata"]["name"] and volumes["enrollment"]["optional"] is True
    # A token that is given is taken, and one of the two is needed.
    given = rendered(helm, chart / "examples/enroll.yaml", "--set", "runtimeToken.existingSecret=mine")
    assert not [item for item in given if item["kind"] == "Secret" and "runtime-token" in item["metadata"]["name"]]
    helm("template", "release", chart, "-f", chart / "examples/enroll.yaml", "--set", "enrollment.existingSecret=", fails=True)


def test_alerts_are_those_of_the_rules_file(helm):
    objects = rendered(helm, CHARTS / "culvert/examples/large.yaml", "--set", "prometheusRule.enabled=true,prometheusRule.labels.team=ops,podMonitor.enabled=true")
    rule, = [item for item in objects if item["kind"] == "PrometheusRule"]
    assert rule["spec"] == yaml.safe_load((TOP / "deploy/prometheus/culvert.rules.yaml").read_text()) and rule["metadata"]["labels"]["team"] == "ops"
    assert [item["kind"] for item in objects].count("PodMonitor") == 1
    assert not [item for item in rendered(helm, CHARTS / "culvert/examples/large.yaml") if item["kind"] == "PrometheusRule"]


@pytest.mark.parametrize("chart, values, message", [
    ("culvert-agent", {"platform.url": "https://x"}, "/platform/url"),
    ("culvert-agent", {"global.runtime.name": "Not_a_name"}, "/global/runtime/name"),
    ("culvert-agent", {"rbac.preset": "everything"}, "/rbac/preset"),
    ("culvert-agent", {"unknown": "x"}, "unknown"),
    ("culvert", {"replicaCount": "2"}, "peerTls.existingSecret"),
    ("culvert", {"tls.existingSecret": ""}, "/tls/existingSecret"),
    ("culvert", {"migrations.existingSecret": ""}, "migrations.existingSecret"),
])
def test_wrong_values_are_refused_by_name(helm, chart, values, message):
    example = CHARTS / chart / "examples" / ("small.yaml" if chart == "culvert-agent" else "one.yaml")
    words = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    assert message in helm("template", "x", CHARTS / chart, "--kube-version", "1.33.0", "-f", example, *words, fails=True)


def test_a_real_api_server_takes_them_and_the_agent_has_its_rights(helm, real_cluster):  # noqa: F811
    access = ["--kubeconfig", real_cluster.kubeconfig, "-n", "argocd"]
    agent = CHARTS / "culvert-agent"
    helm("install", "eu-1", agent, *access, "-f", agent / "examples/small.yaml")
    secret = real_cluster.request("GET", "/api/v1/namespaces/argocd/secrets/eu-1-redaction")[1]
    # An upgrade keeps the key of redaction; a platform of one replica without its hook: no Job runs here.
    helm("upgrade", "eu-1", agent, *access, "-f", agent / "examples/small.yaml", "--set", "operations.allowed=refresh", "--set", "networkPolicy.enabled=true")
    assert real_cluster.request("GET", "/api/v1/namespaces/argocd/secrets/eu-1-redaction")[1]["data"] == secret["data"]
    helm("install", "platform", CHARTS / "culvert", *access, "-f", CHARTS / "culvert/examples/large.yaml")
    for path in ("apis/apps/v1/namespaces/argocd/deployments/platform", "apis/autoscaling/v2/namespaces/argocd/horizontalpodautoscalers/platform",
                 "api/v1/namespaces/argocd/services/platform-tunnel", "apis/apps/v1/namespaces/argocd/deployments/eu-1"):
        assert real_cluster.request("GET", f"/{path}")[0] == 200, path

    token = real_cluster.request("POST", "/api/v1/namespaces/argocd/serviceaccounts/eu-1/token", {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}})[1]["status"]["token"]
    assert real_cluster.request("GET", "/api/v1/secrets", token=token)[0] == 403
    assert real_cluster.request("POST", APPLICATIONS, application("charted"))[0] == 201
    with tempfile.TemporaryDirectory(prefix="culvert-e2e.", dir="/var/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        kubeconfig = pathlib.Path(folder) / "kubeconfig"
        kubeconfig.write_text(real_cluster.agent_kubeconfig.read_text().replace(real_cluster.agent_token(), token))
        platform = Platform(pathlib.Path(folder) / "home", build_folder("asan"), kubeconfig)
        try:
            assert ("argocd", "charted") in platform.start().applications()
        finally:
            platform.reset()
    for release in "eu-1", "platform":
        helm("uninstall", release, *access)
    kept = real_cluster.request("GET", "/api/v1/namespaces/argocd/secrets/eu-1-redaction")
    assert kept[0] == 200 and json.dumps(kept[1]["data"]) == json.dumps(secret["data"])
