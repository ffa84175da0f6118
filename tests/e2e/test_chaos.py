"""A slice of tests/chaos/kill: killed and stopped at random points, what was acknowledged is there, once and in order."""

import os
import pathlib
import subprocess

import pytest

from conftest import build_folder

TOP = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("bus", ["local", "rabbitmq"])
def test_acknowledged_is_kept(bus):
    points, seed = os.environ.get("CULVERT_CHAOS_POINTS", "12"), os.environ.get("CULVERT_TEST_SEED", "1")
    words = [TOP / "tests/chaos/kill", "--points", points, "--seed", seed, "--bus", bus, "--build", build_folder("asan")]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300 + 10 * int(points))
    assert done.returncode == 0, done.stdout[-8000:]
