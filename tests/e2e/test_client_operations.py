"""Operations of open clients on what the platform keeps itself: git sources, components, sealing keys, managed clusters, the notes of a release."""

import json
import uuid

import pytest

from client_documents import DOCUMENTS
from platform_under_test import wait_until
from test_event_shapes import now, packed, post

REPO = "https://git.example/shop.git"
KEY = "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQ=="


def codes(answer):
    return [error["extensions"]["code"] for error in answer.json()["errors"]]


@pytest.fixture(scope="module")
def runtime(platform):
    """A runtime whose reporters report over HTTP alone: (name, token)."""
    name = "reports-" + uuid.uuid4().hex[:8]
    token = platform.create_runtime(name)
    wait_until(lambda: platform.graphql_answer("{ me { id } }", key=token).status == 200, 10, "the token is known")
    yield name, token
    platform.graphql("mutation($n: String!) { deleteRuntime(name: $n) }", {"n": name})


def report(platform, runtime, name, labels=None, history=(), errors=()):
    manifest = {
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": name, "namespace": "argocd", "uid": "uid-" + name, "creationTimestamp": "2026-01-01T00:00:00Z",
                     "labels": {"app.meta.commit-author": "Ann", "app.meta.commit-message": "More", "app.meta.commit-date": "2026-01-02T00:00:00Z", **(labels or {})}},
        "spec": {"project": "default", "source": {"repoURL": REPO, "path": "apps", "targetRevision": "v1"}, "destination": {"server": "https://kubernetes.default.svc", "namespace": "shop"}},
        "status": {"sync": {"status": "Synced", "revision": "abc"}, "health": {"status": "Healthy"}, "history": list(history), "resources": []},
    }  # fmt: skip
    source = {"actualManifest": json.dumps(manifest), "repoURL": REPO, "syncStatus": "Synced", "healthStatus": "Healthy", "historyId": 0}
    payload = {"timestamp": now(), "object": packed(manifest), "source": source, "appVersions": {"appVersion": "1.4.2"}}
    if errors:
        payload["errors"] = list(errors)
    post(platform, {"data": payload}, key=runtime[1])


def test_git_sources(platform, runtime):
    report(platform, runtime, "from-git", {"codefresh.io/entity": "git-source"})
    report(platform, runtime, "ordinary")
    want = {"metadata": {"name": "from-git"}, "self": {"path": "apps", "repoURL": REPO, "status": {"syncStatus": "SYNCED", "healthStatus": "HEALTHY"}}}
    edges = platform.graphql(DOCUMENTS["cli GitSources"], {"runtime": runtime[0]})["gitSources"]["edges"]
    assert edges == [{"node": want}]
    assert {"node": want} in platform.graphql(DOCUMENTS["cli GitSources"], {"runtime": ""})["gitSources"]["edges"]
    assert platform.graphql(DOCUMENTS["cli GitSources"], {"runtime": "none"})["gitSources"]["edges"] == []
    answer = platform.graphql(DOCUMENTS["app-proxy GitSources"], {"pagination": {"first": 50}, "project": "default"}, key=runtime[1])
    (edge,) = answer["response"]["edges"]  # of its own runtime alone
    assert edge["node"]["metadata"]["runtime"] == runtime[0] and edge["node"]["permissions"] == [] and edge["node"]["self"]["revision"] == "abc"
    assert answer["response"]["pageInfo"]["hasNextPage"] is False
    whole = "query($r: String) { gitSources(runtime: $r) { edges { node { self { destination { namespace } operationState { phase } freshness desiredManifest } } } } }"
    (edge,) = platform.graphql(whole, {"r": runtime[0]})["gitSources"]["edges"]
    assert edge["node"]["self"] == {"destination": {"namespace": "shop"}, "operationState": None, "freshness": "live", "desiredManifest": None}


def test_components(platform, runtime):
    error = {"type": "sync", "level": "error", "message": "it fails", "lastSeen": "2026-01-01T00:00:00Z"}
    report(platform, runtime, "argo-events", {"codefresh.io/entity": "component"}, errors=[error])
    (edge,) = platform.graphql(DOCUMENTS["cli Components"], {"runtime": runtime[0]})["components"]["edges"]
    node = edge["node"]
    assert node["metadata"] == {"name": "argo-events", "runtime": runtime[0]} and node["version"] == "1.4.2"
    assert node["self"]["status"] == {"syncStatus": "SYNCED", "healthStatus": "HEALTHY"}
    assert node["self"]["errors"][0]["message"] == "it fails" and node["self"]["errors"][0]["level"] == "ERROR"
    assert platform.graphql(DOCUMENTS["cli Components"], {"runtime": "none"})["components"]["edges"] == []
    assert platform.graphql(DOCUMENTS["cli Components"], {"runtime": platform.env["CULVERT_RUNTIME"]}, key=runtime[1])["components"]["edges"] == []


def test_commit_of_an_application(platform, runtime):
    report(platform, runtime, "told")
    text = "query($r: String!) { application(runtime: $r, name: \"told\") { status { commitAuthor commitMessage commitDate syncRevisions { revision author } } source { commitAuthor } } }"
    status = platform.graphql(text, {"r": runtime[0]})["application"]
    assert status["status"] == {"commitAuthor": "Ann", "commitMessage": "More", "commitDate": "2026-01-02T00:00:00Z", "syncRevisions": [{"revision": "abc", "author": "Ann"}]}
    assert status["source"] == {"commitAuthor": "Ann"}


def test_sealing_keys(platform, runtime):
    save, get = DOCUMENTS["app-proxy saveSealingKey"], DOCUMENTS["app-proxy getSealingKey"]
    one = platform.graphql(save, {"privateKey": KEY}, key=runtime[1])["saveSealingKey"]
    assert platform.graphql(save, {"privateKey": KEY}, key=runtime[1])["saveSealingKey"] == one
    assert platform.graphql(get, {"id": one}, key=runtime[1]) == {"getSealingKey": KEY}
    assert platform.psql(f"select count(*) from sealing_keys where key_id = '{one}' and position(convert_to('{KEY}', 'UTF8') in sealed) = 0") == [["1"]]
    for id_ in ("", "x", "0" * 32, one.upper()):
        assert platform.graphql(get, {"id": id_}, key=runtime[1]) == {"getSealingKey": None}
    other = platform.env["CULVERT_RUNTIME_TOKEN"]
    assert platform.graphql(get, {"id": one}, key=other) == {"getSealingKey": None}
    assert codes(platform.graphql_answer(get, {"id": one})) == ["FORBIDDEN"] == codes(platform.graphql_answer(save, {"privateKey": KEY}))
    for bad in ("", "x" * 70000):
        assert codes(platform.graphql_answer(save, {"privateKey": bad}, key=runtime[1])) == ["BAD_USER_INPUT"]
    entries = platform.graphql('{ auditEntries(filters: {entity: "sealing_keys"}) { entityId patch } }')["auditEntries"]
    assert [entry["entityId"] for entry in entries].count(one) == 1 and KEY not in json.dumps(entries)
    platform.psql(f"update sealing_keys set sealed = set_byte(sealed, 40, (get_byte(sealed, 40) + 1) % 256) where key_id = '{one}'")
    assert codes(platform.graphql_answer(get, {"id": one}, key=runtime[1])) == ["CONFLICT"]
    account = platform.env["CULVERT_ACCOUNT"]
    platform.psql(f"insert into sealing_keys select '{account}', '{runtime[0]}', md5(n::text), '' from generate_series(1, 100) n")
    assert codes(platform.graphql_answer(save, {"privateKey": "another"}, key=runtime[1])) == ["CONFLICT"]


def test_clusters_of_a_runtime(platform, runtime):
    update = DOCUMENTS["app-proxy updateRuntimeClusters"]
    cluster = {"name": "edge", "runtime": runtime[0], "server": "https://edge.example", "info": {"connectionState": {"status": "Failed", "message": "no route"}, "serverVersion": "1.31", "applicationsCount": 2, "cacheInfo": {"resourcesCount": 7, "apisCount": 3}}}  # fmt: skip
    assert platform.graphql(update, {"clusters": [cluster, {**cluster, "name": "in-cluster"}]}, key=runtime[1]) == {"updateRuntimeClusters": None}
    edges = platform.graphql(DOCUMENTS["cli Clusters"], {"runtime": runtime[0]})["clusters"]["edges"]
    assert [edge["node"]["metadata"]["name"] for edge in edges] == ["in-cluster", "edge"]
    assert edges[1]["node"] == {"metadata": {"name": "edge", "runtime": runtime[0]}, "server": "https://edge.example", "info": {"connectionState": {"status": "Failed", "message": "no route"}, "serverVersion": "1.31", "cacheInfo": {"resourcesCount": 7, "apisCount": 3}}}  # fmt: skip
    assert platform.graphql(update, {"clusters": []}, key=runtime[1]) == {"updateRuntimeClusters": None}
    foreign = {**cluster, "runtime": platform.env["CULVERT_RUNTIME"]}
    assert codes(platform.graphql_answer(update, {"clusters": [cluster, foreign]}, key=runtime[1])) == ["FORBIDDEN"]
    assert codes(platform.graphql_answer(update, {"clusters": [cluster]})) == ["FORBIDDEN"]
    assert codes(platform.graphql_answer(update, {"clusters": [{**cluster, "name": ""}]}, key=runtime[1])) == ["BAD_USER_INPUT"]
    assert codes(platform.graphql_answer(update, {"clusters": [cluster] * 501}, key=runtime[1])) == ["BAD_USER_INPUT"]


def test_notes_of_a_release(platform, runtime):
    image = {"id": uuid.uuid4().hex, "created": now(), "imageName": "registry.example/web:7", "commit": "abc", "workflowName": "build", "workflowUrl": "https://ci.example/7"}
    platform.graphql(DOCUMENTS["images createImageBinary"], {"imageBinary": image})
    note = {"logicEntityId": {"id": image["id"]}, "entityType": "image"}
    issue = {"url": "https://jira.example/SHOP-1", "title": "Prices", "status": "Done"}
    request = {"url": "https://git.example/pull/3", "title": "More", "committers": [{"userName": "ann", "avatar": "https://git.example/ann.png"}], "commits": [{"sha": "abc", "userName": "ann"}]}
    platform.graphql(DOCUMENTS["images saveAnnotation"], {"annotation": {**note, "type": "issue", "key": "SHOP-1", "issueValue": issue}})
    platform.graphql(DOCUMENTS["images saveAnnotation"], {"annotation": {**note, "type": "pr", "key": "#3", "pullRequestValue": request}})
    entry = {"id": 1, "revision": "abc", "deployedAt": "2026-01-02T03:04:05Z", "deployStartedAt": "2026-01-02T03:04:00Z", "source": {"repoURL": REPO, "path": "apps"}}
    report(platform, runtime, "noted", history=[entry])
    text = """query($r: String) { gitopsReleases(filters: {runtime: $r, name: "noted"}) { edges { node { fromState { services { name } } toState { services { name } } application {
              destination { namespace } issues { key title status url entityId } prs { key title } builds { imageName workflowUrl } committers { userName avatar commits { sha } } } } } } }"""
    (edge,) = platform.graphql(text, {"r": runtime[0]})["gitopsReleases"]["edges"]
    assert edge["node"]["application"] == {
        "destination": {"namespace": "shop"}, "issues": [{"key": "SHOP-1", "entityId": image["id"], **issue}], "prs": [{"key": "#3", "title": "More"}],
        "builds": [{"imageName": "registry.example/web:7", "workflowUrl": "https://ci.example/7"}],
        "committers": [{"userName": "ann", "avatar": "https://git.example/ann.png", "commits": [{"sha": "abc"}]}],
    }  # fmt: skip
    assert edge["node"]["toState"] == {"services": []}


def test_step_status(platform):
    rollouts = platform.graphql("{ rollouts { edges { node { metadata { name namespace runtime } status { currentStepIndex } spec { strategy { steps { index details { status } } } } } } } }")["rollouts"]["edges"]
    text = "query($r: String!, $n: String, $s: String, $i: Int) { rolloutStepStatus(runtime: $r, name: $n, namespace: $s, stepIndex: $i) }"
    for node in (edge["node"] for edge in rollouts):
        at = {"r": node["metadata"]["runtime"], "n": node["metadata"]["name"], "s": node["metadata"]["namespace"]}
        for step in node["spec"]["strategy"]["steps"] or []:
            assert platform.graphql(text, {**at, "i": step["index"]}) == {"rolloutStepStatus": step["details"]["status"]}
        assert platform.graphql(text, {**at, "i": 9999}) == {"rolloutStepStatus": None}
    assert platform.graphql(text, {"r": "none"}) == {"rolloutStepStatus": None}
    assert codes(platform.graphql_answer(text, {"r": "none", "i": -1})) == ["BAD_USER_INPUT"]


def test_reset_of_account_settings(platform):
    reset = "mutation { resetSharedConfigRepo }"
    account = platform.env["CULVERT_ACCOUNT"]
    assert platform.graphql(reset) == {"resetSharedConfigRepo": None}
    platform.psql(f"update accounts set shared_config_repo = 'https://git.example/c.git' where account_id = '{account}'")
    try:
        assert codes(platform.graphql_answer(reset)) == ["CONFLICT"]  # the demo cluster's runtime has connected
    finally:
        platform.psql(f"update accounts set shared_config_repo = null where account_id = '{account}'")
