"""The documents that open clients send: they validate, what can be run is, and the answers have the shapes that strict decoders need."""

import json
import subprocess
import uuid

import pytest

from client_documents import DOCUMENTS, MISSING
from conftest import build_folder


def test_documents_validate():
    lines = "".join(json.dumps({"query": text}) + "\n" for text in DOCUMENTS.values())
    run = subprocess.run([build_folder("asan") / "tests/support/culvert-graphql-check"], input=lines, capture_output=True, text=True, timeout=60, check=True)
    errors = dict(zip(DOCUMENTS, (json.loads(line)["errors"] for line in run.stdout.splitlines()), strict=True))
    invalid = {name: found for name, found in errors.items() if found}
    print(f"{len(DOCUMENTS) - len(invalid)} of {len(DOCUMENTS)} documents validate")
    assert set(invalid) == MISSING, {name: invalid.get(name, "validates now") for name in set(invalid) ^ MISSING}


@pytest.fixture(scope="module")
def names(platform):
    (application, *_) = platform.graphql("{ applications { edges { node { metadata { namespace name } } } } }")["applications"]["edges"]
    return {"runtime": platform.env["CULVERT_RUNTIME"], **application["node"]["metadata"]}


def variables_of(names):
    runtime, name, namespace = names["runtime"], names["name"], names["namespace"]
    return {
        "cli GetRuntime": {"name": runtime}, "cli Clusters": {"runtime": "", "pagination": {"after": ""}}, "cli Pipeline": {"runtime": runtime, "name": "x"}, "cli Workflow": {"uid": "none"},
        "cli Pipelines": {"filters": {"name": "", "namespace": "", "runtime": "", "project": ""}},
        "cli PromotionTemplate": {"applicationMetadata": {"name": name, "labels": {"a": "b"}}},
        "cli Promotions": {"filters": {"productNames": ["shop"], "statuses": ["RUNNING"], "promotionFlows": []}, "pagination": {"first": 20}},
        "cli ProductReleases": {"productName": "shop", "filters": {}},
        "cli Components": {"runtime": runtime}, "cli GitSources": {"runtime": ""}, "page rolloutStepStatus": {"r": runtime},
        "steps runtime": {"runtime": runtime}, "steps application": {"runtime": runtime, "name": name, "namespace": namespace},
        "terraform abacRules": {"accountId": "", "entityType": "gitopsApplications"}, "terraform abacRule": {"accountId": "", "id": "none"},
        "app-proxy Runtime": {"name": runtime},
        "app-proxy Applications": {"pagination": {"first": 50}, "filters": {"inactive": True, "includeComponents": True}},
        "app-proxy PromotionData": {"r": runtime, "ns": namespace, "n": name},
    }  # fmt: skip


def test_queries_run(platform, names):
    """Go's decoders take an errors key, even an empty list, for a failure, and the first key of data for the answer."""
    variables = variables_of(names)
    for name, text in DOCUMENTS.items():
        if name in MISSING or text.startswith("mutation") or name == "app-proxy getSealingKey":
            continue  # test_client_operations.py has what only a runtime may ask
        answer = platform.graphql_answer(text, variables.get(name))
        assert answer.status == 200 and list(answer.json()) == ["data"], (name, answer.text())


def test_empty_shapes(platform, names):
    variables = variables_of(names)
    empty = {"hasNextPage": False, "hasPrevPage": False, "startCursor": None, "endCursor": None}
    assert platform.graphql(DOCUMENTS["cli Promotions"], variables["cli Promotions"]) == {"promotions": {"pageInfo": empty, "edges": []}}
    assert platform.graphql(DOCUMENTS["cli PromotionTemplate"], variables["cli PromotionTemplate"]) == {"promotionTemplateByRuntime": None}
    for name in ("operator tasks", "operator hooks", "operator statuses", "app-proxy components"):
        (value,) = platform.graphql(DOCUMENTS[name]).values()
        assert value == []
    assert platform.graphql(DOCUMENTS["cli LimitsStatus"])["limitsStatus"]["usage"] is not None


def test_account_settings_lock(platform):
    """They can be set until a runtime has connected with them; the same values again are no change."""
    account = platform.graphql("{ me { activeAccount { id csdpValidated } } }")["me"]["activeAccount"]
    assert account["csdpValidated"] is True  # the demo cluster's runtime has connected
    one = {"gitProvider": "GITHUB", "gitApiUrl": "https://api.github.com", "sharedConfigRepo": "https://github.com/acme/shared.git"}
    try:
        assert platform.graphql(DOCUMENTS["cli UpdateCsdpSettings"], one) == {"updateCsdpSettings": None}
        assert platform.graphql(DOCUMENTS["cli UpdateCsdpSettings"], one) == {"updateCsdpSettings": None}
        me = platform.graphql(DOCUMENTS["cli Me"])["me"]["activeAccount"]
        assert {name: me[name] for name in one} == one
        suggested = platform.graphql(DOCUMENTS["cli SuggestIscRepo"], {"suggestedSharedConfigRepo": "https://github.com/acme/other.git"})
        assert suggested == {"suggestIscRepo": one["sharedConfigRepo"]}
        (error,) = platform.graphql_answer(DOCUMENTS["cli UpdateCsdpSettings"], {**one, "gitProvider": "GITLAB"}).json()["errors"]
        assert error["extensions"]["code"] == "CONFLICT" and "locked" in error["message"] and "delete all" in error["message"]
        for bad in ("", "ftp://x", "https://user:secret@github.com/x.git", "https://a b", "https://" + "x" * 3000):
            (error,) = platform.graphql_answer(DOCUMENTS["cli UpdateCsdpSettings"], {**one, "sharedConfigRepo": bad}).json()["errors"]
            assert error["extensions"]["code"] == "BAD_USER_INPUT" and "sharedConfigRepo" in error["message"] and "secret" not in error["message"]
    finally:
        platform.psql(f"update accounts set git_provider = null, git_api_url = null, shared_config_repo = null where account_id = '{account['id']}'")


def test_migrate_runtime(platform):
    name = "migrates-" + uuid.uuid4().hex[:8]
    arguments = {"runtimeName": name, "cluster": "in-cluster", "runtimeVersion": "0.1.0", "componentNames": []}
    platform.graphql(DOCUMENTS["cli CreateRuntime"], {"installationArgs": arguments})
    try:
        assert platform.graphql(DOCUMENTS["cli GetRuntime"], {"name": name})["runtime"]["installationType"] is None
        assert platform.graphql(DOCUMENTS["cli MigrateRuntime"], {"runtimeName": name}) == {"migrateRuntime": None}
        assert platform.graphql(DOCUMENTS["cli GetRuntime"], {"name": name})["runtime"]["installationType"] == "HELM"
        assert platform.graphql("{ shouldBeImplicitConfigurationRuntime }") == {"shouldBeImplicitConfigurationRuntime": False}
        (error,) = platform.graphql_answer(DOCUMENTS["cli MigrateRuntime"], {"runtimeName": "none"}).json()["errors"]
        assert error["extensions"]["code"] == "NOT_FOUND" and '"none"' in error["message"]
    finally:
        platform.graphql(DOCUMENTS["cli DeleteRuntime"], {"name": name})
