"""Execution answers what graphql-js answers over the same data: aliases, merged fields, fragments, types, directives, order."""

import json
import os
import random
import subprocess

from graphql_packages import ORACLE, installed
from platform_under_test import wait_until
from schema_text import schema_text

DOCUMENTS = 400
DEPTH = 6
ALIASES, DIRECTIVES = 25, 40  # the platform takes 30 and 50
LIMITS = ("nested deeper", "more than 1000 tokens")  # what it refuses besides
# What changes while nothing happens.
VOLATILE = ("lag", "freshness", "seen", "since", "online", "observed", "received", "reported", "updated", "sequence", "seconds", "counted", "statetoken", "connected", "usage", "lastused", "extensions")
INTROSPECTION = """{ __schema { types { kind name possibleTypes { name }
    fields(includeDeprecated: true) { name args { type { kind } defaultValue } type { kind name ofType { kind name ofType { kind name ofType { kind name } } } } } } } }"""


class Schema:
    def __init__(self, platform):
        self.types = {each["name"]: each for each in platform.graphql(INTROSPECTION)["__schema"]["types"]}
        self.conflicts = {each: self.conflicting(each) for abstract in self.types.values() if abstract["possibleTypes"] for each in self.possible(abstract["name"])}

    def conflicting(self, name):
        """Fields that another type beside it, in a union or interface, has with another type: no document may ask for both."""
        found = set()
        for abstract in self.types.values():
            possible = [each["name"] for each in abstract["possibleTypes"] or []]
            if name in possible:
                for other in possible:
                    theirs = {field["name"]: field["type"] for field in self.types[other]["fields"]}
                    found |= {field["name"] for field in self.types[name]["fields"] if theirs.get(field["name"], field["type"]) != field["type"]}
        return found

    @staticmethod
    def named(reference):
        while reference["name"] is None:
            reference = reference["ofType"]
        return reference["name"]

    def is_leaf(self, name):
        return self.types[name]["kind"] in ("SCALAR", "ENUM")

    def possible(self, name):
        kind = self.types[name]
        return [each["name"] for each in kind["possibleTypes"]] if kind["possibleTypes"] else [name]

    def fields(self, name, depth):
        """[(field, its type)] that a document may ask for without arguments, and whose value stays."""
        found = []
        for field in self.types[name]["fields"] or []:
            required = any(each["type"]["kind"] == "NON_NULL" and each["defaultValue"] is None for each in field["args"])
            kind = self.named(field["type"])
            if field["name"] in self.conflicts.get(name, ()):
                continue
            if not required and not any(word in field["name"].lower() for word in VOLATILE) and (self.is_leaf(kind) or depth > 0):
                found.append((field["name"], kind))
        return found


def whole(schema, name, depth):
    """The selection of everything, with __typename in every object."""
    def of(each):
        fields = schema.fields(each, depth)
        return " ".join(["__typename", *(field + ("" if schema.is_leaf(kind) else whole(schema, kind, depth - 1)) for field, kind in fields)])

    if schema.types[name]["kind"] == "OBJECT":
        return "{" + of(name) + "}"
    return "{__typename " + " ".join(f"... on {each} {{{of(each)}}}" for each in schema.possible(name)) + "}"


class Writer:
    """Random documents: every way of saying a selection, and of saying it twice."""

    def __init__(self, schema, chance, roots):
        self.schema, self.chance, self.roots = schema, chance, roots
        self.fragments, self.count, self.directives = [], 0, 0

    def document(self):
        self.fragments, self.count, self.directives = [], 0, 0
        chosen = self.chance.sample(sorted(self.roots), self.chance.randint(1, 2))
        body = " ".join(f"{self.alias()}{field}{self.roots[field][0]}{self.directive()} {self.selection(self.roots[field][1], DEPTH)}" for field in chosen)
        flags = "a: __typename @include(if: $yes) @skip(if: $no)"
        return f"query Q($yes: Boolean = true, $no: Boolean!) {{ {flags} {body} }} " + " ".join(self.fragments)

    def alias(self):
        if self.count >= ALIASES or self.chance.random() > 0.25:
            return ""
        self.count += 1
        return f"a{self.count}: "

    def directive(self):
        self.directives += 1
        if self.directives > DIRECTIVES:
            return ""
        return self.chance.choice(["", "", "", "", "", " @include(if: $yes)", " @skip(if: $no)", " @skip(if: $yes)", " @include(if: true)"])

    def selection(self, name, depth):
        return "{" + self.body(name, depth) + "}"

    def body(self, name, depth):
        if self.schema.types[name]["kind"] != "OBJECT":
            chosen = self.chance.sample(self.schema.possible(name), 1)
            return "__typename " + " ".join(f"... on {each} {{{self.body(each, depth)}}}" for each in chosen)
        fields = self.schema.fields(name, depth)
        chosen = self.chance.sample(fields, min(len(fields), self.chance.randint(1, 4)))
        parts = [f"{self.alias()}__typename"]
        for field, kind in chosen:
            parts.append(self.field(field, kind, depth))
            if self.chance.random() < 0.2 and not self.schema.is_leaf(kind):
                parts.append(f"{field} {self.selection(kind, depth - 1)}")  # merged with the one before
        if self.chance.random() < 0.3:
            parts.append(f"...{self.chance.choice(['', ' on ' + name])}{self.directive()} {{{self.body(name, 0)}}}")
        if self.chance.random() < 0.2:
            fragment = f"F{len(self.fragments)}"
            self.fragments.append("")
            self.fragments[int(fragment[1:])] = f"fragment {fragment} on {name} {{{self.body(name, depth // 2)}}}"
            parts.append(f"...{fragment}{self.directive()}")
        self.chance.shuffle(parts)
        return " ".join(parts)

    def field(self, field, kind, depth):
        below = "" if self.schema.is_leaf(kind) else " " + self.selection(kind, depth - 1)
        return f"{self.alias()}{field}{self.directive()}{below}"


def roots_of(schema, runtime):
    """{field of Query: (its arguments, its type)}"""
    page, named = "(pagination: {first: 5})", f'(runtime: "{runtime}", name: "checkout")'
    words = {
        **{field: page for field in ("applications", "applicationSets", "clusters", "gitopsReleases", "images", "rollouts", "workflows")},
        "me": "", "components": f'(runtime: "{runtime}")', "runtime": f'(name: "{runtime}")',
        "application": named, "resourceTree": named, "rollout": f'(runtime: "{runtime}", name: "checkout", namespace: "shop")',
    }
    kinds = {field["name"]: schema.named(field["type"]) for field in schema.types["Query"]["fields"]}
    return {field: (arguments, kinds[field]) for field, arguments in words.items()}


def answers(platform, requests, selections, roots):
    """(all data of the roots, the answers), with nothing that changed meanwhile"""
    def snapshot():
        return {name: value for field, selection in selections.items() for name, value in platform.graphql(f"{{ {field}{roots[field][0]} {selection} }}").items()}

    got = []

    def attempt():
        data = snapshot()
        got[:] = data, [platform.graphql_answer(**request) for request in requests]
        return snapshot() == data

    wait_until(attempt, 60, "nothing changes while the documents are answered")
    return got


def test_execution(platform, tmp_path):
    modules = installed()
    schema = Schema(platform)
    roots = roots_of(schema, platform.env["CULVERT_RUNTIME"])
    chance = random.Random(int(os.environ.get("CULVERT_TEST_SEED", "20261121")))
    writer = Writer(schema, chance, roots)
    requests = [{"query": writer.document(), "variables": chance.choice([{"no": False}, {"no": False, "yes": False}, {"no": True}])} for _ in range(DOCUMENTS)]
    platform.cluster("POST", "/demo/pause")
    try:
        wait_until(lambda: platform.applications() == platform.cluster_applications(), what="database equals cluster")
        data, ours = answers(platform, requests, {field: whole(schema, kind, DEPTH + 1) for field, (_, kind) in roots.items()}, roots)
    finally:
        platform.cluster("POST", "/demo/resume")
    assert all(data[field] for field in roots), data
    (tmp_path / "schema.graphql").write_text(schema_text())
    (tmp_path / "roots.json").write_text(json.dumps(data))
    done = subprocess.run(["node", ORACLE / "execute.js", tmp_path / "schema.graphql", tmp_path / "roots.json"], env=dict(os.environ, NODE_PATH=str(modules)),
                          input="".join(json.dumps(request) + "\n" for request in requests), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    compared, differing = 0, []
    for request, our, line in zip(requests, ours, done.stdout.splitlines(), strict=True):
        their = json.loads(line)
        if our.status == 400 and any(limit in our.text() for limit in LIMITS):
            continue
        if "data" not in their:
            assert our.status == 400 and "data" not in our.json(), (request, our.text())
            continue
        compared += 1
        if json.dumps(our.json()) != json.dumps(their):  # as text: the order of the fields counts
            differing.append(f"{request}\n  ours:   {json.dumps(our.json())[:2000]}\n  theirs: {json.dumps(their)[:2000]}")
    assert not differing, f"{len(differing)} of {compared} differ\n" + "\n".join(differing[:5])
    assert compared >= DOCUMENTS * 3 // 4, f"only {compared} of {DOCUMENTS} documents are valid"
