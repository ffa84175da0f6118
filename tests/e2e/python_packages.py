"""Python packages that tests need besides Debian's, installed once into the build folder."""

import fcntl
import subprocess
import sys

import pytest

from conftest import TOP


def install(name):
    """The folder with the packages of NAME-requirements.txt. Skips the test where there is no registry."""
    wanted = TOP / "tests" / "e2e" / f"{name}-requirements.txt"
    home = TOP / "build" / name
    home.mkdir(parents=True, exist_ok=True)
    with open(home / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two pytest workers may come at once
        done = home / "installed.txt"
        if not done.exists() or done.read_text(encoding="utf-8") != wanted.read_text(encoding="utf-8"):
            command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--upgrade", "--target", home, "-r", wanted]
            run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            if run.returncode != 0:
                pytest.skip("the packages cannot be installed: " + run.stderr[-200:])
            done.write_text(wanted.read_text(encoding="utf-8"), encoding="utf-8")
    return home
