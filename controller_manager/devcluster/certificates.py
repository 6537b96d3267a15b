"""The keys of a cluster, and the certificates that its own authority signs."""

import hashlib
import os
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from controller_manager.devcluster.apiserver.security import (
    AUTHENTICATED,
    CREDENTIAL_ID,
    User,
)
from controller_manager.serving.certificates import Pair, self_signed

# The keys of a development cluster: its authority, and that of account tokens.

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


# Client certificates that the development cluster's own authority signs.


def client_certificate(authority: Pair, name: str, *groups: str) -> Pair:
    """Return a certificate that authenticates a user for one year."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    issuer_key = serialization.load_pem_private_key(authority.key, None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)  # noqa: S101 - our own
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    attributes += [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in groups
    ]
    now = datetime.now(UTC)
    ends_at = now + timedelta(days=365)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(attributes))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(ends_at)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .sign(issuer_key, hashes.SHA256())
    )
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        ends_at,
    )


@lru_cache(256)
def user_of(encoded: bytes) -> User:
    """Return the user that a certificate (DER) names."""
    subject = x509.load_der_x509_certificate(encoded).subject

    def values(oid: x509.ObjectIdentifier) -> list[str]:
        return [str(each.value) for each in subject.get_attributes_for_oid(oid)]

    name = "".join(values(NameOID.COMMON_NAME)[:1])
    groups = values(NameOID.ORGANIZATION_NAME)
    fingerprint = hashlib.sha256(encoded).hexdigest()
    extra = {CREDENTIAL_ID: (f"X509SHA256={fingerprint}",)}
    return User(name, "", (*groups, AUTHENTICATED), extra)
