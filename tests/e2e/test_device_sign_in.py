"""culvert login in a browser: a command line gets a key of the person who allows it (RFC 8628)."""

import json
import os
import re
import subprocess
import urllib.parse

import pytest

from conftest import build_folder
from test_audit import entries
from test_roles import codes, create_user, key_of
from waiting import wait_until

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
GRANT = "urn:ietf:params:oauth:grant-type:device_code"
GET = "query($c: String!) { deviceAuthorization(userCode: $c) { clientId remote userAgent createdAt expiresAt } }"
DECIDE = "mutation($c: String!, $a: Boolean!) { decideDeviceAuthorization(userCode: $c, allow: $a) }"
ME = "{ me { name } }"


def post(platform, path, **fields):
    return platform.api("POST", path, urllib.parse.urlencode(fields), headers=FORM, key=False)


def begin(platform, client_id="culvert-cli"):
    answer = post(platform, "/api/auth/device", client_id=client_id)
    assert answer.status == 200, answer.text()
    return answer.json()


def poll(platform, begun, **other):
    answer = post(platform, "/api/auth/token", **{"grant_type": GRANT, "client_id": "culvert-cli", "device_code": begun["device_code"], **other})
    return answer.status, answer.json()


def error(platform, begun, **other):
    status, said = poll(platform, begun, **other)
    assert status == 400 and said["error_description"] and "access_token" not in said
    return said["error"]


def decide(platform, begun, allow=True, key=True):
    return platform.graphql_answer(DECIDE, {"c": begun["user_code"], "a": allow}, key=key).json()


@pytest.fixture()
def member(platform):
    user = create_user(platform)
    user["key"] = key_of(platform, user)["token"]
    return user


@pytest.fixture(autouse=True)
def none_left(platform):
    yield
    platform.psql("delete from device_authorizations")


def test_a_person_allows_it(platform, member):
    begun = begin(platform)
    assert re.fullmatch("[BCDFGHJKLMNPQRSTVWXZ]{5}-[BCDFGHJKLMNPQRSTVWXZ]{5}", begun["user_code"])
    assert begun["verification_uri_complete"] == f"{begun['verification_uri']}?code={begun['user_code']}" and begun["interval"] == 5 and begun["expires_in"] == 600
    assert error(platform, begun) == "authorization_pending"
    assert error(platform, begun) == "slow_down"
    typed = begun["user_code"].lower().replace("-", " ")
    shown = platform.graphql(GET, {"c": typed}, key=member["key"])["deviceAuthorization"]
    assert (shown["clientId"], shown["remote"]) == ("culvert-cli", "127.0.0.1")
    assert decide(platform, begun, key=member["key"]) == {"data": {"decideDeviceAuthorization": True}}
    assert codes(decide(platform, begun, allow=False, key=member["key"])) == ["NOT_FOUND"] and platform.graphql(GET, {"c": typed}, key=member["key"])["deviceAuthorization"] is None
    status, given = poll(platform, begun)
    assert status == 200 and given["token_type"] == "Bearer" and given["expires_in"] == 30 * 86400
    assert platform.graphql(ME, key=given["access_token"])["me"]["name"] == member["name"]
    assert error(platform, begun) == "invalid_grant"
    # It is the user's own key; the decision and the key have an entry each.
    identifier = given["access_token"].split(".")[0]
    (key,) = [each for each in platform.graphql("{ myApiKeys { id name expiresAt } }", key=given["access_token"])["myApiKeys"] if each["id"] == identifier]
    assert key["name"] == f"device {identifier[:6]} 127.0.0.1" and key["expiresAt"]
    (decision,) = [each for each in entries(platform, entity="device_authorizations") if each["entityId"] == begun["device_code"].split(".")[0]]
    assert decision["outcome"] == "allowed" and decision["actor"]["id"] == member["id"]
    (made,) = entries(platform, entity="api_keys", entityId=identifier)
    assert made["action"] == "create" and (made["actor"]["id"], made["actor"]["name"], made["actor"]["method"]) == (member["id"], member["name"], "device")
    platform.graphql("mutation($i: String!) { revokeMyApiKey(id: $i) }", {"i": identifier}, key=given["access_token"])
    wait_until(lambda: platform.graphql_answer(ME, key=given["access_token"]).status == 401, 10, "the key has ended")


def test_it_is_denied_or_nobody_comes(platform, member):
    denied, expired, late = begin(platform), begin(platform), begin(platform)
    assert "errors" not in decide(platform, denied, allow=False, key=member["key"]) and error(platform, denied) == "access_denied"
    (decision,) = [each for each in entries(platform, entity="device_authorizations") if each["entityId"] == denied["device_code"].split(".")[0]]
    assert decision["outcome"] == "denied"
    platform.psql(f"update device_authorizations set expires_at = now() where device_id = '{expired['device_code'].split('.')[0]}'")
    assert codes(decide(platform, expired, key=member["key"])) == ["NOT_FOUND"] and error(platform, expired) == "expired_token"
    # Whoever may not sign in any more gets no key by what was allowed before.
    assert "errors" not in decide(platform, late, key=member["key"])
    platform.graphql("mutation($i: String!) { updateUser(id: $i, isDisabled: true) { id } }", {"i": member["id"]})
    assert error(platform, late) == "access_denied"


def test_what_is_refused(platform, member):
    begun = begin(platform)
    assert post(platform, "/api/auth/device", client_id="other").json()["error"] == "invalid_client"
    assert post(platform, "/api/auth/device").json()["error"] == "invalid_client"
    identifier, secret = begun["device_code"].split(".")
    for wrong in (f"{identifier}.{'0' * 64}", f"{'0' * 24}.{secret}", "x", platform.env["CULVERT_API_KEY"]):
        assert error(platform, {"device_code": wrong}) == "invalid_grant"
    assert error(platform, begun, client_id="other") == "invalid_client" and error(platform, {"device_code": ""}) == "invalid_request"
    assert post(platform, "/api/auth/token", grant_type="password").json()["error"] == "unsupported_grant_type"
    # The device code is no credential, and neither a key with scopes nor a runtime decides.
    assert platform.graphql_answer(ME, key=begun["device_code"]).status == 401
    scoped = platform.graphql("mutation($u: String!) { createApiKey(userId: $u, name: \"scoped\", scopes: [\"read\", \"write\"]) { token } }", {"u": member["id"]})["createApiKey"]["token"]
    assert codes(decide(platform, begun, key=scoped)) == ["FORBIDDEN"] and codes(decide(platform, begun, key=platform.env["CULVERT_RUNTIME_TOKEN"])) == ["FORBIDDEN"]
    for text in ("", "BCDFG", "AAAAA-AAAAA", "BCDFG-HJKLM-BCDFG", "%", "'"):
        assert platform.graphql(GET, {"c": text}, key=member["key"])["deviceAuthorization"] is None
        assert codes(platform.graphql_answer(DECIDE, {"c": text, "a": True}, key=member["key"]).json()) == ["NOT_FOUND"]
    assert error(platform, begun) == "authorization_pending"


def test_how_many_wait(platform):
    answers = [post(platform, "/api/auth/device", client_id="culvert-cli") for _ in range(21)]
    assert [each.status for each in answers] == [200] * 20 + [429] and answers[-1].headers["retry-after"] == "60" and "per_address" in answers[-1].json()["error_description"]


def test_a_user_has_so_many(platform, member):
    keys = []
    for _ in range(21):
        begun = begin(platform)
        decide(platform, begun, key=member["key"])
        keys.append(poll(platform, begun)[1]["access_token"].split(".")[0])
    valid = {each["id"] for each in platform.graphql("{ myApiKeys { id revokedAt } }", key=member["key"])["myApiKeys"] if not each["revokedAt"]}
    assert len(valid & set(keys)) == 20 and keys[-1] in valid


def test_where_it_is_found(platform):
    found = platform.api("GET", "/.well-known/oauth-authorization-server", key=False).json()
    assert found["device_authorization_endpoint"] == found["issuer"] + "/api/auth/device" and found["token_endpoint"] == found["issuer"] + "/api/auth/token"
    assert GRANT in found["grant_types_supported"]
    assert platform.api("GET", "/.well-known/other", key=False).status == 404


def test_culvert_login_and_logout(platform, member, tmp_path):
    config = tmp_path / "config.json"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CULVERT_")}
    program, environment = build_folder("asan") / "cli" / "culvert", {**clean, "CULVERT_CLI_CONFIG": str(config)}

    def run(*words):
        return subprocess.run([program, *words], env=environment, capture_output=True, text=True, timeout=60)

    words = ["login", platform.env["CULVERT_URL"], "--ca-file", platform.env["CULVERT_CA"], "--name", "mine"]
    with subprocess.Popen([program, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        instructions = "".join(process.stderr.readline() for _ in range(3))
        (code,) = set(re.findall("[B-Z]{5}-[B-Z]{5}", instructions))
        assert f"/ui/device?code={code}" in instructions and not config.exists()
        assert "errors" not in decide(platform, {"user_code": code}, key=member["key"])
        said, problems = process.communicate(timeout=60)
        assert process.returncode == 0 and f"as {member['name']} of account quickstart" in said, (said, problems)
    assert config.stat().st_mode & 0o777 == 0o600
    token = json.loads(config.read_text())["contexts"]["mine"]["token"]
    assert member["name"] in run("auth", "whoami").stdout and token not in said + problems + instructions
    assert "has ended" in run("logout").stdout and token not in config.read_text()
    wait_until(lambda: platform.graphql_answer(ME, key=token).status == 401, 10, "the key has ended")
    refused = run("auth", "whoami")
    assert refused.returncode == 4 and "culvert login" in refused.stderr
    assert run("logout", "nowhere").returncode == 3

    # What cannot be kept is ended again: no key stays that its user does not know of.
    with subprocess.Popen([program, *words], env={**environment, "CULVERT_CLI_CONFIG": "/proc/none/config.json"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        code = re.search("[B-Z]{5}-[B-Z]{5}", "".join(process.stderr.readline() for _ in range(3)))[0]
        decide(platform, {"user_code": code}, key=member["key"])
        _, problems = process.communicate(timeout=60)
        assert process.returncode != 0 and "/proc/none" in problems and "stays valid" not in problems
    keys = platform.graphql("{ myApiKeys { name revokedAt } }", key=member["key"])["myApiKeys"]
    assert [each["name"] for each in keys if each["name"].startswith("device") and not each["revokedAt"]] == [] and len(keys) == 3
