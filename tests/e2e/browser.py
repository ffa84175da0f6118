"""A browser for the web UI's tests: Debian's chromium, driven by Playwright, with what the tests watch in every page."""

import contextlib
import os
import pathlib

import pytest

from waiting import wait_until

TOP = pathlib.Path(__file__).resolve().parents[2]
CHROMIUM = "/usr/bin/chromium"
UI_PACK = pathlib.Path(os.environ.get("CULVERT_UI_PACK", TOP / "ui/dist/ui.pack"))
AXE = TOP / "ui/node_modules/axe-core/axe.min.js"
PICTURES = TOP / "build/reports/ui"

# Rules of WCAG 2.2 level A and AA.
AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

# Violations of the policy are counted in the page, before any script of it runs.
WATCH = "window.violations = []; addEventListener('securitypolicyviolation', (e) => violations.push(`${e.violatedDirective} ${e.blockedURI} ${e.sample}`));"


def require():
    """What the tests need; tests/run sets CULVERT_UI_TESTS, where nothing of it may be missing."""
    missing = [str(file) for file in (pathlib.Path(CHROMIUM), UI_PACK, AXE) if not file.exists()]
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        missing.append("the Python package playwright")
    if missing and os.environ.get("CULVERT_UI_TESTS"):
        pytest.fail("the web UI's tests need " + ", ".join(missing))
    if missing:
        pytest.skip("needs " + ", ".join(missing) + " (ui/build makes the pack; tests/run installs the rest)", allow_module_level=True)


class Page:
    """A page of the web UI, and everything that it must not do."""

    def __init__(self, context, base):
        self.base, self.page = base, context.new_page()
        self.complaints = []
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("console", lambda message: self.complaints.append(f"console: {message.text}") if message.type == "error" and not is_expected(message) else None)
        self.page.on("dialog", lambda dialog: (self.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.page.on("request", lambda request: None if request.url.startswith(base) else self.complaints.append(f"foreign request: {request.url}"))

    def open(self, path, key=None):
        """Loads the page anew; with a key it signs in, without it the browser's session is as it is."""
        self.page.goto(self.base + path)
        self.page.wait_for_selector("#key, main#main")
        if key:
            self.sign_in(key)

    def sign_in(self, key):
        self.page.fill("#key", key)
        self.page.keyboard.press("Enter")
        self.page.wait_for_selector("main#main", timeout=20000)

    def go(self, path):
        """Follows a link within the page, and waits for its content."""
        self.page.evaluate("to => { history.pushState(null, '', to); dispatchEvent(new PopStateEvent('popstate', {state: null})); }", self.base + path)
        self.settle()

    def settle(self):
        self.until("document.querySelector('h1') && !document.querySelector('.skeletons') && !document.querySelector('.list.old')")

    def until(self, expression, seconds=20):
        """Polls from outside: Playwright's own waiting evaluates in the page, which its policy forbids."""
        wait_until(lambda: self.page.evaluate(f"Boolean({expression})"), seconds, expression)

    def path(self):
        return self.page.evaluate("location.pathname + location.search").removeprefix(self.page.evaluate("new URL(document.baseURI).pathname"))

    def text(self, selector="main"):
        return self.page.inner_text(selector)

    def violations(self):
        return self.page.evaluate("window.violations ?? []")

    def axe(self):
        """Violations of accessibility rules on what is shown, one line each."""
        if not self.page.evaluate("Boolean(window.axe)"):
            self.page.evaluate(AXE.read_text())
        found = self.page.evaluate("tags => axe.run(document, {runOnly: tags, resultTypes: ['violations']})", AXE_TAGS)
        return [f"{each['id']}: {node['target']} {node['failureSummary']}" for each in found["violations"] for node in each["nodes"]]

    def picture(self, name):
        PICTURES.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=PICTURES / f"{name}.png")


def is_expected(message):
    """Chromium notes refused and failed requests; which of them a test provokes, it checks on the page."""
    return message.text.startswith("Failed to load resource")


@contextlib.contextmanager
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-dev-shm-usage"] if os.getuid() == 0 else ["--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        try:
            yield browser
        finally:
            browser.close()
