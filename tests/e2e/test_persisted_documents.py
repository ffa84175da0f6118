"""GraphQL documents by their hash: automatic persisted queries, documentId, and a platform that accepts listed documents alone."""

import hashlib
import json
import pathlib
import re
import tempfile
import urllib.parse

import pytest

from api_listener_client import GRAPHQL
from conftest import build_folder
from platform_under_test import Platform

LISTED = "{ me { activeAccount { id } } }"
TOP = pathlib.Path(__file__).resolve().parents[2]


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def post(platform, key=True, **body):
    return platform.api("POST", GRAPHQL, json.dumps(body), headers={"Content-Type": "application/json"}, key=key)


def named(digest):
    return {"persistedQuery": {"version": 1, "sha256Hash": digest}}


def until_known(platform, text, **more):
    """Each loop has its own cache: a client sends the text whenever it is asked to."""
    for _ in range(40):
        answer = post(platform, extensions=named(sha(text)), **more)
        if "errors" not in answer.json():
            return answer.json()
        assert answer.status == 200 and answer.json()["errors"][0]["extensions"]["code"] == "PERSISTED_QUERY_NOT_FOUND"
        assert "errors" not in post(platform, query=text, extensions=named(sha(text)), **more).json()
    raise AssertionError("never known")


def test_automatic(platform):
    text = "query($r: String!) { runtime(name: $r) { metadata { name } } } # " + __name__
    unknown = post(platform, extensions=named(sha(text))).json()["errors"][0]
    assert unknown["message"] == "PersistedQueryNotFound"
    variables = {"r": platform.env["CULVERT_RUNTIME"]}
    assert until_known(platform, text, variables=variables)["data"]["runtime"]["metadata"]["name"] == variables["r"]
    fields = urllib.parse.urlencode({"documentId": "sha256:" + sha(text), "variables": json.dumps({"r": "none"})})
    answers = [platform.api("GET", GRAPHQL + "?" + fields).json() for _ in range(8)]
    assert {"data": {"runtime": None}} in answers
    assert platform.metric("culvert_graphql_persisted_documents_total", result="hit") >= 1
    assert platform.metric("culvert_graphql_persisted_documents_total", result="stored") >= 1


def test_mutation_is_not_run_by_get(platform):
    text = 'mutation { deleteTeam(id: "none") } # ' + __name__
    for _ in range(8):
        post(platform, query=text, extensions=named(sha(text)))
    answers = [platform.api("GET", GRAPHQL + "?" + urllib.parse.urlencode({"documentId": "sha256:" + sha(text)})).status for _ in range(8)]
    assert 405 in answers and set(answers) <= {405, 200}  # 200: that loop does not know it


@pytest.mark.parametrize("digest", ["x", "A" * 64, sha("x")[:-1], "0" * 65])
def test_bad_hash(platform, digest):
    assert post(platform, extensions=named(digest)).status == 400
    assert post(platform, documentId="sha256:" + digest).status == 400


def test_wrong_hash_is_not_stored(platform):
    answer = post(platform, query="{ me { id } }", extensions=named(sha("other")))
    assert answer.status == 400 and "not the SHA-256" in answer.json()["errors"][0]["message"]
    assert post(platform, extensions=named(sha("other"))).json()["errors"][0]["message"] == "PersistedQueryNotFound"


def test_listed_documents_alone():
    with tempfile.TemporaryDirectory(prefix="culvert-e2e.", dir="/var/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        documents = pathlib.Path(folder) / "documents.json"
        # deploy/quickstart asks too, until the runtime is online.
        listed = [LISTED, *re.findall(r"\(graphql '(\{[^']*)'", (TOP / "deploy/quickstart").read_text(encoding="utf-8"))]
        documents.write_text(json.dumps({sha(text): text for text in listed}), encoding="utf-8")
        platform = Platform(pathlib.Path(folder) / "home", build_folder("asan"))
        try:
            platform.start()
            account = platform.env["CULVERT_ACCOUNT"]
            platform.stop()
            platform.settings.update(CULVERT_GRAPHQL_DOCUMENTS_FILE=str(documents), CULVERT_GRAPHQL_DOCUMENTS_ONLY="true")
            platform.start()
            for body in ({"query": LISTED}, {"documentId": "sha256:" + sha(LISTED)}, {"extensions": named(sha(LISTED))}):
                assert post(platform, **body).json() == {"data": {"me": {"activeAccount": {"id": account}}}}
            refused = post(platform, query="{ me { id } }")
            assert refused.status == 400 and "graphql.documents_file" in refused.json()["errors"][0]["message"]
            other = "{ me { id } }"
            assert post(platform, query=other, extensions=named(sha(other))).status == 400
            assert post(platform, extensions=named(sha(other))).json()["errors"][0]["message"] == "PersistedQueryNotFound"
            assert platform.api("GET", "/v1/account").status == 200  # REST is not affected
        finally:
            platform.reset()
