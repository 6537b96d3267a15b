"""The signatures of cluster-info (bootstrapsigner.go, util.go and token/jws/jws.go)."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

import msgspec
from jwt.algorithms import HMACAlgorithm
from jwt.utils import base64url_encode

from controller_manager.api.core.bootstrap_tokens import (
    is_bootstrap_token,
    time_left,
    token_id_of_name,
)
from controller_manager.api.core.secrets import Secret, bytes_of, decoded

CONTENT: Final = "kubeconfig"
PREFIX: Final = "jws-kubeconfig-"

_HMAC: Final = HMACAlgorithm(HMACAlgorithm.SHA256)


def detached_signature(content: str, token_id: str, token_secret: str) -> str:
    """Return a JWS of a text without the text, by HS256 with the secret of a token.

    The header names the token by its id. A client that knows the token puts the text
    into the middle part and checks the signature.
    """
    header = msgspec.json.encode({"alg": "HS256", "kid": token_id})
    head, body = base64url_encode(header), base64url_encode(content.encode())
    signature = base64url_encode(_HMAC.sign(head + b"." + body, bytes_of(token_secret)))
    return f"{head.decode()}..{signature.decode()}"


def signing_tokens(secrets: Iterable[Secret], now: datetime) -> dict[str, str]:
    """Return the secrets of the tokens that may sign, by their ids.

    The name of a secret must agree with the id in it, and the token must be valid.
    """
    return {
        token_id: token_secret
        for secret in secrets
        if may_sign(secret, now)
        and (token_id := decoded(secret, "token-id"))
        and (token_secret := decoded(secret, "token-secret"))
    }


def may_sign(secret: Secret, now: datetime) -> bool:
    """Tell whether a secret is a valid bootstrap token that is used for signing."""
    left = time_left(secret, now)
    return (
        is_bootstrap_token(secret)
        and token_id_of_name(secret.metadata.name) == decoded(secret, "token-id")
        and decoded(secret, "usage-bootstrap-signing") == "true"
        and (left is None or bool(left))
    )


def signed(data: Mapping[str, str], tokens: Mapping[str, str]) -> dict[str, str] | None:
    """Return the data of cluster-info with the right signatures and no others.

    Returns `None` if the data have them already, or if they have no content to sign. In
    the latter case old signatures stay, as in upstream.
    """
    content = data.get(CONTENT)
    if content is None:
        return None
    wanted = {key: value for key, value in data.items() if not key.startswith(PREFIX)}
    for token_id, token_secret in tokens.items():
        signature = detached_signature(content, token_id, token_secret)
        wanted[f"{PREFIX}{token_id}"] = signature
    return None if wanted == data else wanted
