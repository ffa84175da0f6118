"""The npm packages that GraphQL is compared with."""

import npm_packages
from conftest import TOP

ORACLE = TOP / "tests" / "support" / "graphql_oracle"


def installed():
    """The folder for NODE_PATH. Skips the test where there is no node or no registry."""
    return npm_packages.installed(ORACLE)
