"""Signatures are those that upstream's manager was recorded with."""

import base64
import hmac
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from controller_manager.api.core.secrets import BOOTSTRAP_TOKEN, Secret, encoded
from controller_manager.api.meta import ObjectMeta
from controller_manager.controllers.identity.bootstrapsigner.controller import (
    detached_signature,
    signed,
    signing_tokens,
)

NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("content", "token_id", "secret", "signature"),
    [
        (
            "config one",
            "abcdef",
            "0123456789abcdef",
            (
                "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9"
                "..Efn-1RwUDjn1OEvYpiKbcLYkPaOYsy906UzsZ7lq8Ag"
            ),
        ),
        (
            "config two",
            "ghijkl",
            "fedcba9876543210",
            (
                "eyJhbGciOiJIUzI1NiIsImtpZCI6ImdoaWprbCJ9"
                "..usL2lQg7dplkxJ3UPDkP879Cj2-M_uysiu5GwgwwTp8"
            ),
        ),
        (
            "payload",
            "abc123",
            "tokenSecret",
            (
                "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiYzEyMyJ9"
                "..QSxpUG7Q542CirTI2ECPSZjvBOJURUW5a7XqFpNI958"
            ),
        ),
    ],
)
def test_a_signature_is_upstreams(
    content: str, token_id: str, secret: str, signature: str
) -> None:
    """Letter by letter, from the recording and from bootstrapsigner_test.go."""
    assert detached_signature(content, token_id, secret) == signature


def _token(
    name: str = "bootstrap-token-abc123", namespace: str = "kube-system", **data: str
) -> Secret:
    given = {
        "token-id": "abc123",
        "token-secret": "s",
        "usage-bootstrap-signing": "true",
        **{key.replace("_", "-"): value for key, value in data.items()},
    }
    return Secret(
        metadata=ObjectMeta(name=name, namespace=namespace),
        data={key: encoded(value) for key, value in given.items()},
        type=BOOTSTRAP_TOKEN,
    )


@pytest.mark.parametrize(
    ("secret", "tokens"),
    [
        pytest.param(_token(), {"abc123": "s"}, id="valid"),
        pytest.param(
            _token(expiration="2026-03-20T12:00:01Z"), {"abc123": "s"}, id="in time"
        ),
        pytest.param(_token(expiration="2026-03-20T12:00:00Z"), {}, id="expired"),
        pytest.param(_token(expiration="soon"), {}, id="of no readable end"),
        pytest.param(_token(usage_bootstrap_signing="false"), {}, id="may not sign"),
        pytest.param(_token(usage_bootstrap_signing="True"), {}, id="not the word"),
        pytest.param(_token(token_id="abc124"), {}, id="another id than its name"),
        pytest.param(_token(token_secret=""), {}, id="no secret"),
        pytest.param(_token(name="abc123"), {}, id="another name"),
        pytest.param(_token(namespace="default"), {}, id="another namespace"),
    ],
)
def test_only_valid_tokens_of_kube_system_sign(
    secret: Secret, tokens: dict[str, str]
) -> None:
    """As validateSecretForSigning says."""
    assert signing_tokens([secret], NOW) == tokens


def test_signatures_are_added_corrected_and_removed() -> None:
    """Other data stays."""
    right = detached_signature("c", "abc123", "s")
    data = {"kubeconfig": "c", "mine": "x", "jws-kubeconfig-gone00": "y"}
    wanted = {"kubeconfig": "c", "mine": "x", "jws-kubeconfig-abc123": right}
    assert signed(data, {"abc123": "s"}) == wanted
    assert signed({**wanted, "jws-kubeconfig-abc123": "z"}, {"abc123": "s"}) == wanted
    assert signed(wanted, {"abc123": "s"}) is None


def test_without_a_text_old_signatures_stay() -> None:
    """As upstream; an empty text is signed."""
    assert signed({"jws-kubeconfig-abc123": "y"}, {}) is None
    assert signed({"kubeconfig": "", "jws-kubeconfig-abc123": "y"}, {}) == {
        "kubeconfig": ""
    }


def test_a_secret_of_any_bytes_signs() -> None:
    """Upstream takes the bytes as they are, whether they are UTF-8 or not."""
    key = bytes(range(0xF0, 0x100))
    data = {
        "token-id": encoded("abc123"),
        "token-secret": base64.b64encode(key).decode(),
        "usage-bootstrap-signing": encoded("true"),
    }
    secret = _token()
    (token,) = signing_tokens([replace(secret, data=data)], NOW).values()
    signature = detached_signature("text", "abc123", token)
    head, _, mac = signature.split(".")
    signed_text = f"{head}.dGV4dA".encode()
    expected = hmac.digest(key, signed_text, "sha256")
    assert mac == base64.urlsafe_b64encode(expected).rstrip(b"=").decode()
