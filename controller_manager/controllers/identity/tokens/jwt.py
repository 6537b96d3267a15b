"""Tokens that never expire, signed with a private key (pkg/serviceaccount/jwt.go).

They are equal to upstream's: the same key, account and secret give the same RSA token,
byte by byte.
"""

import re
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from controller_manager.api.core.v1 import ServiceAccount
from controller_manager.control.key_id import key_id

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
    """Return the key of a block, `None` if it cannot be parsed."""
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
