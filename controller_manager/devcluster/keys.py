"""The keys of a development cluster: its authority, and that of account tokens."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Final, Self

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from msgspec import Struct

from controller_manager.serving.certificates import Pair, self_signed

_NAME: Final = "devcluster"
_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
_VALIDITY: Final = timedelta(days=3650)
"""As kubeadm's authority: a cluster whose state is kept may be started for years."""


class ClusterKeys(Struct, frozen=True):
    """The authority that signs certificates, and the key that signs tokens.

    The API server serves with the certificate of the authority, too.
    """

    authority: Pair
    account_key: ec.EllipticCurvePrivateKey

    @classmethod
    def generate(cls) -> Self:
        """Return new keys; the certificate is valid for ten years."""
        key = ec.generate_private_key(ec.SECP256R1())
        return cls(self_signed(_NAME, _HOSTS, validity=_VALIDITY), key)

    @classmethod
    def from_pem(cls, authority: Pair, account_key: bytes) -> Self:
        """Return stored keys; raises ValueError for an invalid key."""
        key = serialization.load_pem_private_key(account_key, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            msg = "the key of account tokens is not one on an elliptic curve"
            raise ValueError(msg)  # noqa: TRY004 - the value is wrong, not its type
        return cls(authority, key)

    def account_key_pem(self) -> bytes:
        """Return the key that signs tokens as PEM."""
        return self.account_key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def write(self, directory: Path) -> dict[str, str]:
        """Write the keys; return the flags for a controller manager with their paths.

        Only the owner can read the files. Raises OSError.
        """
        flags = {
            "cluster-signing-cert-file": ("ca.crt", self.authority.certificate),
            "cluster-signing-key-file": ("ca.key", self.authority.key),
            "service-account-private-key-file": ("sa.key", self.account_key_pem()),
        }
        for name, content in flags.values():
            _write(directory / name, content)
        return {flag: str(directory / name) for flag, (name, _) in flags.items()}


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
