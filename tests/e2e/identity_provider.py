"""Identity providers for the sign-in: one that answers whatever a test wants, and npm's oidc-provider as it is."""

import base64
import contextlib
import hashlib
import http.server
import json
import os
import re
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

import npm_packages
from conftest import TOP

NODE_PROVIDER = TOP / "tests" / "support" / "oidc_provider"


class Key:
    """A signing key, and its public half as a JWK."""

    def __init__(self, key_id, algorithm="RS256"):
        self.id, self.algorithm = key_id, algorithm
        if algorithm in ("RS256", "PS256"):
            self.private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
            numbers = self.private.public_key().public_numbers()
            jwk = {"kty": "RSA", "n": b64(numbers.n.to_bytes(256, "big")), "e": b64(numbers.e.to_bytes(3, "big"))}
        elif algorithm == "ES256":
            self.private = ec.generate_private_key(ec.SECP256R1())
            numbers = self.private.public_key().public_numbers()
            jwk = {"kty": "EC", "crv": "P-256", "x": b64(numbers.x.to_bytes(32, "big")), "y": b64(numbers.y.to_bytes(32, "big"))}
        else:
            self.private = ed25519.Ed25519PrivateKey.generate()
            raw = self.private.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
            jwk = {"kty": "OKP", "crv": "Ed25519", "x": b64(raw)}
        self.jwk = {**jwk, "kid": key_id, "use": "sig"}

    def signature(self, data):
        if self.algorithm == "RS256":
            return self.private.sign(data, padding.PKCS1v15(), hashes.SHA256())
        if self.algorithm == "PS256":
            return self.private.sign(data, padding.PSS(padding.MGF1(hashes.SHA256()), 32), hashes.SHA256())
        if self.algorithm == "EdDSA":
            return self.private.sign(data)
        r, s = decode_dss_signature(self.private.sign(data, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    def sign(self, claims, **header):
        header = {"alg": self.algorithm, "kid": self.id, "typ": "JWT", **header}
        header = {name: value for name, value in header.items() if value is not None}
        data = f"{b64(json.dumps(header).encode())}.{b64(json.dumps(claims).encode())}"
        return f"{data}.{b64(self.signature(data.encode()))}"


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class LyingProvider(http.server.ThreadingHTTPServer):
    """Answers as OpenID Connect has it, but for what a test changes in `metadata`, `claims`, `token` and `answers`."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server_port}"
        self.metadata, self.claims, self.answers, self.codes, self.asked = {}, {}, {}, {}, []
        self.keys = [Key("first")]
        self.token = lambda claims: self.keys[0].sign(claims)
        self.secret = "the secret"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def restore(self):
        self.metadata.clear(), self.claims.clear(), self.answers.clear()
        self.token = lambda claims: self.keys[0].sign(claims)

    def authorize(self, location):
        """A person signs in there: the code, and the parameters that the platform sent."""
        sent = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(location).query, strict_parsing=True))
        code = os.urandom(8).hex()
        self.codes[code] = sent
        return code, sent

    def answer(self, path, form, authorization):
        self.asked.append(path)
        if path in self.answers:
            return self.answers[path]()
        if path == "/.well-known/openid-configuration":
            return 200, {"issuer": self.issuer, "authorization_endpoint": f"{self.issuer}/auth", "token_endpoint": f"{self.issuer}/token", "jwks_uri": f"{self.issuer}/jwks", **self.metadata}
        if path == "/jwks":
            return 200, {"keys": [{"kty": "oct", "kid": "other"}, *(key.jwk for key in self.keys)]}
        sent = self.codes.pop(form.get("code"), None)
        basic = base64.b64encode(f"culvert:{urllib.parse.quote(self.secret)}".encode()).decode()
        if path != "/token" or not sent or authorization != f"Basic {basic}" or form["redirect_uri"] != sent["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        if b64(hashlib.sha256(form["code_verifier"].encode()).digest()) != sent["code_challenge"]:
            return 400, {"error": "invalid_grant", "error_description": "PKCE"}
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": "culvert", "sub": "s-1", "iat": now, "exp": now + 300, "nonce": sent["nonce"], "preferred_username": "carol", "email": "carol@example.org"}
        claims = {name: value for name, value in {**claims, **self.claims}.items() if value is not None}
        return 200, {"access_token": "x", "token_type": "Bearer", "id_token": self.token(claims)}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.respond({})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.respond(dict(urllib.parse.parse_qsl(body, strict_parsing=True)))

    def respond(self, form):
        status, value = self.server.answer(self.path, form, self.headers.get("Authorization"))
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status == 302:
            self.send_header("Location", f"{self.server.issuer}/elsewhere")
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def log_message(self, *words):
        pass


@contextlib.contextmanager
def node_provider(port, redirect_uri):
    environment = {**os.environ, "NODE_PATH": str(npm_packages.installed(NODE_PROVIDER)), "NODE_NO_WARNINGS": "1"}
    words = ["node", str(NODE_PROVIDER / "provider.mjs"), str(port), redirect_uri]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment) as process:
        try:
            while (line := process.stdout.readline()) and line != "listening\n":
                pass
            assert line, "the provider did not start"
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


class Person:
    """A browser at npm's provider: keeps its cookies, fills in its forms."""

    def __init__(self):
        self.cookies = {}

    def ask(self, url, form=None):
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        request = urllib.request.Request(url, data=form and urllib.parse.urlencode(form).encode(), headers=headers)
        opener = urllib.request.build_opener(NoRedirect)
        try:
            answer = opener.open(request, timeout=20)
        except urllib.error.HTTPError as error:
            answer = error
        for field in answer.headers.get_all("Set-Cookie", []):
            name, _, value = field.partition(";")[0].partition("=")
            self.cookies[name] = value
        return answer.status, answer.headers.get("Location"), answer.read().decode()

    def sign_in(self, location, name, back):
        """Follows redirects and forms from the platform's redirect to the address `back`, which it returns."""
        for _ in range(12):
            if location.startswith(back):
                return location
            status, to, page = self.ask(location)
            if status == 200:
                action = re.search(r'action="([^"]+)"', page).group(1)
                form = {"prompt": "login", "login": name, "password": "any"} if 'value="login"' in page else {"prompt": "consent"}
                status, to, page = self.ask(urllib.parse.urljoin(location, action), form)
            assert status in (302, 303), (status, page)
            location = urllib.parse.urljoin(location, to)
        raise AssertionError(f"no way back from {location}")


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *words):
        return None
