"""A thousand manifests with canaries in every place that nobody opened go through an agent and over HTTP: none of the canaries is
in the database, in Redis, in what went through RabbitMQ or in a log."""

import base64
import ctypes
import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/support"))

from canary_cluster import CanaryCluster  # noqa: E402
from conftest import build_folder  # noqa: E402
from platform_under_test import Platform, wait_until  # noqa: E402
from servers import RabbitMQ  # noqa: E402

COUNT = 1000
SEED = 20260302
CANARY = re.compile(rb"CNRY|731337\d{6}")
MAGIC = b"\x28\xb5\x2f\xfd"  # of a zstd frame
PLAIN_BYTES_MAX = 16 << 20


def manifests(seed):
    program = pathlib.Path(build_folder("asan")) / "tests/support/culvert-canary-manifests"
    done = subprocess.run([program, str(seed), str(COUNT)], stdout=subprocess.PIPE, check=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()]


# ---- what is kept somewhere --------------------------------------------------------------------------------------------


def inflated(data):
    """Every zstd frame in it, as plain bytes: manifests are kept and sent compressed."""
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_getFrameContentSize.restype = ctypes.c_ulonglong
    library.ZSTD_findFrameCompressedSize.restype = ctypes.c_size_t
    library.ZSTD_decompress.restype = ctypes.c_size_t
    for found in re.finditer(re.escape(MAGIC), data):
        frame = data[found.start() : found.start() + PLAIN_BYTES_MAX]
        size = library.ZSTD_getFrameContentSize(frame, ctypes.c_size_t(len(frame)))
        used = library.ZSTD_findFrameCompressedSize(frame, ctypes.c_size_t(len(frame)))
        if size > PLAIN_BYTES_MAX or used > len(frame):
            continue
        out = ctypes.create_string_buffer(size or 1)
        if library.ZSTD_decompress(out, ctypes.c_size_t(size), frame, ctypes.c_size_t(used)) == size:
            yield out.raw[:size]


def leaks(data):
    """The surroundings of what canaries there are, plain, in compressed frames or in base64."""
    found = []
    for text in (data, *inflated(data)):
        found += [text[max(0, hit.start() - 200) : hit.end() + 50] for hit in CANARY.finditer(text)][:3]
    # Base64 of "CNRY" at each of the three places that it can have in a group.
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + b"CNRY")
        inner = encoded[-(-shift * 8 // 6) : (shift * 8 + 32) // 6]
        if len(inner) >= 5 and inner in data:
            found.append(inner)
    return found


def database(platform):
    """All rows, and all that they keep compressed."""
    rows = platform.psql("select encode(content, 'hex') from manifests")
    return platform.dump() + b"\n".join(bytes.fromhex(row[0]) for row in rows)


def redis(platform):
    """All keys with their values, as Redis itself writes them down."""
    ports = dict(line.split("=") for line in (platform.home / "ports").read_text().split())
    password = (platform.home / "redis.secret").read_text().strip()
    with socket.create_connection(("127.0.0.1", int(ports["PORT_REDIS"])), timeout=30) as sock:
        stream = sock.makefile("rb")

        def answer():
            line = stream.readline()
            assert line and not line.startswith(b"-"), line
            if line[:1] == b"*":
                return [answer() for _ in range(int(line[1:]))]
            if line[:1] == b"$":
                return stream.read(int(line[1:]) + 2)[:-2] if int(line[1:]) >= 0 else b""
            return line[1:-2]

        def command(*words):
            sock.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
            return answer()

        command(b"AUTH", password.encode())
        keys = command(b"KEYS", b"*")
        return b"\n".join(key + b" " + command(b"DUMP", key) for key in keys)


def files(folder):
    return b"\n".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file() and file.stat().st_size < 1 << 30)


# ---- the test ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def told():
    """A platform with RabbitMQ to which an agent and a reporter have told a thousand manifests each."""
    with tempfile.TemporaryDirectory(prefix="culvert-canary.", dir="/var/tmp") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        cluster = CanaryCluster(folder, manifests(SEED))
        # Messages stay in the node's log of the queues until it is rolled: what went through can be read there.
        rabbitmq = RabbitMQ(folder / "rabbitmq")
        platform = Platform(folder / "home", build_folder("asan"), cluster.kubeconfig)
        try:
            platform.use_rabbitmq(rabbitmq.start())
            platform.rabbitmq = rabbitmq
            yield platform.start()
        finally:
            platform.reset()
            cluster.stop()
            rabbitmq.kill()


def shown(platform, runtime):
    sql = " union all ".join(f"select name from {table} where runtime = '{runtime}' and name like 'canary-%' and not is_deleted" for table in ("applications", "resources"))
    return len(platform.psql(sql))


def post(platform, key, each):
    packed = base64.b64encode(json.dumps(each).encode()).decode()
    text = json.dumps(each)
    source = {"actualManifest": text, "desiredManifest": text, "gitManifest": text, "appName": "holder", "appNamespace": "canaries", "syncStatus": "Synced", "healthMessage": "password=CNRY00", "repoURL": "https://u:CNRY00@git.example/a"}
    errors = [{"type": "sync", "level": "error", "message": "helm --set a=CNRY00"}]
    return platform.api("POST", "/2.0/api/events", json.dumps({"data": {"object": packed, "source": source, "errors": errors}}), key=key, headers={"Content-Type": "application/json"})


def test_no_canary_arrives(told):
    platform = told
    assert leaks(b"xCNRY1") and leaks(b"731337000001") and leaks(base64.b64encode(b"a CNRY b"))  # this test can see them
    wait_until(lambda: shown(platform, platform.env["CULVERT_RUNTIME"]) == COUNT, 240, "all objects of the cluster are reported")
    key = platform.create_runtime("reporter")
    for each in manifests(SEED + 1):
        answer = post(platform, key, each)
        assert answer.status == 200, (each["metadata"]["name"], answer.text())
    wait_until(lambda: shown(platform, "reporter") == COUNT, 120, "all that was reported over HTTP is there")
    query = "query($f: ApplicationsFilterArgs) { applications(filters: $f) { edges { node { metadata { name } } } } }"
    assert len(platform.graphql(query, {"f": {"namespaces": ["canaries"]}})["applications"]["edges"]) > 1  # answers may be kept, too
    bus = files(platform.rabbitmq.folder)
    assert b"canary-uid-" in bus or any(b"canary-" in text for text in inflated(bus))  # reports went that way
    places = {"database": database(platform), "Redis": redis(platform), "RabbitMQ": bus, "logs": files(platform.home / "log")}
    found = {place: leaks(data) for place, data in places.items()}
    assert not any(found.values()), {place: hits[:3] for place, hits in found.items()}
    assert platform.metric("culvert_redacted_values_total", how="digested") >= COUNT
    assert b"hmac-sha256:" in b"".join(inflated(places["database"])) + places["database"]
