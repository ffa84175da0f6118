"""The web UI in a real browser against a whole Culvert and its demo cluster, below a path of its own."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import urllib.parse

import pytest

import browser
from api_listener_client import culvertd
from conftest import build_folder
from platform_under_test import Platform
from waiting import wait_until

browser.require()

BASE_PATH = "/x/y/"
WIDTHS = {360: 740, 768: 1024, 1280: 800, 1920: 1080}
# Colours that stand for a state of now.
COLOURED = ".tone-good, .tone-busy, .tone-bad, .tone-warn, .tone-paused"
LISTS = ("rollouts", "deployments", "workflows", "images", "clusters", "audit")
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def site():
    with tempfile.TemporaryDirectory(prefix="culvert-ui.", dir="/var/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        platform = Platform(pathlib.Path(folder) / "home", build_folder("asan"))
        platform.settings.update(CULVERT_UI_FILE=str(browser.UI_PACK), CULVERT_UI_BASE_PATH=BASE_PATH, CULVERT_OPERATIONS_ALLOWED="logs:shop/*, refresh, sync")
        try:
            platform.start()
            prepare(platform)
            yield platform
        finally:
            platform.reset()


def prepare(platform):
    """The cluster stands still, with one application of hostile texts and one whose image cannot be pulled."""
    platform.cluster("POST", "/demo/pause")
    platform.cluster("POST", "/demo/happen?what=break-image&application=checkout")
    for _ in range(200):
        platform.cluster("POST", "/demo/step?n=1")
        if platform.cluster_applications()["argocd", "checkout"][1] == "DEGRADED":
            break
    wait_until(lambda: platform.applications() == platform.cluster_applications(), 60, "the platform has the cluster's applications")
    application = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "x" * 100 + "-hostile", "namespace": "argocd"},
        "spec": {"project": HOSTILE, "source": {"repoURL": "javascript:alert(1)", "path": HOSTILE * 8, "targetRevision": "\u202egnp.exe"}, "destination": {"name": HOSTILE, "namespace": "shop"}},
        "status": {"conditions": [{"type": "ComparisonError", "message": HOSTILE * 20, "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    }
    platform.cluster("POST", "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications", application)
    wait_until(lambda: ("argocd", application["metadata"]["name"]) in platform.applications(), 60, "the hostile application arrives")


@pytest.fixture(scope="module")
def chromium(site):
    with browser.chromium() as launched:
        yield launched


def new_context(chromium):
    """A browser without a session."""
    made = chromium.new_context(ignore_https_errors=True, viewport={"width": 1280, "height": 800}, color_scheme="light")
    made.add_init_script(browser.WATCH)
    return made


@pytest.fixture(scope="module")
def context(chromium):
    made = new_context(chromium)
    yield made
    made.close()


@pytest.fixture(scope="module")
def page(site, context):
    """Signed in, one page load for all tests; after each of them nothing may have been complained about."""
    opened = browser.Page(context, site.env["CULVERT_URL"] + BASE_PATH)
    opened.open("ui/", site.env["CULVERT_API_KEY"])
    return opened


@pytest.fixture()
def other(site, chromium):
    """A page of another browser, without a session."""
    made = new_context(chromium)
    opened = browser.Page(made, site.env["CULVERT_URL"] + BASE_PATH)
    yield opened
    assert opened.complaints == [] and opened.violations() == []
    made.close()


@pytest.fixture(autouse=True)
def no_complaints(request):
    yield
    page = request.node.funcargs.get("page")
    if page:
        assert page.complaints == []
        assert page.violations() == []


def name_of(pack, end):
    """A file's name in the pack's list."""
    return next(line.split(b" ")[0].decode() for line in pack.split(b"\n") if line.split(b" ")[0].endswith(end))


# ---- files ------------------------------------------------------------------------------------


def test_files_and_their_headers(site):
    script = name_of(browser.UI_PACK.read_bytes(), b".js")
    for prefix in ("/", BASE_PATH):  # a proxy may remove its path or not
        plain = site.api("GET", f"{prefix}ui/assets/{script}", key=False)
        assert plain.status == 200 and plain.headers["content-type"] == "text/javascript; charset=utf-8"
        assert plain.headers["cache-control"] == "public, max-age=31536000, immutable" and plain.headers["vary"] == "accept-encoding"
        for encoding in ("br", "gzip"):
            coded = site.api("GET", f"{prefix}ui/assets/{script}", key=False, headers={"Accept-Encoding": encoding})
            assert coded.headers["content-encoding"] == encoding and len(coded.body) < len(plain.body) / 2
        index = site.api("GET", f"{prefix}ui/", key=False)
        assert index.status == 200 and f'<base href="{BASE_PATH}">' in index.text() and index.headers["cache-control"] == "no-cache"
        policy = index.headers["content-security-policy"]
        assert "require-trusted-types-for 'script'" in policy and "unsafe" not in policy and "default-src 'none'" in policy
        for name, value in {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cross-origin-opener-policy": "same-origin"}.items():
            assert index.headers[name] == plain.headers[name] == value


def test_index_is_revalidated_and_deep_links_lead_to_it(site):
    index = site.api("GET", "/ui/", key=False)
    again = site.api("GET", "/ui/apps/a/b/c?tab=history", key=False, headers={"If-None-Match": index.headers["etag"]})
    assert again.status == 304 and again.body == b"" and again.headers["etag"] == index.headers["etag"]
    assert site.api("GET", "/ui/apps/a/b/c", key=False).body == index.body
    head = site.api("HEAD", "/ui/", key=False)
    assert head.status == 200 and head.body == b"" and int(head.headers["content-length"]) == len(index.body)


def test_what_is_not_a_file(site):
    for path in ("/ui/assets/", "/ui/assets/none.js", "/ui/assets/index.html", "/ui/assets/..%2findex.html", "/ui/assets/%00"):
        answer = site.api("GET", path, key=False)
        assert answer.status == 404 and answer.headers["cache-control"] == "no-store", path
    post = site.api("POST", "/ui/", "x", key=False)
    assert post.status == 405 and post.headers["allow"] == "GET, HEAD"
    opened = site.api("GET", "/", key=False, headers={"Accept": "text/html,*/*;q=0.8"})
    assert opened.status == 302 and opened.headers["location"] == f"{BASE_PATH}ui/"
    assert site.api("GET", "/", key=False).status == 200
    graphql = site.api("POST", f"{BASE_PATH}2.0/api/graphql", '{"query": "{ me { name } }"}', headers={"Content-Type": "application/json"})
    assert graphql.json()["data"]["me"]["name"] == "admin"


# ---- pages ------------------------------------------------------------------------------------


def test_sign_in_by_key(site, other):
    other.open("ui/apps?health=HEALTHY")
    assert other.axe() == []
    other.picture("sign-in-1280")
    other.page.fill("#key", "culvert_wrong")
    other.page.keyboard.press("Enter")
    other.page.wait_for_selector("[role=alert]")
    assert "not accepted" in other.text(".sign-in")
    key = site.env["CULVERT_API_KEY"]
    other.sign_in(key)
    other.page.wait_for_selector("table.applications")
    assert other.path() == "ui/apps?health=HEALTHY"  # the link that was opened
    seen = other.page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href, document.documentElement.outerHTML])")
    assert key not in seen and key[-12:] not in seen
    for cookie in other.page.context.cookies():
        assert cookie["httpOnly"] and cookie["secure"] and cookie["sameSite"] == "Strict" and cookie["value"] not in seen
    other.page.reload()
    other.page.wait_for_selector("table.applications")  # the session goes on
    other.page.get_by_role("button", name="Sign out").click()
    other.page.wait_for_selector("#key")
    other.page.reload()
    other.page.wait_for_selector("#key")


def test_sign_in_by_link_once(site, other, chromium):
    link = json.loads(culvertd(site, "admin", "sign-in-link", "--account", "quickstart", "--user", "admin").stdout)
    other.page.goto(f"{other.base}ui/sign-in#token={link['token']}")
    other.page.wait_for_selector(".home")
    assert other.path() == "ui/" and link["token"] not in other.page.evaluate("location.href + document.documentElement.outerHTML")
    late = browser.Page(new_context(chromium), other.base)
    late.page.goto(f"{other.base}ui/sign-in#token={link['token']}")
    late.page.wait_for_selector("[role=alert]")
    assert "used already" in late.text(".sign-in") and link["token"] not in late.page.url
    late.page.context.close()


def test_two_tabs_share_a_session_that_is_opened_anew(site, other):
    """Each sign-in has its own CSRF token: the older tab takes the new one over. It signs out with the other one, too."""
    key = site.env["CULVERT_API_KEY"]
    other.open("ui/apps", key)
    other.page.wait_for_selector("table.applications")
    second = browser.Page(other.page.context, other.base)
    second.open("ui/")
    second.page.get_by_role("button", name="Sign out").click()
    second.page.wait_for_selector("#key")
    other.page.wait_for_selector("#key")
    assert "checkout" not in other.text("body")
    second.sign_in(key)
    other.page.wait_for_selector("table.applications")
    assert other.path() == "ui/apps" and not other.page.query_selector("#key, .link-bar")


def rows(page):
    return page.page.eval_on_selector_all("table.applications tbody .c-name a", "all => all.map(one => one.textContent)")


def test_list_and_filters_in_the_url(site, page):
    page.go("ui/apps")
    names = sorted(name for _, name in site.applications())
    assert sorted(rows(page)) == names
    page.page.get_by_label("Degraded").check()
    page.until("document.querySelectorAll('table.applications tbody tr').length < %d" % len(names))
    page.settle()
    assert page.path() == "ui/apps?health=DEGRADED"
    assert sorted(rows(page)) == sorted(name for (_, name), (_, health) in site.applications().items() if health == "DEGRADED") != []
    page.page.get_by_role("button", name="remove").click()
    page.until("document.querySelectorAll('table.applications tbody tr').length == %d" % len(names))
    page.page.fill("[data-filter]", "ns:argocd colour:red check")
    page.page.keyboard.press("Enter")
    page.until("document.querySelectorAll('table.applications tbody tr').length == 1")
    assert page.path() == "ui/apps?q=check&ns=argocd" and rows(page) == ["checkout"]
    assert "Not understood: colour:red" in page.text()
    page.page.go_back()
    page.until("document.querySelectorAll('table.applications tbody tr').length == %d" % len(names))
    assert page.path() == "ui/apps"
    page.page.go_forward()
    page.until("document.querySelectorAll('table.applications tbody tr').length == 1")
    page.go("ui/apps?q=no-such-application&colour=red")
    assert "No application matches" in page.text() and "Not used by this page: colour" in page.text()
    assert page.axe() == []


def test_facets_count_and_the_list_has_its_shape_in_the_url(site, page):
    page.go("ui/apps")
    states = [health or "UNKNOWN" for _, health in site.applications().values()]
    counts = dict(page.page.eval_on_selector_all("fieldset.facet:first-of-type label", "all => all.map(one => [one.children[1].textContent.toUpperCase(), Number(one.children[2].textContent)])"))
    assert counts == {state: states.count(state) for state in states}
    assert f"{len(states)} applications of {len(states)}" in page.text(".pager")
    page.page.get_by_label("Group").select_option("ns")
    page.page.wait_for_selector(".cards")
    page.settle()
    assert page.path() == "ui/apps?group=ns" and page.text(".cards .card:first-child").split() == ["argocd", str(len(states))]
    assert page.axe() == []
    page.page.click(".cards .card:first-child a")
    page.page.wait_for_selector("table.applications")
    assert page.path() == "ui/apps?ns=argocd"
    page.page.get_by_label("Order").select_option("health")
    page.settle()
    assert "sort=health" in page.path() and page.page.inner_text("table.applications tbody tr:first-child .c-health") in ("Degraded", "Missing")
    page.page.get_by_role("link", name="Tiles").click()
    page.page.wait_for_selector(".tiles")
    page.page.get_by_role("button", name="Keep this view").click()
    page.page.get_by_label("Name", exact=True).fill("worst")
    page.page.keyboard.press("Enter")
    for width in (360, 1280):
        page.page.set_viewport_size({"width": width, "height": 800})
        assert page.axe() == [] and too_wide(page) == [], width
        page.picture(f"tiles-{width}")
    page.go("ui/apps")
    page.page.get_by_role("link", name="worst").click()
    page.until("location.search.includes('view=tiles')")
    page.page.get_by_role("button", name="Forget this view").click()
    page.page.wait_for_selector(".views a", state="detached")


def test_pages_of_a_list(site, page):
    """A page of two rows: the parameters of the request are cut on the way to the platform."""

    def shrink(route):
        body = route.request.post_data_json
        for end in ("first", "last"):
            if end in body["variables"].get("page", {}):
                body["variables"]["page"][end] = 2
        route.continue_(post_data=body)

    page.page.route("**/graphql", shrink)
    try:
        seen = []
        page.go("ui/runtimes")
        page.go("ui/apps")
        wait_until(lambda: len(rows(page)) == 2, 20, "pages of two rows")
        while True:
            here = rows(page)
            seen += here
            if not page.page.query_selector("[data-next]"):
                break
            page.page.keyboard.press("]")
            wait_until(lambda: rows(page)[0] != here[0], 20, "the next page")
            page.settle()
        assert seen == sorted(name for _, name in site.applications())
        assert "after=" in page.path()
        page.page.keyboard.press("[")
        wait_until(lambda: rows(page)[0] == seen[len(seen) - len(here) - 2], 20, "the previous page")
    finally:
        page.page.unroute("**/graphql")


def test_application_by_keyboard(site, page):
    page.go("ui/apps?q=checkout")
    page.until("document.querySelectorAll('table.applications tbody tr').length == 1")
    page.page.locator("main").focus()
    page.page.keyboard.press("j")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("table.resources")
    assert page.path() == f"ui/apps/{site.env['CULVERT_RUNTIME']}/argocd/checkout" and page.text("h1") == "checkout"
    query = "query($r: String!) { resourceTree(runtime: $r, name: \"checkout\", namespace: \"argocd\") { nodes { kind name health { status message } } } }"
    nodes = site.graphql(query, {"r": site.env["CULVERT_RUNTIME"]})["resourceTree"]["nodes"]
    shown = page.page.eval_on_selector_all("table.resources .resource-name", "all => all.map(one => one.textContent.trim())")
    assert sorted(shown) == sorted(f"{node['kind']} {node['name']}" for node in nodes)
    pod = next(node for node in nodes if node["kind"] == "Pod" and (node["health"]["status"] or "").upper() == "DEGRADED")
    why = page.text(".why")
    assert pod["health"]["message"] in why and "Pod" in why
    page.page.get_by_role("link", name="History").click()
    page.page.wait_for_selector(".release")
    assert page.path().endswith("?tab=history")
    assert re.search(r"(Health|Git|Sync operation|Application): ", page.page.inner_text(".timeline li:first-child"))
    page.page.get_by_role("link", name="State").click()
    page.page.get_by_role("link", name="List, worst first").click()
    first = page.page.inner_text("table.resources tbody tr:first-child")
    assert "Degraded" in first and page.path().endswith("?view=list")
    for _ in range(4):
        page.page.go_back()
    page.page.wait_for_selector("table.applications")
    assert page.path() == "ui/apps?q=checkout"


def test_warnings_of_the_cluster_beside_the_cause(site, page):
    runtime = site.env["CULVERT_RUNTIME"]
    query = "query($r: String!) { application(runtime: $r, name: \"checkout\", namespace: \"argocd\") { events { type reason kind group namespace name message } } }"

    def warnings():
        return [e for e in site.graphql(query, {"r": runtime})["application"]["events"] if e["type"] == "WARNING" and e["kind"] == "Pod"]

    events = wait_until(warnings, 40, "a warning")
    page.open(f"ui/apps/{runtime}/argocd/checkout")
    wait_until(lambda: any(e["message"] in page.text(".why .kubernetes-events") for e in warnings()), 40, "it is beside the cause")
    key = "/".join([events[0]["group"], events[0]["kind"], events[0]["namespace"], events[0]["name"]])
    page.open(f"ui/apps/{runtime}/argocd/checkout?node={key}")
    panel = page.page.get_by_label("Kubernetes Events")
    wait_until(lambda: events[0]["reason"] in panel.inner_text(), 40, "it is in the panel of its resource")


def test_logs_of_a_resource_follow_and_say_why_there_are_none(site, page):
    pods = site.cluster("GET", "/api/v1/pods")["items"]
    app = next(a for a in site.cluster("GET", "/apis/argoproj.io/v1alpha1/applications")["items"] if a["spec"]["destination"].get("namespace") == "shop" and any(r["kind"] == "Deployment" for r in a.get("status", {}).get("resources", ())) and a["metadata"]["name"] != "checkout")
    name = next(r["name"] for r in app["status"]["resources"] if r["kind"] == "Deployment")
    running = next(p for p in pods if p["metadata"]["name"].startswith(name) and p["metadata"]["namespace"] == "shop")
    path = f"ui/apps/{site.env['CULVERT_RUNTIME']}/argocd/{app['metadata']['name']}"
    page.open(path)
    page.page.locator(".resource-name", has_text=f"Deployment {name}").get_by_role("link").first.click()
    page.page.get_by_role("link", name="Logs", exact=True).click()
    site.cluster("POST", "/demo/logs?rate=20")
    lines = page.page.locator(".log-line")
    wait_until(lambda: lines.count() > 10 and "level=info" in lines.last.inner_text(), 20, "lines arrive")
    before = lines.last.inner_text()
    wait_until(lambda: lines.last.inner_text() != before, 20, "new lines arrive")
    assert "panel=logs" in page.page.url
    page.page.get_by_label("Before the last restart").check()
    wait_until(lambda: "no earlier instance" in page.page.locator(".log").inner_text(), 20, "the cause is shown")
    site.cluster("POST", "/demo/forbid?resource=pods/log")
    page.page.get_by_label("Before the last restart").uncheck()
    page.page.get_by_label("Follow").check()
    wait_until(lambda: "--print-rbac" in page.page.locator(".log").inner_text(), 20, "the missing right is shown")
    site.cluster("POST", "/demo/allow")
    page.page.get_by_role("link", name="Close").click()
    wait_until(lambda: site.cluster("GET", "/demo/status")["openLogs"] == 0, 20, f"the log of {running['metadata']['name']} is closed")


def test_hostile_texts_are_texts(site, page):
    page.go("ui/apps?q=hostile")
    page.until("document.querySelectorAll('table.applications tbody tr').length == 1")
    page.page.click("table.applications tbody .c-name a")
    page.page.wait_for_selector(".facts")
    page.until("document.querySelector('.why')")
    assert HOSTILE * 20 in page.text(".why")
    page.page.click("text=Findings")
    page.page.wait_for_selector(".findings")
    assert HOSTILE * 20 in page.text(".findings")
    assert page.page.eval_on_selector_all("main img, main script, main a", "all => all.filter(one => one.tagName !== 'A' || !/^https?:/.test(one.href)).length") == 0


def test_runtime_with_its_findings(site, page):
    page.go("ui/runtimes")
    page.page.click(f"text={site.env['CULVERT_RUNTIME']}")
    page.page.wait_for_selector(".findings")
    query = "query($n: String!) { runtime(name: $n) { errors { title message suggestion } } }"
    for finding in site.graphql(query, {"n": site.env["CULVERT_RUNTIME"]})["runtime"]["errors"]:
        assert all(finding[part] in page.text() for part in ("title", "message", "suggestion"))


def test_lists_of_all_clusters(site, page):
    names = {"rollouts": "metadata { name }", "workflows": "metadata { name }", "clusters": "metadata { name }", "images": "name: repository", "gitopsReleases": "applicationMetadata { name }"}
    for field, name in names.items():
        listed = "deployments" if field == "gitopsReleases" else field
        nodes = site.graphql(f"{{ {field}(pagination: {{first: 50}}) {{ edges {{ node {{ {name} }} }} }} }}")[field]["edges"]
        page.go(f"ui/{listed}")
        page.until(f"document.querySelectorAll('table.listing tbody tr').length === {len(nodes)}")
        text = page.text("table.listing")
        assert nodes and all((edge["node"].get("name") or next(iter(edge["node"].values()))["name"]) in text for edge in nodes), listed
    page.go("ui/audit")
    page.page.get_by_label("Action").select_option("create")
    page.until("location.search === '?action=create' && !document.querySelector('.list.old')")
    actions = page.page.eval_on_selector_all("table.listing tbody tr td:nth-child(3)", "all => all.map(one => one.textContent)")
    assert actions and all(one.startswith("create") for one in actions)
    page.go("ui/rollouts?name=no-such-rollout")
    page.until("document.querySelector('main').textContent.includes('Nothing matches')")
    page.page.get_by_role("link", name="Show all").click()
    page.page.wait_for_selector("table.listing")
    assert page.path() == "ui/rollouts"


def routes(site):
    application = f"ui/apps/{site.env['CULVERT_RUNTIME']}/argocd/checkout"
    hostile = f"ui/apps/{site.env['CULVERT_RUNTIME']}/argocd/{'x' * 100}-hostile"
    return {"home": "ui/", "applications": "ui/apps", "application": application, "worst": f"{application}?view=list", "history": f"{application}?tab=history",
            "findings": f"{application}?tab=errors", "hostile": hostile, "runtimes": "ui/runtimes", "runtime": f"ui/runtimes/{site.env['CULVERT_RUNTIME']}", "me": "ui/me", "install": "ui/install", "device": "ui/device", "settings": "ui/settings", "none": "ui/none", **{name: f"ui/{name}" for name in LISTS}}


def too_wide(page):
    """What does not fit into the window, or is cut off by its frame."""
    return page.page.evaluate("""() => [document.documentElement, ...document.querySelectorAll('.table-frame, .facts, .panel, .why')]
        .filter(one => one.scrollWidth > one.clientWidth).map(one => `${one.tagName} ${one.className}: ${one.scrollWidth} in ${one.clientWidth}, ` + [...one.querySelectorAll('*')]
            .filter(inner => inner.getBoundingClientRect().right > one.clientWidth + 1).slice(0, 4).map(inner => `${inner.tagName}.${inner.getAttribute('class')}`))""")


def test_no_page_is_wider_than_its_window_and_all_are_accessible(site, page):
    try:
        for name, path in routes(site).items():
            page.go(path)
            for theme in ("light", "dark"):
                page.page.emulate_media(color_scheme=theme)
                assert page.axe() == [], (name, theme)
                page.picture(f"{name}-{theme}")
            page.page.emulate_media(color_scheme="light")
            for width, height in WIDTHS.items():
                page.page.set_viewport_size({"width": width, "height": height})
                assert too_wide(page) == [], (name, width)
                page.picture(f"{name}-{width}")
            page.page.set_viewport_size({"width": 360, "height": 740})
            assert page.axe() == [], (name, "360 px")
            page.page.set_viewport_size({"width": 1280, "height": 800})
    finally:
        page.page.emulate_media(color_scheme="light")
        page.page.set_viewport_size({"width": 1280, "height": 800})


def test_keys_and_their_help(page):
    page.go("ui/")
    page.page.locator("main").focus()
    page.page.keyboard.press("g")
    page.page.keyboard.press("r")
    page.until("location.pathname.endsWith('/ui/runtimes')")
    page.page.keyboard.press("?")
    page.page.wait_for_selector("dialog[open]")
    assert "go to Runtimes" in page.text("dialog") and page.axe() == []
    page.page.keyboard.press("Escape")
    page.page.wait_for_selector("dialog[open]", state="detached")
    page.page.keyboard.press("g")
    page.page.keyboard.press("a")
    page.page.wait_for_selector("[data-filter]")
    page.page.keyboard.press("/")
    page.page.keyboard.type("g r")  # typing is no key
    assert page.page.evaluate("document.activeElement.value") == "g r"
    page.page.fill("[data-filter]", "")
    page.page.keyboard.press("Escape")


def test_search_finds_by_name_and_does(site, page):
    page.go("ui/runtimes")
    page.page.keyboard.press("Control+k")
    page.page.wait_for_selector(".palette[open] [role=option]")
    assert page.axe() == []
    page.page.keyboard.type("checko")
    page.until("document.querySelector('.palette [role=option]')?.textContent.includes('checkout')")
    for width in (360, 1280):
        page.page.set_viewport_size({"width": width, "height": 800})
        assert page.axe() == [] and too_wide(page) == [], width
        page.picture(f"search-{width}")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("[data-action=REFRESH]:not([aria-disabled])")
    assert page.path() == f"ui/apps/{site.env['CULVERT_RUNTIME']}/argocd/checkout"
    page.page.keyboard.press("Control+k")
    page.page.fill(".palette input", "hard refresh")
    page.until("document.querySelectorAll('.palette [role=option]').length === 1")
    assert "Application checkout" in page.text(".palette [role=option]")  # a button of this page
    page.page.fill(".palette input", "no-such-name")
    page.until("document.querySelector('.palette').textContent.includes('Nothing has this name')")
    for words, path in {"workfl": "ui/workflows", site.env["CULVERT_RUNTIME"]: f"ui/runtimes/{site.env['CULVERT_RUNTIME']}"}.items():
        page.page.fill(".palette input", words)
        page.until("document.querySelector('.palette [role=option]') && document.querySelector('.palette [role=status]').textContent === ''")
        page.page.locator(".palette [role=option]", has_text=words).first.click()
        page.until(f"location.pathname.endsWith({json.dumps(path)})")
        page.page.keyboard.press("Control+k")
    page.page.keyboard.press("Escape")
    page.page.wait_for_selector("dialog[open]", state="detached")
    for press in ("Control+k", "?") * 5:  # faster than it is drawn
        page.page.evaluate("""key => {
            const down = (of) => document.dispatchEvent(new KeyboardEvent('keydown', {...of, bubbles: true}));
            down(key === '?' ? {key} : {key: 'k', ctrlKey: true});
            down({key: 'Escape'});
            return new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(drawn))));
        }""", press)
        assert page.page.query_selector("dialog[open]") is None, press


# ---- account and runtimes ---------------------------------------------------------------------


def test_own_keys_and_sessions(site, other, chromium):
    def me(token):
        return site.api("POST", "/2.0/api/graphql", '{"query": "{ me { name } }"}', key=False, headers={"Authorization": token, "Content-Type": "application/json"}).status

    link = json.loads(culvertd(site, "admin", "sign-in-link", "--account", "quickstart", "--user", "admin").stdout)
    other.page.goto(f"{other.base}ui/sign-in#token={link['token']}")
    other.page.wait_for_selector(".home")
    other.go("ui/me")
    other.page.get_by_label("Name", exact=True).fill(HOSTILE)
    other.page.locator("select[name=scopes]").select_option("read")
    other.page.get_by_role("button", name="Create a key").click()
    other.page.wait_for_selector(".once")
    token = other.text(".once pre")
    assert me(token) == 200 and HOSTILE in other.text(".once") and other.axe() == []
    assert token not in other.page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, location.href])")
    other.picture("me-1280")
    other.page.get_by_role("button", name="I have it").click()
    other.page.wait_for_selector(".once", state="detached")
    assert token not in other.page.evaluate("document.documentElement.outerHTML")
    row = other.page.locator("tr", has_text=HOSTILE)
    assert "read" in row.inner_text()
    row.get_by_role("button", name="Revoke").click()
    assert me(token) == 200  # it asks first
    row.get_by_role("button", name="Revoke").click()
    wait_until(lambda: me(token) == 401, 20, "the key is revoked")
    row.wait_for(state="detached")

    sessions = other.page.locator("section[aria-labelledby=sessions] tbody tr")
    before = sessions.count()
    late = browser.Page(new_context(chromium), other.base)
    late.open("ui/", site.env["CULVERT_API_KEY"])
    wait_until(lambda: sessions.count() == before + 1, 20, "the new session is listed")
    mine = other.page.locator("tr", has_text="this browser")
    assert mine.count() == 1 and "by a link" in mine.inner_text()
    theirs = sessions.first  # the newest
    theirs.get_by_role("button", name="Sign out").click()
    theirs.get_by_role("button", name="Sign it out").click()
    late.page.wait_for_selector("#key", timeout=30000)
    late.page.context.close()


def test_a_command_line_is_allowed(site, other):
    """culvert login: signed out first, then back at the code; allowed; and a code that is none."""
    begun = site.api("POST", "/api/auth/device", "client_id=culvert-cli", headers={"Content-Type": "application/x-www-form-urlencoded"}, key=False).json()
    other.open(f"ui/device?code={begun['user_code']}", site.env["CULVERT_API_KEY"])
    other.page.wait_for_selector("p.code")
    assert other.text("p.code") == begun["user_code"] and "127.0.0.1" in other.text("main") and other.axe() == [] and too_wide(other) == []
    other.page.get_by_role("button", name="Allow").click()
    other.until("document.querySelector('main [role=status]')?.textContent.startsWith('Allowed')")
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "client_id": "culvert-cli", "device_code": begun["device_code"]}
    given = site.api("POST", "/api/auth/token", urllib.parse.urlencode(form), headers={"Content-Type": "application/x-www-form-urlencoded"}, key=False).json()
    assert site.graphql_answer("{ me { id } }", key=given["access_token"]).status == 200
    other.go("ui/device")
    other.page.get_by_label("Code").fill("BCDFG-HJKLM")
    other.page.get_by_role("button", name="Continue").click()
    other.page.wait_for_selector("main .invalid")
    assert "No sign-in waits" in other.text("main") and other.axe() == []


def test_what_only_admins_do_is_not_offered_to_others(site, other):
    made = site.graphql("mutation { createUser(name: \"member\", email: \"member@example.invalid\", role: MEMBER) { id } }")["createUser"]
    key = site.graphql("mutation($u: String!) { createApiKey(userId: $u, name: \"member\") { token } }", {"u": made["id"]})["createApiKey"]["token"]
    other.open("ui/runtimes", key)
    other.page.wait_for_selector(".card")
    assert "Add a runtime" not in other.text()
    assert other.page.query_selector(".top a[href$=settings]") is None
    other.go("ui/settings")
    assert "For admins of the account" in other.text() and other.page.query_selector("main form") is None
    other.go("ui/install")
    assert "An admin of the account adds runtimes" in other.text() and other.page.query_selector("main form") is None
    other.go("ui/me")
    other.page.get_by_role("button", name="Sign out everywhere").click()
    other.page.get_by_role("button", name="Sign out everywhere, here too").click()
    other.page.wait_for_selector("#key")
    assert "signed out everywhere" in other.text(".sign-in")


def preview(page, form, expected):
    form.get_by_role("button", name="Preview the change").click()
    page.page.locator("[aria-labelledby=simulation] [role=status]", has_text=expected).first.wait_for()


def accessible(page, name):
    for width in (360, 1280):
        page.page.set_viewport_size({"width": width, "height": 800})
        page.page.evaluate("scrollTo(0, 0)")
        assert too_wide(page) == [] and page.axe() == [], (name, width)
        page.picture(f"{name}-{width}")
    page.page.emulate_media(color_scheme="dark")
    assert page.axe() == [], (name, "dark")
    page.page.emulate_media(color_scheme="light")


def test_an_admin_makes_users_teams_and_rules(site, page, other):
    page.page.get_by_role("link", name="Settings", exact=True).click()
    page.page.wait_for_selector("form")
    new_user = page.page.get_by_role("form", name="New user")
    new_user.get_by_label("Name").fill("ana")
    new_user.get_by_label("Email").fill("ana@example.invalid")
    new_user.locator("select").select_option("MEMBER")
    new_user.get_by_role("button", name="Add").click()
    page.page.wait_for_selector(".once")
    link = page.text(".once pre")
    page.page.get_by_role("button", name="I have it").click()
    page.page.wait_for_selector(".once", state="detached")
    assert page.page.evaluate("document.documentElement.outerHTML").find(link[-40:]) == -1
    other.page.goto(link)
    other.page.wait_for_selector(".home")
    other.go("ui/apps?q=checkout")
    other.page.wait_for_selector("table.applications")

    new_team = page.page.get_by_role("form", name="New team")
    new_team.get_by_label("Name").fill(HOSTILE)
    new_team.get_by_role("button", name="Create").click()
    card = page.page.locator(".card", has_text=HOSTILE)
    card.locator("select").select_option(label="ana")
    card.get_by_role("button", name="Add").click()
    card.get_by_title("Remove ana from").wait_for()
    page.page.locator("summary", has_text="New rule").click()
    rule = page.page.get_by_role("form", name="New rule")
    rule.locator("[name=effect]").select_option("DENY")
    rule.get_by_label(HOSTILE).check()
    rule.get_by_label("sync", exact=True).check()
    rule.get_by_label("is (empty").fill(site.env["CULVERT_RUNTIME"])
    page.page.evaluate("scrollTo(0, 0)")  # nothing is half below the top
    assert page.axe() == []
    page.picture("rule-1280")
    rules = page.page.locator("section[aria-labelledby=rules]")
    preview(page, rule, "lose something in")
    assert "checkout" in rules.get_by_role("table", name="Applications").inner_text() and rules.get_by_role("table", name="Users who").locator("tbody tr").count() == 1
    accessible(page, "settings-preview")
    rules.get_by_role("button", name="Create the rule").click()
    row = rules.locator("tbody tr[id]")
    row.wait_for()
    assert row.inner_text().split()[0] == "denies" and f"runtime {site.env['CULVERT_RUNTIME']}" in row.inner_text() and HOSTILE in row.inner_text()
    accessible(page, "settings-full")
    other.go(f"ui/apps/{site.env['CULVERT_RUNTIME']}/argocd/checkout")
    other.page.wait_for_selector("[data-action=SYNC][aria-disabled=true][title*='denies it']")

    explain = page.page.get_by_role("form", name="Explain")
    explain.get_by_label("User").select_option(label="ana")
    explain.get_by_label("Application").fill("checkout")
    explain.get_by_label("Application").press("Enter")
    explained = page.page.locator("section[aria-labelledby=explain]")
    explained.locator("tbody tr").first.wait_for()
    page.page.set_viewport_size({"width": 360, "height": 800})
    assert explained.locator("p[role=status]").bounding_box()["width"] > 200  # not a letter a line
    assert "a rule denies it" in explained.locator("tr", has_text="sync").first.inner_text() and row.locator("code").inner_text() in explained.inner_text()
    accessible(page, "settings-explained")
    explain.get_by_label("Application").fill("no-such")
    explain.get_by_role("button", name="Explain").click()
    explained.get_by_role("alert").filter(has_text="no application").wait_for()

    # A rule keeps what was not changed in the form; an input after a preview removes the preview.
    row.get_by_role("button", name="Edit").click()
    form = page.page.get_by_role("form", name="Rule", exact=True)
    assert form.get_by_label("is (empty").input_value() == site.env["CULVERT_RUNTIME"] and form.get_by_label("sync", exact=True).is_checked() and form.get_by_label(HOSTILE).is_checked()
    preview(page, form, "no user gains or loses any")
    form.get_by_label("refresh", exact=True).check()
    page.page.locator("#simulation").wait_for(state="detached")
    preview(page, form, "lose something in")
    rules.get_by_role("button", name="Save the rule").click()
    row.filter(has_text="refresh").wait_for()
    assert "sync" in row.inner_text() and f"runtime {site.env['CULVERT_RUNTIME']}" in row.inner_text()

    row.get_by_role("button", name="Remove").click()
    page.page.locator("#simulation:focus").wait_for()
    rules.get_by_role("button", name="Remove this rule").click()
    row.wait_for(state="detached")
    card.get_by_role("button", name="Delete").click()
    card.get_by_role("button", name="Delete").click()
    card.wait_for(state="detached")
    user = page.page.locator("tr", has_text="ana@example.invalid")
    user.get_by_role("button", name="Disable").click()
    user.get_by_role("button", name="Disable ana").click()
    other.page.wait_for_selector("#key", timeout=30000)
    me = page.page.locator("tr", has_text=" you")
    assert me.get_by_role("button", name="Delete").count() == 0  # one does not lock oneself out


def test_an_admin_makes_an_enrollment_token(page):
    page.go("ui/settings")
    form = page.page.get_by_role("form", name="New enrollment token")
    form.get_by_label("Name", exact=True).fill("edge clusters")
    form.get_by_label("Runtimes", exact=True).fill("3")
    form.get_by_label("With names like").fill("edge-*")
    form.get_by_role("button", name="Create").click()
    page.page.wait_for_selector(".once")
    token = page.text(".once pre")
    assert re.fullmatch(r"[0-9a-f]{24}\.[0-9a-f]{64}", token.strip())
    page.page.get_by_role("button", name="I have it").click()
    page.page.wait_for_selector(".once", state="detached")
    assert page.page.evaluate("document.documentElement.outerHTML").find(token[-40:]) == -1
    row = page.page.locator("section[aria-labelledby=enrollments] tbody tr")
    row.wait_for()
    assert "0 of 3" in row.inner_text() and "edge-*" in row.inner_text() and "valid until" in row.inner_text()
    page.page.evaluate("scrollTo(0, 0)")  # nothing is half below the top
    assert page.axe() == [] and too_wide(page) == []
    page.picture("enrollments-1280")
    row.get_by_role("button", name="Revoke").click()
    row.get_by_role("button", name="Revoke edge clusters").click()
    page.until("document.querySelector('section[aria-labelledby=enrollments] tbody tr').textContent.includes('revoked')")


@contextlib.contextmanager
def second_agent(site, folder, runtime, token):
    """An agent that has no cluster and reports nothing."""
    config = folder / "agent.conf"
    config.write_text(f"platform.url = {site.env['CULVERT_TUNNEL_URL']}\nplatform.ca_file = {site.home}/pki/ca.crt\nruntime.name = {runtime}\nruntime.token_file = {token}\nreporter.enabled = false\nadmin.listen =\n")
    with (folder / "agent.log").open("wb") as log:
        agent = subprocess.Popen([site.build / "agent/culvert-agent", "--config", config], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield
    finally:
        agent.terminate()
        agent.wait(20)


def test_a_runtime_is_added_and_its_agent_arrives(site, page, tmp_path):
    page.go("ui/runtimes")
    page.page.get_by_role("link", name="Add a runtime").click()
    page.page.get_by_label("Name of the runtime").fill("Not A Name")
    page.page.get_by_role("button", name="Create the runtime").click()
    assert page.page.query_selector(".once") is None
    page.page.get_by_label("Name of the runtime").fill(site.env["CULVERT_RUNTIME"])
    page.page.get_by_role("button", name="Create the runtime").click()
    page.page.wait_for_selector("main [role=alert]")  # there is one of this name
    page.page.get_by_label("Name of the runtime").fill("eu-7")
    page.page.get_by_role("button", name="Create the runtime").click()
    page.page.wait_for_selector(".once")
    assert site.graphql('{ runtime(name: "eu-7") { runtimeVersion } }')["runtime"]["runtimeVersion"] == json.loads(site.call("GET", site.env["CULVERT_URL"], "/api/auth/session").text())["version"]
    assert "global.runtime.name=eu-7" in page.text() and "platform.url=wss://" in page.text()
    page.until("document.querySelector('main').textContent.includes('no agent has connected')")
    assert page.axe() == [] and too_wide(page) == []
    page.picture("installed-1280")
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(page.text(".once pre"))
    with second_agent(site, tmp_path, "eu-7", token):
        page.page.wait_for_selector("[data-arrived]", timeout=60000)
        page.page.get_by_role("link", name="Open the runtime").click()
        page.page.wait_for_selector(".facts")
        assert page.path() == "ui/runtimes/eu-7" and page.text("h1") == "eu-7"
    site.graphql("mutation { deleteRuntime(name: \"eu-7\") }")


# ---- operations -------------------------------------------------------------------------------


def ended(site, page, state, count):
    """Polls until so many operations have this state; the cluster, which stands still, takes a step each time."""

    def look():
        site.cluster("POST", "/demo/step?n=1")
        return page.page.locator(f".operation[data-state={state}]").count() == count

    wait_until(look, 30, f"{count} operations {state}")


def test_an_operation_is_followed_to_its_end(site, page):
    page.go(f"ui/apps/{site.env['CULVERT_RUNTIME']}/argocd/checkout")
    page.page.wait_for_selector("[data-action=REFRESH]:not([aria-disabled])")
    page.page.locator("main").focus()
    page.page.keyboard.press("r")
    page.page.wait_for_selector(".operation")
    ended(site, page, "DONE", 1)
    assert page.axe() == []
    page.picture("operation-1280")
    page.open(f"ui/apps/{site.env['CULVERT_RUNTIME']}/argocd/checkout")  # a reload
    page.page.wait_for_selector(".operation[data-state=DONE]")
    page.page.wait_for_selector("[data-action=DELETE]:not([aria-disabled])")
    page.page.click("[data-action=DELETE]")
    page.page.wait_for_selector("dialog[open]")
    assert page.axe() == []
    page.page.fill("dialog input", "check")
    page.page.keyboard.press("Enter")
    assert page.page.query_selector("dialog[open]")  # that is not its name
    page.page.fill("dialog input", "checkout")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("dialog[open]", state="detached")
    ended(site, page, "FAILED", 1)
    assert "operations.allowed" in page.text(".operation[data-state=FAILED]")
    for _ in range(2):
        page.page.get_by_role("button", name="Dismiss").first.click()
    page.page.wait_for_selector(".operation", state="detached")


def test_what_may_not_be_done_says_why(site, other):
    made = site.graphql("mutation { createUser(name: \"reader\", email: \"reader@example.invalid\", role: READ_ONLY) { id } }")["createUser"]
    key = site.graphql("mutation($u: String!) { createApiKey(userId: $u, name: \"reading\") { token } }", {"u": made["id"]})["createApiKey"]["token"]
    other.open(f"ui/apps/{site.env['CULVERT_RUNTIME']}/argocd/checkout", key)
    other.page.wait_for_selector("[data-action=SYNC][aria-disabled=true][title]")
    other.until("document.querySelector('.actions').textContent.includes('your role or API key only reads')")
    other.page.click("[data-action=SYNC]", force=True)
    assert other.page.query_selector(".operation") is None and other.axe() == []


# ---- what is old ------------------------------------------------------------------------------


def coloured(page):
    return page.page.eval_on_selector_all("main :is(%s)" % COLOURED, "all => all.map(one => one.textContent)")


def test_a_page_without_its_link_says_so_and_is_grey(site, context, page):
    page.go("ui/apps")
    assert coloured(page)
    context.set_offline(True)
    try:
        page.page.wait_for_selector(".link-bar", timeout=20000)
        assert coloured(page) == [] and "was Healthy" in page.text()
        assert "Not connected to Culvert" in page.text(".link-bar") and page.axe() == []
        for width in (768, 1280):
            page.page.set_viewport_size({"width": width, "height": 800})
            assert too_wide(page) == [], width
            page.picture(f"offline-{width}")
    finally:
        context.set_offline(False)
    page.page.wait_for_selector(".link-bar", state="detached", timeout=40000)
    page.until("document.querySelector('main .tone-good')")


def test_a_change_in_the_cluster_is_seen_without_asking(site, page):
    """By the subscription that is open: no request is answered meanwhile."""
    page.go("ui/apps")
    page.until("document.querySelector('.link-state').textContent === 'live'")
    page.page.evaluate("window.real = window.fetch; window.fetch = (_, {signal}) => new Promise((_, end) => signal.addEventListener('abort', () => end(signal.reason))); 0")
    row = "[...document.querySelectorAll('tr[data-row]')].find(one => one.textContent.includes('checkout'))"
    before = page.page.evaluate(f"{row}.querySelector('.c-sync').textContent")
    path = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/checkout"
    old = site.cluster("GET", path)["status"]["sync"]["status"]
    for status in ("OutOfSync" if old == "Synced" else "Synced", old):
        site.cluster("PATCH", path, {"status": {"sync": {"status": status}}}, "application/merge-patch+json")
        page.until(f"({row}.querySelector('.c-sync').textContent === {json.dumps(before)}) === {json.dumps(status == old)}", 5)
    page.page.evaluate("window.fetch = window.real; 0")
    page.go("ui/")  # ends the request that nothing answers


def test_requests_are_one_at_a_time_and_none_while_hidden(page):
    """Without a subscription: each few seconds."""
    page.page.evaluate("""() => {
        window.real = window.fetch; window.flying = 0; window.most = 0; window.asked = 0;
        window.fetch = async (...all) => {
            if (all[1].headers.accept === 'text/event-stream') throw new TypeError('no stream');
            asked++; flying++; most = Math.max(most, flying);
            try { return await real(...all); } finally { flying--; }
        };
    }""")
    page.go("ui/")
    page.go("ui/apps")
    wait_until(lambda: page.page.evaluate("flying") == 0, 10, "nothing is under way")
    page.page.evaluate("window.asked = 0; window.most = 0; for (let i = 0; i < 20; i++) { dispatchEvent(new Event('online')); document.dispatchEvent(new Event('visibilitychange')); }")
    wait_until(lambda: page.page.evaluate("asked") >= 2, 20, "the page asks again")
    assert page.page.evaluate("most") == 1 and page.page.evaluate("asked") < 5
    page.page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true}); document.dispatchEvent(new Event('visibilitychange'))")
    wait_until(lambda: page.page.evaluate("flying") == 0, 10, "nothing is under way")
    before = page.page.evaluate("asked")
    hidden_at = page.page.evaluate("performance.now()")
    page.until(f"performance.now() > {hidden_at} + 6500", 20)  # longer than the interval
    assert page.page.evaluate("asked") == before
    page.page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    wait_until(lambda: page.page.evaluate("asked") > before, 2, "the page asks at once when it is seen again")
    page.page.evaluate("window.fetch = window.real; 0")
    page.go("ui/")


def test_killed_agent_makes_its_applications_grey_with_the_cause(site, page):
    page.go("ui/apps")
    assert coloured(page)
    supervisor = int((site.home / "run/agent.pid.supervisor").read_text())
    os.kill(supervisor, signal.SIGKILL)
    site.kill("agent")
    page.until("(all => all.length > 0 && all.every(one => /not connected/.test(one.textContent)))([...document.querySelectorAll('table.applications tbody .c-asof')])", 30)
    # What happened stays as it was; what is shown of now is grey.
    assert page.page.eval_on_selector_all(".applications :is(.c-health, .c-sync) :is(%s)" % COLOURED, "all => all.length") == 0
    assert re.search(r"was (Healthy|Degraded)", page.text())
    assert page.axe() == []
    assert too_wide(page) == []
    page.picture("disconnected-1280")
    page.go("ui/apps/%s/argocd/checkout" % site.env["CULVERT_RUNTIME"])
    assert "is not connected" in page.text(".why") and "the agent was killed" in page.text(".why")
    assert page.page.eval_on_selector_all("table.resources :is(%s)" % COLOURED, "all => all.length") == 0
    page.go("ui/runtimes/%s" % site.env["CULVERT_RUNTIME"])
    assert "CONNECTION_LOST" in page.text() and page.axe() == []
    page.go("ui/")
    page.until("document.querySelector('main').textContent.includes('not known now')")
    page.page.emulate_media(color_scheme="dark")
    assert page.axe() == []
    page.page.emulate_media(color_scheme="light")
    site.quickstart()
    wait_until(lambda: site.online(), 60, "the runtime is online again")
    page.until("!document.querySelector('main').textContent.includes('not known now')", 30)


def test_revoked_key_asks_again_and_keeps_the_place(site, other):
    words = ["--account", "quickstart"]
    made = json.loads(culvertd(site, "admin", "create-key", *words, "--user", "admin", "short-lived").stdout)
    other.open("ui/apps?q=checkout", made["token"])
    other.page.wait_for_selector("table.applications")
    assert culvertd(site, "admin", "revoke-key", *words, made["id"]).returncode == 0
    other.page.wait_for_selector("#key", timeout=30000)
    assert "The session has ended" in other.text(".sign-in") and "checkout" not in other.text("body")
    other.sign_in(site.env["CULVERT_API_KEY"])
    other.page.wait_for_selector("table.applications")
    assert other.path() == "ui/apps?q=checkout"
