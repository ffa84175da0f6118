"""The schema is joined of one part a module; what does not fit together ends the build."""
import pytest
from schema_text import join, schema_text

COMMON = "# The head.\n\nenum Color {\n  RED\n}\n"


def parts(folder, *texts):
    files = []
    for number, text in enumerate(texts):
        files.append(folder / f"part{number}.graphql")
        files[-1].write_text(text)
    return files


def test_parts_become_one_schema(tmp_path):
    one = "extend type Query {\n  # Of a house.\n  houses: [House]\n}\n\n\ntype House {\n  color: Color\n}\n"
    two = "extend type Query {\n  cats(\n    first: Int\n  ): Int\n}\n\nextend type Mutation {\n  feed: Int\n}\n"
    joined = join(parts(tmp_path, COMMON, one, two))
    assert joined.returncode == 0, joined.stderr
    assert joined.stdout == (
        "# The head.\n\ntype Query {\n  # Of a house.\n  houses: [House]\n  cats(\n    first: Int\n  ): Int\n}\n\n"
        "type Mutation {\n  feed: Int\n}\n\nenum Color {\n  RED\n}\n\ntype House {\n  color: Color\n}\n"
    )


@pytest.mark.parametrize(
    "part, message",
    [
        ("enum Color {\n  BLUE\n}\n", "type Color is defined in"),
        ("extend type Color {\n  x: Int\n}\n", "only types Query, Mutation and Subscription are extended"),
        ("extend enum Query {\n  x: Int\n}\n", "only types Query, Mutation and Subscription are extended"),
        ("type Query {\n  x: Int\n}\n", "Query is extended by parts"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(tmp_path, part, message):
    files = parts(tmp_path, COMMON, part)
    joined = join(files)
    assert joined.returncode == 1
    assert joined.stderr.startswith(f"{files[1]}:1: ") and message in joined.stderr
    assert "type" not in joined.stdout


def test_a_part_extends_a_root_or_defines_a_type_once():
    text = schema_text()
    assert text.count("\ntype Query {") == 1 and text.count("\ntype Mutation {") == 1
    assert "extend" not in text
