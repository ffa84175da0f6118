"""Sign-in at identity providers, on a culvertd of its own beside the session's platform."""

import contextlib
import hashlib
import hmac
import json
import os
import subprocess
import sys
import time
import urllib.parse
import uuid

import pytest

import browser
from api_listener_client import culvertd
from identity_provider import Key, LyingProvider, Person, b64, node_provider
from test_browser_sessions import COOKIE, SESSION
from platform_under_test import TOP
from waiting import wait_until

sys.path.insert(0, str(TOP / "tests/support"))
from servers import free_port  # noqa: E402

ATTEMPT = "__Host-culvert-sign-in"
PROVIDERS = "/api/auth/providers"


class Site:
    """The culvertd, its providers, and browsers that sign in."""

    def __init__(self, platform, folder):
        self.platform, self.folder = platform, folder
        self.port = free_port()
        self.url = f"https://localhost:{self.port}"
        self.liar, self.other, self.broken, self.ci = (LyingProvider() for _ in range(4))
        self.node_port = free_port()
        self.account = platform.graphql("{ me { activeAccount { name } } }")["me"]["activeAccount"]["name"]
        self.admin_port = free_port()

    def providers(self):
        secret = self.folder / "client.secret"
        secret.write_text("the secret\n")
        usual = {"client_id": "culvert", "account": self.account, "create_users": True}
        liar = {**usual, "client_secret_file": str(secret), "groups_claim": "/realm/groups", "teams": {"dev": "sign-in-dev", "ops": "sign-in-ops"}, "required_claims": {"hd": ["example.org", "example.net"]}}
        return [
            {**liar, "id": "liar", "title": "The liar", "issuer": self.liar.issuer},
            {**liar, "id": "other", "issuer": self.other.issuer, "create_users": False, "link_by_verified_email": True, "algorithms": ["RS256"]},
            {"id": "ci", "account": self.account, "issuer": self.ci.issuer, "exchange": {"audience": "https://culvert.test", "rules": [
                {"claims": {"repository": "acme/other"}, "user": "nobody", "scopes": ["admin"]},
                {"claims": {"repository": ["acme/shop", "acme/web"], "ref": "refs/heads/main"}, "user": "sign-in-ci", "scopes": ["read"]}]}},
            {**usual, "id": "broken", "issuer": self.broken.issuer},
            {**usual, "id": "node", "issuer": f"http://127.0.0.1:{self.node_port}", "client_secret_env": "NODE_SECRET", "admin_groups": ["culvert-admins"], "role": "read-only"},
        ]

    def words(self, providers):
        file = self.folder / "providers.json"
        file.write_text(providers if isinstance(providers, str) else json.dumps({"providers": providers}))
        listeners = {"api": self.port, "admin": self.admin_port, "tunnel": free_port(), "ingress": free_port()}
        return ["--node.name=sign-in", f"--platform.url={self.url}", f"--sign_in.providers_file={file}", "--sign_in.request_timeout=2s", "--sign_in.keys_interval=1s",
                *([f"--ui.file={browser.UI_PACK}"] if browser.UI_PACK.exists() else []), *(f"--{name}.listen=127.0.0.1:{port}" for name, port in listeners.items())]

    @contextlib.contextmanager
    def served(self):
        command = [self.platform.build / "server/culvertd", "--config", self.platform.home / "culvertd.conf", *self.words(self.providers())]
        with open(self.folder / "culvertd.log", "wb") as log, subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "NODE_SECRET": "a-secret+with/odd=bytes"}) as process:
            try:
                wait_until(lambda: process.poll() is not None or self.is_up(), 30, "it serves")
                assert process.poll() is None, (self.folder / "culvertd.log").read_text()
                yield self
            finally:
                process.terminate()
                assert process.wait(30) == 0, self.log()[-3000:]

    def is_up(self):
        with contextlib.suppress(OSError):
            return self.platform.call("GET", f"http://127.0.0.1:{self.admin_port}", "/readyz", key=False).status == 200
        return False

    def log(self):
        return (self.folder / "culvertd.log").read_text()

    def ask(self, path, cookies=None):
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in (cookies or {}).items()), "User-Agent": "test browser", "Sec-Fetch-Site": "cross-site"}
        return self.platform.call("GET", self.url, path, headers=headers, key=False)

    def start(self, provider="liar", back=None):
        """(where the browser is sent, its cookie)"""
        query = f"?return={urllib.parse.quote(back, safe='')}" if back is not None else ""
        answer = self.ask(f"{PROVIDERS}/{provider}/start{query}")
        assert answer.status == 303, answer.text()
        return answer.headers["Location"], cookies_of(answer)[ATTEMPT]

    def callback(self, provider, cookie, **query):
        query = {name: value for name, value in query.items() if value is not None}
        return self.ask(f"{PROVIDERS}/{provider}/callback?{urllib.parse.urlencode(query)}", {ATTEMPT: cookie} if cookie else {})

    def sign_in(self, provider="liar", **changes):
        """The answer at the end, at a provider of Python."""
        liar = {"liar": self.liar, "other": self.other}[provider]
        location, cookie = self.start(provider)
        code, sent = liar.authorize(location)
        return self.callback(provider, cookie, **{"code": code, "state": sent["state"], **changes})

    def session_of(self, answer):
        assert answer.status == 303 and "problem" not in answer.headers["Location"], (answer.status, answer.headers["Location"], self.log()[-2000:])
        value = cookies_of(answer)[COOKIE]
        return self.platform.call("GET", self.url, SESSION, headers={"Cookie": f"{COOKIE}={value}", "Sec-Fetch-Site": "same-origin"}, key=False).json()

    def psql(self, sql):
        return self.platform.psql(sql)


def cookies_of(answer):
    return {field.partition("=")[0]: field.partition(";")[0].partition("=")[2] for field in answer.headers.get_all("Set-Cookie", [])}


def problem_of(answer):
    """The word that the sign-in page shows; no session was opened, and the attempt is over."""
    assert answer.status == 303 and COOKIE not in cookies_of(answer), (answer.status, answer.headers)
    assert cookies_of(answer)[ATTEMPT] == ""
    return answer.headers["Location"].rpartition("/ui/sign-in?problem=")[2]


@pytest.fixture(scope="module")
def served(platform, tmp_path_factory):
    with Site(platform, tmp_path_factory.mktemp("sign-in")).served() as site:
        yield site


@pytest.fixture()
def site(served):
    for provider in (served.liar, served.other):
        provider.restore()
        provider.claims.update(sub=f"s-{uuid.uuid4().hex[:8]}", hd="example.org")
    return served


def test_a_first_sign_in_makes_a_user(site):
    assert [each["id"] for each in site.ask(PROVIDERS).json()] == ["liar", "other", "broken", "node"] and site.ask(PROVIDERS).json()[0]["title"] == "The liar"
    location, cookie = site.start(back="ui/apps?q=a%20b")
    code, sent = site.liar.authorize(location)
    assert location.startswith(f"{site.liar.issuer}/auth?") and sent["response_type"] == "code" and sent["code_challenge_method"] == "S256" and sent["scope"] == "openid profile email"
    assert sent["redirect_uri"] == f"{site.url}{PROVIDERS}/liar/callback" and len({sent["state"], sent["nonce"], sent["code_challenge"]}) == 3
    answer = site.callback("liar", cookie, code=code, state=sent["state"])
    assert answer.headers["Location"] == f"{site.url}/ui/apps?q=a%20b" and cookies_of(answer)[ATTEMPT] == ""
    fields = {field.partition("=")[0]: sorted(field.split("; ")[1:]) for field in answer.headers.get_all("Set-Cookie")}
    assert fields[COOKIE] == sorted(["Path=/", "Max-Age=604800", "Secure", "HttpOnly", "SameSite=Strict"])
    assert fields[ATTEMPT] == sorted(["Path=/", "Max-Age=0", "Secure", "HttpOnly", "SameSite=Lax"])
    session = site.session_of(answer)
    assert session["session"]["method"] == "oidc" and session["user"]["email"] == "carol@example.org" and not session["user"]["isAdmin"]
    assert site.session_of(site.sign_in())["user"] == session["user"]
    # Another subject with the same name and address is another user.
    site.liar.claims["sub"] = "another"
    other = site.session_of(site.sign_in())["user"]
    assert other["id"] != session["user"]["id"] and other["name"] != session["user"]["name"] and other["email"] == session["user"]["email"]
    kept = site.platform.dump().decode() + site.log()
    for secret in (cookie, sent["state"], sent["nonce"], code, site.liar.secret, cookies_of(answer)[COOKIE].split(".")[1]):
        assert secret not in kept
    actor = site.psql(f"select actor ->> 'method', actor ->> 'name', action from audit_entries where entity = 'users' and entity_id = '{session['user']['id']}'")
    assert actor == [["oidc", "liar", "create"]]


def test_groups_are_teams(site):
    account = site.platform.env["CULVERT_ACCOUNT"]
    for name in ("sign-in-dev", "sign-in-ops", "sign-in-own"):
        site.platform.graphql("mutation($n: String!) { createTeam(name: $n) { id } }", {"n": name})

    def teams_of(user):
        return [row[0] for row in site.psql(f"select t.name from team_members m join teams t using (account_id, team_id) where account_id = '{account}' and user_id = '{user}' order by 1")]

    site.liar.claims["realm"] = {"groups": ["dev", "unknown"]}
    user = site.session_of(site.sign_in())["user"]["id"]
    assert teams_of(user) == ["sign-in-dev"]
    own = site.psql(f"select team_id from teams where name = 'sign-in-own' and account_id = '{account}'")[0][0]
    site.platform.graphql("mutation($t: String!, $u: String!) { addTeamMember(teamId: $t, userId: $u) { id } }", {"t": own, "u": user})
    site.liar.claims["realm"] = {"groups": "ops"}
    site.session_of(site.sign_in())
    assert teams_of(user) == ["sign-in-ops", "sign-in-own"]
    site.liar.claims["realm"] = None
    site.session_of(site.sign_in())
    assert teams_of(user) == ["sign-in-own"]
    site.psql(f"update users set is_disabled = true where user_id = '{user}'")
    assert problem_of(site.sign_in()) == "no_user"


def test_who_may_not_sign_in(site):
    site.liar.claims["hd"] = "elsewhere.example"
    assert problem_of(site.sign_in()) == "no_user"
    site.liar.claims["hd"] = ["x", "example.net"]
    site.session_of(site.sign_in())
    # other makes no users, and takes verified addresses alone for those that exist.
    name = f"dave-{uuid.uuid4().hex[:8]}"
    made = culvertd(site.platform, "admin", "create-user", "--account", site.account, name, f"{name}@Example.org")
    assert made.returncode == 0, made.stderr
    site.other.claims["email"] = f"{name}@example.org"
    assert problem_of(site.sign_in("other")) == "no_user"
    site.other.claims["email_verified"] = "true"
    assert problem_of(site.sign_in("other")) == "no_user"
    site.other.claims["email_verified"] = True
    assert site.session_of(site.sign_in("other"))["user"]["name"] == name
    # Bound now: the address is not looked at any more.
    site.other.claims.update(email="x@example.org", email_verified=False)
    assert site.session_of(site.sign_in("other"))["user"]["name"] == name
    site.liar.claims.update(sub=site.other.claims["sub"])
    assert site.session_of(site.sign_in("liar"))["user"]["name"] != name, "the same subject of another issuer"


TIMES = {"exp", "iat", "nbf"}  # in seconds from now
BAD_CLAIMS = {
    "no issuer": {"iss": None}, "another issuer": {"iss": "https://elsewhere.example"}, "its issuer with a slash": None,
    "no audience": {"aud": None}, "another audience": {"aud": "another"}, "several audiences without azp": {"aud": ["culvert", "another"]},
    "several with another azp": {"aud": ["culvert", "another"], "azp": "another"}, "another azp": {"azp": "another"},
    "no nonce": {"nonce": None}, "another nonce": {"nonce": "x"}, "no subject": {"sub": None}, "an empty subject": {"sub": ""}, "a long subject": {"sub": "s" * 256},
    "no end": {"exp": None}, "expired": {"exp": -120}, "an end that is text": {"exp": "600"}, "not valid yet": {"nbf": 600},
    "issued in the future": {"iat": 600}, "issued long ago": {"iat": -7200}, "no time of issue": {"iat": None},
}


@pytest.mark.parametrize("case", BAD_CLAIMS)
def test_claims_that_are_wrong(site, case):
    claims = dict(BAD_CLAIMS[case] or {"iss": site.liar.issuer + "/"})
    for name in TIMES & claims.keys():
        value = claims[name]
        claims[name] = value and type(value)(int(time.time()) + int(value))
    site.liar.claims.update(claims)
    assert problem_of(site.sign_in()) == "not_accepted", case


def test_claims_at_their_edges(site):
    now = int(time.time())
    for claims in ({"exp": now - 30}, {"iat": now + 30, "nbf": now + 30}, {"exp": now + 300.5}, {"aud": ["culvert"]}, {"aud": ["culvert", "x"], "azp": "culvert"}):
        site.liar.claims.update(claims)
        site.session_of(site.sign_in())
        for name in claims:
            del site.liar.claims[name]


def test_signatures(site):
    key, stranger = site.liar.keys[0], Key("first")

    def unsigned(claims, algorithm="none", signature=""):
        return f"{b64(json.dumps({'alg': algorithm, 'kid': key.id}).encode())}.{b64(json.dumps(claims).encode())}.{signature}"

    def as_hmac(claims):  # the public key as the secret of HS256
        text = unsigned(claims, "HS256").rstrip(".")
        return f"{text}.{b64(hmac.new(json.dumps(key.jwk).encode(), text.encode(), hashlib.sha256).digest())}"

    def altered(claims):
        header, _, signature = key.sign(claims).split(".")
        return f"{header}.{b64(json.dumps({**claims, 'sub': 'admin'}).encode())}.{signature}"

    bad = {
        "none": unsigned, "HS256": as_hmac, "altered": altered, "of another key": stranger.sign, "PS256 for RS256": lambda claims: key.sign(claims, alg="PS256"),
        "critical": lambda claims: key.sign(claims, crit=["b64"]), "of another type": lambda claims: key.sign(claims, typ="at+jwt"), "no signature": lambda claims: key.sign(claims).rpartition(".")[0] + ".",
        "two parts": lambda claims: key.sign(claims).rpartition(".")[0], "four parts": lambda claims: key.sign(claims) + ".x", "no JSON": lambda claims: "e30.bm8.x", "long": lambda claims: key.sign({**claims, "x": "y" * 20000}),
        "a key in the header": lambda claims: stranger.sign(claims, jwk=stranger.jwk, kid=None, jku="http://127.0.0.1/"),
        "an unknown key": lambda claims: key.sign(claims, kid="nobody"),
    }
    for name, token in bad.items():
        site.liar.token = token
        assert problem_of(site.sign_in()) == "not_accepted", name


def test_keys_change(site):
    site.session_of(site.sign_in())
    before = site.liar.asked.count("/jwks")
    for algorithm in ("RS256", "PS256", "ES256", "EdDSA"):
        site.liar.keys = [Key(f"{algorithm}-{uuid.uuid4().hex[:4]}", algorithm)]
        wait_until(lambda: "problem" not in site.sign_in().headers["Location"], 10, f"the new key of {algorithm} is taken")
    rotated = site.liar.asked.count("/jwks") - before
    assert rotated == 4
    # Tokens that name unknown keys cause one request a second.
    site.liar.token = lambda claims: site.liar.keys[0].sign(claims, kid="nobody")
    began = time.monotonic()
    for _ in range(8):
        assert problem_of(site.sign_in()) == "not_accepted"
    assert site.liar.asked.count("/jwks") - before - rotated <= 1 + time.monotonic() - began
    # other accepts RS256 alone.
    site.other.keys = [Key("es", "ES256")]
    assert problem_of(site.sign_in("other")) == "not_accepted"
    site.other.keys = [Key("first")]


def test_answers_are_bound_to_the_browser(site):
    location, cookie = site.start()
    code, sent = site.liar.authorize(location)
    asked = len(site.liar.asked)
    for name, answer in {
        "no cookie": site.callback("liar", None, code=code, state=sent["state"]),
        "an altered cookie": site.callback("liar", cookie[:-1] + ("A" if cookie[-1] != "A" else "B"), code=code, state=sent["state"]),
        "another browser's": site.callback("liar", site.start()[1], code=code, state=sent["state"]),
        "no state": site.callback("liar", cookie, code=code),
        "another state": site.callback("liar", cookie, code=code, state=sent["state"][:-1] + "_"),
        "another provider": site.callback("other", cookie, code=code, state=sent["state"]),
    }.items():
        assert problem_of(answer) == "unknown_attempt", name
    assert problem_of(site.callback("liar", cookie, code=code, state=sent["state"], iss=site.other.issuer)) == "wrong_provider"
    assert problem_of(site.callback("liar", cookie, error="access_denied", state=sent["state"])) == "denied"
    assert problem_of(site.callback("liar", cookie, state=sent["state"])) == "failed"
    assert [path for path in site.liar.asked[asked:] if path == "/token"] == [], "no code was redeemed"
    # The other browser's verifier does not fit (PKCE), though state and nonce would.
    site.liar.codes[code] = {**sent, "code_challenge": b64(hashlib.sha256(b"x").digest())}
    assert problem_of(site.callback("liar", cookie, code=code, state=sent["state"])) == "not_accepted"
    # A code is good once.
    site.session_of(site.callback("liar", cookie, code=site.liar.authorize(location)[0], state=sent["state"], iss=site.liar.issuer))
    assert problem_of(site.callback("liar", cookie, code=code, state=sent["state"])) == "not_accepted"


def test_addresses_lead_nowhere_else(site):
    for path in ("https://evil.example/", "//evil.example/ui/", "/ui/", "ui", "\\\\evil.example", "ui/\r\nSet-Cookie: x=y", "ui/" + "x" * 600, "javascript:alert(1)", "ui/\\evil"):
        answer = site.ask(f"{PROVIDERS}/liar/start?return={urllib.parse.quote(path, safe='')}")
        assert answer.status == 400 and "Location" not in answer.headers, path
    assert site.ask(f"{PROVIDERS}/liar/start?return=ui/&return=ui/").status == 400
    assert site.ask(f"{PROVIDERS}/nobody/start").status == 404 and site.ask(f"{PROVIDERS}/nobody/callback").status == 404
    assert site.callback("liar", None, **{"code": "x", "state": "y"}).headers["Location"].startswith(site.url)


def test_a_provider_that_fails(site):
    def served(status, value):
        return lambda: (status, value)

    for answer, word in {(500, b"no"): "provider_unavailable", (302, b""): "provider_wrong", (200, b"{"): "provider_wrong", (200, b'{"id_token": ' + b"1" * (300 << 10)): "provider_wrong", (200, b"{}"): "provider_wrong",
                         (400, b'{"error": "invalid_grant"}'): "not_accepted", (401, b"\0"): "not_accepted"}.items():
        site.liar.answers["/token"] = served(*answer)
        assert problem_of(site.sign_in()) == word, answer[:20]

    def slow():
        time.sleep(4)  # longer than sign_in.request_timeout
        return 200, {}

    site.liar.answers["/token"] = slow
    assert problem_of(site.sign_in()) == "provider_unavailable"
    site.liar.restore()
    site.liar.claims.update(hd="example.org", sub="after")
    site.session_of(site.sign_in())


def test_metadata_that_is_wrong(site):
    for metadata in ({"issuer": "https://elsewhere.example"}, {"token_endpoint": "http://elsewhere.example/token"}, {"jwks_uri": "file:///etc/passwd"}, {"authorization_endpoint": "https://u:p@elsewhere.example/"}):
        site.broken.metadata.clear()
        site.broken.metadata.update(metadata)
        wait_until(lambda: problem_of(site.ask(f"{PROVIDERS}/broken/start")) == "provider_wrong", 10, f"{metadata} is refused")
    site.broken.metadata.clear()
    wait_until(lambda: "problem" not in site.ask(f"{PROVIDERS}/broken/start").headers["Location"], 10, "it is asked again")


def test_npms_provider(site):
    assert problem_of(site.ask(f"{PROVIDERS}/node/start")) == "provider_unavailable"
    with node_provider(site.node_port, f"{site.url}{PROVIDERS}/node/callback") as issuer:
        back = f"{site.url}{PROVIDERS}/node/callback"
        for name, is_admin in (("alice", True), ("bob", False)):
            wait_until(lambda: "problem" not in site.ask(f"{PROVIDERS}/node/start").headers["Location"], 10, "it is back")
            location, cookie = site.start("node")
            assert location.startswith(f"{issuer}/auth?")
            end = Person().sign_in(location, name, back)
            query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(end).query))
            assert query["iss"] == issuer
            # It announces the parameter: without it the answer may be another provider's (RFC 9207).
            assert problem_of(site.callback("node", cookie, **{**query, "iss": None})) == "wrong_provider"
            session = site.session_of(site.callback("node", cookie, **query))
            assert (session["user"]["name"], session["user"]["isAdmin"], session["user"]["email"]) == (name, is_admin, f"{name}@example.org")
    role = site.psql("select is_admin, is_read_only from users where name in ('alice', 'bob') order by name")
    assert role == [["t", "f"], ["f", "t"]]
    requests = site.platform.call("GET", f"http://127.0.0.1:{site.admin_port}", "/metrics", key=False).text()
    assert 'culvert_identity_provider_requests_total{provider="node",what="token",result="answered"} 2' in requests
    assert 'culvert_sign_ins_total{method="oidc",result="refused"}' in requests


def test_tokens_of_jobs_become_keys(site):
    """As GitHub Actions and GitLab sign them (RFC 8693)."""
    site.ci.metadata.update(authorization_endpoint=None, token_endpoint=None)
    now = int(time.time())
    job = {"iss": site.ci.issuer, "aud": "https://culvert.test", "sub": "repo:acme/shop:ref:refs/heads/main", "repository": "acme/shop", "ref": "refs/heads/main", "iat": now, "nbf": now, "exp": now + 300}
    kind = "urn:ietf:params:oauth:token-type:jwt"

    def ask(token, form=None, media="application/x-www-form-urlencoded"):
        form = {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": token, "subject_token_type": kind, **(form or {})}
        answer = site.platform.call("POST", site.url, "/api/auth/token", urllib.parse.urlencode(form), headers={"Content-Type": media}, key=False)
        return answer.status, answer.json()

    def sign(**changes):
        return site.ci.keys[0].sign({name: value for name, value in {**job, **changes}.items() if value is not None})

    assert ask(sign())[1]["error"] == "invalid_grant", "the user does not exist"
    made = site.platform.graphql("mutation { createServiceUser(name: \"sign-in-ci\", isAdmin: true, teamIds: []) { id } }")["createServiceUser"]["id"]
    status, given = ask(sign())
    assert status == 200 and given["expires_in"] == 900 and given["token_type"] == "Bearer" and given["scope"] == "read", given
    me = site.platform.graphql("{ me { name } }", key=given["access_token"])
    assert me["me"]["name"] == "sign-in-ci"
    refused = site.platform.graphql_answer("mutation { createTeam(name: \"of-ci\") { id } }", key=given["access_token"]).json()
    assert "scope" in refused["errors"][0]["message"]
    life = site.psql(f"select extract(epoch from expires_at - created_at), scopes from api_keys where user_id = '{made}' and token_id = '{given['access_token'][:24]}'")
    assert life == [["900.000000", '["read"]']]
    assert given["access_token"].split(".")[1] not in site.platform.dump().decode() + site.log()
    # Old ones make room.
    site.psql(f"update api_keys set expires_at = now() - interval '2 days' where user_id = '{made}'")
    assert ask(sign(repository="acme/web"))[0] == 200 and site.psql(f"select count(*) from api_keys where user_id = '{made}'") == [["1"]]
    for name, token in {"another repository": sign(repository="acme/shop2"), "another branch": sign(ref="refs/heads/x"), "no claim": sign(ref=None), "another audience": sign(aud="x"), "another issuer": sign(iss=site.liar.issuer), "expired": sign(exp=now - 120),
                        "another's rule": sign(repository="acme/other"), "another key": Key("first").sign(job), "none": "x.y.z", "an ID token of a sign-in": site.liar.keys[0].sign({**job, "iss": site.liar.issuer})}.items():
        assert ask(token) == (400, {"error": "invalid_grant", "error_description": "the subject_token is not accepted, or no rule permits it"}), name
    assert ask("", {})[1]["error"] == "invalid_request" and ask(sign(), {"grant_type": "password"})[1]["error"] == "unsupported_grant_type" and ask(sign(), {"subject_token_type": "x"})[1]["error"] == "invalid_request"
    assert ask(sign(), media="application/json")[0] == 415 and site.ask(f"{PROVIDERS}/ci/start").status == 404
    site.psql(f"update users set is_disabled = true where user_id = '{made}'")
    assert ask(sign())[0] == 400


def test_the_page(site):
    browser.require()
    with node_provider(site.node_port, f"{site.url}{PROVIDERS}/node/callback"), browser.chromium() as chromium:
        wait_until(lambda: "problem" not in site.ask(f"{PROVIDERS}/node/start").headers["Location"], 10, "it is back")
        page = chromium.new_context(ignore_https_errors=True).new_page()
        page.goto(f"{site.url}/ui/sign-in?problem=denied")
        page.wait_for_selector("a.primary")
        assert "did not sign you in" in page.inner_text("[role=alert]")
        page.goto(f"{site.url}/ui/runtimes")
        page.click("text=Sign in with node")
        page.fill("[name=login]", "erin")
        page.fill("[name=password]", "any")
        page.click("button[type=submit]")
        page.click("button[type=submit]")
        page.wait_for_selector("main#main")
        assert page.url == f"{site.url}/ui/runtimes" and "erin" in page.inner_text(".top")
        page.click("text=Sign out")
        page.wait_for_selector("#key")


def test_settings_that_are_wrong(served):
    right = served.providers()[0]
    missing = {name: value for name, value in right.items() if name != "issuer"}
    for providers, complaint in {
        "no JSON": "providers.json", "{}": '{"providers": [...]}', json.dumps({"providers": [], "provider": []}): '{"providers": [...]}',
        json.dumps({"providers": [missing]}): "providers[0].issuer: must be a text", json.dumps({"providers": [{**right, "isuer": "x"}]}): 'unknown member "isuer"',
        json.dumps({"providers": [{**right, "issuer": "http://idp.example"}]}): "providers[0].issuer: must be a URL https://", json.dumps({"providers": [right, right]}): 'providers[1].id: "liar" is the id of another',
        json.dumps({"providers": [{**right, "algorithms": ["RS256", "HS256"]}]}): "must be a list of RS256, PS256", json.dumps({"providers": [{**right, "client_secret_file": "/nowhere"}]}): "client_secret_file: ",
        json.dumps({"providers": [{**right, "client_secret_env": "X"}]}): "one of client_secret_file and client_secret_env", json.dumps({"providers": [{**right, "create_users": "yes"}]}): "create_users: must be true or false",
        json.dumps({"providers": [{**right, "exchange": {"audience": "x", "rules": [{"claims": {}, "user": "ci", "scopes": ["read"]}]}}]}): "at least one claim", json.dumps({"providers": [{**right, "exchange": {"rules": []}}]}): "exchange: must be {",
        json.dumps({"providers": [{**right, "id": "A/b"}]}): "id: must be 1 to 40 of a-z", json.dumps({"providers": [{**right, "teams": ["dev"]}]}): "teams: must be an object", json.dumps({"providers": [{**right, "role": "admin"}]}): 'role: must be "member" or "read-only"',
        json.dumps({"providers": [{key: value for key, value in {**right, "client_secret_env": "UNSET_VARIABLE"}.items() if key != "client_secret_file"}]}): "UNSET_VARIABLE is not set",
    }.items():
        refused = culvertd(served.platform, *served.words(providers))
        assert refused.returncode != 0 and complaint in refused.stderr, (providers, refused.stderr)
        assert "the secret" not in refused.stderr
    assert culvertd(served.platform, *served.words([right]), "--check-config").returncode == 0
