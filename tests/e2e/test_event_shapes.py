"""Every shape of body that reporters post (the wire contract's section on events), from its field list into rows and GraphQL.

The tables say of each field where it lands: a column of its row, or why it has none."""

import base64
import datetime
import gzip
import json
import uuid

import pytest

EVENTS = "/2.0/api/events"
REPO = "https://git.example/shop.git"


def post(platform, body, path=EVENTS, packed=True, key=None):
    sent = json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    if packed:  # Argo CD's reporter: gzip, chunked; sensors send plain JSON
        sent, headers["Content-Encoding"], headers["Transfer-Encoding"] = gzip.compress(sent), "gzip", "chunked"
    answer = platform.api("POST", path, sent, key=key or platform.env["CULVERT_RUNTIME_TOKEN"], headers=headers)
    assert answer.status < 300, (answer.status, answer.text())


def now(seconds=0):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def packed(manifest):
    return base64.b64encode(json.dumps(manifest).encode()).decode()


@pytest.fixture()
def place(platform):
    """A namespace of the test's own, whose rows are taken away again."""
    name = "shape-" + uuid.uuid4().hex[:12]
    yield name
    for table in ("resources", "applications", "deployments", "application_operations", "workflows"):
        platform.psql(f"delete from {table} where namespace = '{name}'")


def column(platform, table, place, name, expression):
    rows = platform.psql(f"select {expression} from {table} where namespace = '{place}' and name = '{name}'")
    assert len(rows) == 1, (table, name, rows)
    return rows[0][0]


def check(platform, table, place, name, lands):
    """lands: {field: (SQL expression over the row, what it gives)}"""
    wrong = {}
    for field, (expression, expected) in lands.items():
        found = column(platform, table, place, name, expression)
        if found != expected:
            wrong[field] = (expression, found, expected)
    assert not wrong, wrong


# Of source, but for manifests and what tells the kinds of events apart. None: it has no column, and why.
SOURCE_LANDS = {
    "repoURL": ("source_repo_url", REPO),
    "path": ("source_path", "web/deployment.yaml"),
    "revision": ("source_revision", "abc123"),
    "commitMessage": ("commit_message", "More replicas"),
    "commitAuthor": ("commit_author", "Ann <ann@example>"),
    "commitDate": ("commit_date", "2026-01-01T00:00:00Z"),
    "appName": ("application_name", "shop"),
    "appNamespace": ("application_namespace", "argocd"),
    "syncStatus": ("sync_status", "OUT_OF_SYNC"),
    "healthStatus": ("health_status", "DEGRADED"),
    "healthMessage": ("health_message", "pods fail"),
    "cluster": ("cluster", "in-cluster"),
    "desiredManifest": ("desired_sha256 is not null", "t"),
    "actualManifest": ("manifest_sha256 is not null", "t"),
    "gitManifest": ("git_sha256 is not null", "t"),
    "appUID": None,  # the application's own row has it
    "appLabels": None,  # so it does these
    "syncStartedAt": None,  # of the application's operation, which its own event brings
    "syncFinishedAt": None,
    "historyId": None,
    "operationSyncRevision": None,
    "appInstanceLabelKey": None,  # how Argo CD tracks: no state
    "trackingMethod": None,
}


def source(actual, desired, git="kind: Deployment\n", **more):
    return {
        "desiredManifest": json.dumps(desired) if desired else "",
        "actualManifest": json.dumps(actual) if actual else "",
        "gitManifest": git,
        "repoURL": REPO,
        "path": "web/deployment.yaml",
        "revision": "abc123",
        "commitMessage": "More replicas",
        "commitAuthor": "Ann <ann@example>",
        "commitDate": "2026-01-01T00:00:00Z",
        "appName": "shop",
        "appLabels": None,
        "syncStatus": "OutOfSync",
        "syncStartedAt": "2026-01-02T03:00:00Z",
        "syncFinishedAt": "2026-01-02T03:00:01Z",
        "healthStatus": "Degraded",
        "healthMessage": "pods fail",
        "cluster": "https://kubernetes.default.svc",
        "historyId": 7,
        "operationSyncRevision": "abc123",
        "appUID": "app-uid",
        "appNamespace": "argocd",
        "appInstanceLabelKey": "app.kubernetes.io/instance",
        "trackingMethod": "annotation",
        **more,
    }


def event(manifest, source_of, **more):
    return {"data": {"timestamp": now(), "object": packed(manifest), "source": source_of, "appVersions": {}, **more}}


def deployment(place, image="web:1"):
    metadata = {"name": "web", "namespace": place, "uid": "uid-web", "labels": {"app.kubernetes.io/name": "web"}, "creationTimestamp": "2026-01-01T00:00:00Z"}
    spec = {"replicas": 2, "template": {"spec": {"containers": [{"name": "web", "image": image}]}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


REFERENCE = {"group": "apps", "version": "v1", "kind": "Deployment", "name": "web", "namespace": "shop"}
ERRORS = [{"type": "sync", "level": "error", "message": "no such field", "lastSeen": "2026-01-02T03:04:05Z", "sourceReference": REFERENCE}, {"type": "health", "level": "warning", "message": "slow", "lastSeen": "2026-01-02T03:04:05Z"}]


def test_managed_resource(platform, place):
    body = event(deployment(place), source(deployment(place), deployment(place)), errors=ERRORS)
    assert set(SOURCE_LANDS) == set(body["data"]["source"]), "the table lacks a field, or knows one too many"
    post(platform, body)
    check(platform, "resources", place, "web", {field: where for field, where in SOURCE_LANDS.items() if where})
    check(
        platform,
        "resources",
        place,
        "web",
        {
            "timestamp": ("to_char(observed_at, 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')", body["data"]["timestamp"]),
            "errors": ("source_errors -> 0 ->> 'message' || '/' || (source_errors -> 1 ->> '__typename')", "no such field/HealthError"),
            "object.apiVersion": ("api_group || '/' || version", "apps/v1"),
            "object.kind": ("kind", "Deployment"),
            "object.metadata.uid": ("uid", "uid-web"),
            "object.metadata.labels": ("labels ->> 'app.kubernetes.io/name'", "web"),
            "object.metadata.creationTimestamp": ("to_char(resource_created_at, 'YYYY')", "2026"),
            "object.spec.template (images)": ("images ->> 0", "web:1"),
            "epoch (of HTTP)": ("epoch", "0"),
        },
    )
    commit = platform.psql(f"select author, message from commits where revision = 'abc123' and repo_url = '{REPO}'")
    assert commit == [["Ann <ann@example>", "More replicas"]]
    shown = platform.graphql("query($f: ImagesFilterArgs) { images(filters: $f) { edges { node { name uses { kind name } } } } }", {"f": {"namespace": place}})
    assert shown["images"]["edges"] == [{"node": {"name": "web:1", "uses": [{"kind": "Deployment", "name": "web"}]}}]


def test_managed_resource_of_another_cluster_and_one_that_is_not_there(platform, place):
    stub = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": place}}
    post(platform, event(stub, source(None, deployment(place), cluster="https://east.example", syncStatus="OutOfSync", healthStatus="Missing")))
    assert column(platform, "resources", place, "web", "cluster || ' ' || health_status || ' ' || is_deleted") == "https://east.example MISSING false"


def test_deleted_resource_is_the_one_with_empty_manifests(platform, place):
    post(platform, event(deployment(place), source(deployment(place), deployment(place))))
    gone = event(deployment(place), source(None, None, git=""))
    gone["data"]["timestamp"] = now(1)
    post(platform, gone)
    assert column(platform, "resources", place, "web", "is_deleted || ' ' || (manifest_sha256 is null)") == "true true"
    # What was seen before its end does not bring it back.
    late = event(deployment(place), source(deployment(place), deployment(place)))
    late["data"]["timestamp"] = now(-60)
    post(platform, late)
    assert column(platform, "resources", place, "web", "is_deleted") == "t"


def application(place, name="shop", **more):
    revisions = {"syncRevisions": [{"revision": "abc123", "metadata": {"author": "Ann", "date": "2026-01-01T00:00:00Z", "message": "More replicas"}}], "changeRevisions": None}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {
            "name": name,
            "namespace": place,
            "uid": "uid-" + name,
            "labels": {"app.meta.commit-author": "Ann", "app.meta.commit-date": "2026-01-01T00:00:00Z", "app.meta.commit-message": "More replicas"},
            "annotations": {"app.meta.revisions-metadata": json.dumps(revisions)},
            **more,
        },
        "spec": {"project": "team", "source": {"repoURL": f"https://git.example/{place}.git", "path": "web", "targetRevision": "main"}, "destination": {"server": "https://kubernetes.default.svc", "namespace": place}},
        "status": {
            "sync": {"status": "Synced", "revision": "abc123"},
            "health": {"status": "Healthy"},
            "history": [{"id": 3, "revision": "abc123", "deployedAt": "2026-01-02T03:00:01Z", "deployStartedAt": "2026-01-02T03:00:00Z", "initiatedBy": {"username": "ann"}}],
            "operationState": {"phase": "Succeeded", "startedAt": "2026-01-02T03:00:00Z", "finishedAt": "2026-01-02T03:00:01Z", "syncResult": {"revision": "abc123"}, "operation": {"initiatedBy": {"username": "ann"}}},
        },
    }


def root_source(manifest, **more):
    empty = dict.fromkeys(("desiredManifest", "gitManifest", "path", "revision", "operationSyncRevision", "appName", "appUID", "appNamespace", "commitMessage", "commitAuthor"), "")
    return {**source(manifest, None), **empty, "repoURL": f"https://git.example/{manifest['metadata']['namespace']}.git", "historyId": 0, "appLabels": {}, "syncStatus": "Synced", "healthStatus": "Healthy", "healthMessage": "", **more}


def test_root_application(platform, place):
    versions = {"appVersion": "1.2.3", "dependencies": {"lock": "digest: x", "deps": "- name: db", "requirements": "- db"}}
    body = event(application(place), root_source(application(place)), errors=ERRORS, appVersions=versions)
    assert set(SOURCE_LANDS) == set(body["data"]["source"])
    post(platform, body)
    check(
        platform,
        "applications",
        place,
        "shop",
        {
            "object.metadata.uid": ("uid", "uid-shop"),
            "syncStatus": ("sync_status", "SYNCED"),
            "healthStatus": ("health_status", "HEALTHY"),
            "repoURL": ("source_repo_url", f"https://git.example/{place}.git"),
            "cluster": ("cluster", "in-cluster"),
            "errors": ("jsonb_array_length(source_errors)", "2"),
            "object.spec.project": ("project", "team"),
            "object.status.operationState": ("operation_phase", "Succeeded"),
            "actualManifest": ("manifest_sha256 is not null", "t"),
            "desiredManifest (empty)": ("desired_sha256 is null", "t"),
        },
    )
    assert platform.psql(f"select author, message from commits where repo_url = 'https://git.example/{place}.git'") == [["Ann", "More replicas"]]
    query = """query($r: String!, $ns: String) { application(runtime: $r, name: "shop", namespace: $ns) {
        appVersions { appVersion dependencies { lock deps requirements } }
        errors { ... on SyncError { message sourceReference { group version kind name namespace } } ... on HealthError { message sourceReference { kind } } } } }"""
    shown = platform.graphql(query, {"r": platform.env["CULVERT_RUNTIME"], "ns": place})["application"]
    assert shown["appVersions"] == versions
    assert {"message": "no such field", "sourceReference": REFERENCE} in shown["errors"] and {"message": "slow", "sourceReference": None} in shown["errors"]
    query = """query($f: GitopsReleaseFilterArgs) { gitopsReleases(filters: $f) { edges { node { historyId current initiator result
        commit { author message } operationState { phase } application { status { syncStatus commitMessage } } } } } }"""
    (edge,) = platform.graphql(query, {"f": {"name": "shop", "namespace": place}})["gitopsReleases"]["edges"]
    node = edge["node"]
    assert (node["historyId"], node["current"], node["initiator"], node["result"]) == (3, True, "ann", "Succeeded")
    assert node["commit"] == {"author": "Ann", "message": "More replicas"}
    assert node["application"]["status"] == {"syncStatus": "SYNCED", "commitMessage": "More replicas"}


def test_root_application_that_is_being_deleted(platform, place):
    post(platform, event(application(place), root_source(application(place))))
    going = application(place, deletionTimestamp=now())
    body = event(going, root_source(going, actualManifest=""))
    body["data"]["timestamp"] = now(1)
    post(platform, body)
    assert column(platform, "applications", place, "shop", "is_deleted") == "t"
    # The ledger forgets nothing.
    assert column(platform, "deployments", place, "shop", "history_id") == "3"


def test_child_application(platform, place):
    child = application(place, "child")
    post(platform, event(application(place), root_source(application(place))))
    body = event(child, source(child, child, git="kind: Application\n", appName="shop", appNamespace=place, appUID="uid-shop", syncStatus="Synced", healthStatus="Healthy", path="apps/child.yaml"))
    post(platform, body)
    check(
        platform,
        "applications",
        place,
        "child",
        {
            "path": ("source_path", "apps/child.yaml"),
            "commitAuthor": ("commit_author", "Ann <ann@example>"),
            "desiredManifest": ("desired_sha256 is not null", "t"),
            "gitManifest": ("git_sha256 is not null", "t"),
            "syncStatus (the child's)": ("sync_status", "SYNCED"),
            "appName, appNamespace": ("parent_namespace || '/' || parent_name", f"{place}/shop"),
        },
    )
    query = "query($r: String!, $ns: String) { resourceTree(runtime: $r, name: \"shop\", namespace: $ns) { nodes { name parentRefs { name } } } }"
    tree = platform.graphql(query, {"r": platform.env["CULVERT_RUNTIME"], "ns": place})["resourceTree"]["nodes"]
    assert tree == [{"name": "shop", "parentRefs": []}, {"name": "child", "parentRefs": [{"name": "shop"}]}]


def sensor(manifest):
    """An Argo Events sensor: the object as a JSON string, nothing else."""
    return {"data": {"object": json.dumps(manifest)}}


def owner(kind, name):
    return [{"apiVersion": "argoproj.io/v1alpha1", "kind": kind, "name": name, "uid": "uid-" + name, "controller": True}]


def test_sensors_of_rollouts(platform, place):
    template = {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}
    revision = {"rollout.argoproj.io/revision": "2"}
    rollout = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Rollout",
        "metadata": {"name": "web", "namespace": place, "uid": "uid-web", "annotations": revision},
        "spec": {"replicas": 3, "template": template, "strategy": {"canary": {"steps": [{"setWeight": 20}, {"pause": {}}]}}},
        "status": {"phase": "Paused", "currentStepIndex": 1, "readyReplicas": 3},
    }
    replica_set = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web-1", "namespace": place, "uid": "uid-web-1", "annotations": revision, "ownerReferences": owner("Rollout", "web")}, "spec": {"replicas": 1, "template": template}}
    run = {"apiVersion": "argoproj.io/v1alpha1", "kind": "AnalysisRun", "metadata": {"name": "run", "namespace": place, "uid": "uid-run", "annotations": revision, "ownerReferences": owner("Rollout", "web")}, "status": {"phase": "Successful", "metricResults": [{"name": "m", "phase": "Successful", "successful": 4}]}}
    for manifest in (rollout, replica_set, run):
        post(platform, sensor(manifest), packed=False)
    query = """query($f: RolloutFilterArgs) { rollouts(filters: $f) { edges { node { metadata { name uid } revision healthStatus
        spec { desiredReplicas strategy { name newImage steps { details { status } } } } status { phase weightOfNew readyReplicas }
        replicaSets { metadata { name } revision image replicas } analysisRuns { metadata { name } status { phase totalSuccessful } } } } } }"""
    (edge,) = platform.graphql(query, {"f": {"namespace": place}})["rollouts"]["edges"]
    assert edge["node"] == {
        "metadata": {"name": "web", "uid": "uid-web"},
        "revision": 2,
        "healthStatus": "SUSPENDED",
        "spec": {"desiredReplicas": 3, "strategy": {"name": "canary", "newImage": "web:2", "steps": [{"details": {"status": "PASSED"}}, {"details": {"status": "ACTIVE"}}]}},
        "status": {"phase": "Paused", "weightOfNew": 20, "readyReplicas": 3},
        "replicaSets": [{"metadata": {"name": "web-1"}, "revision": 2, "image": "web:2", "replicas": 1}],
        "analysisRuns": [{"metadata": {"name": "run"}, "status": {"phase": "Successful", "totalSuccessful": 4}}],
    }
    # A deletion is to be told by its timestamp alone.
    rollout["metadata"]["deletionTimestamp"] = now()
    post(platform, sensor(rollout), packed=False)
    assert platform.graphql(query, {"f": {"namespace": place}})["rollouts"]["edges"] == []


def test_sensor_of_workflows(platform, place):
    uid = uuid.uuid4().hex
    workflow = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "run", "namespace": place, "uid": uid, "creationTimestamp": "2026-01-02T03:04:05Z", "labels": {"workflows.argoproj.io/creator": "ann"}},
        "spec": {"entrypoint": "main", "templates": [{"name": "main"}]},
        "status": {"phase": "Failed", "progress": "1/2", "startedAt": "2026-01-02T03:04:06Z", "finishedAt": "2026-01-02T03:05:06Z", "nodes": {"a": {"id": "a", "name": "run", "displayName": "run", "type": "Pod", "phase": "Failed"}}},
    }
    post(platform, sensor(workflow), packed=False)
    query = """query($u: String!) { workflow(uid: $u) { metadata { name namespace } spec { entrypoint templates { name } templateNames } initiator { userName }
        status { phase progress startedAt finishedAt nodes { type name } failedNodes { name } } } }"""
    found = platform.graphql(query, {"u": uid})["workflow"]
    assert found["metadata"] == {"name": "run", "namespace": place} and found["initiator"] == {"userName": "ann"}
    assert found["spec"] == {"entrypoint": "main", "templates": None, "templateNames": ["main"]}
    assert found["status"]["phase"] == "Failed" and found["status"]["failedNodes"] == [{"name": "run"}]
    # Removed from the cluster after its end, it is still the record of the run.
    workflow["metadata"]["deletionTimestamp"] = now()
    post(platform, sensor(workflow), packed=False)
    assert platform.graphql(query, {"u": uid})["workflow"]["status"]["phase"] == "Failed"


@pytest.mark.parametrize("wrap", [lambda m: m, json.dumps, packed], ids=["object", "string", "base64"])
def test_object_in_every_wrapping(platform, place, wrap):
    post(platform, {"data": {"object": wrap(deployment(place))}}, packed=False)
    assert column(platform, "resources", place, "web", "uid") == "uid-web"


def test_payload_as_a_string(platform, place):
    """The events reporter of old: data is the payload's text."""
    body = event(deployment(place), source(deployment(place), deployment(place)))
    post(platform, {"data": json.dumps(body["data"])}, packed=False)
    assert column(platform, "resources", place, "web", "source_revision") == "abc123"


def test_draft_paths(platform, place):
    root = application(place)
    post(platform, {"timestamp": now(), "actualManifest": json.dumps(root), "appVersions": {}, "revisionsMetadata": {}, "errors": ERRORS}, path="/2.0/api/applications")
    assert column(platform, "applications", place, "shop", "sync_status || ' ' || uid") == "SYNCED uid-shop"
    of = {
        "repoURL": REPO,
        "targetRevision": "main",
        "revisions": ["abc123"],
        "commitMessage": "More replicas",
        "commitAuthor": "Ann",
        "clusterServer": "https://kubernetes.default.svc",
        "appName": "shop",
        "appNamespace": place,
        "appLabels": {},
        "appUID": "uid-shop",
        "syncStatus": "Synced",
        "syncStartedAt": now(),
        "healthStatus": {"status": "Progressing", "message": "on its way"},
        "historyId": 3,
        "appInstanceLabelKey": "x",
        "trackingMethod": "annotation",
        "appMultiSourced": False,
        "appSourceIdx": 0,
    }
    post(platform, {"timestamp": now(), "actualManifest": json.dumps(deployment(place)), "desiredManifest": json.dumps(deployment(place)), "source": of}, path="/2.0/api/resources")
    check(
        platform,
        "resources",
        place,
        "web",
        {
            "source.repoURL": ("source_repo_url", REPO),
            "source.appName": ("application_namespace || '/' || application_name", f"{place}/shop"),
            "source.healthStatus": ("health_status || ' ' || health_message", "PROGRESSING on its way"),
            "source.commitAuthor": ("commit_author", "Ann"),
            "source.clusterServer": ("cluster", "in-cluster"),
            "desiredManifest": ("desired_sha256 is not null", "t"),
        },
    )


def test_unknown_kinds_and_versions_are_kept(platform, place):
    odd = {"apiVersion": "example.org/v7", "kind": "Gadget", "metadata": {"name": "g", "namespace": place, "uid": "uid-g"}, "anything": {"at": ["all"]}}
    post(platform, event(odd, source(odd, None)))
    assert column(platform, "resources", place, "g", "api_group || '/' || version || ' ' || kind || ' ' || (manifest_sha256 is not null)") == "example.org/v7 Gadget true"
    newer = {**odd, "apiVersion": "argoproj.io/v2", "kind": "Rollout", "metadata": {**odd["metadata"], "name": "r"}, "status": {"phase": ["not", "a", "word"]}}
    post(platform, event(newer, source(newer, None)))
    assert column(platform, "rollouts", place, "r", "phase") == "Unknown"
