"""Every request has one meaning on both listeners, or none: 4xx and close. Behind nginx, haproxy and varnish no two parsers disagree about
how many requests there were."""

import concurrent.futures
import itertools
import pathlib
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading

import pytest

import request_lists
from origin_under_test import Account, listen, read_responses, start_runtimes
from platform_under_test import wait_until
from request_lists import EITHER, REFUSED, TAKEN, TAKEN_WITHOUT_BODY

LISTENERS = ["api", "ingress"]
numbers = itertools.count()


@pytest.fixture(scope="module")
def runtime(platform):
    with tempfile.TemporaryDirectory(prefix="culvert-smuggling.") as folder:
        [made] = start_runtimes(platform, folder, [(Account(platform, "quickstart"), "strict")])
        yield made
        made.close()


class Listener:
    """Where requests are sent, and how they are counted there."""

    def __init__(self, runtime, name):
        self.runtime, self.platform, self.name = runtime, runtime.platform, name
        url = self.platform.env["CULVERT_URL" if name == "api" else "CULVERT_INGRESS_URL"]
        self.port = int(url.rsplit(":", 1)[1])
        self.host = f"localhost:{self.port}" if name == "api" else f"{runtime.host}:{self.port}"
        self.prefix = f"/runtimes/{runtime.name}/proxy/services/w" if name == "api" else "/services/w"

    def connect(self):
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        return self.platform.context().wrap_socket(sock, server_hostname=self.host.split(":")[0])

    def answered(self):
        """Requests answered so far, as the platform counts them; not those whose client left (499)."""
        family = f'culvert_http_requests_total{{listener="{self.name}"'
        lines = self.platform.admin("/metrics").text().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(family) and 'code="499"' not in line)

    def parts(self, number):
        key = self.runtime.account.key.encode()
        path = f"{self.prefix}/{number}".encode()
        sentinel = b"GET {path}/sentinel HTTP/1.1\r\nHost: {host}\r\nAuthorization: {auth}\r\nConnection: close\r\n\r\n"
        return self.host.encode(), key, path, sentinel

    def origin_saw(self, number, what):
        return self.runtime.origin.at(f"/{number}/{what}")


def send(sock, data):
    try:
        sock.sendall(data)
    except OSError:
        pass  # it was refused before all had been sent


def fault_of(listener, case):
    """None, or what went wrong."""
    number = f"{listener.name}{next(numbers)}"
    with listener.connect() as sock:
        send(sock, case.bytes(*listener.parts(number)))
        responses, closed, rest = read_responses(sock)
    statuses = [status for status, _, _ in responses]
    told = f"{statuses}, closed: {closed}, rest: {rest[:80]}"
    mains, sentinels = listener.origin_saw(number, "main"), listener.origin_saw(number, "sentinel")
    if not closed or rest:
        return f"not closed: {told}"
    if listener.origin_saw(number, "hidden") or listener.runtime.origin.at("/hidden"):
        return f"the hidden request was taken for one: {told}"
    if len(responses) == 1 and 400 <= statuses[0] < 502 and statuses[0] != 500:
        if mains or sentinels:
            return f"refused, and yet passed on: {told}"
        return None if case.expect in (REFUSED, EITHER) else f"refused: {told} {responses[0][2][:200]}"
    if case.expect == REFUSED:
        return f"not refused: {told}"
    if len(mains) != 1 or mains[0].body != (b"" if case.expect == TAKEN_WITHOUT_BODY else case.body):
        return f"the service got {[seen.body for seen in mains]}: {told}"
    if case.expect == TAKEN_WITHOUT_BODY:
        return None if statuses == [200, 400] and not sentinels else f"what is behind it was not refused: {told}"
    if case.closes:
        return None if statuses == [200] and not sentinels else f"not closed after one: {told}"
    return None if statuses == [200, 200] and len(sentinels) == 1 else f"taken, but: {told}"


@pytest.mark.parametrize("name", LISTENERS)
@pytest.mark.parametrize("listed", sorted(request_lists.LISTS))
def test_one_meaning_or_none(runtime, name, listed):
    listener = Listener(runtime, name)
    cases = list(request_lists.LISTS[listed]())
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        faults = list(pool.map(lambda case: fault_of(listener, case), cases))
    wrong = [f"{case.name}: {fault}" for case, fault in zip(cases, faults) if fault]
    print(f"{name}: {len(cases)} requests of {listed}")
    assert not wrong, "\n".join(wrong)


def test_the_lists_are_long_enough():
    assert len(request_lists.transfer_encodings()) >= 134
    assert sum(len(list(cases())) for cases in request_lists.LISTS.values()) >= 800


@pytest.mark.parametrize("name", LISTENERS)
def test_split_anywhere(runtime, name):
    """The meaning does not depend on how the bytes arrive."""
    listener = Listener(runtime, name)
    number = f"split{next(numbers)}"
    host, auth, path, sentinel = listener.parts(number)
    case = next(c for c in request_lists.chunk_cases() if c.expect == TAKEN)
    data = case.bytes(host, auth, path, sentinel)
    with listener.connect() as sock:
        for at in range(len(data)):
            sock.sendall(data[at : at + 1])
        responses, closed, _ = read_responses(sock)
    assert [status for status, _, _ in responses] == [200, 200] and closed
    assert [seen.body for seen in listener.origin_saw(number, "main")] == [b"hello"]


@pytest.mark.parametrize("name", LISTENERS)
def test_pipelined_behind_bodies(runtime, name):
    """Fifty requests in one write, with and without bodies: fifty answers in their order."""
    listener = Listener(runtime, name)
    number = f"pipe{next(numbers)}"
    host, auth, path, sentinel = listener.parts(number)
    data = b""
    for i in range(50):
        start = b"POST %s/%d HTTP/1.1\r\nHost: %s\r\nAuthorization: %s\r\n" % (path, i, host, auth)
        data += start + [b"\r\n", b"Content-Length: 5\r\n\r\nhello", b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"][i % 3]
    with listener.connect() as sock:
        sock.sendall(data + sentinel.replace(b"{path}", path).replace(b"{host}", host).replace(b"{auth}", auth))
        responses, closed, _ = read_responses(sock)
    assert closed and [status for status, _, _ in responses] == [200] * 51
    for i in range(50):
        assert b'"target": "/%s/%d", "bytes": %d' % (number.encode(), i, 5 if i % 3 else 0) in responses[i][2]


@pytest.mark.parametrize("name", LISTENERS)
def test_a_refused_client_can_read_why(runtime, name):
    """Also when it goes on sending: no reset overtakes the answer."""
    listener = Listener(runtime, name)
    for _ in range(10):
        with listener.connect() as sock:
            send(sock, b"GET / HTTP/9.9\r\n" + b"X: y\r\n" * 50_000)
            responses, closed, _ = read_responses(sock)
        assert closed and [status for status, _, _ in responses] == [400]
        assert b"not HTTP/1.0 or HTTP/1.1" in responses[0][2]


# ---- behind others -------------------------------------------------------------------------------------------------------


class Relay:
    """Plain TCP in, TLS to the listener out, byte for byte: for proxies that speak plain HTTP to what is behind them."""

    def __init__(self, listener):
        self.listener, self.socket = listener, listen()
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                sock, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, near):
        far = self.listener.connect()
        far.setblocking(False)
        near.setblocking(False)
        import select

        try:
            while True:
                if not far.pending():
                    select.select([near, far], [], [], 60)
                for source, sink in ((near, far), (far, near)):
                    try:
                        data = source.recv(65536)
                    except (BlockingIOError, ssl.SSLWantReadError):
                        continue
                    if not data:
                        return
                    sink.setblocking(True)
                    sink.sendall(data)
                    sink.setblocking(False)
        except OSError:
            pass
        finally:
            near.close()
            far.close()

    def close(self):
        self.socket.close()


class Proxy:
    """A proxy of Debian's in front of a listener: started on a port of its own, asked how many requests it passed on."""

    def __init__(self, listener, folder):
        self.listener, self.folder = listener, pathlib.Path(folder)
        with listen() as probe:
            self.port = probe.getsockname()[1]
        self.process = self.relay = None

    # passed(): how many requests it passed on whole, and how many it gave up in the middle of their bodies.

    def start(self, *words):
        with (self.folder / "output").open("wb") as output:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        wait_until(lambda: socket.create_connection(("127.0.0.1", self.port)).close() or True, 30, f"{words[0]}: {(self.folder / 'output').read_text()}")

    def stop(self):
        if self.process:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.relay:
            self.relay.close()


class Nginx(Proxy):
    program = "/usr/sbin/nginx"

    def run(self):
        temporary = "".join(f"{kind}_temp_path {self.folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (self.folder / "nginx.conf").write_text(
            f"daemon off; master_process off; pid {self.folder}/pid; error_log {self.folder}/error.log; events {{ }}\n"
            f"http {{ {temporary} log_format passed '$upstream_status'; access_log {self.folder}/access.log passed;\n"
            f"upstream listener {{ server 127.0.0.1:{self.listener.port}; keepalive 8; }}\n"
            f"server {{ listen 127.0.0.1:{self.port}; ignore_invalid_headers off; underscores_in_headers on; client_header_timeout 2s; client_body_timeout 2s; keepalive_timeout 2s; large_client_header_buffers 4 64k;\n"
            f"location / {{ proxy_pass https://listener; proxy_http_version 1.1; proxy_set_header Connection ''; proxy_set_header Host $http_host;\n"
            f"proxy_request_buffering off; proxy_next_upstream off; proxy_ssl_server_name off; }} }} }}\n"
        )
        self.start(self.program, "-c", str(self.folder / "nginx.conf"), "-e", str(self.folder / "error.log"))

    def passed(self):
        return sum(line.strip() not in ("", "-") for line in (self.folder / "access.log").read_text().splitlines()), 0


class Haproxy(Proxy):
    program = "/usr/sbin/haproxy"

    def run(self):
        (self.folder / "haproxy.cfg").write_text(
            f"global\n stats socket {self.folder}/stats\ndefaults\n mode http\n retries 0\n timeout connect 5s\n timeout client 2s\n timeout server 20s\n"
            f"frontend front\n bind 127.0.0.1:{self.port}\n default_backend listener\n"
            f"backend listener\n http-reuse always\n server listener 127.0.0.1:{self.listener.port} ssl verify none alpn http/1.1\n"
        )
        self.start(self.program, "-db", "-f", str(self.folder / "haproxy.cfg"))

    def passed(self):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(self.folder / "stats"))
            sock.sendall(b"show stat\n")
            text = b""
            while piece := sock.recv(65536):
                text += piece
        names, *rows = [line.split(",") for line in text.decode().lstrip("# ").splitlines() if line]
        [row] = [dict(zip(names, row)) for row in rows if row[:2] == ["listener", "listener"]]
        return sum(int(row[f"hrsp_{kind}"] or 0) for kind in ("1xx", "2xx", "3xx", "4xx", "5xx", "other")), 0


class Varnish(Proxy):
    program = "/usr/sbin/varnishd"

    def run(self):
        self.relay = Relay(self.listener)
        (self.folder / "listener.vcl").write_text(
            f'vcl 4.1;\nbackend listener {{ .host = "127.0.0.1"; .port = "{self.relay.port}"; }}\nsub vcl_recv {{ return (pass); }}\n'
        )
        self.start(self.program, "-F", "-j", "none", "-n", str(self.folder / "work"), "-a", f"127.0.0.1:{self.port}", "-f", str(self.folder / "listener.vcl"), "-s", "malloc,16m", "-p", "thread_pools=1", "-p", "max_retries=0",
                   "-p", "timeout_idle=2", "-p", "thread_stats_rate=1")

    def passed(self):
        # A request whose body it could not pass on whole is no backend_req, although the listener may have refused it already.
        words = ["varnishstat", "-n", str(self.folder / "work"), "-1", "-f", "MAIN.backend_req", "-f", "MAIN.fetch_failed"]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, timeout=20)
        counts = {line.split()[0]: int(line.split()[1]) for line in done.stdout.splitlines() if line}
        return counts["MAIN.backend_req"], counts["MAIN.fetch_failed"]


PROXIES = {"nginx": Nginx, "haproxy": Haproxy, "varnish": Varnish}


def send_through(listener, port, case):
    """What disagrees, or None. Whatever the proxy makes of it: every answer belongs to its request."""
    number = f"behind{next(numbers)}"
    with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
        send(sock, case.bytes(*listener.parts(number)))
        responses, closed, _ = read_responses(sock, seconds=20)
    statuses = [status for status, _, _ in responses]
    targets = [body.decode().split('"target": "')[1].split('"')[0] for status, _, body in responses if status == 200 and b'"target"' in body]
    mains, sentinels = listener.origin_saw(number, "main"), listener.origin_saw(number, "sentinel")
    if listener.origin_saw(number, "hidden") or listener.runtime.origin.at("/hidden"):
        return f"the hidden request was taken for one: {statuses}"
    if len(mains) > 1 or len(sentinels) > 1:
        return f"{len(mains)} and {len(sentinels)} arrived"
    if not closed:
        return f"not closed: {statuses}"
    if targets != [t for t in (f"/{number}/main", f"/{number}/sentinel") if t in targets]:
        return f"answers of others: {targets}"
    return None


@pytest.mark.parametrize("name", LISTENERS)
@pytest.mark.parametrize("kind", sorted(PROXIES))
def test_behind_another_parser(runtime, kind, name, tmp_path):
    if not shutil.which(PROXIES[kind].program):
        pytest.skip(f"{kind} is not installed")
    listener = Listener(runtime, name)
    proxy = PROXIES[kind](listener, tmp_path)
    cases = [case for cases in request_lists.LISTS.values() for case in cases()]
    # Of the many control bytes one in five: they take the same way.
    cases = [case for i, case in enumerate(cases) if "\\x" not in case.name or i % 5 == 0]
    try:
        proxy.run()
        passed, answered = proxy.passed(), listener.answered()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            faults = list(pool.map(lambda case: send_through(listener, proxy.port, case), cases))
        wrong = [f"{case.name}: {fault}" for case, fault in zip(cases, faults) if fault]
        assert not wrong, "\n".join(wrong)

        def agree():
            whole, broken = (now - then for now, then in zip(proxy.passed(), passed))
            told = listener.answered() - answered
            assert 100 < whole <= told <= whole + broken, (whole, broken, told)
            return True

        wait_until(agree, 10, f"{kind} before {name}: of {len(cases)}, as many passed on as answered")
    finally:
        proxy.stop()
