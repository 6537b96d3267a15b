"""Secrets and certificates can be compared between two runs."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from controller_manager.devcluster.http_server import client_certificate
from controller_manager.serving.certificates import self_signed
from tests.conformance.arguments import signing_files, with_files
from tests.conformance.readable import certificate_content, readable


def encoded(text: str) -> str:
    """Return a value of a secret's data."""
    return base64.b64encode(text.encode()).decode()


def token(header: Any, claims: Any) -> str:
    parts = (base64.urlsafe_b64encode(json.dumps(p).encode()) for p in (header, claims))
    return ".".join([*(each.decode().rstrip("=") for each in parts), "c2ln"])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a.b.c", "a.b.c"),
        (token([], {}), token([], {})),
        (
            token({"alg": "RS256", "kid": "7"}, {"sub": "robot", "exp": 5}),
            {"alg": "RS256", "kid": "KEY", "sub": "robot", "exp": "TIME"},
        ),
    ],
)
def test_a_secret_shows_its_texts_and_the_claims_of_its_tokens(
    text: str, shown: Any
) -> None:
    secret = {"data": {"value": encoded(text)}}
    assert readable("Secret", secret) == {"data": {"value": shown}}


def test_bytes_that_are_no_text_stay_as_they_are() -> None:
    """So do secrets without data, and other kinds."""
    value = base64.b64encode(b"\xff\xfe").decode()
    assert readable("Secret", {"data": {"a": value}}) == {"data": {"a": value}}
    assert readable("Secret", {"type": "Opaque"}) == {"type": "Opaque"}
    assert readable("Pod", {"data": {"a": "YQ=="}}) == {"data": {"a": "YQ=="}}


def test_a_signed_request_shows_what_its_certificate_says() -> None:
    pair = client_certificate(self_signed("test", ["test"]), "jane", "devs")
    request = {"status": {"certificate": encoded(pair.certificate.decode())}}
    content = readable("CertificateSigningRequest", request)["status"]["certificate"]
    hour, year = 3600, 365 * 86400
    assert content == {
        "subject": ["CN=jane", "O=devs"],
        "issuer": ["CN=test"],
        "seconds": year + hour,
        "extensions": {"X509v3 Extended Key Usage": ["TLS Web Client Authentication"]},
    }


def test_flags_that_name_a_file_get_one_of_this_process() -> None:
    text = with_files("--cluster-signing-cert-file=FILE --other=FILE")
    path = signing_files()["cluster-signing-cert-file"]
    assert text == f"--cluster-signing-cert-file={path} --other=FILE"
    assert certificate_content(Path(path).read_bytes())["subject"] == ["CN=oracle-ca"]
    assert with_files("--a=b") == "--a=b"
