"""core/v1: secrets, and the names of their types, keys and annotations.

Bootstrap tokens are secrets of kube-system by which new nodes join a cluster. Upstream:
k8s.io/cluster-bootstrap, token/api and util/secrets.
"""

import base64
import binascii
import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from controller_manager.api.meta import CompleteObject, Resource, key_of
from controller_manager.api.scalars import parse_rfc3339

SERVICE_ACCOUNT_TOKEN: Final = "kubernetes.io/service-account-token"  # noqa: S105 - a type
"""The type of secrets that hold the token of a service account."""

BOOTSTRAP_TOKEN: Final = "bootstrap.kubernetes.io/token"  # noqa: S105 - a type
"""The type of secrets that hold a bootstrap token."""

ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
"""The annotation that names the service account of a token."""

ACCOUNT_UID: Final = "kubernetes.io/service-account.uid"
"""The annotation with the uid of that account."""


_KEPT: Final = "surrogateescape"


class Secret(CompleteObject, frozen=True):
    """A secret; the values of `data` are in base64, as in JSON."""

    immutable: bool | None = None
    data: dict[str, str] | None = None
    string_data: dict[str, str] | None = None
    type: str = ""

    def __repr__(self) -> str:
        """Return the name only: the data of a secret must not be in any log."""
        return f"Secret({key_of(self)!r})"


SECRETS: Resource[Secret] = Resource("", "v1", "secrets", "Secret", Secret)


def encoded(value: str) -> str:
    """Return a value in base64, for the `data` of a secret."""
    return base64.b64encode(value.encode()).decode()


def decoded(secret: Secret, key: str) -> str:
    """Return a value of a secret as text; "" if it is absent.

    Bytes that are no UTF-8 are kept as surrogates, so that the value does not look
    absent; `bytes_of` returns the bytes again.
    """
    try:
        value = base64.b64decode((secret.data or {}).get(key, ""))
    except binascii.Error:
        return ""
    return value.decode(errors=_KEPT)


def bytes_of(text: str) -> bytes:
    """Return the bytes of a text that `decoded` has returned."""
    return text.encode(errors=_KEPT)


NAMESPACE: Final = "kube-system"
_NAME: Final = re.compile(r"bootstrap-token-([a-z0-9]{6})")

BOOTSTRAP_SECRETS: Final = replace(SECRETS, field_selector=f"type={BOOTSTRAP_TOKEN}")
"""The secrets of this type, in all namespaces; only those of kube-system count."""


def is_bootstrap_token(secret: Secret) -> bool:
    """Tell whether a secret is a bootstrap token that counts."""
    metadata = secret.metadata
    return metadata.namespace == NAMESPACE and secret.type == BOOTSTRAP_TOKEN


def token_id_of_name(name: str) -> str:
    """Return the id that the name of a secret has, "" if it has none."""
    found = _NAME.fullmatch(name)
    return found[1] if found else ""


def time_left(secret: Secret, now: datetime) -> timedelta | None:
    """Return how long a token is still valid, `None` for ever.

    A token whose expiration cannot be read has expired: 0 is left.
    """
    text = decoded(secret, "expiration")
    if not text:
        return None
    try:
        left = parse_rfc3339(text) - now
    except ValueError:
        return timedelta()
    return max(left, timedelta())
