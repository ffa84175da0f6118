"""What passes the ingress listener of the replica that holds the tunnel passes that of the other one, too, over the hop between them."""

import contextlib
import pathlib
import socket
import tempfile

import pytest

from conftest import build_folder
from ingress_origin import IngressServices
from platform_under_test import wait_until
from raw_client import RawClient
from replicas_under_test import Replicas, calm

from test_ingress_grpc import rpc  # noqa: F401
from test_ingress_grpc import test_both_directions_take_turns, test_cancel_reaches_the_server, test_streams, test_unary  # noqa: F401
from test_ingress_grpc import test_deadline_reaches_the_server, test_status_and_message_of_a_failure  # noqa: F401
from test_ingress_http1 import test_a_client_that_leaves_ends_the_request_at_the_service, test_a_client_that_leaves_its_upload_ends_the_request  # noqa: F401
from test_ingress_http1 import test_a_websocket_that_is_not_switched, test_continue_comes_from_the_service  # noqa: F401
from test_ingress_http1 import test_early_hints_pass_without_links, test_trailers_of_answers_go_to_who_takes_them  # noqa: F401
from test_ingress_http1 import test_trailers_of_requests_reach_the_service, test_websocket_carries_messages_of_any_size  # noqa: F401
from test_ingress_http2 import test_websocket_that_is_not_switched_by_extended_connect  # noqa: F401
from test_ingress_http1 import test_websocket_service_gone_is_seen_by_the_client  # noqa: F401
from test_ingress_http1 import test_websocket_client_gone_is_seen_by_the_service, test_websocket_closes_both_ways_with_its_code  # noqa: F401

from test_ingress_tcp import test_tcp_half_close, test_tcp_service_ends_first, test_tcp_service_ends_first_by_extended_connect  # noqa: F401
from test_ingress_tcp import test_tcp_service_is_gone, test_tcp_service_is_gone_by_extended_connect  # noqa: F401


class ServicesOverHop(IngressServices):
    """The listener that the tests know is that of the replica without the tunnel."""

    def _set_up(self, services, more=""):
        super()._set_up(services, more)  # the agent starts again, and dials whom it likes
        replicas = self.platform
        wait_until(lambda: calm(replicas), 60, "two replicas and a tunnel")
        self.other = 1 - replicas.owner()
        replicas.env["CULVERT_INGRESS_URL"] = f"https://{replicas.env['CULVERT_INGRESS_HOST']}:{replicas.port('INGRESS', self.other)}"


@pytest.fixture(scope="module")
def ingress():
    """The services of the same name, behind two replicas."""
    with tempfile.TemporaryDirectory(prefix="culvert-e2e.", dir="/var/tmp") as folder:
        pathlib.Path(folder).chmod(0o755)
        replicas = Replicas(pathlib.Path(folder) / "home", build_folder("asan"))
        try:
            replicas.start()
            with ServicesOverHop(replicas) as services:
                yield services
        finally:
            replicas.reset()


@pytest.fixture(autouse=True)
def over_the_hop(ingress, request):
    if "rpc" in request.fixturenames:
        request.getfixturevalue("rpc")
    assert ingress.platform.owner() == 1 - ingress.other
    yield
    assert ingress.platform.owner() == 1 - ingress.other


def test_a_service_that_leaves_is_never_a_whole_answer(ingress):
    """What came of it passes, and then the connection ends before its length is reached."""
    for _ in range(10):
        with RawClient(ingress.platform) as client:
            client.send("GET /services/probe/gone")
            head = client.head()
            assert b" 200 " in head.splitlines()[0] and b"content-length: 100" in head
            assert len(client.to_the_end()) < 100


def test_many_slow_readers_stop_nobody(ingress):
    """Their answers stand still at both replicas; the others' do not."""
    body = 8_000_000
    with contextlib.ExitStack() as slow:
        for _ in range(30):
            reader = slow.enter_context(RawClient(ingress.platform))
            reader.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.send(f"GET /services/demo/bytes/{body}")
            assert b" 200 " in reader.head().splitlines()[0]
        for _ in range(20):
            answer = ingress.platform.ingress_of(ingress.other, "GET", "/services/demo/bytes/100000")
            assert answer.status == 200 and len(answer.body) == 100_000
