"""gRPC through the tunnel: a real client and a real server (python3-grpcio), with the ingress listener and the agent between."""

import threading
from concurrent import futures

import grpc
import pytest

PREFIX = "/services/grpc/probe.Echo/"


class Echo(grpc.GenericRpcHandler):
    """Methods by name, bytes in and out."""

    def __init__(self):
        self.cancelled = threading.Event()
        self.metadata = {}

    def service(self, call):
        self.metadata = dict(call.invocation_metadata)
        name = call.method.rsplit("/", 1)[1]
        kinds = {
            "Unary": grpc.unary_unary_rpc_method_handler(self.unary),
            "Fail": grpc.unary_unary_rpc_method_handler(self.fail),
            "Count": grpc.unary_stream_rpc_method_handler(self.count),
            "Sum": grpc.stream_unary_rpc_method_handler(self.sum),
            "Chat": grpc.stream_stream_rpc_method_handler(self.chat),
            "Early": grpc.stream_stream_rpc_method_handler(self.early),
            "Hang": grpc.unary_stream_rpc_method_handler(self.hang),
        }
        return kinds.get(name)

    def unary(self, request, context):
        context.set_trailing_metadata((("server-timing", "db;dur=1"), ("x-secret", "stays")))
        return request

    def fail(self, request, context):
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"not with {len(request)} bytes: ä")

    def count(self, request, _context):
        for i in range(int(request)):
            yield b"%d" % i

    def sum(self, requests, _context):
        return b"%d" % sum(len(request) for request in requests)

    def chat(self, requests, _context):
        for request in requests:
            yield request

    def early(self, requests, context):
        next(requests)
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "enough")
        yield b""

    def hang(self, _request, context):
        context.add_callback(self.cancelled.set)
        yield b"began"
        self.cancelled.wait(60)


@pytest.fixture(scope="module")
def rpc(ingress):
    """(server, channel, metadata)"""
    handler = Echo()
    server = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.max_receive_message_length", 1 << 26)])
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    ingress.add_service("grpc", f"h2c://127.0.0.1:{port}")
    env = ingress.platform.env
    host, listener = env["CULVERT_INGRESS_HOST"], env["CULVERT_INGRESS_URL"].rsplit(":", 1)[1]
    with open(env["CULVERT_CA"], "rb") as file:
        credentials = grpc.ssl_channel_credentials(file.read())
    options = [
        ("grpc.ssl_target_name_override", host),
        ("grpc.default_authority", f"{host}:{listener}"),
        ("grpc.max_receive_message_length", 1 << 26),
        ("grpc.enable_http_proxy", 0),
    ]
    with grpc.secure_channel(f"127.0.0.1:{listener}", credentials, options) as channel:
        yield handler, channel, (("authorization", env["CULVERT_API_KEY"]),)
    server.stop(None)


@pytest.mark.parametrize("size", [0, 1, 16384, 65531, 5_000_011])
def test_unary(rpc, size):
    _, channel, key = rpc
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    answer, call = channel.unary_unary(PREFIX + "Unary").with_call(data, metadata=key, timeout=60)
    assert answer == data and call.code() == grpc.StatusCode.OK
    trailing = dict(call.trailing_metadata())
    assert trailing.get("server-timing") == "db;dur=1" and "x-secret" not in trailing


def test_status_and_message_of_a_failure(rpc):
    _, channel, key = rpc
    with pytest.raises(grpc.RpcError) as failure:
        channel.unary_unary(PREFIX + "Fail")(b"123", metadata=key, timeout=60)
    assert failure.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert failure.value.details() == "not with 3 bytes: ä"
    with pytest.raises(grpc.RpcError) as failure:
        channel.unary_unary(PREFIX + "Unknown")(b"", metadata=key, timeout=60)
    assert failure.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_streams(rpc):
    _, channel, key = rpc
    counted = list(channel.unary_stream(PREFIX + "Count")(b"1000", metadata=key, timeout=60))
    assert counted == [b"%d" % i for i in range(1000)]
    assert channel.stream_unary(PREFIX + "Sum")(iter([b"x" * 10000] * 500), metadata=key, timeout=60) == b"5000000"


def test_both_directions_take_turns(rpc):
    """A message is answered before the next is sent: nothing on the way waits for more."""
    _, channel, key = rpc
    turn = threading.Semaphore(1)

    def requests():
        for i in range(50):
            turn.acquire()
            yield b"%d" % i

    answers = []
    for answer in channel.stream_stream(PREFIX + "Chat")(requests(), metadata=key, timeout=60):
        answers.append(answer)
        turn.release()
    assert answers == [b"%d" % i for i in range(50)]


def test_a_server_may_end_first(rpc):
    _, channel, key = rpc
    more = threading.Event()

    def requests():
        yield b"one"
        more.wait(60)

    with pytest.raises(grpc.RpcError) as failure:
        list(channel.stream_stream(PREFIX + "Early")(requests(), metadata=key, timeout=60))
    more.set()
    assert failure.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and failure.value.details() == "enough"


def test_cancel_reaches_the_server(rpc):
    handler, channel, key = rpc
    handler.cancelled.clear()
    call = channel.unary_stream(PREFIX + "Hang")(b"", metadata=key)
    assert next(call) == b"began"
    call.cancel()
    assert handler.cancelled.wait(20)


def test_deadline_reaches_the_server(rpc):
    handler, channel, key = rpc
    handler.cancelled.clear()
    with pytest.raises(grpc.RpcError) as failure:
        list(channel.unary_stream(PREFIX + "Hang")(b"", metadata=key, timeout=1))
    assert failure.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert handler.cancelled.wait(20)


def test_every_call_is_authenticated(rpc):
    handler, channel, key = rpc
    for metadata in ((), (("authorization", "nonsense"),)):
        with pytest.raises(grpc.RpcError) as failure:
            channel.unary_unary(PREFIX + "Unary")(b"", metadata=metadata, timeout=60)
        assert failure.value.code() == grpc.StatusCode.UNAUTHENTICATED
    assert channel.unary_unary(PREFIX + "Unary")(b"x", metadata=key, timeout=60) == b"x"
    assert "authorization" not in handler.metadata
