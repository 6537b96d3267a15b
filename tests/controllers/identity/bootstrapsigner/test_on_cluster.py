"""Hands-info is signed with every bootstrap token that may sign."""

import base64
import hmac
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from controller_manager.api.core.secrets import BOOTSTRAP_TOKEN, Secret, encoded
from controller_manager.api.core.v1 import CONFIG_MAPS
from controller_manager.api.meta import ObjectMeta
from controller_manager.api.scalars import format_time
from controller_manager.controllers.identity.bootstrapsigner.controller import (
    detached_signature,
    signed,
    signing_tokens,
)
from controller_manager.options.config import Config
from tests.clusters import make_config
from tests.controllers.hands import Hands
from tests.controllers.identity.tokencleaner.builders import (
    TOKEN_SECRET,
    add_token,
    bootstrap_token,
)
from tests.controllers.rows import rows
from tests.controllers.scenarios import Scenario, scenarios

KEY = "jws-kubeconfig-"


def config() -> Config:
    return make_config(
        controllers=("bootstrapsigner",), use_service_account_credentials=True
    )


class Infos(Hands):
    """A cluster with texts that bootstrap tokens sign."""

    def info(self, namespace: str = "kube-public") -> None:
        self.add_namespace(namespace)
        data = {"kubeconfig": "one"}
        self.put(CONFIG_MAPS, "cluster-info", namespace, data=data)

    def sign(
        self, name: str, seconds: float = 0, at: str = "kube-system", **more: str
    ) -> None:
        """Add a token, which expires in so many seconds."""
        ends = self.clock.now() + timedelta(seconds=seconds)
        token = bootstrap_token(name, format_time(ends) if seconds else "", **more)
        add_token(self, token, at)

    def signed(self, namespace: str = "kube-public") -> dict[str, str]:
        """Return the data, with the text that is signed in place of a signature."""
        data = self.stored(CONFIG_MAPS, "cluster-info", namespace)["data"]
        return {key.removeprefix(KEY): _text(key, data[key]) for key in data}


def _text(key: str, value: str) -> str:
    if not key.startswith(KEY):
        return value
    for text in ("one", "two"):
        if value == detached_signature(text, key.removeprefix(KEY), TOKEN_SECRET):
            return text
    return "nothing"


@pytest.mark.looptime
@scenarios("identity/bootstrapsigner")
async def test_tokens_sign(scenario: Scenario) -> None:
    await scenario.play(Infos, config)


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


@rows(
    "secret tokens",
    {
        "valid": (_token(), {"abc123": "s"}),
        "in time": (_token(expiration="2026-03-20T12:00:01Z"), {"abc123": "s"}),
        "expired": (_token(expiration="2026-03-20T12:00:00Z"), {}),
        "of no readable end": (_token(expiration="soon"), {}),
        "may not sign": (_token(usage_bootstrap_signing="false"), {}),
        "not the word": (_token(usage_bootstrap_signing="True"), {}),
        "another id than its name": (_token(token_id="abc124"), {}),
        "no secret": (_token(token_secret=""), {}),
        "another name": (_token(name="abc123"), {}),
        "another namespace": (_token(namespace="default"), {}),
    },
)
def test_only_valid_tokens_sign(secret: Secret, tokens: dict[str, str]) -> None:
    assert signing_tokens([secret], NOW) == tokens


def test_signatures_are_added_corrected_and_removed() -> None:
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
