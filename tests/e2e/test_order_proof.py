"""A slice of tests/chaos/order: no acknowledgement left before the answer to its transaction was read."""

import os
import pathlib
import subprocess

from conftest import build_folder

TOP = pathlib.Path(__file__).resolve().parents[2]


def test_commit_comes_first():
    acks, seed = os.environ.get("CULVERT_ORDER_ACKS", "600"), os.environ.get("CULVERT_TEST_SEED", "1")
    words = [TOP / "tests/chaos/order", "--acks", acks, "--seed", seed, "--build", build_folder("asan")]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300 + int(acks) // 10)
    assert done.returncode == 0, done.stdout[-8000:]
