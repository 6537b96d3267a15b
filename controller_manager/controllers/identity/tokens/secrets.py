"""The account of a token secret, and its missing data (secretUpdateNeeded)."""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from controller_manager.api.core.secrets import (
    ACCOUNT_NAME,
    ACCOUNT_UID,
    Secret,
    encoded,
)
from controller_manager.api.core.v1 import ServiceAccount
from controller_manager.api.meta import annotations_of
from controller_manager.informers.store import Index

TOKEN: Final = "token"  # noqa: S105 - the name of a key, no token
AUTHORITY: Final = "ca.crt"
NAMESPACE: Final = "namespace"


def account_name(secret: Secret) -> str:
    """Return the name of the account that a secret is for."""
    return annotations_of(secret.metadata).get(ACCOUNT_NAME, "")


def account_uid(secret: Secret) -> str:
    """Return the uid of the account that a secret is for, "" if any may have it.

    Only the annotation counts. A secret's token may name a uid as well, but each user
    who may write the secret can write such a token. No secret is deleted because of it.
    """
    return annotations_of(secret.metadata).get(ACCOUNT_UID, "")


def is_for(secret: Secret, account: ServiceAccount) -> bool:
    """Tell whether a secret is for an account of its namespace."""
    uid = account_uid(secret)
    return account.metadata.name == account_name(secret) and (
        not uid or uid == account.metadata.uid
    )


def completed(
    secret: Secret, account: ServiceAccount, root_ca: str, sign: Callable[[], str]
) -> Secret | None:
    """Return a secret with its missing data, `None` if it is complete.

    A missing token or namespace is added, and a wrong authority replaced. A wrong token
    or namespace stays, as in upstream. The annotations are written only together with
    such data. `root_ca` is empty if the manager has no authority; `sign` is called if
    the token is missing.
    """
    data = secret.data or {}
    lacking: dict[str, str] = {}
    authority = encoded(root_ca)
    if root_ca and data.get(AUTHORITY) != authority:
        lacking[AUTHORITY] = authority
    if not data.get(NAMESPACE):
        lacking[NAMESPACE] = encoded(secret.metadata.namespace)
    if not data.get(TOKEN):
        lacking[TOKEN] = encoded(sign())
    if not lacking:
        return None
    annotations = {
        **annotations_of(secret.metadata),
        ACCOUNT_NAME: account.metadata.name,
        ACCOUNT_UID: account.metadata.uid,
    }
    metadata = replace(secret.metadata, annotations=annotations)
    return replace(secret, metadata=metadata, data={**data, **lacking})


def without_reference(account: ServiceAccount, secret: str) -> ServiceAccount | None:
    """Return an account without a secret in its list, `None` if the list lacks it."""
    listed = account.secrets or ()
    left = tuple(each for each in listed if each.name != secret)
    return None if left == listed else replace(account, secrets=left or None)


BY_ACCOUNT: Final = Index(
    "serviceAccount",
    lambda secret: (f"{secret.metadata.namespace}/{account_name(secret)}",),
    lambda old, new: account_name(old) == account_name(new),
)
"""Secrets by the namespace and the name of their account."""
