"""The npm packages that GraphQL is compared with, installed once into the build folder as the lock file says."""

import fcntl
import shutil
import subprocess

import pytest

from conftest import TOP

ORACLE = TOP / "tests" / "support" / "graphql_oracle"


def installed():
    """The folder for NODE_PATH. Skips the test where there is no node or no registry."""
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    home = TOP / "build" / "graphql_oracle"
    home.mkdir(parents=True, exist_ok=True)
    with open(home / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two pytest workers may come at once
        done = home / "installed.json"
        wanted = (ORACLE / "package-lock.json").read_text(encoding="utf-8")
        if not done.exists() or done.read_text(encoding="utf-8") != wanted:
            install(home)
            done.write_text(wanted, encoding="utf-8")
    return home / "node_modules"


def install(home):
    if not shutil.which("npm"):
        pytest.skip("npm is not installed, and the packages are not there")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(ORACLE / name, home / name)
    command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    try:
        run = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("npm ci did not end within 120 s")
    if run.returncode != 0:
        pytest.skip("npm ci failed: " + run.stderr.strip()[-300:])
