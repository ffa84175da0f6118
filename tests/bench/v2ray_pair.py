"""A peer: V2Ray's reverse proxy. As with the tunnel the far end dials (WebSocket over TLS) and streams share connections (Mux.Cool);
it carries bytes and understands no HTTP. VLESS without encryption of its own, so that TLS is the only one."""

import json
import ssl
import time
import urllib.error
import urllib.request
import uuid

from peer import Peer, program

START_SECONDS = 15
DOMAIN = "reverse.internal"


class V2rayPair(Peer):
    name = "v2ray"
    description = "peer: V2Ray reverse proxy, WSS and Mux.Cool (L4); the far end dials; its near end ends the client's TLS"

    @classmethod
    def missing(cls):
        return None if program("v2ray") else "v2ray is not installed (Debian: v2ray)"

    def start(self):
        inner, user = self.site.free_port(), str(uuid.uuid4())
        self._start("near", self._portal(inner, user), self.port, inner)
        self._start("far", self._bridge(self.site.leg(inner), user))
        self._wait_for_bridge()

    def _start(self, end, configuration, *ports):
        file = self.site.folder / f"{end}.json"
        file.write_text(json.dumps({"log": {"loglevel": "error", "access": "/dev/null"}, **configuration}))
        self.run(end, [program("v2ray"), "-config", file], *ports)

    def _tls(self, **settings):
        return {"security": "tls", "tlsSettings": {"serverName": "localhost", "alpn": ["http/1.1"], **settings}}

    def _portal(self, inner, user):
        certificate = {"certificateFile": f"{self.site.pki}/server.crt", "keyFile": f"{self.site.pki}/server.key"}
        secure = self._tls(certificates=[certificate])
        target = {"address": "127.0.0.1", "port": self.site.origin_port, "network": "tcp"}
        return {
            "reverse": {"portals": [{"tag": "portal", "domain": DOMAIN}]},
            "inbounds": [
                {"tag": "clients", "listen": "127.0.0.1", "port": self.port, "protocol": "dokodemo-door", "settings": target,
                 "streamSettings": {"network": "tcp", **secure}},
                {"tag": "bridges", "listen": "127.0.0.1", "port": inner, "protocol": "vless",
                 "settings": {"clients": [{"id": user}], "decryption": "none"},
                 "streamSettings": {"network": "ws", "wsSettings": {"path": "/tunnel"}, **secure}},
            ],
            "outbounds": [{"protocol": "blackhole", "tag": "nowhere"}],
            "routing": {"rules": [{"type": "field", "inboundTag": ["clients", "bridges"], "outboundTag": "portal"}]},
        }

    def _bridge(self, inner, user):
        trust = self._tls(certificates=[{"usage": "verify", "certificateFile": f"{self.site.pki}/ca.crt"}])
        server = {"address": "127.0.0.1", "port": inner, "users": [{"id": user, "encryption": "none"}]}
        return {
            "reverse": {"bridges": [{"tag": "bridge", "domain": DOMAIN}]},
            "outbounds": [
                {"tag": "platform", "protocol": "vless", "settings": {"vnext": [server]},
                 "streamSettings": {"network": "ws", "wsSettings": {"path": "/tunnel"}, **trust}},
                {"tag": "service", "protocol": "freedom"},
            ],
            "routing": {
                "rules": [
                    {"type": "field", "inboundTag": ["bridge"], "domain": [f"full:{DOMAIN}"], "outboundTag": "platform"},
                    {"type": "field", "inboundTag": ["bridge"], "outboundTag": "service"},
                ]
            },
        }

    def _wait_for_bridge(self):
        """The portal listens before a bridge has dialled."""
        context = ssl.create_default_context(cafile=str(self.site.pki / "ca.crt"))
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with urllib.request.urlopen(f"https://localhost:{self.port}/1k", timeout=2, context=context):
                    return
            except (OSError, urllib.error.URLError) as error:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"v2ray's bridge does not come: {error}") from None
                time.sleep(0.1)
