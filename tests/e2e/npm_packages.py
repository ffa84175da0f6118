"""npm packages of tests, installed once into the build folder as their lock file says."""

import fcntl
import shutil
import subprocess

import pytest

from conftest import TOP


def installed(source):
    """The folder for NODE_PATH of what source/package.json has. Skips the test where there is no node or no registry."""
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    home = TOP / "build" / source.name
    home.mkdir(parents=True, exist_ok=True)
    with open(home / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two pytest workers may come at once
        done = home / "installed.json"
        wanted = (source / "package-lock.json").read_text(encoding="utf-8")
        if not done.exists() or done.read_text(encoding="utf-8") != wanted:
            install(source, home)
            done.write_text(wanted, encoding="utf-8")
    return home / "node_modules"


def install(source, home):
    if not shutil.which("npm"):
        pytest.skip("npm is not installed, and the packages are not there")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(source / name, home / name)
    command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    try:
        run = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("npm ci did not end within 120 s")
    if run.returncode != 0:
        pytest.skip("npm ci failed: " + run.stderr.strip()[-300:])
