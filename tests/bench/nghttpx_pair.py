"""A control: two nghttpx, HTTP/2 over one TLS connection a worker between them. The near end dials, so it is no way through a
firewall; it shows what HTTP/2 as the multiplexer can do."""

from peer import WORKERS, Peer, program

# As large as the tunnel's own windows get, and a connection's that nobody exhausts.
STREAM_WINDOW_BYTES = 4 * 1024 * 1024
CONNECTION_WINDOW_BYTES = 2**31 - 1


class NghttpxPair(Peer):
    name = "nghttpx"
    description = "control: two nghttpx, HTTP/2 over one TLS connection a worker (L7); the near end dials"

    @classmethod
    def missing(cls):
        return None if program("nghttpx") else "nghttpx is not installed (Debian: nghttp2-proxy)"

    def start(self):
        inner = self.site.free_port()
        self._start("far", inner, f"127.0.0.1,{self.site.origin_port};;proto=http/1.1")
        self._start("near", self.port, f"127.0.0.1,{self.site.leg(inner)};;proto=h2;tls;sni=localhost")

    def _start(self, end, port, backend):
        pki = self.site.pki
        self.run(
            end,
            [
                program("nghttpx"),
                "--conf=/dev/null",
                "--no-ocsp",
                f"--workers={WORKERS}",
                f"--frontend=127.0.0.1,{port}",
                f"--backend={backend}",
                f"--cacert={pki}/ca.crt",
                f"--pid-file={self.site.folder}/{end}.pid",
                "--errorlog-file=/dev/stderr",
                "--accesslog-file=/dev/null",
                "--frontend-http2-max-concurrent-streams=1000",
                f"--frontend-http2-window-size={STREAM_WINDOW_BYTES}",
                f"--frontend-http2-connection-window-size={CONNECTION_WINDOW_BYTES}",
                f"--backend-http2-window-size={STREAM_WINDOW_BYTES}",
                f"--backend-http2-connection-window-size={CONNECTION_WINDOW_BYTES}",
                "--backend-request-buffer=131072",
                "--backend-keep-alive-timeout=60",
                f"{pki}/server.key",
                f"{pki}/server.crt",
            ],
            port,
        )
