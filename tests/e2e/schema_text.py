"""The text of the schema, joined of its parts as the build does it."""
import pathlib
import subprocess

TOP = pathlib.Path(__file__).resolve().parents[2]


def join(parts):
    """Runs the joiner: a subprocess.CompletedProcess."""
    return subprocess.run(["awk", "-f", TOP / "modules/join_schema.awk", *parts], capture_output=True, text=True, check=False)


def schema_text():
    joined = join([TOP / "api/common.graphql", *sorted(TOP.glob("modules/*/*.graphql"))])
    assert joined.returncode == 0, joined.stderr
    return joined.stdout
