"""Client certificates that the development cluster's own authority signs."""

import hashlib
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from controller_manager.serving.certificates import Pair

from .server.security.authentication import AUTHENTICATED, CREDENTIAL_ID, User


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
