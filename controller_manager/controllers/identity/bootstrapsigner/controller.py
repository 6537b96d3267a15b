"""Keeps the signatures of cluster-info right (bootstrapsigner.go).

The signatures of cluster-info (bootstrapsigner.go, util.go and token/jws/jws.go).
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Final

import msgspec
from jwt.algorithms import HMACAlgorithm
from jwt.utils import base64url_encode
from msgspec import structs

from controller_manager.api.core.secrets import (
    BOOTSTRAP_SECRETS,
    Secret,
    bytes_of,
    decoded,
    is_bootstrap_token,
    time_left,
    token_id_of_name,
)
from controller_manager.api.core.v1 import CONFIG_MAPS, ConfigMap
from controller_manager.api.meta import is_deleting
from controller_manager.client.rest.errors import NotFound
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Done, Outcome, failure_of
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps

from . import CLUSTER_INFO, PUBLIC

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


_MAPS: Final = replace(CONFIG_MAPS, field_selector=f"metadata.name={CLUSTER_INFO}")
"""The controller watches only these config maps, at most one in each namespace."""


def _cluster_info(_: object, secret: Secret) -> Iterable[str]:
    return (f"{PUBLIC}/{CLUSTER_INFO}",) if is_bootstrap_token(secret) else ()


class BootstrapSignerReconciler(Reconciler[ConfigMap]):
    """Signs one config map with all bootstrap tokens that may sign."""

    watches = (
        For(_MAPS, when=lambda each: each.metadata.namespace == PUBLIC),
        Maps(BOOTSTRAP_SECRETS, _cluster_info),
    )
    queue_name = "bootstrap_signer_queue"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._server_clock = context.server_clock

    async def reconcile(self, config_map: ConfigMap) -> Outcome:
        """Write the signatures that are missing or wrong, and remove the others."""
        if is_deleting(config_map):
            return DONE
        # A cluster has a few tokens; each of them contributes a signature.
        secrets = self.lister(BOOTSTRAP_SECRETS).all()
        now = self._server_clock.now()
        data = config_map.data or {}
        if CONTENT not in data:
            self.logger.v(3).info("No key in ConfigMap", key=CONTENT)
            return DONE
        wanted = signed(data, signing_tokens(secrets, now))
        expires_in = _seconds_until_one_expires(secrets, now)
        if wanted is not None:
            signing = self._write(structs.replace(config_map, data=wanted))
            return await failure_of(signing, expires_in) or Done(expires_in)
        return Done(expires_in)

    async def _write(self, config_map: ConfigMap) -> None:
        with suppress(NotFound):
            await self.client.update(CONFIG_MAPS, config_map)


def _seconds_until_one_expires(
    secrets: Iterable[Secret], now: datetime
) -> float | None:
    left = (time_left(each, now) for each in secrets if is_bootstrap_token(each))
    return min((each.total_seconds() for each in left if each), default=None)
