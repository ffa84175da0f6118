"""What the command line of Codefresh's GitOps sends, in its own words, and what its Go types can decode of the answers."""

import uuid

import pytest

from test_event_shapes import post, sensor

# In Go an element of WorkflowSpec.templates is an interface without a decoder: all but null
# ends `workflow list`.
LIST_WORKFLOWS = """
query Workflows($filters: WorkflowsFilterArgs) {
	workflows(filters: $filters) {
		edges {
			node {
				metadata { uid name namespace runtime }
				projects
				spec {
					entrypoint
					templates { name }
					workflowTemplateRef { name namespace }
				}
				status { phase progress nodes { type name } }
				pipeline { metadata { name namespace } }
			}
		}
	}
}"""
CREATE_RUNTIME = """
mutation CreateRuntime($installationArgs: RuntimeInstallationArgs!) {
	createRuntime(installationArgs: $installationArgs) { name newAccessToken }
}"""
GET_RUNTIME = """
query GetRuntime($name: String!) {
	runtime(name: $name) {
		metadata { name namespace }
		self { syncStatus healthMessage healthStatus }
		syncStatus healthStatus healthMessage cluster managed isRemoteClusterConnected ingressHost internalIngressHost
		ingressClass ingressController runtimeVersion installationStatus installationType repo managedClustersNum
		gitProvider accessMode
	}
}"""


@pytest.fixture()
def place(platform):
    name = "client-" + uuid.uuid4().hex[:12]
    yield name
    platform.psql(f"delete from workflows where namespace = '{name}'")


def test_workflow_list(platform, place):
    uid = uuid.uuid4().hex
    spec = {"entrypoint": "main", "templates": [{"name": "main"}, {"name": "step"}], "workflowTemplateRef": {"name": "ci"}}
    metadata = {"name": "run", "namespace": place, "uid": uid, "creationTimestamp": "2026-01-02T03:04:05Z"}
    manifest = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
    post(platform, sensor(manifest), packed=False)
    (edge,) = platform.graphql(LIST_WORKFLOWS, {"filters": {"namespace": place}})["workflows"]["edges"]
    assert edge["node"]["spec"] == {"entrypoint": "main", "templates": None, "workflowTemplateRef": {"name": "ci", "namespace": place}}
    names = platform.graphql("query($u: String!) { workflow(uid: $u) { spec { templates { name } templateNames } } }", {"u": uid})
    assert names["workflow"]["spec"] == {"templates": None, "templateNames": ["main", "step"]}


@pytest.mark.parametrize("stated", [None, "HELM", "HELM_HOSTED"])
def test_installation_type_is_what_was_stated(platform, stated):
    """`runtime uninstall` refuses what is HELM, so what was installed otherwise must not become it."""
    name = f"made-{uuid.uuid4().hex[:8]}"
    arguments = {"runtimeName": name, "cluster": "https://kubernetes.default.svc", "runtimeVersion": "0.1.0", "componentNames": [], "managed": True}
    if stated:
        arguments["installationType"] = stated
    assert platform.graphql(CREATE_RUNTIME, {"installationArgs": arguments})["createRuntime"]["name"] == name
    try:
        found = platform.graphql(GET_RUNTIME, {"name": name})["runtime"]
        assert found["managed"] is True and found["installationType"] == stated
        # Installed anew with another type, it has that one.
        other = {**arguments, "recover": True, "installationType": "HELM"}
        platform.graphql(CREATE_RUNTIME, {"installationArgs": other})
        assert platform.graphql(GET_RUNTIME, {"name": name})["runtime"]["installationType"] == "HELM"
    finally:
        platform.graphql("mutation($n: String!) { deleteRuntime(name: $n) }", {"n": name})
