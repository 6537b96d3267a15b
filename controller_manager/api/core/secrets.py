"""core/v1: secrets, and the names of their types, keys and annotations."""

import base64
import binascii
from typing import Final

from controller_manager.api.meta import CompleteObject, key_of
from controller_manager.api.resource import Resource

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
