import os
import pathlib
import tempfile

import pytest

# Before they are imported: so that their asserts show what was compared, as those of test files do.
pytest.register_assert_rewrite(*(file.stem for file in pathlib.Path(__file__).parent.glob("*.py") if not file.stem.startswith("test_") and file.stem != "conftest"))

from ingress_origin import IngressServices
from platform_under_test import Platform

TOP = pathlib.Path(__file__).resolve().parents[2]


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: measures this machine (CPU, memory, time): nothing else may run beside it")
    config.addinivalue_line("markers", "long: too long for every run; part of tests/run --all")


# The files that take longest, longest first: whichever worker got one of these last would end long after the other.
LONG_FILES = ("test_real", "test_ui", "test_replicas", "test_chaos", "test_redaction", "test_resync", "test_bus", "test_twins", "test_faults")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONG_FILES.index(item.path.stem) if item.path.stem in LONG_FILES else len(LONG_FILES))


def build_folder(kind):
    """The binaries to test: with sanitizers where behaviour counts, as released where memory and speed do."""
    named = os.environ.get(f"CULVERT_{kind.upper()}_BUILD")
    return pathlib.Path(named) if named else TOP / "build" / kind


@pytest.fixture(scope="session")
def platform():
    """One platform with its demo cluster for all tests that leave it as they found it."""
    with tempfile.TemporaryDirectory(prefix="culvert-e2e.", dir="/var/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        under_test = Platform(pathlib.Path(folder) / "home", build_folder("asan"))
        try:
            yield under_test.start()
        finally:
            under_test.reset()


@pytest.fixture()
def own_platform(request):
    """A platform for one test: to be killed, filled or measured. Binaries as released unless the test asks otherwise."""
    kind = getattr(request, "param", "release")
    with tempfile.TemporaryDirectory(prefix="culvert-e2e.", dir="/var/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        under_test = Platform(pathlib.Path(folder) / "home", build_folder(kind))
        try:
            yield under_test.start()
        finally:
            under_test.reset()


@pytest.fixture(scope="session")
def ingress(platform):
    """The session's platform with services behind its tunnel that tests can look into."""
    with IngressServices(platform) as services:
        yield services


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test shows the end of every log."""
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for name in ("platform", "own_platform"):
            under_test = item.funcargs.get(name)
            if isinstance(under_test, Platform) and under_test.home.exists():
                report.sections.append((f"logs of {name}", under_test.logs()))
