"""A slice of tests/chaos/kill: killed and stopped at random points, what was acknowledged is there, once and in order, and the
database is what the cluster is."""

import os
import pathlib
import re
import signal
import subprocess

import pytest

from conftest import build_folder
from platform_under_test import wait_until

TOP = pathlib.Path(__file__).resolve().parents[2]


def words(points, *more):
    return [TOP / "tests/chaos/kill", "--points", str(points), "--seed", os.environ.get("CULVERT_TEST_SEED", "1"), "--build", build_folder("asan"), *more]


@pytest.mark.parametrize("options", [["--bus", "local"], ["--bus", "rabbitmq"], ["--bus", "local", "--replicas", "2"]], ids=["local", "rabbitmq", "replicas"])
def test_acknowledged_is_kept(options):
    points = int(os.environ.get("CULVERT_CHAOS_POINTS", "12"))
    done = subprocess.run(words(points, *options), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=400 + 10 * points)
    assert done.returncode == 0, done.stdout[-8000:]


def processes(folder):
    """Those that run out of it, or are children of such, by what they were started with."""
    found = []
    for each in pathlib.Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                line = (each / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(folder) in line:
                found.append(line)
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_nothing_behind(number, tmp_path):
    """In the middle of the points, as Ctrl-C does it: everybody in the foreground hears it."""
    file = tmp_path / "out"
    with open(file, "w") as out:
        child = subprocess.Popen(words(1000, "--bus", "rabbitmq"), stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            wait_until(lambda: child.poll() is not None or " point " in file.read_text(), 200, "points")
            folder = pathlib.Path(re.search(r"in (/var/tmp/culvert-chaos\.\S+)", file.read_text()).group(1))
            assert child.poll() is None and processes(folder)
            for _ in range(2):  # by somebody who cannot wait
                os.killpg(child.pid, number)
            assert child.wait(120) == 128 + number, file.read_text()[-3000:]
        finally:
            if child.poll() is None:
                child.kill()
    assert not folder.exists() and not processes(folder)
