"""The users of bootstrap tokens (plugin/pkg/auth/authenticator/token/bootstrap)."""

import hmac
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from controller_manager.api.core.secrets import (
    NAMESPACE,
    Secret,
    bytes_of,
    decoded,
    is_bootstrap_token,
    time_left,
)
from controller_manager.devcluster.server.security.authentication import (
    AUTHENTICATED,
    User,
)
from controller_manager.devcluster.server.storage import Storage

from .secret import KIND as SECRET

_TOKEN: Final = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_GROUP: Final = "system:bootstrappers"
_EXTRA_GROUP: Final = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


def user_of_bootstrap_token(storage: Storage, token: str, now: datetime) -> User | None:
    """Return the user of a bootstrap token, `None` if no secret makes it valid.

    The token's secret must have the right type, must not have expired, and must allow
    the use for authentication.
    """
    parts = _TOKEN.fullmatch(token)
    if parts is None:
        return None
    identity, proof = parts.groups()
    key = (NAMESPACE, f"bootstrap-token-{identity}")
    stored = storage.collection(SECRET.resource).get(key)
    if stored is None or "deletionTimestamp" in stored.obj["metadata"]:
        return None
    secret = msgspec.convert(stored.obj, Secret)
    if not _proves(secret, identity, proof) or not _may_be_used(secret, now):
        return None
    extra = {each for each in decoded(secret, "auth-extra-groups").split(",") if each}
    if not _are_valid(extra):
        return None
    groups = (*sorted({_GROUP, *extra}), AUTHENTICATED)
    return User(f"system:bootstrap:{identity}", groups=groups)


def _proves(secret: Secret, identity: str, proof: str) -> bool:
    """Tell whether the secret has this id and this token."""
    known = bytes_of(decoded(secret, "token-secret"))
    return (
        is_bootstrap_token(secret)
        and decoded(secret, "token-id") == identity
        and hmac.compare_digest(known, proof.encode())
    )


def _may_be_used(secret: Secret, now: datetime) -> bool:
    if decoded(secret, "usage-bootstrap-authentication") != "true":
        return False
    return time_left(secret, now) != timedelta()


def _are_valid(groups: Iterable[str]) -> bool:
    return all(_EXTRA_GROUP.fullmatch(each) for each in groups)
