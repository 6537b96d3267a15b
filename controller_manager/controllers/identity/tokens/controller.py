"""Fills, deletes and dereferences token secrets (tokens_controller.go).

Tokens that never expire, signed with a private key (pkg/serviceaccount/jwt.go).

They are equal to upstream's: the same key, account and secret give the same RSA token,
byte by byte.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import jwt
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from controller_manager.api.core.secrets import SECRETS, SERVICE_ACCOUNT_TOKEN, Secret
from controller_manager.api.core.v1 import SERVICE_ACCOUNTS, ServiceAccount
from controller_manager.api.meta import KubeObject, is_deleting, key_of
from controller_manager.client.rest.errors import InvalidName, NotFound
from controller_manager.control.key_id import key_id
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps
from controller_manager.runtime.worker import Workers

from . import TokensOptions
from .secrets import (
    BY_ACCOUNT,
    account_name,
    account_uid,
    completed,
    is_for,
    without_reference,
)

ISSUER: Final = "kubernetes/serviceaccount"

_CLAIM: Final = "kubernetes.io/serviceaccount"
UID_CLAIM: Final = f"{_CLAIM}/service-account.uid"

_ALGORITHMS: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
"""The algorithm by the curve of a key."""

_PRIVATE_KEY: Final = re.compile(
    rb"-----BEGIN ((?:EC |RSA )?PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL
)
"""A PEM block with a key; a block with the parameters of a curve may precede it."""

PrivateKey = RSAPrivateKey | EllipticCurvePrivateKey


class KeyFileError(Exception):
    """A private key that cannot be used; the message never shows the key."""


def read_key(path: str) -> PrivateKey:
    """Return the first RSA or ECDSA key of a file.

    Raises KeyFileError if the file cannot be read, or has no such key. A key with a
    password is refused, as upstream does.
    """
    flag = f"--service-account-private-key-file: {path}"
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        msg = f"{flag}: {error.strerror}"
        raise KeyFileError(msg) from error
    for block in _PRIVATE_KEY.finditer(content):
        key = _parse(block.group())
        if isinstance(key, RSAPrivateKey):
            return key
        if isinstance(key, EllipticCurvePrivateKey) and key.curve.name in _ALGORITHMS:
            return key
    msg = f"{flag}: it has no private RSA or ECDSA key in PEM, without a password"
    raise KeyFileError(msg)


def _parse(block: bytes) -> object:
    try:
        return load_pem_private_key(block, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None


class TokenSigner:
    """Signs the tokens of service accounts with one key; it never shows the key."""

    def __init__(self, key: PrivateKey) -> None:
        self._key = key
        self._algorithm = (
            "RS256" if isinstance(key, RSAPrivateKey) else _ALGORITHMS[key.curve.name]
        )
        self._headers = {"kid": key_id(key), "typ": None}

    def sign(self, account: ServiceAccount, secret: str) -> str:
        """Return the token of an account for the secret of that name.

        It takes about a millisecond with an RSA key of 2,048 bits.
        """
        return jwt.encode(
            claims(account, secret), self._key, self._algorithm, self._headers
        )


def claims(account: ServiceAccount, secret: str) -> dict[str, Any]:
    """Return the claims of a token, in the order in which Go writes them.

    Upstream: LegacyClaims of pkg/serviceaccount/legacy.go.
    """
    namespace, name = account.metadata.namespace, account.metadata.name
    return {
        "iss": ISSUER,
        f"{_CLAIM}/namespace": namespace,
        f"{_CLAIM}/secret.name": secret,
        f"{_CLAIM}/service-account.name": name,
        UID_CLAIM: account.metadata.uid,
        "sub": f"system:serviceaccount:{namespace}:{name}",
    }


TOKEN_SECRETS: Final = replace(SECRETS, field_selector=f"type={SERVICE_ACCOUNT_TOKEN}")
"""The controller watches only these secrets, as upstream does."""


class _DeletedSecret(msgspec.Struct, frozen=True, array_like=True):
    """A deleted secret, and its account; as JSON it is a key of the queue.

    The annotations of a secret may have any characters, so no separator is safe.
    """

    namespace: str
    name: str
    account: str
    account_uid: str


class TokensReconciler(Reconciler[Secret]):
    """Fills the token secrets of accounts; deletes token secrets without an account."""

    queue_name = "serviceaccount_tokens_secret"

    def _secrets_of(self, account: KubeObject) -> Iterable[str]:
        return map(key_of, self.objects.by_index(BY_ACCOUNT, key_of(account)))

    watches = (
        For(TOKEN_SECRETS),
        Maps(SERVICE_ACCOUNTS, _secrets_of, on=("delete",)),
    )

    def __init__(self, context: ControllerContext, signer: TokenSigner) -> None:
        super().__init__(context)
        self.objects = context.lister(TOKEN_SECRETS, BY_ACCOUNT)
        self.workers = context.config.of(TokensOptions).concurrent_syncs
        self._accounts = self.lister(SERVICE_ACCOUNTS)
        self._signer = signer

    @classmethod
    def make(cls, context: ControllerContext) -> Workers:
        """Return the workers; raises KeyFileError if the key cannot be used."""
        path = context.config.of(TokensOptions).private_key_file
        return cls(context, TokenSigner(read_key(path))).make_workers()

    async def reconcile(self, secret: Secret) -> Outcome:
        """Fill a secret if its account exists; otherwise delete it."""
        if is_deleting(secret):
            return DONE
        account = await self._account_of(secret)
        try:
            if account is None:
                await self._delete(secret)
            else:
                await self._repair(secret, account)
        except NotFound:
            return DONE
        return DONE

    async def _account_of(self, secret: Secret) -> ServiceAccount | None:
        """Return the account of a secret, `None` if there is none.

        The cached account counts only if the secret names its uid. Otherwise the API
        server is asked: the cache of secrets may be ahead of the cache of accounts. A
        secret that got the uid of a deleted account would be deleted afterwards.
        """
        namespace, name = secret.metadata.namespace, account_name(secret)
        cached = self._accounts.get(namespace, name)
        if cached is not None and account_uid(secret) == cached.metadata.uid:
            return cached
        if not name:
            return None
        try:
            account = await self.client.get(SERVICE_ACCOUNTS, namespace, name)
        except (NotFound, InvalidName):
            return None
        return account if is_for(secret, account) else None

    async def _repair(self, secret: Secret, account: ServiceAccount) -> None:
        name, root_ca = secret.metadata.name, self.context.root_ca
        changed = completed(
            secret, account, root_ca, lambda: self._signer.sign(account, name)
        )
        if changed is not None:
            # The write has the version of the decision; upstream reads the secret
            # again.
            await self.client.update(SECRETS, changed)

    async def _delete(self, secret: Secret) -> None:
        self.logger.v(4).info(
            "Service account does not exist, deleting token", secret=key_of(secret)
        )
        await self.client.delete_exactly(SECRETS, secret, same_version=True)

    def deleted(self, obj: Secret) -> None:
        """Enqueue the removal of a deleted secret from the list of its account."""
        deleted = _DeletedSecret(
            obj.metadata.namespace,
            obj.metadata.name,
            account_name(obj),
            account_uid(obj),
        )
        self.queue.add(msgspec.json.encode(deleted).decode())

    async def reconcile_absent(self, key: str) -> Outcome:
        """Remove a deleted secret from the list of its account."""
        if not key.startswith("["):
            return DONE
        deleted = msgspec.json.decode(key, type=_DeletedSecret)
        cached = self._accounts.get(deleted.namespace, deleted.account)
        if cached is None or deleted.account_uid not in ("", cached.metadata.uid):
            return DONE
        try:
            account = await self.client.get(
                SERVICE_ACCOUNTS, deleted.namespace, deleted.account
            )
            left = without_reference(account, deleted.name)
            if left is not None and account.metadata.uid == cached.metadata.uid:
                await self.client.update(SERVICE_ACCOUNTS, left)
        except NotFound:
            return DONE
        return DONE
