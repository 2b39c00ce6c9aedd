"""Over TLS the APIs get Google's credentials; without any, nothing is sent."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from once import rest
from once.starts.api import Api, NotSent
from once.starts.workflow import Workflow

from local.apis import Apis
from tools.serving import serving

WORKFLOW = Workflow("projects/p/locations/l/workflows/over-tls", {})


@dataclass
class Google:
    """A TLS server that gives tokens and answers as Workflows does to those who have the last."""

    apis: Apis
    authorizations: list[str] = field(default_factory=list)
    tokens: int = 0
    port: int = 0

    @property
    def base_url(self) -> str:
        return f"https://127.0.0.1:{self.port}/workflowexecutions"

    def answer(self, path: str, authorization: str, body: bytes) -> tuple[int, bytes]:
        if path == "/token":
            self.tokens += 1
            token = {"access_token": f"token-{self.tokens}", "expires_in": 3600}
            return 200, json.dumps(token).encode()
        self.authorizations.append(authorization)
        if authorization != "Bearer token-2":  # the first is no longer good when it comes
            return 401, b"{}"
        answer = self.apis.answer("POST", path, body)
        assert answer is not None
        return answer


def _certificate(key: rsa.RSAPrivateKey) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


@pytest.fixture
def google(apis: Apis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Google]:
    """Yield a server, with credentials for it in the environment."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    both = tmp_path / "server.pem"
    both.write_bytes(private + _certificate(key))
    google = Google(apis)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, content = google.answer(self.path, self.headers.get("Authorization", ""), body)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    google.port = server.server_address[1]
    account = {
        "type": "service_account",
        "client_email": "proxy@p.iam.gserviceaccount.com",
        "private_key": private.decode(),
        "token_uri": f"https://127.0.0.1:{google.port}/token",
    }
    (tmp_path / "account.json").write_text(json.dumps(account))
    apis.add(WORKFLOW.name)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "account.json"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(both))
    rest._credentials.cache_clear()
    with serving(server):
        yield google
    rest._credentials.cache_clear()


def test_token_is_sent_and_one_that_is_refused_is_replaced(google: Google) -> None:
    answer = Api(google.base_url).send(WORKFLOW.start("a" * 64), 5)

    assert answer["name"].startswith(WORKFLOW.name)
    assert google.authorizations == ["Bearer token-1", "Bearer token-2"]
    assert len(google.apis.started(WORKFLOW.name)) == 1


def test_without_credentials_nothing_is_sent(
    google: Google, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")

    with pytest.raises(NotSent, match="credentials"):
        Api(google.base_url).send(WORKFLOW.start("a" * 64), 5)

    assert google.authorizations == []


def test_account_whose_key_is_refused_sends_nothing(google: Google, tmp_path: Path) -> None:
    before = google.apis.started(WORKFLOW.name)
    path = tmp_path / "account.json"
    account = json.loads(path.read_text())
    path.write_text(json.dumps({**account, "token_uri": f"{google.base_url}/no-token"}))

    with pytest.raises(NotSent, match="credentials"):
        Api(google.base_url).send(WORKFLOW.start("a" * 64), 5)

    assert google.apis.started(WORKFLOW.name) == before
