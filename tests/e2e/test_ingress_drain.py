"""A listener that closes: requests in flight are answered, and clients are told before nobody listens any more."""

import signal
import subprocess

import pytest

from http2_client import Http2Client
from platform_under_test import wait_until


def in_flight(platform):
    name = 'culvert_http_requests_in_flight{listener="ingress"}'
    return next((int(line.split()[-1]) for line in platform.admin("/metrics").text().splitlines() if line.startswith(name)), 0)


@pytest.mark.parametrize("own_platform", ["asan"], indirect=True)
def test_http2_requests_in_flight_are_answered(own_platform):
    platform = own_platform
    host, port = platform.env["CULVERT_INGRESS_HOST"], platform.env["CULVERT_INGRESS_URL"].rsplit(":", 1)[1]
    command = ["curl", "-sS", "--http2", "--max-time", "60", "--resolve", f"{host}:{port}:127.0.0.1", "--cacert", platform.env["CULVERT_CA"]]
    command += ["-H", f"@{platform.home}/authorization.header", f"{platform.env['CULVERT_INGRESS_URL']}/services/demo/slow?seconds=3"]
    with Http2Client(platform, timeout=60) as idle:
        assert idle.ask("GET", "/services/demo/").status == 200
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as curl:
            wait_until(lambda: in_flight(platform) == 1, 20, "the request")
            before = platform.kill("culvertd", signal.SIGTERM)
            idle.until(lambda: idle.terminated is not None, 30)
            out, err = curl.communicate(timeout=60)
        assert out == b"answered after 3 seconds\n", err
        assert idle.terminated == 0
    wait_until(lambda: platform.pid("culvertd") != before, 60, "a new server")
    wait_until(lambda: platform.ingress("GET", "/services/demo/").status == 200, 60, "calls go through again")
