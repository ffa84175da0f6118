"""The Python packages that know OpenAPI (tests/e2e/openapi-requirements.txt)."""

import json
import sys

from python_packages import install


def load():
    """(the module jsonschema, the JSON schema of OpenAPI 3.1 documents)"""
    home = install("openapi")
    sys.path.insert(0, str(home))
    import jsonschema  # pylint: disable=import-outside-toplevel

    return jsonschema, json.loads((home / "openapi_spec_validator/resources/schemas/v3.1/schema.json").read_text(encoding="utf-8"))
