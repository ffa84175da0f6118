"""The GraphQL of a runtime's app-proxy, in the words of its clients: what they ask for happens in the cluster, as far as its owner permits."""

import json
import pathlib
import tempfile

import pytest

from conftest import build_folder
from platform_under_test import Platform
from waiting import wait_until

APPLICATIONS = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications"
WORKFLOWS = "/apis/argoproj.io/v1alpha1/workflows"

EXISTENCE = "query appexistence ($applicationName: String!, $applicationNamespace: String) { applicationProxyQuery(name: $applicationName, appNamespace: $applicationNamespace) { metadata { name } } }"
STATUS = "query appstatus ($name: String!, $applicationNamespace: String) { applicationProxyQuery(name: $name, appNamespace: $applicationNamespace) { metadata { name } status { health { status } sync { status } } } }"
AUTOSYNC = "query appsyncstatus ($applicationName: String!, $applicationNamespace: String) { applicationProxyQuery(name: $applicationName, appNamespace: $applicationNamespace) { metadata { name } spec { syncPolicy { automated { prune } } } } }"
SYNC = "query sync($applicationName: String!, $options: SyncOptions, $applicationNamespace: String) { sync(applicationName: $applicationName, options: $options, appNamespace: $applicationNamespace) { metadata { name __typename } __typename } }"
ROLLBACK = "query appRollback($appName: String! $appNamespace: String! $historyId: Int! $dryRun: Boolean $prune: Boolean) { appRollback(appName: $appName appNamespace: $appNamespace historyId: $historyId dryRun: $dryRun prune: $prune) }"
TERMINATE = "mutation($appName: String!, $appNamespace: String) { terminateCurrentAppOperation(appName: $appName, appNamespace: $appNamespace) }"
DELETE = "mutation DeleteApplication($args: DeleteApplicationInput!) { deleteApplication(args: $args) }"


@pytest.fixture(scope="module")
def platform():
    with tempfile.TemporaryDirectory(prefix="culvert-e2e.", dir="/var/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        under_test = Platform(pathlib.Path(folder) / "home", build_folder("asan"))
        under_test.settings.update(CULVERT_OPERATIONS_ALLOWED="sync:argocd/c*,sync-prune:argocd/c*,terminate,rollback,workflow,delete-application,delete:shop/*,rollout")
        try:
            yield under_test.start()
        finally:
            under_test.reset()


@pytest.fixture(autouse=True)
def paused(platform):
    platform.cluster("POST", "/demo/pause")
    yield lambda count=1: platform.cluster("POST", f"/demo/step?n={count}")
    platform.cluster("POST", "/demo/resume")


def answer(platform, query, **variables):
    body = json.dumps({"query": query, "variables": variables})
    return platform.ingress("POST", "/app-proxy/api/graphql", body, headers={"Content-Type": "application/json"})


def data(platform, query, **variables):
    got = answer(platform, query, **variables)
    assert got.status == 200 and "errors" not in got.json(), (got.status, got.text())
    return got.json()["data"]


def error(platform, query, **variables):
    (found,) = answer(platform, query, **variables).json()["errors"]
    assert "'" not in found["message"]
    return found


def application(platform, name="checkout"):
    return platform.cluster("GET", f"{APPLICATIONS}/{name}")


def test_an_application_as_a_ci_step_reads_it(platform):
    assert data(platform, EXISTENCE, applicationName="checkout") == {"applicationProxyQuery": {"metadata": {"name": "checkout"}}}
    status = data(platform, STATUS, name="checkout", applicationNamespace="argocd")["applicationProxyQuery"]["status"]
    found = application(platform)["status"]
    assert status["health"]["status"] == found["health"]["status"].upper()
    assert status["sync"]["status"] == {"Synced": "SYNCED", "OutOfSync": "OUT_OF_SYNC", "Unknown": "UNKNOWN"}[found["sync"]["status"]]
    automated = application(platform)["spec"].get("syncPolicy", {}).get("automated")
    read = data(platform, AUTOSYNC, applicationName="checkout")["applicationProxyQuery"]["spec"]["syncPolicy"]["automated"]
    assert (read is None) == (automated is None)


def test_an_unknown_application_in_the_words_that_clients_look_for(platform):
    # The client turns the quotes of str(error) round and decodes that.
    found = answer(platform, EXISTENCE, applicationName="nowhere").json()["errors"][0]
    assert json.loads(str(found).replace("'", '"')) == {"message": "Forbidden", "extensions": 403}
    assert "NOT_FOUND_ERROR" in str(error(platform, SYNC, applicationName="nowhere", options={"prune": True}))


def test_a_sync_a_rollback_and_their_end(platform, paused):
    wait_until(lambda: paused(5) and "operation" not in application(platform), 30, "nothing runs")
    before = len(application(platform)["status"]["history"])
    synced = data(platform, SYNC, applicationName="checkout", options={"prune": True})["sync"]
    assert synced == {"metadata": {"name": "checkout", "__typename": "ProxyMetadata"}, "__typename": "ProxyApplication"}
    operation = application(platform)["operation"]
    assert operation["sync"]["prune"] is True and operation["initiatedBy"]["username"]
    assert "IN_PROGRESS" in error(platform, SYNC, applicationName="checkout")["message"]
    paused()
    assert data(platform, TERMINATE, appName="checkout")["terminateCurrentAppOperation"]["name"] == "checkout"
    assert application(platform)["status"]["operationState"]["phase"] == "Terminating"
    wait_until(lambda: paused() and "operation" not in application(platform), 30, "it has ended")
    assert len(application(platform)["status"]["history"]) == before
    platform.cluster("PATCH", f"{APPLICATIONS}/checkout", {"spec": {"syncPolicy": {"automated": None}}}, content_type="application/merge-patch+json")
    oldest = application(platform)["status"]["history"][0]["id"]
    data(platform, ROLLBACK, appName="checkout", appNamespace="argocd", historyId=oldest, dryRun=False, prune=True)
    wait_until(lambda: paused() and "operation" not in application(platform), 30, "it has ended")
    assert application(platform)["status"]["operationState"]["phase"] == "Succeeded"


def test_what_the_owner_does_not_permit_and_bad_requests(platform):
    refused = error(platform, SYNC, applicationName="storefront")
    assert "NOT_ALLOWED" in refused["message"] and "operations.allowed" in refused["message"] and refused["extensions"]["code"] == "FORBIDDEN"
    unknown = answer(platform, "{ nothing }")
    assert unknown.status == 400 and "Cannot query field" in unknown.text()
    assert "must have 1 to 253" in error(platform, EXISTENCE, applicationName="../secrets")["message"]
    assert answer(platform, "query { versionInfo { version platformHost platformVersion } }").json()["data"]["versionInfo"]["version"]
    assert platform.ingress("GET", "/app-proxy/api/graphql?query=%7BversionInfo%7Bversion%7D%7D").status == 404


def workflow(platform, phase="Running"):
    return next(item for item in platform.cluster("GET", WORKFLOWS)["items"] if item.get("status", {}).get("phase") == phase and not item["spec"].get("shutdown"))


def test_workflows_are_suspended_resumed_and_terminated(platform, paused):
    names = [item["metadata"]["name"] for item in platform.cluster("GET", APPLICATIONS)["items"]]
    next(name for name in names if platform.cluster("POST", f"/demo/happen?what=workflow&application={name}")["happened"])
    paused()
    metadata = workflow(platform)["metadata"]
    path = f"/apis/argoproj.io/v1alpha1/namespaces/{metadata['namespace']}/workflows/{metadata['name']}"
    run = lambda field: answer(platform, "mutation($n: String!, $w: String!) { %s(namespace: $n, workflowName: $w) }" % field, n=metadata["namespace"], w=metadata["name"]).json()
    assert "NOT_RUNNING" in str(run("resumeWorkflow"))
    assert "errors" not in run("suspendWorkflow") and platform.cluster("GET", path)["spec"]["suspend"] is True
    node = {"status": {"nodes": {"gate": {"id": "gate", "name": "gate", "displayName": "gate", "type": "Suspend", "phase": "Running"}}}}
    platform.cluster("PATCH", path, node, content_type="application/merge-patch+json")
    assert "errors" not in run("resumeWorkflow")
    resumed = platform.cluster("GET", path)
    assert "suspend" not in resumed["spec"] and resumed["status"]["nodes"]["gate"]["phase"] == "Succeeded"
    assert "errors" not in run("terminateWorkflow") and platform.cluster("GET", path)["spec"]["shutdown"] == "Terminate"
    paused()
    assert platform.cluster("GET", path)["status"]["phase"] == "Failed"
    assert "NOT_RUNNING" in str(run("stopWorkflow"))


def operation(platform, **wanted):
    query = "mutation($o: RuntimeOperationArgs!) { runOperation(operation: $o) { id } }"
    wanted = {"runtime": platform.env["CULVERT_RUNTIME"], **wanted}
    identifier = platform.graphql(query, {"o": wanted})["runOperation"]["id"]

    def ended():
        now = platform.graphql("query($i: ID!) { operation(id: $i) { state code message } }", {"i": identifier})["operation"]
        return now if now["state"] in ("DONE", "FAILED", "UNKNOWN") else None

    return wait_until(ended, 30, "the operation has ended")


def test_objects_are_deleted_once(platform):
    pod = platform.cluster("GET", "/api/v1/namespaces/shop/pods")["items"][0]["metadata"]
    args = {"action": "DELETE", "group": "", "kind": "Pod", "namespace": "shop", "name": pod["name"]}
    stale = operation(platform, **args, uid="00000000-0000-0000-0000-000000000000")
    assert (stale["state"], stale["code"]) == ("FAILED", "CONFLICT")
    assert operation(platform, **args, uid=pod["uid"])["state"] == "DONE"
    left = [item["metadata"]["uid"] for item in platform.cluster("GET", "/api/v1/namespaces/shop/pods")["items"]]
    assert pod["uid"] not in left
    secret = operation(platform, **{**args, "kind": "Secret", "name": "x"})
    assert (secret["state"], secret["code"]) == ("FAILED", "INVALID")
    assert "needs the kind" in platform.graphql_answer("mutation($o: RuntimeOperationArgs!) { runOperation(operation: $o) { id } }", {"o": {"runtime": platform.env["CULVERT_RUNTIME"], "action": "DELETE", "namespace": "shop", "name": "x"}}).text()


def test_an_application_is_deleted_with_its_resources_if_asked_to(platform, paused):
    finalizer = "resources-finalizer.argocd.argoproj.io"
    copy = application(platform, "storefront")
    made = {"apiVersion": copy["apiVersion"], "kind": "Application", "metadata": {"name": "short-lived", "namespace": "argocd"}, "spec": {**copy["spec"], "syncPolicy": {}}}
    platform.cluster("POST", APPLICATIONS, made)
    deleted = answer(platform, DELETE, args={"appName": "short-lived", "cascade": True}).json()
    assert deleted == {"data": {"deleteApplication": None}}
    names = lambda: {item["metadata"]["name"]: item["metadata"] for item in platform.cluster("GET", APPLICATIONS)["items"]}
    assert "short-lived" not in names() or finalizer in names()["short-lived"]["finalizers"]
    wait_until(lambda: paused() and "short-lived" not in names(), 30, "it is gone")
    assert "NOT_FOUND_ERROR" in error(platform, DELETE, args={"appName": "short-lived"})["message"]
