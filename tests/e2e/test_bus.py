"""Reports through RabbitMQ: durable by its confirm, applied by a consumer, and by the local path whenever it is away."""

import base64
import contextlib
import hashlib
import hmac
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/support"))

from conftest import build_folder  # noqa: E402
from platform_under_test import Platform, settled, wait_until  # noqa: E402
from servers import RabbitMQ  # noqa: E402

NAMESPACE = "bus"


@pytest.fixture(scope="module")
def bus():
    """A RabbitMQ and a platform that reports through it, with a window that overflows now and then."""
    with tempfile.TemporaryDirectory(prefix="culvert-bus.", dir="/var/tmp") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        rabbitmq = RabbitMQ(folder / "rabbitmq")
        platform = Platform(folder / "home", build_folder("asan"))
        try:
            platform.use_rabbitmq(rabbitmq.start(), confirm_timeout="1s", heartbeat="2s", delivery_limit=2)
            platform.rabbitmq = rabbitmq
            yield platform.start()
        finally:
            platform.reset()
            rabbitmq.kill()


def connected(platform):
    return platform.metric("culvert_bus_connected") == 2


def configmap(name, number):
    metadata = {"name": name, "namespace": NAMESPACE, "uid": name, "labels": {"app.kubernetes.io/number": str(number)}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": "x" * 500}}


def report(platform, name, number, wall=None):
    """One state over HTTP; its status and how long the answer took."""
    stamp = time.time() if wall is None else wall
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(stamp)) + f".{int(stamp * 1000) % 1000:03}Z"
    body = json.dumps({"data": {"timestamp": text, "object": configmap(name, number)}})
    began = time.monotonic()
    answer = platform.api("POST", "/2.0/api/events", body, headers={"Content-Type": "application/json"}, key=platform.env["CULVERT_RUNTIME_TOKEN"])
    return answer.status, time.monotonic() - began


@contextlib.contextmanager
def database_stands_still(platform):
    pid = platform.pid("postgres")
    pids = [pid, *(int(each) for each in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    for each in pids:
        os.kill(each, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in pids:
            os.kill(each, signal.SIGCONT)


@contextlib.contextmanager
def row_lock(platform, sql):
    """Another session holds the rows for as long as this lasts."""
    ports = dict(line.split("=") for line in (platform.home / "ports").read_text().split())
    environment = dict(os.environ, PGPASSWORD=(platform.home / "pg-super.secret").read_text().strip(), PGOPTIONS="-c search_path=culvert")
    words = ["psql", "-X", "-q", "-At", "-h", "127.0.0.1", "-p", ports["PORT_POSTGRES"], "-U", "culvert_super", "-d", "culvert"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True) as session:
        session.stdin.write(f"begin;\n{sql};\nselect 'held';\n")
        session.stdin.flush()
        assert session.stdout.readline().strip() == "held"
        try:
            yield
        finally:
            session.stdin.write("rollback;\n")
            session.stdin.close()


def restart(platform):
    """culvertd dies at once, and its supervisor starts another one."""
    old = platform.kill("culvertd")
    wait_until(lambda: platform.pid("culvertd") != old, 30, "culvertd is started again")


def shard_of(platform):
    """The queue in which the runtime's reports are: FNV-1a as in server/bus/amqp_topology.c."""
    value = 2166136261
    for byte in platform.env["CULVERT_ACCOUNT"].encode() + b"\0" + platform.env["CULVERT_RUNTIME"].encode():
        value = (value ^ byte) * 16777619 % 2**32
    return (value ^ value >> 16) % 8


def publish(platform, *messages):
    """Messages that no culvertd wrote, into the runtime's queue: bodies, or (body, signature)."""
    exchange = 'rabbit_misc:r(<<"/">>, exchange, <<"culvert.reports">>)'
    words = []
    for message in messages:
        body, signature = message if isinstance(message, tuple) else (message, None)
        body = base64.b64encode(body if isinstance(body, bytes) else body.encode()).decode()
        properties = "[]" if signature is None else f'[{{headers, [{{<<"x-culvert-signature">>, longstr, <<"{signature}">>}}]}}]'
        words.append(f'rabbit_basic:publish({exchange}, <<"{shard_of(platform)}">>, {properties}, base64:decode(<<"{body}">>))')
    platform.rabbitmq.ctl("eval", ", ".join(words) + ".")


def message_about(platform, name, number, received_at=None, runtime=None):
    """As server/bus/bus_message.h has it: what an attacker who knows the format can write."""
    at_ms = int((time.time() if received_at is None else received_at) * 1000)
    manifest = json.dumps(configmap(name, number), separators=(",", ":"), sort_keys=True).encode()
    texts = {1: manifest, 6: b"v1", 7: b"ConfigMap", 8: NAMESPACE.encode(), 9: name.encode(), 10: name.encode(), 11: b"in-cluster"}
    fields = b"".join(struct.pack(">BI", tag, len(text)) + text for tag, text in texts.items())
    record = struct.pack(">BQqQ", 0, 0, int(time.time() * 1000), 0) + hashlib.sha256(manifest).digest() + fields
    account, runtime = platform.env["CULVERT_ACCOUNT"].encode(), (runtime or platform.env["CULVERT_RUNTIME"]).encode()
    body = struct.pack(">BQqH", 1, 0, at_ms, 1) + bytes([len(account)]) + account + bytes([len(runtime)]) + runtime
    body += struct.pack(">I", len(record)) + record
    return b"CVB" + struct.pack(">BBI", 1, 0, len(body)) + body


def signature_of(secret, shard, body, purpose=b"bus messages"):
    """As base/deployment_key.c and server/bus/bus_signature.c make it, by another implementation."""
    extracted = hmac.digest(b"culvert deployment key v1", secret, "sha256")
    key = hmac.digest(extracted, purpose + b"\x01", "sha256")
    parts = (b"culvert.reports", str(shard).encode(), body)
    return hmac.digest(key, b"".join(hashlib.sha256(part).digest() for part in parts), "sha256").hex()


def stored(platform):
    rows = platform.psql(f"select name, labels ->> 'app.kubernetes.io/number' from resources where namespace = '{NAMESPACE}' and not is_deleted")
    return {name: int(number) for name, number in rows}


def test_both_mouths_go_through_it(bus):
    wait_until(lambda: connected(bus), 30, "connected")
    wait_until(bus.online, 30, "online")
    settled(bus, NAMESPACE)
    assert bus.metric("culvert_bus_confirmed_reports_total") > 0
    before = bus.metric("culvert_bus_confirmed_reports_total")
    for number in range(1, 6):
        assert report(bus, "plain", number)[0] < 300
    wait_until(lambda: stored(bus).get("plain") == 5, 30, "the newest state is stored")
    assert bus.metric("culvert_bus_confirmed_reports_total") >= before + 5
    wait_until(lambda: bus.metric("culvert_bus_unsettled") == 0, 30, "everything is acknowledged")


def test_rabbitmq_dies_and_nobody_waits(bus):
    wait_until(lambda: connected(bus), 30, "connected")
    stop, slowest, refused = threading.Event(), [0.0], []
    told = {}

    def tell(index):
        number = 0
        while not stop.is_set():
            number += 1
            status, seconds = report(bus, f"death-{index}", number)
            slowest[0] = max(slowest[0], seconds)
            if status >= 300:
                refused.append(status)
            told[f"death-{index}"] = number

    threads = [threading.Thread(target=tell, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(told) == 3 and min(told.values()) > 5, 30, "reports flow")
    before = bus.metric("culvert_bus_diverted_total")
    bus.rabbitmq.kill()
    at = dict(told)
    wait_until(lambda: all(told[name] > at[name] + 10 for name in at), 30, "reports flow without RabbitMQ")
    bus.rabbitmq.start()
    wait_until(lambda: connected(bus), 60, "connected again")
    again = bus.metric("culvert_bus_confirmed_reports_total")
    wait_until(lambda: bus.metric("culvert_bus_confirmed_reports_total") > again, 30, "published again")
    stop.set()
    for thread in threads:
        thread.join(30)
    assert not refused, refused[:5]
    assert bus.metric("culvert_bus_diverted_total") > before
    wait_until(lambda: {name: stored(bus).get(name) for name in told} == told, 30, "the newest states are stored")


def test_poison_is_set_aside_and_the_queue_goes_on(bus):
    wait_until(lambda: connected(bus), 30, "connected")
    before = bus.rabbitmq.queues()["culvert.reports.dead"]
    publish(bus, "no message of ours")
    publish(bus, "CVB")
    assert report(bus, "behind-poison", 1)[0] < 300
    wait_until(lambda: stored(bus).get("behind-poison") == 1, 30, "what came behind is stored")
    wait_until(lambda: bus.rabbitmq.queues()["culvert.reports.dead"] == before + 2, 30, "both are dead letters")
    assert bus.metric("culvert_bus_dead_letters_total", cause="forged") == 2
    wait_until(lambda: bus.metric("culvert_bus_unsettled") == 0, 30, "everything is settled")


def test_messages_that_somebody_else_wrote_change_nothing(bus):
    """Whoever may publish: without a signature, with one of another message, queue, purpose or deployment. All are counted dead letters."""
    wait_until(lambda: connected(bus), 30, "connected")
    secret, shard = (bus.home / "deployment-key.secret").read_bytes().strip(), shard_of(bus)
    genuine, late = message_about(bus, "genuine", 1), message_about(bus, "late", 1, received_at=time.time() - 7 * 86400)
    forged = [message_about(bus, f"forged-{number}", number) for number in range(8)]
    altered = genuine.replace(b"genuine", b"altered")
    assert len(altered) == len(genuine) and altered != genuine
    good = signature_of(secret, shard, genuine)
    before = {cause: bus.metric("culvert_bus_dead_letters_total", cause=cause) for cause in ("forged", "expired", "unreadable")}
    publish(
        bus,
        forged[0],
        (forged[1], ""),
        (forged[2], good),
        (forged[3], "0" * 64),
        (forged[4], signature_of(secret, shard + 1, forged[4])),
        (forged[5], signature_of(b"0123456789abcdef" * 2, shard, forged[5])),
        (forged[6], signature_of(secret, shard, forged[6], b"redis directory")),
        (forged[7], signature_of(secret, shard, forged[7])[:63]),
        (altered, good),
        (late, signature_of(secret, shard, late)),
        (genuine, good),
    )
    wait_until(lambda: stored(bus).get("genuine") == 1, 30, "what has the deployment's signature is applied")
    wait_until(lambda: bus.metric("culvert_bus_dead_letters_total", cause="forged") == before["forged"] + 9, 30, "each forged one is counted")
    assert bus.metric("culvert_bus_dead_letters_total", cause="expired") == before["expired"] + 1
    assert bus.metric("culvert_bus_dead_letters_total", cause="unreadable") == before["unreadable"]
    seen = set(stored(bus))
    assert not [name for name in seen if name.startswith(("forged", "altered", "late"))], seen
    # Played back: nothing goes back.
    assert report(bus, "genuine", 2)[0] < 300
    wait_until(lambda: stored(bus).get("genuine") == 2, 30, "newer")
    publish(bus, (genuine, good))
    wait_until(lambda: bus.metric("culvert_bus_unsettled") == 0 and not bus.rabbitmq.queues()[f"culvert.reports.{shard}"], 30, "it was taken")
    assert stored(bus)["genuine"] == 2


def test_what_the_handler_refuses_is_a_dead_letter(bus):
    """Valid for the cheap checks, and of a kind that only the handler looks into."""
    wait_until(lambda: connected(bus), 30, "connected")
    before = bus.metric("culvert_bus_dead_letters_total", cause="refused")
    body = json.dumps({"data": {"object": {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "odd", "namespace": NAMESPACE, "uid": "odd"}, "spec": [1]}}})
    headers = {"Content-Type": "application/json"}
    answer = bus.api("POST", "/2.0/api/events", body, headers=headers, key=bus.env["CULVERT_RUNTIME_TOKEN"])
    if answer.status >= 400:
        pytest.skip("refused before the bus")
    assert report(bus, "behind-refused", 1)[0] < 300
    wait_until(lambda: stored(bus).get("behind-refused") == 1, 30, "what came behind is stored")
    assert bus.metric("culvert_bus_dead_letters_total", cause="refused") >= before


def test_unroutable_takes_the_local_path(bus):
    """A binding is gone: RabbitMQ returns the message, which is stored all the same, and the binding is made again."""
    wait_until(lambda: connected(bus), 30, "connected")
    shard = shard_of(bus)
    before = bus.metric("culvert_bus_diverted_total", cause="returned")
    resource = 'rabbit_misc:r(<<"/">>, {}, <<"{}">>)'
    exchange, queue = resource.format("exchange", "culvert.reports"), resource.format("queue", f"culvert.reports.{shard}")
    binding = f'{{binding, {exchange}, <<"{shard}">>, {queue}, []}}'
    bus.rabbitmq.ctl("eval", f'rabbit_binding:remove({binding}, <<"test">>).')
    assert report(bus, "unroutable", 1)[0] < 300
    wait_until(lambda: stored(bus).get("unroutable") == 1, 30, "stored by the local path")
    assert bus.metric("culvert_bus_diverted_total", cause="returned") > before
    wait_until(lambda: connected(bus), 30, "connected again")
    confirmed = bus.metric("culvert_bus_confirmed_reports_total")
    assert report(bus, "unroutable", 2)[0] < 300
    wait_until(lambda: stored(bus).get("unroutable") == 2, 30, "stored")
    wait_until(lambda: bus.metric("culvert_bus_confirmed_reports_total") > confirmed, 30, "through RabbitMQ again")


def test_short_of_memory_nobody_waits(bus):
    wait_until(lambda: connected(bus), 30, "connected")
    bus.rabbitmq.ctl("set_vm_memory_high_watermark", "absolute", "1MB")
    try:
        number = 0

        def is_noticed():
            nonlocal number
            number += 1
            status, seconds = report(bus, "short", number)
            assert status < 300 and seconds < 10, (status, seconds)
            return bus.metric("culvert_bus_blocked") == 1

        wait_until(is_noticed, 30, "RabbitMQ says that it is short of memory")
        before = bus.metric("culvert_bus_diverted_total", cause="blocked")
        for _ in range(5):
            number += 1
            assert report(bus, "short", number)[0] < 300
        wait_until(lambda: stored(bus).get("short") == number, 30, "stored by the local path")
        assert bus.metric("culvert_bus_diverted_total", cause="blocked") >= before + 5
        assert bus.metric("culvert_bus_connected", link="consume") == 1
    finally:
        bus.rabbitmq.ctl("set_vm_memory_high_watermark", "0.4")
    wait_until(lambda: connected(bus) and bus.metric("culvert_bus_blocked") == 0, 30, "takes messages again")


def test_rabbitmq_stands_still(bus):
    """Connected and silent: after the confirm's time the local path, at once for all that come later."""
    wait_until(lambda: connected(bus), 30, "connected")
    bus.rabbitmq.pause()
    try:
        status, first = report(bus, "still", 1)
        assert status < 300 and first < 10, (status, first)
        for number in range(2, 6):
            status, seconds = report(bus, "still", number)
            assert status < 300 and seconds < 1 + first, (status, seconds, first)
        wait_until(lambda: stored(bus).get("still") == 5, 30, "stored by the local path")
    finally:
        bus.rabbitmq.resume()
    wait_until(lambda: connected(bus), 60, "connected again")
    wait_until(lambda: bus.metric("culvert_bus_unsettled") == 0, 30, "what it had taken came again and changed nothing")
    assert stored(bus)["still"] == 5


def test_durable_while_the_database_stands_still(bus):
    """Acknowledged by RabbitMQ's word; culvertd dies meanwhile, and the next one applies what lies in the queue."""
    wait_until(lambda: connected(bus), 30, "connected")
    # Each report on a connection of its own, so that all loops get some, and for longer than any answer of the database
    # is kept: who reports is known from memory.
    assert report(bus, "durable", 1)[0] < 300
    number, began = 1, time.monotonic()
    with database_stands_still(bus):
        while time.monotonic() - began < 5 or number < 5:
            number += 1
            status, seconds = report(bus, "durable", number)
            assert status < 300, (number, status, seconds)
        restart(bus)
    wait_until(lambda: stored(bus).get("durable") == number, 60, "what was acknowledged is stored")
    wait_until(lambda: connected(bus), 60, "connected again")
    wait_until(lambda: bus.metric("culvert_bus_unsettled") == 0, 30, "everything is settled")


def test_a_message_that_replicas_end_over_is_set_aside(bus):
    """What stands for a report that ends every culvertd: a lock holds its transaction, and each one is killed over it."""
    wait_until(lambda: connected(bus), 30, "connected")
    dead = bus.rabbitmq.queues()["culvert.reports.dead"]
    assert report(bus, "deadly", 1)[0] < 300
    wait_until(lambda: stored(bus).get("deadly") == 1, 30, "stored")
    with row_lock(bus, f"update resources set name = name where namespace = '{NAMESPACE}' and name = 'deadly'"):
        assert report(bus, "deadly", 2)[0] < 300
        for _ in range(2):  # the limit: the third one finds it at the head of its queue
            wait_until(lambda: bus.metric("culvert_bus_unsettled") > 0, 30, "it is at work")
            restart(bus)
            wait_until(lambda: connected(bus), 60, "connected")
        wait_until(lambda: bus.metric("culvert_bus_dead_letters_total", cause="returned") == 1, 30, "it is dead")
    wait_until(lambda: bus.rabbitmq.queues()["culvert.reports.dead"] == dead + 1, 30, "it is a dead letter")
    assert report(bus, "deadly", 3)[0] < 300
    wait_until(lambda: stored(bus).get("deadly") == 3, 30, "the next one is stored")


def test_order_by_sequence_not_by_luck(bus):
    """The newest state first, then older ones by the same way and the other: nothing goes back."""
    wait_until(lambda: connected(bus), 30, "connected")
    now = time.time()
    assert report(bus, "order", 9, now)[0] < 300
    wait_until(lambda: stored(bus).get("order") == 9, 30, "stored")
    assert report(bus, "order", 8, now - 1)[0] < 300
    bus.rabbitmq.pause()
    try:
        assert report(bus, "order", 7, now - 2)[0] < 300
    finally:
        bus.rabbitmq.resume()
    wait_until(lambda: connected(bus), 60, "connected again")
    assert report(bus, "order-end", 1)[0] < 300
    wait_until(lambda: stored(bus).get("order-end") == 1, 30, "stored")
    wait_until(lambda: bus.metric("culvert_bus_unsettled") == 0, 30, "everything is settled")
    assert stored(bus)["order"] == 9


def test_secrets_and_trust(bus):
    """The credential is in no log and no argument; a server that the CA did not sign gets nothing, and nobody waits."""
    password = bus.rabbitmq.password_file.read_text().strip()
    arguments = pathlib.Path(f"/proc/{bus.pid('culvertd')}/cmdline").read_bytes()
    assert password.encode() not in arguments and password not in bus.log("culvertd")
    trusted = bus.settings["CULVERT_RABBITMQ_TLS_CA_FILE"]
    bus.stop()
    try:
        bus.settings["CULVERT_RABBITMQ_TLS_CA_FILE"] = str(bus.home / "pki/ca.crt")
        bus.start()
        wait_until(lambda: "rabbitmq_lost" in bus.log("culvertd"), 30, "said in the log")
        assert report(bus, "untrusted", 1)[0] < 300
        wait_until(lambda: stored(bus).get("untrusted") == 1, 30, "stored by the local path")
        assert bus.metric("culvert_bus_connected") == 0
        assert bus.metric("culvert_bus_diverted_total", cause="away") > 0
        assert password not in bus.log("culvertd")
        bus.stop()
    finally:
        bus.settings["CULVERT_RABBITMQ_TLS_CA_FILE"] = trusted
        bus.start()
    wait_until(lambda: connected(bus), 30, "connected")


def test_wrong_password_of_rabbitmq(bus):
    """It is logged with its reason, reports take the local path, and the right one is enough."""
    file = pathlib.Path(bus.settings["CULVERT_RABBITMQ_URL"].removeprefix("file:"))
    right, password = file.read_text(), bus.rabbitmq.password_file.read_text().strip()
    assert password in right
    written = len(bus.log("culvertd"))
    file.write_text(right.replace(password, "wrong-51f0"))
    try:
        restart(bus)
        wait_until(lambda: "rabbitmq_lost" in bus.log("culvertd")[written:] and "login" in bus.log("culvertd")[written:], 30, "it is logged")
        wait_until(lambda: report(bus, "mistyped", 1)[0] < 300, 30, "culvertd is there")
        wait_until(lambda: stored(bus).get("mistyped") == 1, 30, "stored by the local path")
        assert bus.metric("culvert_bus_connected") == 0
        assert "wrong-51f0" not in bus.log("culvertd")
    finally:
        file.write_text(right)
        restart(bus)
    wait_until(lambda: connected(bus), 60, "connected")
