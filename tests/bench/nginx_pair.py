"""Controls: two nginx, one at each end, joined by TLS, without multiplexing: a TLS connection for every one of the client."""

import pathlib

from peer import WORKERS, Peer, program

MODULES = ("/usr/lib/nginx/modules/ngx_stream_module.so", "/usr/share/nginx/modules/ngx_stream_module.so")

CONFIGURATION = """\
{module}
daemon off;
pid {folder}/{end}.pid;
error_log {folder}/{end}.log warn;
worker_processes {workers};
worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
{body}
"""

STREAM = """\
stream {{
    proxy_buffer_size 64k;
    server {{
        listen 127.0.0.1:{port} ssl;
        ssl_certificate {pki}/server.crt;
        ssl_certificate_key {pki}/server.key;
        ssl_protocols TLSv1.3;
        proxy_pass 127.0.0.1:{to};
{tls}    }}
}}
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
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection $connection_upgrade;
    proxy_request_buffering off;
    proxy_max_temp_file_size 0;
    proxy_buffer_size 16k;
    proxy_buffers 8 16k;
    map $http_upgrade $connection_upgrade {{ default upgrade; "" ""; }}
    upstream service {{
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
            proxy_pass {scheme}://service;
{tls}        }}
        location /events/ {{
            proxy_pass {scheme}://service;
            proxy_buffering off;
{tls}        }}
    }}
}}
"""

TO_TLS = """\
        proxy_ssl_protocols TLSv1.3;
        proxy_ssl_name localhost;
        proxy_ssl_server_name on;
        proxy_ssl_verify on;
        proxy_ssl_trusted_certificate {pki}/ca.crt;
"""


class NginxPair(Peer):
    """The body of the configuration is what differs."""

    body = ""

    @classmethod
    def missing(cls):
        if program("nginx") is None:
            return "nginx is not installed (Debian: nginx-light libnginx-mod-stream)"
        if cls.body is STREAM and not any(pathlib.Path(file).exists() for file in MODULES):
            return "nginx has no stream module here (Debian: libnginx-mod-stream)"
        return None

    def start(self):
        self.far_port = self.site.free_port()
        self._start("far", self.far_port, self.site.origin_port, "", "http")
        tls = TO_TLS.format(pki=self.site.pki) + ("        proxy_ssl on;\n" if self.body is STREAM else "")
        self._start("near", self.port, self.site.leg(self.far_port), tls, "https")

    def _start(self, end, port, to, tls, scheme):
        folder = self.site.folder
        values = {"folder": folder, "end": end, "pki": self.site.pki, "port": port, "to": to, "tls": tls, "scheme": scheme}
        module = next((f"load_module {file};" for file in MODULES if pathlib.Path(file).exists()), "") if self.body is STREAM else ""
        file = folder / f"{end}.conf"
        file.write_text(CONFIGURATION.format(module=module, folder=folder, end=end, workers=WORKERS, body=self.body.format(**values)))
        self.run(end, [program("nginx"), "-p", folder, "-e", folder / f"{end}.log", "-c", file], port)


class NginxStreamPair(NginxPair):
    name = "nginx stream"
    description = "control: two nginx, bytes only (L4), a TLS connection inside for each outside"
    body = STREAM


class NginxHttpPair(NginxPair):
    name = "nginx http"
    description = "control: the same with HTTP understood at both ends (L7), kept-alive connections inside"
    body = HTTP
