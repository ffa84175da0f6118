"""Private PostgreSQL, Redis and RabbitMQ servers for tests: started in a folder of their own, on loopback, stopped by pid.

Standard library only. Also the engine of the `postgres`, `redis` and `rabbitmq` commands beside this file.
"""
import contextlib
import os
import pathlib
import pwd
import random
import secrets
import shutil
import signal
import socket
import subprocess
import time

POSTGRES_BIN = pathlib.Path(os.environ.get("CULVERT_TEST_POSTGRES_BIN", "/usr/lib/postgresql/15/bin"))
START_SECONDS = 60


def free_port():
    """A loopback port below the ephemeral range, so that no outgoing connection takes it meanwhile."""
    for port in random.sample(range(20000, 32000), 200):
        with contextlib.closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port on 127.0.0.1")


def wait_until(condition, what, seconds=START_SECONDS):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(0.02)


def _as_user(name):
    """Words to put before a command so that it runs as this user, when we are root."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={name}", f"--regid={name}", "--init-groups"]


def _stat(pid):
    """(state, parent) of a process, or None."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    except OSError:
        return None
    return fields[0], int(fields[1])


def _is_alive(pid):
    stat = _stat(pid)
    return stat is not None and stat[0] != "Z"


def _children(pid):
    """Those of its children, too. PostgreSQL's backends leave the process group, so they are found by their parent."""
    parents = {int(each.name): (_stat(each.name) or ("", 0))[1]
               for each in pathlib.Path("/proc").iterdir() if each.name.isdigit()}
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each and child not in found]
    return found[1:]


class Server:
    """A child process in its own session, found again by a pid file when another command stops it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder).absolute()
        self.process = None
        self.pid_file = self.folder / "server.pid"

    def _spawn(self, words):
        log = open(self.folder / "server.log", "ab")
        self.process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/")
        log.close()
        self.pid_file.write_text(str(self.process.pid))

    def _pid(self):
        # Another command may have ended ours and started the next one.
        if self.process and self.process.poll() is None:
            return self.process.pid
        return int(self.pid_file.read_text()) if self.pid_file.exists() else None

    def is_running(self):
        if self.process:
            self.process.poll()  # reaps it
        pid = self._pid()
        return pid is not None and _is_alive(pid)

    def _end(self, signal_number):
        pid = self._pid()
        if pid is not None and _is_alive(pid):
            family = [pid, *_children(pid)]
            for each in family if signal_number == signal.SIGKILL else [pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal_number)
            wait_until(lambda: not self.is_running() and not any(map(_is_alive, family)), "the server's end")
        self.process = None
        self.pid_file.unlink(missing_ok=True)

    def kill(self):
        """Like a power cut for the processes: SIGKILL to every one of them."""
        self._end(signal.SIGKILL)

    def _signal_all(self, signal_number):
        pid = self._pid()
        for each in [pid, *_children(pid)] if pid is not None else []:
            with contextlib.suppress(ProcessLookupError):  # it just ended
                os.kill(each, signal_number)

    def pause(self):
        self._signal_all(signal.SIGSTOP)

    def resume(self):
        self._signal_all(signal.SIGCONT)

    def log(self):
        path = self.folder / "server.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def __enter__(self):
        return self.start()

    def __exit__(self, *exception):
        self.stop()


class Postgres(Server):
    """PostgreSQL with the roles of a real installation.

    url: the owner of the database `culvert`, who migrates; app_url: a member of culvert_app, what culvertd logs in
    as; superuser_url: for what only tests do.
    """

    def __init__(self, folder, settings=None):
        super().__init__(folder)
        self.data = self.folder / "data"
        self.settings = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "max_connections": "200",
                         "shared_buffers": "64MB", "max_wal_size": "256MB", "track_activity_query_size": "16384", **(settings or {})}
        self.port_file = self.folder / "port"
        self.password_file = self.folder / "password"

    @property
    def port(self):
        return int(self.port_file.read_text())

    def _url(self, role):
        return f"postgresql://{role}:{self.password_file.read_text().strip()}@127.0.0.1:{self.port}/culvert"

    url = property(lambda self: self._url("culvert_owner"))
    app_url = property(lambda self: self._url("culvert_login"))
    superuser_url = property(lambda self: self._url("postgres"))

    def _own(self):
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.folder, user.pw_uid, user.pw_gid)

    def _create(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self._own()
        self.password_file.write_text(secrets.token_hex(16) + "\n")
        if os.geteuid() == 0:
            shutil.chown(self.password_file, "postgres")
        self.password_file.chmod(0o600)
        done = subprocess.run(
            [*_as_user("postgres"), POSTGRES_BIN / "initdb", "-D", self.data, "-U", "postgres", "-E", "UTF8",
             "--locale=C.UTF-8", "-A", "scram-sha-256", f"--pwfile={self.password_file}", "--no-instructions"],
            cwd="/", capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError("initdb: " + done.stderr)

    def psql(self, sql, url=None):
        done = subprocess.run(["psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-d", url or self.superuser_url],
                              input=sql, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError("psql: " + done.stderr)
        return done.stdout.strip()

    def _create_roles(self):
        # As `culvertd admin print-roles` says.
        password = self.password_file.read_text().strip()
        database = self.superuser_url.rsplit("/", 1)[0] + "/postgres"
        self.psql(f"""
            CREATE ROLE culvert_app NOLOGIN;
            CREATE ROLE culvert_lookup NOLOGIN;
            CREATE ROLE culvert_roles NOLOGIN NOINHERIT;
            GRANT culvert_lookup TO culvert_roles WITH ADMIN OPTION;
            CREATE ROLE culvert_owner LOGIN PASSWORD '{password}' IN ROLE culvert_roles;
            CREATE ROLE culvert_login LOGIN PASSWORD '{password}' IN ROLE culvert_app;""", database)
        self.psql("CREATE DATABASE culvert OWNER culvert_owner", database)

    def _answers(self):
        if self.process.poll() is not None:
            raise RuntimeError("PostgreSQL ended: " + self.log()[-2000:])
        return subprocess.run([POSTGRES_BIN / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]).returncode == 0

    def start(self):
        is_new = not self.data.exists()
        if is_new:
            self._create()
        if is_new or not self.port_file.exists():
            self.port_file.write_text(str(free_port()))
        words = [*_as_user("postgres"), str(POSTGRES_BIN / "postgres"), "-D", str(self.data), "-p", str(self.port),
                 "-c", "listen_addresses=127.0.0.1"]
        # A socket's path is bounded by the kernel (107 bytes); TCP is always there.
        socket_folder = str(self.folder) if len(str(self.folder)) < 80 else ""
        for name, value in {**self.settings, "unix_socket_directories": socket_folder}.items():
            words += ["-c", f"{name}={value}"]
        self._spawn(words)
        wait_until(self._answers, "PostgreSQL")
        if is_new:
            self._create_roles()
        return self

    def stop(self):
        self._end(signal.SIGINT)  # fast shutdown

    def kill(self):
        super().kill()
        # What the dead one left must not keep the next one from starting (its pid may stay as a zombie).
        for left in [self.data / "postmaster.pid", *self.folder.glob(".s.PGSQL.*")]:
            left.unlink(missing_ok=True)


class Redis(Server):
    """Redis with a password, without persistence.

    url: plain; tls_url: over TLS as the user `culvert`, with the certificate of localhost and 127.0.0.1 by ca_file. It also
    answers on 127.0.0.2, where its certificate is another's.
    """

    def __init__(self, folder):
        super().__init__(folder)
        self.port_file = self.folder / "port"
        self.tls_port_file = self.folder / "tls_port"
        self.password_file = self.folder / "password"
        self.ca_file = self.folder / "ca.crt"

    @property
    def port(self):
        return int(self.port_file.read_text())

    @property
    def tls_port(self):
        return int(self.tls_port_file.read_text())

    @property
    def tls_url(self):
        return f"rediss://culvert:{self.password_file.read_text().strip()}@localhost:{self.tls_port}/0"

    @property
    def url(self):
        return f"redis://:{self.password_file.read_text().strip()}@127.0.0.1:{self.port}/0"

    def _answers(self):
        if self.process.poll() is not None:
            raise RuntimeError("Redis ended: " + self.log()[-2000:])
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as probe:
                probe.sendall(b"PING\r\n")
                return probe.recv(64) != b""
        except OSError:
            return False

    def start(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.port_file.exists():
            self.port_file.write_text(str(free_port()))
            self.tls_port_file.write_text(str(free_port()))
            self.password_file.write_text(secrets.token_hex(16) + "\n")
            self.password_file.chmod(0o600)
            make_certificates(self.folder)
        config = self.folder / "redis.conf"
        password = self.password_file.read_text().strip()
        config.write_text(
            f"bind 127.0.0.1 127.0.0.2\nport {self.port}\nrequirepass {password}\n"
            f"tls-port {self.tls_port}\ntls-auth-clients no\ntls-ca-cert-file {self.ca_file}\n"
            f"tls-cert-file {self.folder}/server.crt\ntls-key-file {self.folder}/server.key\n"
            f"user culvert on >{password} ~* &* +@all\n"
            f"save \"\"\nappendonly no\ndir {self.folder}\ndaemonize no\n")
        config.chmod(0o600)
        self._spawn(["redis-server", str(config)])
        wait_until(self._answers, "Redis")
        return self

    def stop(self):
        self._end(signal.SIGTERM)


def make_certificates(folder):
    """ca.crt, server.crt and server.key of a server called localhost."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    extensions = folder / "extensions"
    extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n"
                          "basicConstraints=critical,CA:FALSE\n")
    for words in (
        ["req", "-x509", *key, "-days", "30", "-subj", "/CN=a test's CA", "-keyout", "ca.key", "-out", "ca.crt",
         "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign"],
        ["req", "-new", *key, "-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr"],
        ["x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30",
         "-out", "server.crt", "-extfile", "extensions"],
    ):
        done = subprocess.run(["openssl", *words], cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError("openssl: " + done.stderr)


class RabbitMQ(Server):
    """A RabbitMQ node with its own epmd, a user of its own and both listeners, plain and TLS, on loopback.

    url, tls_url: with the credential inside, for a file. ca_file: whom to trust. ctl(): rabbitmqctl (takes 1-2 s).
    """

    def __init__(self, folder, settings=None):
        super().__init__(folder)
        self.settings = settings or {}
        self.ports_file = self.folder / "ports"
        self.password_file = self.folder / "password"
        self.epmd_file = self.folder / "epmd.pid"
        self.epmd = None
        self.ca_file = self.folder / "ca.crt"
        found = sorted(pathlib.Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin"))
        self.sbin = found[-1] if found else None

    def _port(self, name):
        return int(dict(line.split("=") for line in self.ports_file.read_text().split())[name])

    port = property(lambda self: self._port("AMQP"))
    tls_port = property(lambda self: self._port("AMQPS"))
    node = property(lambda self: f"culvert{self.port}@localhost")

    def _url(self, scheme, port):
        return f"{scheme}://culvert:{self.password_file.read_text().strip()}@localhost:{port}/"

    url = property(lambda self: self._url("amqp", self.port))
    tls_url = property(lambda self: self._url("amqps", self.tls_port))

    def _environment(self):
        return {
            "PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), "LANG": "C.UTF-8", "HOME": str(self.folder),
            "RABBITMQ_NODENAME": self.node, "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder), "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "environment"),
            "RABBITMQ_PID_FILE": str(self.folder / "node.pid"),
            "RABBITMQ_DIST_PORT": str(self._port("DISTRIBUTION")),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS":
                "-kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none",
            "ERL_EPMD_PORT": str(self._port("EPMD")), "ERL_EPMD_ADDRESS": "127.0.0.1",
        }

    def _own(self):
        if os.geteuid() == 0:
            user = pwd.getpwnam("rabbitmq")
            for each in (self.folder, *self.folder.iterdir()):
                os.chown(each, user.pw_uid, user.pw_gid)

    def _create(self):
        if not self.sbin:
            raise RuntimeError("RabbitMQ is not installed: apt-get install rabbitmq-server")
        self.folder.mkdir(parents=True, exist_ok=True)
        ports = set()
        while len(ports) < 4:
            ports.add(free_port())
        names = ("AMQP", "AMQPS", "DISTRIBUTION", "EPMD")
        self.ports_file.write_text("".join(f"{name}={port}\n" for name, port in zip(names, ports)))
        self.password_file.write_text(secrets.token_hex(16) + "\n")
        make_certificates(self.folder)
        settings = {
            "listeners.tcp.1": f"127.0.0.1:{self.port}", "listeners.ssl.1": f"127.0.0.1:{self.tls_port}",
            "ssl_options.cacertfile": self.ca_file, "ssl_options.certfile": self.folder / "server.crt",
            "ssl_options.keyfile": self.folder / "server.key", "ssl_options.verify": "verify_none",
            "default_user": "culvert", "default_pass": self.password_file.read_text().strip(),
            "disk_free_limit.absolute": "50MB", "log.console": "true", "log.console.level": "info", "log.file": "false",
            **self.settings,
        }
        (self.folder / "rabbitmq.conf").write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
        (self.folder / "plugins").write_text("[].\n")
        (self.folder / "environment").write_text("")
        (self.folder / ".erlang.cookie").write_text(secrets.token_hex(20))
        for name in ("rabbitmq.conf", "password", ".erlang.cookie"):
            (self.folder / name).chmod(0o400 if name == ".erlang.cookie" else 0o600)
        self._own()

    def _as(self, words):
        return [*_as_user("rabbitmq"), *map(str, words)]

    def ctl(self, *words, seconds=60):
        done = subprocess.run(self._as([self.sbin / "rabbitmqctl", "-q", *words]), env=self._environment(), cwd="/",
                              capture_output=True, text=True, timeout=seconds)
        if done.returncode != 0:
            raise RuntimeError(f"rabbitmqctl {' '.join(words)}: {done.stderr or done.stdout}")
        return done.stdout

    def queues(self):
        """{name: messages, ready and not acknowledged}"""
        rows = (line.rsplit("\t", 1) for line in self.ctl("list_queues", "--no-table-headers", "name", "messages").splitlines())
        return {name: int(count) for name, count in rows}

    def _answers(self):
        if self.process.poll() is not None:
            raise RuntimeError("RabbitMQ ended: " + self.log()[-2000:])
        try:
            # Whoever does not speak AMQP is told which AMQP it should speak.
            with socket.create_connection(("127.0.0.1", self.port), 1) as probe:
                probe.settimeout(1)
                probe.sendall(b"AMQP\0\0\0\0")
                return probe.recv(4) == b"AMQP"
        except OSError:
            return False

    def start(self):
        if not self.ports_file.exists():
            self._create()
        self._end_epmd()  # of one that was killed together with its starter
        self.epmd = subprocess.Popen(
            self._as(["epmd", "-port", self._port("EPMD"), "-address", "127.0.0.1"]), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, cwd="/")
        self.epmd_file.write_text(str(self.epmd.pid))
        log = open(self.folder / "server.log", "ab")
        self.process = subprocess.Popen(self._as([self.sbin / "rabbitmq-server"]), stdin=subprocess.DEVNULL, stdout=log,
                                        stderr=log, start_new_session=True, cwd="/", env=self._environment())
        log.close()
        self.pid_file.write_text(str(self.process.pid))
        wait_until(self._answers, "RabbitMQ")
        return self

    def _end_epmd(self):
        if not self.epmd_file.exists():
            return
        pid = int(self.epmd_file.read_text())
        name = pathlib.Path(f"/proc/{pid}/comm")
        with contextlib.suppress(OSError):
            if name.read_text().strip() == "epmd":
                os.kill(pid, signal.SIGKILL)
        if self.epmd:
            self.epmd.wait(10)
            self.epmd = None
        self.epmd_file.unlink()

    def _end(self, signal_number):
        if signal_number != signal.SIGKILL:
            # The node itself ends in order; the script around it only waits for it.
            for each in _children(self._pid() or -1):
                with contextlib.suppress(OSError):
                    if "beam" in pathlib.Path(f"/proc/{each}/comm").read_text():
                        os.kill(each, signal_number)
            with contextlib.suppress(TimeoutError):
                wait_until(lambda: not self.is_running(), "RabbitMQ's end", 20)
        super()._end(signal.SIGKILL)
        self._end_epmd()

    def stop(self):
        self._end(signal.SIGTERM)


def command(make, argv):
    """The commands `postgres`, `redis` and `rabbitmq`: start FOLDER, stop FOLDER, kill FOLDER, url FOLDER."""
    if len(argv) < 3 or argv[1] not in ("start", "stop", "kill", "url"):
        print(f"usage: {pathlib.Path(argv[0]).name} start|stop|kill|url FOLDER")
        return 2
    server = make(argv[2])
    if argv[1] != "url":
        getattr(server, argv[1])()
    if argv[1] in ("start", "url"):
        for name in ("url", "app_url", "superuser_url", "tls_url"):
            if hasattr(server, name):
                print(f"{name}={getattr(server, name)}")
    return 0
