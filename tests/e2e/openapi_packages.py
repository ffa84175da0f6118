"""The Python packages that know OpenAPI, installed once into the build folder (tests/e2e/openapi-requirements.txt)."""

import fcntl
import json
import subprocess
import sys

import pytest

from conftest import TOP

WANTED = TOP / "tests" / "e2e" / "openapi-requirements.txt"


def load():
    """(the module jsonschema, the JSON schema of OpenAPI 3.1 documents). Skips the test where there is no registry."""
    home = TOP / "build" / "openapi"
    home.mkdir(parents=True, exist_ok=True)
    with open(home / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two pytest workers may come at once
        done = home / "installed.txt"
        if not done.exists() or done.read_text(encoding="utf-8") != WANTED.read_text(encoding="utf-8"):
            command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--upgrade", "--target", home, "-r", WANTED]
            run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            if run.returncode != 0:
                pytest.skip("the packages cannot be installed: " + run.stderr[-200:])
            done.write_text(WANTED.read_text(encoding="utf-8"), encoding="utf-8")
    sys.path.insert(0, str(home))
    import jsonschema  # pylint: disable=import-outside-toplevel

    return jsonschema, json.loads((home / "openapi_spec_validator/resources/schemas/v3.1/schema.json").read_text(encoding="utf-8"))
