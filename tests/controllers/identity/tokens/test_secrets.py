"""Missing data of a token secret are added; other data stay."""

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
from msgspec.structs import replace

from controller_manager.api.core.secrets import (
    ACCOUNT_NAME,
    ACCOUNT_UID,
    SERVICE_ACCOUNT_TOKEN,
    Secret,
    encoded,
)
from controller_manager.api.core.v1 import ObjectReference, ServiceAccount
from controller_manager.api.meta import ObjectMeta
from controller_manager.control.key_id import key_id
from controller_manager.controllers.identity.tokens.controller import (
    KeyFileError,
    PrivateKey,
    TokenSigner,
    read_key,
)
from controller_manager.controllers.identity.tokens.secrets import (
    account_uid,
    completed,
    is_for,
    without_reference,
)
from tests.controllers.identity.tokens.keys import elliptic_key, pem, rsa_key
from tests.controllers.rows import rows

ROBOT = ServiceAccount(metadata=ObjectMeta(name="robot", namespace="web", uid="U"))
OTHER = ServiceAccount(metadata=ObjectMeta(name="robot", namespace="web", uid="V"))
SIGNED = TokenSigner(elliptic_key()).sign(ROBOT, "tok")

BOTH = {ACCOUNT_NAME: "robot", ACCOUNT_UID: "U"}
WHOLE = {
    "ca.crt": encoded("CA"),
    "namespace": encoded("web"),
    "token": encoded("TOKEN"),
}


def _secret(data: dict[str, str], annotations: dict[str, str] = BOTH) -> Secret:
    metadata = ObjectMeta(name="tok", namespace="web", annotations=annotations)
    return Secret(metadata=metadata, data=data, type=SERVICE_ACCOUNT_TOKEN)


def _without(*keys: str, **others: str) -> dict[str, str]:
    return {key: value for key, value in WHOLE.items() if key not in keys} | others


@rows(
    "before after",
    {
        "nothing there": ({}, WHOLE),
        "no token": (_without("token"), WHOLE),
        "an empty token": (_without(token=""), WHOLE),
        "no namespace": (_without("namespace"), WHOLE),
        "no authority": (_without("ca.crt"), WHOLE),
        "a wrong authority": (_without(**{"ca.crt": "eA=="}), WHOLE),
        "more": (_without("token", more="eA=="), {**WHOLE, "more": "eA=="}),
        "a wrong token stays": (
            _without("ca.crt", token="eA=="),
            {**WHOLE, "token": "eA=="},
        ),
        "a wrong namespace stays": (
            _without("token", namespace="eA=="),
            {**WHOLE, "namespace": "eA=="},
        ),
    },
)
@pytest.mark.parametrize(
    "annotations", [BOTH, {ACCOUNT_NAME: "robot"}, {**BOTH, "mine": "1"}]
)
def test_missing_data_are_added(
    before: dict[str, str], after: dict[str, str], annotations: dict[str, str]
) -> None:
    found = completed(_secret(before, annotations), ROBOT, "CA", lambda: "TOKEN")
    assert found == _secret(after, {**annotations, **BOTH})


@rows(
    "data",
    {
        "complete": WHOLE,
        "a wrong token": _without(token="eA=="),
        "a wrong namespace": _without(namespace="eA=="),
    },
)
def test_a_secret_that_lacks_nothing_is_left_alone(data: dict[str, str]) -> None:
    never = pytest.fail
    for annotations in (BOTH, {ACCOUNT_NAME: "robot"}):
        secret = _secret(data, annotations)
        assert completed(secret, ROBOT, "CA", lambda: never("signed")) is None


def test_without_an_authority_of_the_managers_that_of_a_secret_stays() -> None:
    """Upstream compares only if it has one."""
    assert completed(_secret(_without("ca.crt")), ROBOT, "", lambda: "") is None
    kept = _without(**{"ca.crt": "eA=="})
    assert completed(_secret(kept), ROBOT, "", lambda: "") is None


@rows(
    "annotations data uid",
    {
        "annotated": (BOTH, {}, "U"),
        "not annotated": ({ACCOUNT_NAME: "robot"}, {}, ""),
        "annotated as empty": ({**BOTH, ACCOUNT_UID: ""}, {}, ""),
        "only its token names a uid": (
            {ACCOUNT_NAME: "robot"},
            {"token": encoded(SIGNED)},
            "",
        ),
        "annotated otherwise": (
            {ACCOUNT_NAME: "robot", ACCOUNT_UID: "W"},
            {"token": encoded(SIGNED)},
            "W",
        ),
    },
)
def test_a_secret_is_for_the_account_of_its_annotations(
    annotations: dict[str, str], data: dict[str, str], uid: str
) -> None:
    secret = _secret(data, annotations)
    assert account_uid(secret) == uid
    assert is_for(secret, ROBOT) is (uid in ("", "U"))
    assert is_for(secret, OTHER) is (uid == "")
    assert not is_for(secret, replace(ROBOT, metadata=ObjectMeta(name="x", uid="U")))


@pytest.mark.parametrize(
    ("listed", "left"),
    [(("tok", "keep"), ("keep",)), (("tok", "tok"), None), (("tok",), None)],
)
def test_a_reference_goes_and_the_others_stay(
    listed: tuple[str, ...], left: tuple[str, ...] | None
) -> None:
    account = replace(ROBOT, secrets=tuple(ObjectReference(name=n) for n in listed))
    wanted = tuple(ObjectReference(name=n) for n in left) if left else None
    assert without_reference(account, "tok") == replace(ROBOT, secrets=wanted)


def test_an_account_without_the_reference_is_not_written() -> None:
    """It may have no list at all."""
    assert without_reference(ROBOT, "tok") is None
    account = replace(ROBOT, secrets=(ObjectReference(name="keep"),))
    assert without_reference(account, "tok") is None


def test_the_repr_of_a_secret_does_not_show_its_data() -> None:
    """An error that names it must not give its token away."""
    secret = _secret(WHOLE)
    assert repr(secret) == str(secret) == "Secret('web/tok')"
    assert WHOLE["token"] not in f"{[secret]} {secret!r}"


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


@rows(
    "make algorithm",
    {
        "rsa": (rsa_key, "RS256"),
        "p256": (elliptic_key, "ES256"),
        "p384": (lambda: _on(ec.SECP384R1()), "ES384"),
        "p521": (lambda: _on(ec.SECP521R1()), "ES512"),
    },
)
def test_tokens_are_upstreams(make: Callable[[], PrivateKey], algorithm: str) -> None:
    key = make()
    token = TokenSigner(key).sign(ROBOT, "tok")
    header = {"alg": algorithm, "kid": key_id(key)}
    assert _part(token, 0) == json.dumps(header, separators=(",", ":"))
    assert _part(token, 1) == json.dumps(CLAIMS, separators=(",", ":"))
    assert jwt.decode(token, key.public_key(), algorithms=[algorithm]) == CLAIMS


def test_the_same_rsa_key_gives_the_same_token_again() -> None:
    signers = TokenSigner(rsa_key()), TokenSigner(rsa_key())
    assert signers[0].sign(ROBOT, "tok") == signers[1].sign(ROBOT, "tok")


def test_the_id_of_a_key_is_a_hash_of_its_public_part() -> None:
    assert key_id(elliptic_key()) == "vtkO_AlmyEa5Y111gCoQ8HiLVhH8rxdkLatc1JRmft8"
    assert len(key_id(rsa_key())) == len(key_id(elliptic_key()))


@rows(
    "content",
    {
        "EC PRIVATE KEY": pem(elliptic_key()),
        "PRIVATE KEY": pem(elliptic_key(), PrivateFormat.PKCS8),
        "parameters first": PARAMETERS + pem(elliptic_key()),
        "a comment first": b"a comment\n" + pem(elliptic_key()),
        "another kind of key first": ed25519.Ed25519PrivateKey.generate().private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
        + pem(elliptic_key()),
    },
)
def test_a_key_is_found_in_a_file(tmp_path: Path, content: bytes) -> None:
    """In any form that upstream takes (keyutil.ParsePrivateKeyPEM)."""
    path = tmp_path / "sa.key"
    path.write_bytes(content)
    assert key_id(read_key(str(path))) == key_id(elliptic_key())


@rows(
    "content",
    {
        "empty": b"",
        "no PEM": b"secret words",
        "no key": b"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n",
        "a curve without an algorithm": pem(_on(ec.SECP256K1())),
        "a password": elliptic_key().private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
        ),
    },
)
def test_a_file_without_a_key_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "sa.key"
    path.write_bytes(content)
    with pytest.raises(KeyFileError) as caught:
        read_key(str(path))
    assert str(caught.value) == (
        f"--service-account-private-key-file: {path}: it has no private RSA or ECDSA "
        "key in PEM, without a password"
    )


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(KeyFileError) as caught:
        read_key("/nowhere/sa.key")
    assert str(caught.value) == (
        "--service-account-private-key-file: /nowhere/sa.key: No such file or directory"
    )


def test_a_signer_does_not_show_its_key() -> None:
    numbers = elliptic_key().private_numbers()
    shown = repr(TokenSigner(elliptic_key()))
    assert str(numbers.private_value) not in shown
    assert "PRIVATE" not in shown
