"""Validation says what graphql-js says: the same documents are valid, and the sentences that clients match on are the same."""

import json
import os
import random
import re
import subprocess

import pytest

from conftest import build_folder
from graphql_packages import ORACLE, installed

MUTANTS = 3000


def documents():
    lines = (ORACLE / "documents.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("==")]


def mutants(count):
    """Documents with a token taken out, doubled, moved or replaced: most are wrong in ways that nobody thinks of."""
    chance = random.Random(20211026)
    tokens = re.compile(r'"""[^"]*"""|"(?:\\.|[^"\\])*"|\.\.\.|[A-Za-z_]\w*|-?\d[\w.]*|\S')
    sources = [tokens.findall(text) for text in documents()]
    words = sorted({token for source in sources for token in source})
    made = []
    while len(made) < count:
        source = list(chance.choice(sources))
        for _ in range(chance.choice((1, 1, 2))):
            at, other = chance.randrange(len(source)), chance.randrange(len(source))
            kind = chance.randrange(4)
            if kind == 0 and len(source) > 1:
                del source[at]
            elif kind == 1:
                source.insert(at, source[other])
            elif kind == 2:
                source[at] = chance.choice(words)
            else:
                source[at], source[other] = source[other], source[at]
        made.append(" ".join(source))
    return made


def ask(command, texts, **options):
    lines = "".join(json.dumps({"query": text}) + "\n" for text in texts)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=120, check=False, **options)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line)["errors"] for line in done.stdout.splitlines()]
    assert len(answers) == len(texts)
    return answers


@pytest.fixture(scope="module")
def checker():
    program = build_folder("asan") / "tests" / "support" / "culvert-graphql-check"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    return str(program)


@pytest.fixture(scope="module")
def graphql_js(checker, tmp_path_factory):
    """graphql-js's answers to documents."""
    modules = installed()
    schema = tmp_path_factory.mktemp("oracle") / "schema.graphql"
    schema.write_bytes(subprocess.run([checker, "--schema"], capture_output=True, timeout=30, check=True).stdout)
    environment = dict(os.environ, NODE_PATH=str(modules))
    return lambda texts: ask(["node", str(ORACLE / "validate.js"), str(schema)], texts, env=environment)


def plain(message):
    """Without the suggestions, which would tell strangers what else there is."""
    return re.sub(r" Did you mean .*$", "", message, flags=re.DOTALL)


def is_known(our, their):
    """Type definitions are no syntax here; graphql-js notices only when it runs that there are no subscriptions."""
    return (
        any("definition is not executable" in message for message in their)
        or our[:1] == ["Schema is not configured to execute subscription operations."]
    )


def differences(texts, ours, theirs):
    found = []
    for text, our, their in zip(texts, ours, theirs):
        their = [plain(message) for message in their]
        if is_known(our, their):
            assert our
        elif bool(our) != bool(their):
            found.append(f"{text}\n  ours:   {our or 'valid'}\n  theirs: {their or 'valid'}")
        elif our and not their[0].startswith("Syntax Error") and plain(our[0]) not in their:
            found.append(f"{text}\n  ours:   {our[0]}\n  theirs: {their}")
    return found


def test_documents(checker, graphql_js):
    texts = documents()
    assert len(texts) >= 150
    found = differences(texts, ask([checker], texts), graphql_js(texts))
    assert not found, "\n".join(found)


def test_mutants(checker, graphql_js):
    texts = mutants(MUTANTS)
    ours, theirs = ask([checker], texts), graphql_js(texts)
    found = differences(texts, ours, theirs)
    assert not found, f"{len(found)} of {len(texts)} differ\n" + "\n".join(found[:20])
    assert any(not answer for answer in ours)
