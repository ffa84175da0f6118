"""Sessions of people in browsers: how they begin, what they may do, how they end."""

import contextlib
import json
import re
import uuid

import pytest

from api_listener_client import culvertd
from test_ingress_revocation import Key
from waiting import wait_until

COOKIE = "__Host-culvert-session"
SESSION, SESSIONS = "/api/auth/session", "/api/auth/sessions"
ME = json.dumps({"query": "{ me { id name } }"})


class Browser:
    """What one has after a sign-in."""

    def __init__(self, platform, answer=None):
        self.platform, self.cookie, self.csrf = platform, "", ""
        if answer is not None:
            self.signed_in = answer.json()
            self.csrf = self.signed_in["csrfToken"]
            self.cookie = re.match(f"{COOKIE}=([^;]*)", answer.headers["set-cookie"]).group(1)
            self.id = self.signed_in["session"]["id"]

    def ask(self, method, path, body=None, csrf=True, cookie=None, **headers):
        sent = {"Cookie": f"theme=dark; {COOKIE}={self.cookie if cookie is None else cookie}", "Sec-Fetch-Site": "same-origin"}
        if body is not None:
            sent["Content-Type"] = "application/json"
        if csrf:
            sent["X-CSRF-Token"] = self.csrf if csrf is True else csrf
        sent.update({name.replace("_", "-"): value for name, value in headers.items()})
        return self.platform.api(method, path, body, headers=sent, key=False)

    def works(self):
        return self.ask("GET", SESSION).status == 200

    def ends(self):
        wait_until(lambda: self.ask("GET", SESSION).status == 401, 5, "the session ends")


def post(platform, body, **headers):
    headers = {"Content-Type": "application/json", "User-Agent": "test browser", **{k.replace("_", "-"): v for k, v in headers.items()}}
    return platform.api("POST", SESSION, json.dumps(body), headers=headers, key=False)


def link_of(platform, user=None):
    me = platform.graphql("{ me { name activeAccount { name } } }")["me"]
    made = culvertd(platform, "admin", "sign-in-link", "--account", me["activeAccount"]["name"], "--user", user or me["name"])
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout)


def by_link(platform, user=None):
    answer = post(platform, {"token": link_of(platform, user)["token"]})
    assert answer.status == 200, answer.text()
    return Browser(platform, answer)


def another_user(platform):
    account, name = platform.graphql("{ me { activeAccount { name } } }")["me"]["activeAccount"]["name"], f"user-{uuid.uuid4().hex[:8]}"
    made = culvertd(platform, "admin", "create-user", "--account", account, name, f"{name}@example.org")
    assert made.returncode == 0, made.stderr
    return name


def test_a_link_opens_one_session(platform):
    link = link_of(platform)
    page = f"{platform.env['CULVERT_URL']}/ui/sign-in"
    assert link["url"] == f"{page}#token={link['token']}"
    answer = post(platform, {"token": link["token"]})
    assert answer.status == 200
    attributes = answer.headers["set-cookie"].split("; ")[1:]
    assert sorted(attributes) == sorted(["Path=/", "Max-Age=604800", "Secure", "HttpOnly", "SameSite=Strict"])
    browser = Browser(platform, answer)
    signed_in = browser.signed_in
    me = platform.graphql("{ me { id name email isAdmin activeAccount { id name } } }")["me"]
    assert signed_in["user"] == {name: me[name] for name in ("id", "name", "email", "isAdmin")} and signed_in["account"] == me["activeAccount"]
    assert signed_in["session"]["method"] == "link" and signed_in["session"]["userAgent"] == "test browser" and signed_in["session"]["idleSeconds"] == 43200
    assert browser.ask("GET", SESSION).json() == signed_in
    again = post(platform, {"token": link["token"]})
    assert again.status == 401 and "set-cookie" not in again.headers
    kept = platform.dump().decode() + platform.log("culvertd")
    for secret in (link["token"], browser.cookie):
        assert secret.split(".")[1] not in kept
    assert browser.csrf not in kept and browser.id in kept


def test_a_link_is_the_newest_and_ends(platform):
    user = another_user(platform)
    first, second = link_of(platform, user), link_of(platform, user)
    assert post(platform, {"token": first["token"]}).status == 401
    platform.psql(f"update sign_in_links set expires_at = now() where link_id = '{second['token'].split('.')[0]}'")
    assert post(platform, {"token": second["token"]}).status == 401
    third = link_of(platform, user)
    platform.psql(f"update users set is_disabled = true where name = '{user}'")
    assert post(platform, {"token": third["token"]}).status == 401
    account = platform.graphql("{ me { activeAccount { name } } }")["me"]["activeAccount"]["name"]
    assert culvertd(platform, "admin", "sign-in-link", "--account", account, "--user", user).returncode == 3
    assert culvertd(platform, "admin", "sign-in-link", "--account", account, "--user", "nobody").returncode == 3


def test_what_a_cookie_needs(platform):
    browser, other = by_link(platform), by_link(platform)
    graphql = "/2.0/api/graphql"
    assert browser.ask("POST", graphql, ME).json()["data"]["me"]["name"] == browser.signed_in["user"]["name"]
    for csrf in (False, other.csrf, "x", browser.cookie):
        refused = browser.ask("POST", graphql, ME, csrf=csrf)
        assert refused.status == 403 and "X-CSRF-Token" in refused.json()["detail"], csrf
    for site in ("cross-site", "same-site"):
        assert browser.ask("POST", graphql, ME, Sec_Fetch_Site=site).status == 403
        assert browser.ask("GET", "/api/user", Sec_Fetch_Site=site).status == 403
    assert browser.ask("GET", "/api/user", csrf=False).status == 200
    assert browser.ask("DELETE", SESSION, csrf=False).status == 403
    assert browser.works() and other.works()


def test_credentials_of_one_kind_are_no_other(platform):
    browser, key, link = by_link(platform), platform.env["CULVERT_API_KEY"], link_of(platform)["token"]
    for value in (key, link, platform.env["CULVERT_RUNTIME_TOKEN"], "x", browser.cookie[:-1] + ("0" if browser.cookie[-1] != "0" else "1")):
        assert browser.ask("GET", SESSION, cookie=value).status == 401
    for value in (browser.cookie, link):
        assert platform.api("GET", "/api/user", key=value).status == 401
        assert platform.api("GET", "/api/user", headers={"x-access-token": value}, key=False).status == 401
        assert post(platform, {"apiKey": value}).status == 401
    for value in (key, browser.cookie):
        assert post(platform, {"token": value}).status == 401
    assert post(platform, {"apiKey": platform.env["CULVERT_RUNTIME_TOKEN"]}).status == 403
    for body in ({}, [], {"token": link, "apiKey": key}, {"token": 1}, {"token": ""}):
        assert post(platform, body).status == 400, body
    assert post(platform, {"token": link}, Sec_Fetch_Site="cross-site").status == 403
    assert platform.api("POST", SESSION, json.dumps({"token": link}), headers={"Content-Type": "text/plain"}, key=False).status == 415
    assert post(platform, {"token": link}).status == 200  # none of it used it up


def test_a_key_opens_a_session_that_ends_with_it(platform):
    key = Key(platform)
    browser = Browser(platform, post(platform, {"apiKey": key.token}))
    assert browser.works() and browser.signed_in["session"]["method"] == "api_key"
    key.revoke()
    browser.ends()
    wait_until(lambda: post(platform, {"apiKey": key.token}).status == 401, 5, "the key opens no other")


def test_the_list_and_the_ends(platform):
    user = another_user(platform)
    mine, other, foreign = by_link(platform, user), by_link(platform, user), by_link(platform)
    listed = mine.ask("GET", SESSIONS).json()
    assert {each["id"] for each in listed} == {mine.id, other.id} and all(each["method"] == "link" and each["remote"] for each in listed)
    missing, theirs = mine.ask("DELETE", f"{SESSIONS}/{'0' * 24}"), mine.ask("DELETE", f"{SESSIONS}/{foreign.id}")
    assert missing.status == theirs.status == 404
    assert {**missing.json(), "traceId": 0} == {**theirs.json(), "traceId": 0}
    assert mine.ask("DELETE", f"{SESSIONS}/{other.id}").json() == {"ended": 1}
    other.ends()
    out = mine.ask("DELETE", SESSION)
    assert out.json() == {"ended": 1} and out.headers["set-cookie"].startswith(f"{COOKIE}=; ") and "Max-Age=0" in out.headers["set-cookie"]
    mine.ends()
    several = [by_link(platform, user) for _ in range(3)]
    assert several[0].ask("DELETE", SESSIONS).json() == {"ended": 3}
    for each in several:
        each.ends()
    assert foreign.works()
    account = foreign.signed_in["account"]["name"]
    last = by_link(platform, user)
    ended = culvertd(platform, "admin", "end-sessions", "--account", account, "--user", user)
    assert json.loads(ended.stdout) == {"ended": 1}
    last.ends()
    assert platform.api("DELETE", SESSION).status == 400  # a key has none
    assert platform.api("GET", SESSION).json()["session"] is None


@pytest.mark.parametrize("change", ["last_used_at = now() - idle_max", "expires_at = now()"])
def test_limits(platform, change):
    browser = by_link(platform)
    assert browser.works()
    platform.psql(f"update browser_sessions set {change} where session_id = '{browser.id}'")
    browser.ends()


def test_too_many_displace_the_least_used(platform):
    user = another_user(platform)
    first, second = by_link(platform, user), by_link(platform, user)
    platform.psql(f"update browser_sessions set last_used_at = now() - interval '1 minute' where session_id = '{first.id}'")
    most = 20
    platform.psql(
        f"insert into browser_sessions select account_id, lpad(to_hex(n), 24, '0'), user_id, secret_sha256, method, key_id, remote, user_agent, idle_max, created_at, now() - n * interval '1 second', expires_at "
        f"from browser_sessions, generate_series(1, {most - 2}) as n where session_id = '{second.id}'"
    )
    third = by_link(platform, user)
    first.ends()
    assert second.works() and third.works() and len(third.ask("GET", SESSIONS).json()) == most
    assert platform.metric("culvert_browser_sessions_displaced_total") >= 1 and platform.metric("culvert_sign_ins_total", method="link", result="accepted") >= 3
    assert third.ask("DELETE", SESSIONS).json() == {"ended": most}


def test_what_a_session_opened_ends_with_it(ingress):
    platform, browser = ingress.platform, by_link(ingress.platform)
    runtime = platform.env["CULVERT_INGRESS_HOST"].split(".")[0].partition("-")[2]
    path = f"/runtimes/{runtime}/proxy/services/probe"
    host = platform.env["CULVERT_URL"].partition("://")[2]
    # As a page of the cluster would ask.
    assert browser.ask("GET", f"{path}/", csrf=False).status == 403
    assert browser.ask("GET", f"{path}/").status == 200
    seen = ingress.origin.last("/").headers
    assert "cookie" not in seen and "x-csrf-token" not in seen
    with contextlib.closing(platform.raw(platform.env["CULVERT_URL"])) as sock:
        sock.sendall(f"GET {path}/endless HTTP/1.1\r\nHost: {host}\r\nCookie: {COOKIE}={browser.cookie}\r\nX-CSRF-Token: {browser.csrf}\r\n\r\n".encode())
        have = b""
        while b"data: 1" not in have:
            piece = sock.recv(1 << 16)
            assert piece, have
            have += piece
        assert browser.ask("DELETE", SESSION).status == 200
        with contextlib.suppress(OSError):
            while piece := sock.recv(1 << 16):
                have += piece
        assert not have.endswith(b"0\r\n\r\n")
