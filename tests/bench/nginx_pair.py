"""The control: two nginx, one at each end, joined by TLS. No multiplexing: a TLS connection for every one of the client.

Once as `stream` (layer 4) and once as `http` (layer 7), in front of the same services as the tunnel. Both legs speak TLS, as
both legs of the tunnel do.
"""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

MODULES = ("/usr/lib/nginx/modules/ngx_stream_module.so", "/usr/share/nginx/modules/ngx_stream_module.so")
PROGRAMS = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"
KINDS = ("stream", "http")

HEAD = """\
{module}
daemon off;
pid {folder}/{end}.pid;
error_log {folder}/{end}.log warn;
worker_processes {workers};
worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
"""

STREAM = """\
stream {{
    proxy_buffer_size 64k;
{servers}}}
"""

STREAM_SERVER = """\
    server {{
        listen 127.0.0.1:{port} ssl;
        ssl_certificate {pki}/server.crt;
        ssl_certificate_key {pki}/server.key;
        ssl_protocols TLSv1.3;
        proxy_pass 127.0.0.1:{to};
        proxy_ssl {to_tls};
{tls}    }}
"""

HTTP = """\
http {{
    access_log off;
    client_body_temp_path {folder}/{end}-body;
    proxy_temp_path {folder}/{end}-proxy;
    fastcgi_temp_path {folder}/{end}-fastcgi;
    uwsgi_temp_path {folder}/{end}-uwsgi;
    scgi_temp_path {folder}/{end}-scgi;
    client_max_body_size 0;
    keepalive_requests 1000000000;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_request_buffering off;
    proxy_max_temp_file_size 0;
    proxy_buffer_size 16k;
    proxy_buffers 8 16k;
{servers}}}
"""

HTTP_SERVER = """\
    upstream service_{to} {{
        server 127.0.0.1:{to};
        keepalive 128;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port} ssl;
        ssl_certificate {pki}/server.crt;
        ssl_certificate_key {pki}/server.key;
        ssl_protocols TLSv1.3;
        location / {{
            proxy_pass {scheme}://service_{to};
{tls}        }}
    }}
"""

TO_TLS = """\
        proxy_ssl_protocols TLSv1.3;
        proxy_ssl_name localhost;
        proxy_ssl_server_name on;
        proxy_ssl_verify on;
        proxy_ssl_trusted_certificate {pki}/ca.crt;
"""


class NginxPair:
    """services is {name: port}; `ports[kind][name]` is where a client finds that service."""

    def __init__(self, folder, pki, services, free_port):
        self._folder, self._pki, self._processes = pathlib.Path(folder), pki, []
        self._workers = os.cpu_count() or 1
        self.ports = {kind: {name: free_port() for name in services} for kind in KINDS}
        inner = {kind: {name: free_port() for name in services} for kind in KINDS}
        self._write("far", {kind: [(inner[kind][name], port) for name, port in services.items()] for kind in KINDS}, False)
        self._write("near", {kind: [(self.ports[kind][name], inner[kind][name]) for name in services] for kind in KINDS}, True)

    @staticmethod
    def missing():
        """Why there can be no control here, or None."""
        if shutil.which("nginx", path=PROGRAMS) is None:
            return "nginx is not installed (Debian: nginx-light libnginx-mod-stream)"
        if not any(pathlib.Path(file).exists() for file in MODULES):
            return "nginx has no stream module here (Debian: libnginx-mod-stream)"
        return None

    def _write(self, end, routes, to_tls):
        module = next(file for file in MODULES if pathlib.Path(file).exists())
        tls = TO_TLS.format(pki=self._pki) if to_tls else ""
        values = {"folder": self._folder, "end": end, "pki": self._pki, "tls": tls}
        values |= {"to_tls": "on", "scheme": "https"} if to_tls else {"to_tls": "off", "scheme": "http"}
        text = HEAD.format(module=f"load_module {module};", workers=self._workers, **values)
        servers = "".join(STREAM_SERVER.format(port=port, to=to, **values) for port, to in routes["stream"])
        text += STREAM.format(servers=servers)
        servers = "".join(HTTP_SERVER.format(port=port, to=to, **values) for port, to in routes["http"])
        text += HTTP.format(servers=servers, **values)
        (self._folder / f"{end}.conf").write_text(text)

    def start(self):
        program = shutil.which("nginx", path=PROGRAMS)
        for end in ("far", "near"):
            log = self._folder / f"{end}.log"
            command = [program, "-p", str(self._folder), "-e", str(log), "-c", str(self._folder / f"{end}.conf")]
            with log.open("a") as output:
                self._processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output))
        deadline = time.monotonic() + 10
        for port in (port for ports in self.ports.values() for port in ports.values()):
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    if time.monotonic() > deadline or any(p.poll() is not None for p in self._processes):
                        raise RuntimeError(f"nginx does not start:\n{self._logs()}") from None
                    time.sleep(0.05)

    def _logs(self):
        return "\n".join(file.read_text() for file in sorted(self._folder.glob("*.log")))

    def pids(self):
        """Both masters and all their workers."""
        found = []
        for process in self._processes:
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            found += [process.pid, *map(int, children)]
        return found

    def stop(self):
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
