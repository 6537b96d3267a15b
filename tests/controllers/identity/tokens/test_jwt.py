"""Tokens are those that an API server takes; keys are read as upstream reads them."""

import json
from base64 import urlsafe_b64decode
from collections.abc import Callable
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from controller_manager.api.core.v1 import ServiceAccount
from controller_manager.api.meta import ObjectMeta
from controller_manager.control.key_id import key_id
from controller_manager.controllers.identity.tokens.controller import (
    KeyFileError,
    PrivateKey,
    TokenSigner,
    read_key,
)
from tests.controllers.identity.tokens.keys import elliptic_key, pem, rsa_key

ROBOT = ServiceAccount(metadata=ObjectMeta(name="robot", namespace="web", uid="U"))

CLAIMS = {
    "iss": "kubernetes/serviceaccount",
    "kubernetes.io/serviceaccount/namespace": "web",
    "kubernetes.io/serviceaccount/secret.name": "tok",
    "kubernetes.io/serviceaccount/service-account.name": "robot",
    "kubernetes.io/serviceaccount/service-account.uid": "U",
    "sub": "system:serviceaccount:web:robot",
}

PARAMETERS = (
    b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
)
"""The block that openssl writes before a key of that curve."""


def _on(curve: ec.EllipticCurve) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(7, curve)


def _part(token: str, number: int) -> str:
    part = token.split(".")[number]
    return urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode()


@pytest.mark.parametrize(
    ("make", "algorithm"),
    [
        pytest.param(rsa_key, "RS256", id="rsa"),
        pytest.param(elliptic_key, "ES256", id="p256"),
        pytest.param(lambda: _on(ec.SECP384R1()), "ES384", id="p384"),
        pytest.param(lambda: _on(ec.SECP521R1()), "ES512", id="p521"),
    ],
)
def test_a_token_has_upstreams_header_and_claims(
    make: Callable[[], PrivateKey], algorithm: str
) -> None:
    """In the order in which Go writes them, with a signature by the key."""
    key = make()
    token = TokenSigner(key).sign(ROBOT, "tok")
    header = {"alg": algorithm, "kid": key_id(key)}
    assert _part(token, 0) == json.dumps(header, separators=(",", ":"))
    assert _part(token, 1) == json.dumps(CLAIMS, separators=(",", ":"))
    assert jwt.decode(token, key.public_key(), algorithms=[algorithm]) == CLAIMS


def test_the_same_rsa_key_gives_the_same_token_again() -> None:
    """So a swap of managers changes no token."""
    signers = TokenSigner(rsa_key()), TokenSigner(rsa_key())
    assert signers[0].sign(ROBOT, "tok") == signers[1].sign(ROBOT, "tok")


def test_the_id_of_a_key_is_a_hash_of_its_public_part() -> None:
    """``openssl pkey -pubout -outform DER | sha256sum`` in base64 for URLs."""
    assert key_id(elliptic_key()) == "vtkO_AlmyEa5Y111gCoQ8HiLVhH8rxdkLatc1JRmft8"
    assert len(key_id(rsa_key())) == len(key_id(elliptic_key()))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(pem(elliptic_key()), id="EC PRIVATE KEY"),
        pytest.param(pem(elliptic_key(), PrivateFormat.PKCS8), id="PRIVATE KEY"),
        pytest.param(PARAMETERS + pem(elliptic_key()), id="parameters first"),
        pytest.param(b"a comment\n" + pem(elliptic_key()), id="a comment first"),
        pytest.param(
            ed25519.Ed25519PrivateKey.generate().private_bytes(
                Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
            )
            + pem(elliptic_key()),
            id="another kind of key first",
        ),
    ],
)
def test_a_key_is_found_in_a_file(tmp_path: Path, content: bytes) -> None:
    """In any form that upstream takes (keyutil.ParsePrivateKeyPEM)."""
    path = tmp_path / "sa.key"
    path.write_bytes(content)
    assert key_id(read_key(str(path))) == key_id(elliptic_key())


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"secret words", id="no PEM"),
        pytest.param(
            b"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n",
            id="no key",
        ),
        pytest.param(pem(_on(ec.SECP256K1())), id="a curve without an algorithm"),
        pytest.param(
            elliptic_key().private_bytes(
                Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
            ),
            id="a password",
        ),
    ],
)
def test_a_file_without_a_key_is_refused_and_its_content_is_not_shown(
    tmp_path: Path, content: bytes
) -> None:
    """The message names the flag and the file."""
    path = tmp_path / "sa.key"
    path.write_bytes(content)
    with pytest.raises(KeyFileError) as caught:
        read_key(str(path))
    assert str(caught.value) == (
        f"--service-account-private-key-file: {path}: it has no private RSA or ECDSA "
        "key in PEM, without a password"
    )


def test_a_file_that_is_not_there_is_named() -> None:
    """With the reason of the operating system."""
    with pytest.raises(KeyFileError) as caught:
        read_key("/nowhere/sa.key")
    assert str(caught.value) == (
        "--service-account-private-key-file: /nowhere/sa.key: No such file or directory"
    )


def test_a_signer_does_not_show_its_key() -> None:
    """Neither in a log nor in a traceback."""
    numbers = elliptic_key().private_numbers()
    shown = repr(TokenSigner(elliptic_key()))
    assert str(numbers.private_value) not in shown
    assert "PRIVATE" not in shown
