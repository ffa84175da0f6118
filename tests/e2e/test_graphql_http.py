"""GraphQL over HTTP: the audits of npm's graphql-http, and what they leave out: methods, media types, compression."""

import gzip
import json
import os
import subprocess
import urllib.parse

import pytest

from api_listener_client import GRAPHQL, JSON
from graphql_packages import ORACLE, installed

RESPONSE = "application/graphql-response+json"


def get(platform, query=None, headers=None, **fields):
    fields = {name: value if isinstance(value, str) else json.dumps(value) for name, value in fields.items()}
    if query:
        fields["query"] = query
    return platform.api("GET", GRAPHQL + "?" + urllib.parse.urlencode(fields), headers=headers)


def test_audits(platform):
    modules = installed()
    environment = dict(os.environ, NODE_PATH=str(modules), NODE_EXTRA_CA_CERTS=platform.env["CULVERT_CA"])
    url = platform.env["CULVERT_URL"] + GRAPHQL
    command = ["node", str(ORACLE / "audit.js"), url, platform.env["CULVERT_API_KEY"]]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    audits = [json.loads(line) for line in run.stdout.splitlines()]
    failed = [f"{audit['id']} {audit['name']}: {audit.get('reason')}" for audit in audits if audit["status"] != "ok"]
    assert not failed, "\n".join(failed)
    assert len(audits) == 61


@pytest.mark.parametrize(
    "accept,media,status",
    [
        (None, "application/json", 400),  # what clients without a wish were always answered
        ("*/*", "application/json", 400),
        ("application/json, text/plain, */*", "application/json", 400),
        ("application/json", "application/json", 200),
        ("text/html", "application/json", 400),
        (RESPONSE, RESPONSE, 400),
        (f"{RESPONSE}, application/json;q=0.9", RESPONSE, 400),
        (f"application/json, {RESPONSE};q=0.5", "application/json", 400),
        (f"{RESPONSE};q=0, application/json", "application/json", 200),
    ],
)
def test_media_type(platform, accept, media, status):
    headers = {**JSON, **({"Accept": accept} if accept else {})}
    wrong = platform.api("POST", GRAPHQL, json.dumps({"query": "{ nothing }"}), headers=headers)
    right = platform.api("POST", GRAPHQL, json.dumps({"query": "{ __typename }"}), headers=headers)
    assert (wrong.status, right.status) == (status, 200)
    assert wrong.headers["content-type"] == right.headers["content-type"] == media + "; charset=utf-8"
    assert "data" not in wrong.json() and right.json() == {"data": {"__typename": "Query"}}


def test_get(platform):
    query = "query Mine($n: String!) { runtime(name: $n) { metadata { name } } } query Other { __typename }"
    name = platform.env["CULVERT_RUNTIME"]
    answer = get(platform, query, variables={"n": name}, operationName="Mine")
    assert answer.status == 200 and answer.json()["data"]["runtime"]["metadata"]["name"] == name
    refused = get(platform, "mutation { deleteRuntime(name: \"x\") }")
    assert refused.status == 405 and refused.headers["allow"] == "POST" and "POST" in refused.text()
    for bad in ("query=%7B__typename%7", "query=%00", "query=%FF", "query={__typename}&query={__typename}", "query={__typename}&variables=[1", "query={__typename}&variables=[1]", ""):
        answer = platform.api("GET", f"{GRAPHQL}?{bad}")
        assert answer.status == 400 and answer.json()["errors"][0]["message"], bad


@pytest.mark.parametrize("accept,coding", [("gzip", "gzip"), ("zstd, gzip", "zstd"), ("gzip, zstd;q=0.1", "gzip"), ("gzip;q=0", None), ("br", None), (None, None)])
def test_compression(platform, accept, coding):
    body = json.dumps({"query": "{ __schema { types { name fields { name } } } }"})
    plain = platform.api("POST", GRAPHQL, body, headers=JSON)
    answer = platform.api("POST", GRAPHQL, body, headers={**JSON, **({"Accept-Encoding": accept} if accept else {})})
    assert answer.headers["content-encoding"] == coding and answer.headers["vary"] == "Accept, Accept-Encoding"
    if coding == "gzip":
        assert gzip.decompress(answer.body) == plain.body and len(answer.body) * 3 < len(plain.body)
    elif coding == "zstd":
        unpacked = subprocess.run(["zstd", "-dc"], input=answer.body, capture_output=True, check=True).stdout
        assert unpacked == plain.body and len(answer.body) * 3 < len(plain.body)
    else:
        assert answer.body == plain.body


def test_small_and_secret_answers_are_not_compressed(platform):
    headers = {"Accept-Encoding": "gzip"}
    assert platform.graphql_answer("{ __typename }", headers=headers).headers["content-encoding"] is None
    fields = " ".join(f"{'a' * 100}{i}: __typename" for i in range(15))
    for kind, coding in (("query", "gzip"), ("mutation", None)):  # a mutation's answer may hold a new token
        answer = platform.graphql_answer(f"{kind} {{ {fields} }}", headers=headers)
        assert answer.status == 200 and answer.headers["content-encoding"] == coding


INTROSPECTION = """
query IntrospectionQuery { __schema { description queryType { name } mutationType { name } subscriptionType { name }
  types { ...FullType } directives { name description isRepeatable locations args { ...InputValue } } } }
fragment FullType on __Type { kind name description specifiedByURL
  fields(includeDeprecated: true) { name description args { ...InputValue } type { ...TypeRef } isDeprecated deprecationReason }
  inputFields { ...InputValue } interfaces { ...TypeRef }
  enumValues(includeDeprecated: true) { name description isDeprecated deprecationReason } possibleTypes { ...TypeRef } }
fragment InputValue on __InputValue { name description type { ...TypeRef } defaultValue }
fragment TypeRef on __Type { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name
  ofType { kind name ofType { kind name ofType { kind name } } } } } } } }"""


def test_introspection_is_the_schema(platform, tmp_path):
    """graphql-js makes the same schema of our introspection as of our SDL."""
    modules = installed()
    (tmp_path / "introspection.json").write_text(json.dumps(platform.graphql(INTROSPECTION)))
    (tmp_path / "schema.graphql").write_bytes(platform.api("GET", GRAPHQL + "/schema.graphql").body)
    command = ["node", str(ORACLE / "same_schema.js"), str(tmp_path / "schema.graphql"), str(tmp_path / "introspection.json")]
    run = subprocess.run(command, env=dict(os.environ, NODE_PATH=str(modules)), capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_introspection_that_multiplies_is_refused(platform):
    query = "{ __schema { types { fields { type { fields { type { fields { name } } } } } } } }"
    answer = platform.graphql_answer(query)
    assert answer.status == 400 and "introspection depth" in answer.text()


def test_cost_is_in_answers_that_ask_for_it(platform):
    def ask(query, **more):
        return platform.api("POST", GRAPHQL, json.dumps({"query": query, **more}), headers=JSON).json()

    query = "{ a: applications(pagination: {first: 20}) { edges { cursor } } b: applications(pagination: {first: 5}) { edges { node { errors { title } } } } }"
    cost = ask(query, extensions={"cost": True})["extensions"]["cost"]
    assert cost == {"requested": 20 + 5 * 2, "limit": 20000}
    again = ask(query, extensions={"cost": True})  # not one that was kept
    assert again["extensions"]["cost"] == cost and len(again["data"]["a"]["edges"]) <= 20
    assert "extensions" not in ask(query) and "extensions" not in ask(query, extensions={"cost": False})
    wrong = ask("{ nothing }", extensions={"cost": True})
    assert wrong["errors"] and wrong["extensions"]["cost"]["requested"] == 0
    assert get(platform, query, extensions={"cost": True}).json()["extensions"]["cost"] == cost
